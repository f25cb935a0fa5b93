"""Random text and conditions on it, checked as `tests.property.cases` checks scans.

Kernels search the bytes of a page as they stand, lengths between them. So values hold bytes that
look like lengths, and needles are cut out of pages: from values, and from where one value ends, a
length stands and the next begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.predicate.literals import quote_string
from tests.property.cases import (
    Case,
    Column,
    check_case,
    draw_scan_options,
    draw_write_options,
)

if TYPE_CHECKING:
    import random

    import lm_datafusion as lm

PIECES = [
    *("a", "b", "ab", "aab", "Ab", "x" * 13, " ", "7", "12", "%", "_", "\\", "'", "\n"),
    *("я", "жж", "Привет", "É", "é", "日本", "😀", "👩‍🚀"),
    # Lengths of the values before and behind, as they stand in a page.
    *("\0", "\1\0\0\0", "\2\0\0\0", "\7\0\0\0a", "\0\0\0", "\r\0\0\0", "a\0b"),
]
TYPES = [pa.string(), pa.string(), pa.large_string(), pa.string_view()]
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]


def draw_value(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.1:
        return ""
    if kind < 0.15:
        return rng.choice(PIECES) * rng.choice([5, 63, 64, 128, 256, 300])
    return "".join(rng.choices(PIECES, k=rng.choice([1, 1, 2, 3, 5, 9, 40])))


def draw_needle(rng: random.Random, values: list[str | None]) -> str:
    """A part of a value, of two neighbours and what stands between them, or something else."""
    present = [value for value in values if value is not None]
    kind = rng.random()
    if not present or kind < 0.15:
        return draw_value(rng)[: rng.choice([1, 2, 5, 300])]
    position = rng.randrange(len(present))
    text = present[position]
    if kind < 0.4:
        following = present[(position + 1) % len(present)]
        length = len(following.encode()).to_bytes(4, "little")
        page = text.encode()[-3:] + length + following.encode()[:3]
        start, stop = sorted(rng.choices(range(len(page) + 1), k=2))
        return page[start:stop].decode(errors="ignore")
    start, stop = sorted(rng.choices(range(len(text) + 1), k=2))
    return text[start:stop] if rng.random() < 0.8 else text


def draw_pattern(rng: random.Random, values: list[str | None]) -> str:
    """Parts of one value in their order or of several, between % signs; none of it special."""
    needles = [draw_needle(rng, values) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    present = [value for value in values if value]
    if present and rng.random() < 0.4:
        text = rng.choice(present)
        cuts = sorted(rng.choices(range(len(text) + 1), k=2 * rng.choice([1, 2, 3])))
        needles = [text[a:b] for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
    plain = [needle.translate({ord(c): None for c in "%_\\"}) for needle in needles]
    joint = rng.choice(["%", "%", "%%"])
    return rng.choice(["", "%", "%"]) + joint.join(plain) + rng.choice(["", "%", "%"])


def draw_special_pattern(rng: random.Random, values: list[str | None]) -> str:
    """A pattern that only DataFusion understands: `_`, an escape, or a character that is one."""
    pattern = draw_pattern(rng, values)
    position = rng.randint(0, len(pattern))
    return pattern[:position] + rng.choice(["_", "__", "\\%", "\\_", "\\\\"]) + pattern[position:]


def draw_atom(rng: random.Random, name: str, values: list[str | None]) -> str:
    literals = [quote_string(draw_needle(rng, values)) for _ in range(rng.choice([1, 2, 3, 20]))]
    whole = [quote_string(v) for v in rng.choices(values or [None], k=4) if v is not None]
    one = rng.choice([*literals, *whole])
    negation = rng.choice(["", "NOT "])
    pattern = quote_string(draw_pattern(rng, values))
    special = quote_string(draw_special_pattern(rng, values))
    length = rng.choice([0, 1, 2, 5, 13, 127, 128, 255, 256, 600, -1])
    return rng.choice(
        [
            f"{name} {negation}LIKE {pattern}",
            f"{name} {negation}LIKE {pattern}",
            f"{name} {negation}LIKE {pattern}",
            f"{name} {negation}LIKE {special}",
            f"{name} {negation}ILIKE {pattern}",
            f"{name} {rng.choice(COMPARISONS)} {one}",
            f"{name} {rng.choice(COMPARISONS)} {one}",
            f"{one} {rng.choice(COMPARISONS)} {name}",
            f"{name} {negation}IN ({', '.join([*literals, *whole])})",
            f"{name} {negation}IN ({', '.join([*literals[:2], *whole[:2], 'NULL'])})",
            f"{name} {rng.choice(['=', '<>'])} ''",
            f"octet_length({name}) {rng.choice(COMPARISONS)} {length}",
            f"NOT (octet_length({name}) {rng.choice(COMPARISONS)} {length})",
            f"({name} = {one} OR {name} = {rng.choice([*literals, *whole])})",
            f"NOT ({name} = {one} OR {name} IN ({', '.join([*literals, *whole])}))",
            f"starts_with({name}, {one})",
            f"{name} BETWEEN {one} AND {rng.choice([*literals, *whole])}",
            f"{name} IS {negation}NULL",
            f"{name} IS {negation}DISTINCT FROM {one}",
        ]
    )


def draw_column(rng: random.Random, name: str, row_count: int) -> Column:
    domain = [draw_value(rng) for _ in range(rng.choice([1, 3, 30]))]
    is_wide = rng.random() < 0.5
    values = [draw_value(rng) if is_wide else rng.choice(domain) for _ in range(row_count)]
    if rng.random() < 0.3:
        # Few values first, so that a dictionary is given up later.
        values[: row_count // 2] = [rng.choice(domain) for _ in values[: row_count // 2]]
    if rng.random() < 0.2:
        values.sort()
    null_share = rng.choice([0.0, 0.0, 0.1, 0.6, 1.0])
    drawn = [None if rng.random() < null_share else value for value in values]
    return Column(name, rng.choice(TYPES), drawn, domain)


def draw_text_case(rng: random.Random) -> Case:
    row_count = rng.choice([1, 10, 60, 200, 400])
    columns = [draw_column(rng, name, row_count) for name in ("s", "t")[: rng.randint(1, 2)]]
    fields, arrays = [pa.field("id", pa.int64(), nullable=False)], [pa.array(range(row_count))]
    for column in columns:
        is_nullable = None in column.values or rng.random() < 0.5
        fields.append(pa.field(column.name, column.data_type, nullable=is_nullable))
        arrays.append(pa.array(column.values, column.data_type))
    table = pa.table(arrays, schema=pa.schema(fields))
    atoms = []
    for _ in range(rng.randint(1, 3)):
        column = rng.choice(columns)
        atoms.append(draw_atom(rng, column.name, column.values))
    if rng.random() < 0.2:
        atoms.append(f"id % 3 <> {rng.randrange(3)}")
    write_options = draw_write_options(rng, table)
    # Bloom filters and bounds would answer for the pages.
    write_options.pop("bloom_filter_options", None)
    if rng.random() < 0.7:
        write_options.update(write_statistics=False, write_page_index=False)
    if rng.random() < 0.5:
        write_options.update(max_rows_per_page=1000, row_group_size=max(1, row_count))
    return Case(
        table=table,
        columns=columns,
        write_options=write_options,
        scan_options=draw_scan_options(rng),
        condition=" AND ".join(f"({atom})" for atom in atoms),
        projection=rng.sample(table.schema.names, rng.randint(1, len(table.schema.names))),
        engine="datafusion" if rng.random() < 0.15 else "scan",
    )


def run_text_case(rng: random.Random) -> lm.ScanReport | None:
    """Draws a case, scans it, and compares with DataFusion over memory."""
    return check_case(draw_text_case(rng))

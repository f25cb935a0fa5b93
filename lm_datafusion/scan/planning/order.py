"""What is known about the order of a table's rows.

In: a table, a column, and a claimed order. Out: a `KnownOrder`.

1. The bounds of all pages, or of all row groups if pages have none, are compared in table order. If
   each begins at or after the end of the one before, the table is ordered.
2. A footer's `sorting_columns` claims an order within each row group, a declared order claims one
   within each file. A claim that bounds contradict is reported and not trusted.

What bounds cannot show: the order inside a page; anything about floats, whose bounds ignore NaN;
whether text with equal, perhaps truncated bounds overlaps (it counts as overlapping).

Why a claim alone proves nothing: it can be wrong where there are no bounds, and a scan that stops
early because of it loses rows. `first_rows` uses bounds only, never claims.

Invariant: only bounds prove an order.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lm_datafusion.plan.ordering import ClaimedOrder, KnownOrder
from lm_datafusion.scan.keys.spans import Span, is_less, proven_order, spans_of, why_unknown
from lm_datafusion.scan.planning.planner import check_columns, load_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from lm_datafusion.formats.protocol import FileFacts
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.plan import Table, TableFile
    from lm_datafusion.plan.ordering import KeyValue
    from lm_datafusion.storage import OpenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spans:
    """The containers of one file, row group by row group, and what its footer claims."""

    row_groups: list[Span]
    pages: list[list[Span]] | None
    claims: list[ClaimedOrder | None]


def find_order(
    table: Table,
    column: str,
    options: ScanOptions,
    declared: ClaimedOrder | None = None,
    *,
    with_pages: bool = True,
) -> KnownOrder:
    """Finds how the rows of a table are ordered; reads footers and page indexes.

    Args:
        table: The table.
        column: One of its columns.
        options: How to scan.
        declared: The order that the user declares for each file.
        with_pages: Whether to read page indexes too, not only footers.

    Raises:
        ColumnNotFoundError: The table does not have the column.
    """
    check_columns([column], table.schema)
    data_type = table.schema.field(column).type
    files = [
        _load_spans(table, file, (column, data_type), options, with_pages=with_pages)
        for file in table.files
    ]
    paged = [span for file in files for group in file.pages or [] for span in group]
    if any(file.pages is None for file in files):
        paged = []
    whole = [span for file in files for span in file.row_groups]
    known = KnownOrder(column=column, reason=why_unknown(column, whole))
    for level, spans in (("row groups", whole), ("pages", paged)):
        found = proven_order(column, level, spans)
        known = known if found is None else found
    return _with_claims(known, files, declared)


def _load_spans(
    table: Table,
    file: TableFile,
    key: tuple[str, pa.DataType],
    options: ScanOptions,
    *,
    with_pages: bool,
) -> _Spans:
    column, data_type = key
    facts = load_facts(table.storage, file.path, options)
    count = facts.num_row_groups
    statistics = facts.row_group_statistics(range(count), file.partition)
    locations = [f"{file.path}, row group {index}" for index in range(count)]
    pages = None
    if with_pages:
        with table.storage.open(facts.version) as source:
            pages = _page_spans(facts, file, column, data_type, source)
    return _Spans(
        row_groups=spans_of(statistics, column, data_type, locations),
        pages=pages,
        claims=[_footer_claim(facts, index, column) for index in range(count)],
    )


def _page_spans(
    facts: FileFacts, file: TableFile, column: str, data_type: pa.DataType, source: OpenFile
) -> list[list[Span]] | None:
    """Spans of pages, by row group; None where a row group has no page bounds."""
    groups = []
    for index in range(facts.num_row_groups):
        try:
            statistics = facts.page_bounds(index, [(column,)], source, file.partition)
        except Exception:  # noqa: BLE001 fails open, as all pruning does
            return None
        if not statistics.has_pages:
            return None
        locations = [f"{file.path}, row group {index}, row {row}" for row in statistics.starts]
        groups.append(spans_of(statistics, column, data_type, locations))
    return groups


def _footer_claim(facts: FileFacts, row_group: int, column: str) -> ClaimedOrder | None:
    """What a footer says about the first sort column of a row group, if it is this one."""
    claim = facts.claimed_order(row_group, column)
    return None if claim is None else ClaimedOrder(descending=claim[0], nulls_first=claim[1])


def _with_claims(
    known: KnownOrder, files: Sequence[_Spans], declared: ClaimedOrder | None
) -> KnownOrder:
    """Adds the claimed order, and whether bounds contradict it."""
    claims = [claim for file in files for claim in file.claims]
    footer = claims[0] if claims and all(claim == claims[0] for claim in claims) else None
    for source, claim, stretches in (
        ("declared", declared, _by_file(files)),
        ("footer", footer, _by_row_group(files)),
    ):
        if claim is None:
            continue
        direction = "descending" if claim.descending else "ascending"
        claimed = f"{source} {direction}" if source == "declared" else f"{direction} by its footer"
        wrong = _contradiction(stretches, descending=claim.descending)
        if wrong is not None:
            return _replaced(
                known,
                is_contradicted=True,
                reason=f"{known.reason}; {claimed}, which the bounds of {wrong} contradict: not"
                " trusted",
            )
        return _replaced(known, claim=source, reason=f"{known.reason}; {claimed}")
    return known


def _replaced(known: KnownOrder, **changes: object) -> KnownOrder:
    return dataclasses.replace(known, **changes)  # type: ignore[arg-type]


def _by_file(files: Iterable[_Spans]) -> Iterator[list[Span]]:
    for file in files:
        if file.pages is None:
            yield file.row_groups
        else:
            yield [span for group in file.pages for span in group]


def _by_row_group(files: Iterable[_Spans]) -> Iterator[list[Span]]:
    for file in files:
        yield from file.pages or []


def _contradiction(stretches: Iterable[list[Span]], *, descending: bool) -> str | None:
    """The first container whose values cannot come after those before it."""
    for spans in stretches:
        ordered = spans[::-1] if descending else spans
        greatest: KeyValue | None = None
        for span in ordered:
            # Bounds of text may be truncated, and then say less than those of numbers.
            is_exact = not isinstance(span.low, bytes)
            highest = span.high if is_exact else span.low
            if span.low is None or span.high is None or highest is None:
                continue
            if is_less(span.low if is_exact else span.high, greatest):
                return span.location
            if greatest is None or is_less(greatest, highest):
                greatest = highest
    return None

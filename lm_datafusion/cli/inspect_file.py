"""`lm-datafusion inspect`: the layout of a file, and what can be pruned.

In: `InspectCommand`. Out: text in lines of up to 100 characters, or JSON.

Columns that can be pruned in the same way are described together: a file has a hundred columns,
but rarely more than a handful of kinds.

Invariant: a file that cannot be read is one line on standard error; the others are described,
and the exit code is 1.
"""

from __future__ import annotations

import dataclasses
import functools
import shutil
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lm_datafusion.cli.advice import LITTLE, Advice, advise
from lm_datafusion.cli.box import cut, plain_table, visible
from lm_datafusion.cli.file_profile import load_pages, load_profile
from lm_datafusion.cli.progress import size_text
from lm_datafusion.cli.values import json_text, plain_values
from lm_datafusion.dataset.discovery import load_table_files
from lm_datafusion.errors import ColumnNotFoundError, LateError
from lm_datafusion.formats.profile import page_overlap
from lm_datafusion.storage import find_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lm_datafusion.formats.profile import (
        ChunkProfile,
        ColumnProfile,
        FileProfile,
        PageProfile,
    )

_WIDTH: Final = 100
_BOUND_WIDTH: Final = 20
_SOME_NAMES: Final = 8
_SORT_HINT: Final = (
    "no column tells the row groups apart by its bounds: rows that are sorted by the column you"
    " filter by most have narrow ones"
)
_SHORT_ENCODINGS: Final = {
    "PLAIN_DICTIONARY": "DICT",
    "RLE_DICTIONARY": "DICT",
    "DELTA_BINARY_PACKED": "DELTA",
    "DELTA_LENGTH_BYTE_ARRAY": "DELTA_LENGTH",
    "DELTA_BYTE_ARRAY": "DELTA_BYTES",
    "BYTE_STREAM_SPLIT": "SPLIT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectCommand:
    """The arguments of `inspect`; no `columns` means all."""

    files: tuple[str, ...]
    columns: tuple[str, ...] = ()
    shows_row_groups: bool = False
    shows_pages: bool = False
    format: str = "table"


def run_inspect(command: InspectCommand) -> int:
    """Describes all files.

    Returns:
        The exit code: 1 if one of them could not be read.
    """
    code, separator = 0, "[\n" if command.format == "json" else ""
    for load in _loads(command):
        try:
            print(separator + load(), end="")
        except LateError as error:
            print(f"lm-datafusion: {' '.join(str(error).split())}", file=sys.stderr)
            code = 1
            continue
        separator = ",\n" if command.format == "json" else "\n"
    if command.format == "json":
        print("[]" if separator == "[\n" else "\n]")
    return code


def _loads(command: InspectCommand) -> Iterator[Callable[[], str]]:
    """One call per file that describes it, or reports why a source has no files."""
    for source in command.files:
        try:
            paths = _load_paths(source)
        except LateError as error:
            yield functools.partial(_fail, error)
            continue
        for path in paths:
            yield functools.partial(_load_text, path, command)


def _fail(error: LateError) -> str:
    raise error


def _load_paths(source: str) -> list[str]:
    storage, paths = find_storage([source])
    return [file.path for file in load_table_files(paths, storage)]


def _load_text(path: str, command: InspectCommand) -> str:
    profile = _chosen(load_profile(path), command.columns)
    if command.format == "json":
        return json_text(_as_dict(profile, command))
    return "".join(f"{line}\n" for line in _describe(profile, command))


def _chosen(profile: FileProfile, names: Sequence[str]) -> FileProfile:
    """A profile of some columns; the name of a struct selects all its fields."""
    chosen: list[ColumnProfile] = []
    for name in names:
        found = [c for c in profile.columns if c.name == name or c.name.startswith(f"{name}.")]
        if not found:
            raise ColumnNotFoundError(name, [c.name for c in profile.columns], where=profile.path)
        chosen += found
    return dataclasses.replace(profile, columns=tuple(chosen)) if names else profile


def _describe(profile: FileProfile, command: InspectCommand) -> list[str]:
    lines = [*_summary(profile), "", *_storage_table(profile), "", *_pruning_table(profile)]
    if command.shows_row_groups:
        lines += ["", *_row_groups(profile, command)]
    if command.shows_pages:
        lines += ["", *_pages(profile, command)]
    lines += ["", *_verdicts(profile)]
    if not command.columns and _is_shuffled(profile):
        lines += _wrapped(_SORT_HINT, "  > ", "    ")
    return lines


def _summary(profile: FileProfile) -> list[str]:
    groups = len(profile.row_counts)
    rows = f"{profile.row_count:,} rows in {groups:,} row group{'' if groups == 1 else 's'}"
    if groups:
        least, most = min(profile.row_counts), max(profile.row_counts)
        rows += f" of {least:,} rows" if least == most else f" of {least:,} to {most:,} rows"
    ascending = [column.name for column in profile.columns if column.is_ascending]
    order = ", ".join(profile.sorted_by) or "nothing, says the writer"
    lines = [
        visible(profile.path),
        f"  size        {size_text(profile.size_bytes)}, footer {size_text(profile.footer_bytes)}",
        f"  rows        {rows}",
        *_fact("written by", f"{profile.created_by}, format {profile.format_version}"),
        *_fact("codecs", ", ".join(profile.codecs) or "none"),
        *_fact("sorted by", order),
    ]
    if ascending:
        names = ", ".join(ascending[:_SOME_NAMES])
        others = len(ascending) - _SOME_NAMES
        more = f" and {others} more" if others > 0 else ""
        lines += _fact("in order", f"row groups follow each other by {names}{more}")
    return lines


def _fact(name: str, text: str) -> list[str]:
    return _wrapped(visible(text), f"  {name:<12}", " " * 14)


def _storage_table(profile: FileProfile) -> list[str]:
    rows = [
        [
            visible(column.name),
            visible(column.data_type),
            _encodings(column.encodings),
            ", ".join(column.codecs),
            size_text(column.compressed_bytes),
            size_text(column.uncompressed_bytes),
            f"{column.compressed_bytes / max(profile.size_bytes, 1):.1%}",
        ]
        for column in profile.columns
    ]
    names = ["column", "type", "encoding", "codec", "size", "uncompressed", "share of file"]
    is_right = [False] * 4 + [True] * 3
    return plain_table(names, rows, is_right=is_right, width=_width())


def _pruning_table(profile: FileProfile) -> list[str]:
    names = ["column", "nulls", "stats", "overlap", "dict", "distinct", "pages", "bloom"]
    rows = [_pruning_row(column) for column in profile.columns]
    is_right = [name in {"nulls", "overlap", "distinct", "bloom"} for name in names]
    return plain_table(names, rows, is_right=is_right, width=_width())


def _pruning_row(column: ColumnProfile) -> list[str]:
    total = len(column.chunks)
    return [
        visible(column.name),
        "?" if column.null_count is None else f"{column.null_count:,}",
        _part(column.bounded_count, total),
        _percent(column.overlap),
        column.dictionary if column.dictionary != "none" else "no",
        "-" if column.distinct is None else f"{column.distinct:,}",
        _part(column.indexed_count, total),
        size_text(column.bloom_filter_bytes) if column.bloom_filter_bytes else "no",
    ]


def _part(count: int, total: int) -> str:
    if count in (0, total):
        return "yes" if count else "no"
    return f"{count}/{total}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _dictionary(state: str, distinct: int | None) -> str:
    if state == "none":
        return "no"
    return state if distinct is None else f"{state} {distinct:,}"


def _encodings(names: Iterable[str]) -> str:
    return "+".join(dict.fromkeys(_SHORT_ENCODINGS.get(name, name) for name in names))


def _short_size(length_bytes: int) -> str:
    return size_text(length_bytes).replace(" ", "")


def _row_groups(profile: FileProfile, command: InspectCommand) -> list[str]:
    if command.columns:
        return [line for column in profile.columns for line in _chunks(column, profile)]
    lines = ["Row groups"]
    rows = []
    for index, count in enumerate(profile.row_counts):
        chunks = [column.chunks[index] for column in profile.columns]
        rows.append(
            [
                str(index),
                f"{count:,}",
                _short_size(sum(chunk.compressed_bytes for chunk in chunks)),
                _short_size(sum(chunk.uncompressed_bytes for chunk in chunks)),
                f"{min((chunk.offset for chunk in chunks), default=0):,}",
            ]
        )
    names = ["row group", "rows", "size", "raw", "first byte"]
    return [*lines, *plain_table(names, rows, is_right=[True] * 5, width=_width())]


def _chunks(column: ColumnProfile, profile: FileProfile) -> list[str]:
    names = ["row group", "rows", "size", "encoding", "dict", "nulls", "min", "max"]
    names += ["pages", "bloom"]
    rows = [
        _chunk_row(chunk, column, profile.row_counts[chunk.row_group]) for chunk in column.chunks
    ]
    is_right = [name in {"row group", "rows", "size", "nulls", "pages", "bloom"} for name in names]
    title = f"Row groups of {visible(column.name)}"
    return [title, *plain_table(names, rows, is_right=is_right, width=_width())]


def _chunk_row(chunk: ChunkProfile, column: ColumnProfile, row_count: int) -> list[str]:
    return [
        str(chunk.row_group),
        f"{row_count:,}",
        _short_size(chunk.compressed_bytes),
        _encodings(chunk.encodings),
        _dictionary(chunk.dictionary, chunk.distinct),
        "?" if chunk.null_count is None else f"{chunk.null_count:,}",
        _bound_cell(chunk.minimum, column),
        _bound_cell(chunk.maximum, column),
        "?" if chunk.pages is None else f"{chunk.pages:,}",
        _short_size(chunk.bloom_filter_bytes) if chunk.bloom_filter_bytes else "no",
    ]


def _pages(profile: FileProfile, command: InspectCommand) -> list[str]:
    if command.columns:
        return [line for column in profile.columns for line in _page_list(column, profile.path)]
    rows = [_page_summary(column, profile.path) for column in profile.columns]
    names = ["column", "pages", "rows each", "bytes each", "overlap"]
    is_right = [False, True, True, True, True]
    return ["Pages", *plain_table(names, rows, is_right=is_right, width=_width())]


def _page_summary(column: ColumnProfile, path: str) -> list[str]:
    pages = load_pages(path, column.name)
    if not pages:
        return [visible(column.name), "?", "?", "?", "-"]
    return [
        visible(column.name),
        f"{len(pages):,}",
        f"{sum(page.row_count for page in pages) / len(pages):,.0f}",
        f"{sum(page.length_bytes for page in pages) / len(pages):,.0f}",
        _percent(page_overlap(pages)),
    ]


def _page_list(column: ColumnProfile, path: str) -> list[str]:
    names = ["row group", "page", "first row", "rows", "bytes", "min", "max"]
    pages = load_pages(path, column.name)
    rows = [
        [
            str(page.row_group),
            str(page.page),
            f"{page.first_row:,}",
            f"{page.row_count:,}",
            f"{page.length_bytes:,}",
            _bound_cell(page.minimum, column),
            _bound_cell(page.maximum, column),
        ]
        for page in pages
    ]
    is_right = [True, True, True, True, True, False, False]
    title = f"Pages of {visible(column.name)}"
    if not pages:
        return [f"{title}: their rows are unknown without decoding them"]
    return [title, *plain_table(names, rows, is_right=is_right, width=_width())]


def _verdicts(profile: FileProfile) -> list[str]:
    """What can be pruned, grouped by kinds of columns."""
    groups: dict[Advice, list[str]] = {}
    for column in profile.columns:
        groups.setdefault(advise(column), []).append(visible(column.name))
    lines = ["What can be pruned (+), what not (-), and what would help (>)"]
    for advice, names in groups.items():
        lines += _wrapped(", ".join(names), "  ", "  ")
        for sign, sentences in (("+", advice.can), ("-", advice.cannot), (">", advice.hints)):
            for sentence in sentences:
                lines += _wrapped(sentence, f"    {sign} ", "      ")
    return lines


def _is_shuffled(profile: FileProfile) -> bool:
    """Whether no column orders the row groups."""
    overlaps = [column.overlap for column in profile.columns if column.overlap is not None]
    return bool(overlaps) and min(overlaps) > LITTLE


def _wrapped(text: str, first: str, others: str) -> list[str]:
    return textwrap.wrap(
        text, _width(), initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    )


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH


def _bound_cell(value: object, column: ColumnProfile) -> str:
    if value is None:
        return "-"
    return cut(visible(str(_bound(value, column))), _BOUND_WIDTH)


def _bound(value: object, column: ColumnProfile) -> object:
    """A bound as a plain value: text if the column is text."""
    if isinstance(value, bytes):
        is_text = "string" in column.data_type or "str" in column.data_type
        return value.decode(errors="replace") if is_text else value.hex()
    if value is None:
        return None
    return plain_values(pa.array([value]))[0]


def _as_dict(profile: FileProfile, command: InspectCommand) -> dict[str, Any]:
    return {
        "path": profile.path,
        "size_bytes": profile.size_bytes,
        "footer_bytes": profile.footer_bytes,
        "created_by": profile.created_by,
        "format_version": profile.format_version,
        "rows": profile.row_count,
        "row_groups": list(profile.row_counts),
        "codecs": list(profile.codecs),
        "sorted_by": list(profile.sorted_by),
        "columns": [_column_dict(column, profile, command) for column in profile.columns],
    }


def _column_dict(
    column: ColumnProfile, profile: FileProfile, command: InspectCommand
) -> dict[str, Any]:
    advice = advise(column)
    described: dict[str, Any] = {
        "name": column.name,
        "type": column.data_type,
        "physical_type": column.physical_type,
        "encodings": list(column.encodings),
        "codecs": list(column.codecs),
        "compressed_bytes": column.compressed_bytes,
        "uncompressed_bytes": column.uncompressed_bytes,
        "share_of_file": column.compressed_bytes / max(profile.size_bytes, 1),
        "null_count": column.null_count,
        "row_groups_with_bounds": column.bounded_count,
        "overlap": column.overlap,
        "is_ascending": column.is_ascending,
        "dictionary": column.dictionary,
        "distinct": column.distinct,
        "row_groups_with_page_index": column.indexed_count,
        "row_groups_with_offset_index": column.located_count,
        "bloom_filter_bytes": column.bloom_filter_bytes,
        "can_be_pruned": list(advice.can),
        "cannot_be_pruned": list(advice.cannot),
        "advice": list(advice.hints),
    }
    if command.shows_row_groups:
        described["chunks"] = [_with_bounds(chunk, column) for chunk in column.chunks]
    if command.shows_pages:
        pages = load_pages(profile.path, column.name)
        described["pages"] = [_with_bounds(page, column) for page in pages]
        described["page_overlap"] = page_overlap(pages)
    return described


def _with_bounds(part: ChunkProfile | PageProfile, column: ColumnProfile) -> dict[str, Any]:
    described = dataclasses.asdict(part)
    described["minimum"] = _bound(part.minimum, column)
    described["maximum"] = _bound(part.maximum, column)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in described.items()}

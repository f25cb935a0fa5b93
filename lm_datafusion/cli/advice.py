"""Explains what a query can prune by a column, what it cannot, and what would change that.

In: a `ColumnProfile`. Out: sentences.

The advice describes our scan. Other readers may prune less: DataFusion's own reader uses
statistics, bloom filters and the page index, but not dictionaries.

Invariant: every "cannot" has its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lm_datafusion.formats.names import ORC
from lm_datafusion.options import ScanOptions

if TYPE_CHECKING:
    from lm_datafusion.formats.profile import ColumnProfile

# If most row groups may hold a value, statistics cost little and say little.
LITTLE: Final = 0.5
_FLOATS: Final = ("halffloat", "float", "double")

# In this order: what is a page in Parquet is a row group in ORC, and what is a row group a stripe.
_ORC_WORDS: Final = (
    ("row group", "stripe"),
    ("bloom_filter_options", "bloom_filter_columns"),
    ("rewrite with write_page_index=True", "write a row index (row_index_stride)"),
    ("page index", "row index"),
    ("pages", "row groups"),
    # There is one for each row group.
    ("stripes by bloom filter", "row groups by bloom filter"),
)


@dataclass(frozen=True, slots=True)
class Advice:
    """Three lists of sentences."""

    can: tuple[str, ...]
    cannot: tuple[str, ...]
    hints: tuple[str, ...]


def advise(column: ColumnProfile) -> Advice:
    """What can be pruned by a column, what cannot, and what to do about it."""
    can: list[str] = []
    cannot: list[str] = []
    hints: list[str] = []
    if not column.chunks:
        return Advice((), ("no row groups: there is nothing to skip",), ())
    if column.is_repeated:
        cannot.append("neither row groups nor pages: values inside lists and maps are not judged")
        return Advice((), tuple(cannot), ())
    judges = [_statistics, _bloom_filter, _dictionary, _page_index]
    if column.format_name == ORC:
        judges.remove(_dictionary)  # not used to prune
    for judge in judges:
        judge(column, can, cannot, hints)
    if column.format_name == ORC:
        can, cannot, hints = (list(map(_in_words_of_orc, said)) for said in (can, cannot, hints))
    return Advice(tuple(can), tuple(cannot), tuple(hints))


def _in_words_of_orc(sentence: str) -> str:
    """A sentence with ORC's words for row groups, pages and the options of its writer."""
    for ours, orc in _ORC_WORDS:
        sentence = sentence.replace(ours, orc)
    return sentence


def _statistics(column: ColumnProfile, can: list[str], cannot: list[str], hints: list[str]) -> None:
    total = len(column.chunks)
    if not column.bounded_count:
        cannot.append(f"row groups by statistics: {_why_no_bounds(column)}")
        if not column.has_statistics:
            hints.append("write statistics (write_statistics=True)")
        return
    some = (
        "" if column.bounded_count == total else f" ({column.bounded_count} of {total} have them)"
    )
    can.append(f"row groups by statistics{some}")
    if total == 1:
        cannot.append("parts of the file by row groups: there is only one")
    elif column.overlap is not None and column.overlap > LITTLE:
        cannot.append(
            "many row groups by statistics: a value taken at random is inside the bounds of"
            " most row groups (overlap)"
        )


def _why_no_bounds(column: ColumnProfile) -> str:
    if column.is_all_null:
        return "all values are null (IS NULL is judged by null counts)"
    if column.physical_type == "INT96":
        return "INT96 has no order that writers agree on"
    if not column.has_statistics:
        return "the file has none"
    if column.data_type in _FLOATS:
        return "there are no minima and maxima, as where all values are NaN"
    return "no minima and maxima that can be trusted for this type or writer"


def _bloom_filter(
    column: ColumnProfile, can: list[str], cannot: list[str], hints: list[str]
) -> None:
    if column.bloom_filter_count:
        can.append("row groups by bloom filter, for = and IN")
        return
    is_scattered = column.overlap is not None and column.overlap > LITTLE
    if column.dictionary == "all" or not is_scattered or len(column.chunks) == 1:
        return
    cannot.append("row groups by bloom filter: there is none")
    if column.data_type.startswith(("int", "uint", "string", "large_string", "binary")):
        hints.append("for look-ups with = write a bloom filter (bloom_filter_options)")


def _dictionary(
    column: ColumnProfile, can: list[str], cannot: list[str], _hints: list[str]
) -> None:
    limit = ScanOptions().dictionary_limit_bytes
    if column.dictionary == "all":
        can.append("row groups by dictionary, for any condition on this column alone")
    elif column.dictionary in ("part", "mixed"):
        cannot.append(
            "row groups by dictionary where pages fell back to another encoding"
            f" (dictionaries end at about {limit >> 20} MiB)"
        )
    elif column.dictionary == "unknown":
        cannot.append(
            "row groups by dictionary without a look at every page header: the writer does not"
            " say whether all pages use it"
        )


def _page_index(column: ColumnProfile, can: list[str], cannot: list[str], hints: list[str]) -> None:
    if column.indexed_count:
        if column.has_page_bounds:
            can.append("pages by page index")
        else:
            cannot.append("pages by page index: it has no minima and maxima that can be used")
        return
    if any(chunk.says_column_index for chunk in column.chunks):
        cannot.append("pages by page index: it does not fit the pages, or has pages without bounds")
    elif column.located_count:
        cannot.append("pages by their bounds: there is an offset index, but no column index")
        hints.append("rewrite with write_page_index=True")
    else:
        cannot.append("pages by their bounds: there is no page index")
        hints.append("rewrite with write_page_index=True")

"""What is known about one file without reading its values, in the form that people are shown.

In: facts of a format. Out: a `FileProfile`: row groups, and a `ColumnProfile` per leaf column with
sizes, encodings, bounds, dictionaries, indexes of pages and bloom filters.

Invariant: "has bounds" and similar names mean that our pruning can use them, not only that the file
contains them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.formats.names import PARQUET
from lm_datafusion.pruning.overlap import overlap_share

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkProfile:
    """One column in one row group.

    `dictionary` is "all", "part", "none", or "unknown" if the writer does not say; `distinct`
    counts the values of the dictionary. `minimum` and `maximum` are None if they cannot be used.
    `pages` is known if there is a page index.
    """

    row_group: int
    offset: int
    compressed_bytes: int
    uncompressed_bytes: int
    encodings: tuple[str, ...]
    codec: str
    minimum: object
    maximum: object
    null_count: int | None
    dictionary: str
    distinct: int | None
    has_column_index: bool
    has_offset_index: bool
    says_column_index: bool
    bloom_filter_bytes: int
    pages: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """One leaf column over all row groups.

    `overlap` is the share of row groups whose bounds include a random value; `has_page_bounds`
    means that bounds of pages can be used, if there are any.
    """

    name: str
    physical_type: str
    data_type: str
    is_repeated: bool
    has_statistics: bool
    is_all_null: bool
    has_page_bounds: bool
    chunks: tuple[ChunkProfile, ...]
    overlap: float | None
    is_ascending: bool
    format_name: str = PARQUET

    @property
    def compressed_bytes(self) -> int:
        """Bytes in the file."""
        return sum(chunk.compressed_bytes for chunk in self.chunks)

    @property
    def uncompressed_bytes(self) -> int:
        """Bytes once decompressed, still encoded."""
        return sum(chunk.uncompressed_bytes for chunk in self.chunks)

    @property
    def encodings(self) -> tuple[str, ...]:
        """The distinct encodings of all chunks."""
        return tuple(dict.fromkeys(e for chunk in self.chunks for e in chunk.encodings))

    @property
    def codecs(self) -> tuple[str, ...]:
        """The distinct codecs of all chunks."""
        return tuple(dict.fromkeys(chunk.codec for chunk in self.chunks))

    @property
    def null_count(self) -> int | None:
        """Nulls; None if a chunk does not say."""
        counts = [chunk.null_count for chunk in self.chunks]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def bounded_count(self) -> int:
        """Row groups with usable bounds."""
        return sum(chunk.minimum is not None for chunk in self.chunks)

    @property
    def dictionary(self) -> str:
        """The value of all chunks if they agree, else "mixed"."""
        states = {chunk.dictionary for chunk in self.chunks}
        return states.pop() if len(states) == 1 else "mixed" if states else "none"

    @property
    def distinct(self) -> int | None:
        """Values of the largest dictionary; None without one."""
        return max((c.distinct for c in self.chunks if c.distinct is not None), default=None)

    @property
    def indexed_count(self) -> int:
        """Row groups whose pages have usable bounds."""
        return sum(chunk.has_column_index for chunk in self.chunks)

    @property
    def located_count(self) -> int:
        """Row groups whose pages can be located without reading them."""
        return sum(chunk.has_offset_index for chunk in self.chunks)

    @property
    def bloom_filter_bytes(self) -> int:
        """Bytes of all bloom filters."""
        return sum(chunk.bloom_filter_bytes for chunk in self.chunks)

    @property
    def bloom_filter_count(self) -> int:
        """Row groups with a bloom filter."""
        return sum(chunk.bloom_filter_bytes > 0 for chunk in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProfile:
    """One file."""

    path: str
    size_bytes: int
    footer_bytes: int
    created_by: str
    format_version: str
    row_counts: tuple[int, ...]
    sorted_by: tuple[str, ...]
    columns: tuple[ColumnProfile, ...]

    @property
    def row_count(self) -> int:
        """Rows of the file."""
        return sum(self.row_counts)

    @property
    def codecs(self) -> tuple[str, ...]:
        """The distinct codecs of all columns."""
        return tuple(dict.fromkeys(codec for column in self.columns for codec in column.codecs))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageProfile:
    """One data page; bounds are None if they cannot be used."""

    row_group: int
    page: int
    first_row: int
    row_count: int
    length_bytes: int
    minimum: object = None
    maximum: object = None


def page_overlap(pages: Sequence[PageProfile]) -> float | None:
    """As `overlap_share`, for pages."""
    minima, maxima = [page.minimum for page in pages], [page.maximum for page in pages]
    if all(bound is None for bound in minima):
        return None
    return overlap_share(pa.array(minima), pa.array(maxima), [page.row_count for page in pages])

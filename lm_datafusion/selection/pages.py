"""Where the pages of one column chunk are, and which of them a selection needs.

In: the page locations of Parquet's offset index. Out: page row ranges and byte ranges.

    rows   0 . . . . . 100 . . . . 200 . . . . 300
    pages  [----- 0 ----|---- 1 -----|---- 2 ----]
    rows selected          ####   #
    page mask   False       True         False        -> fetch page 1 only

Invariant: a page with a selected row is needed whole (it is compressed as one), a page without one
is not read at all. The dictionary page is not among the locations; the reader handles it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from lm_datafusion.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from lm_datafusion.selection.runs import BoolArray, Int64Array


class PageLocationLike(Protocol):
    """The interface of a page location; the names are those of the Parquet format."""

    @property
    def offset(self) -> int:
        """Offset of the page header in the file, in bytes."""

    @property
    def compressed_page_size(self) -> int:
        """Length of header and compressed data, in bytes."""

    @property
    def first_row_index(self) -> int:
        """First row of the page, counted from the start of the row group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLocation:
    """One page: where its bytes are and which row it begins with."""

    offset: int
    compressed_page_size: int
    first_row_index: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageLocations:
    """The pages of one column chunk, as arrays.

    * the three arrays have one entry per page;
    * `first_rows` is sorted and begins with 0; a page without rows repeats its neighbour's;
    * the arrays are copied to read-only int64.
    """

    offsets: Int64Array
    sizes: Int64Array
    first_rows: Int64Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", _frozen_int64(self.offsets))
        object.__setattr__(self, "sizes", _frozen_int64(self.sizes))
        object.__setattr__(self, "first_rows", check_first_rows(self.first_rows))
        if not len(self.offsets) == len(self.sizes) == len(self.first_rows):
            raise OptionError(
                f"page locations of unequal length: {len(self.offsets)} offsets, "
                f"{len(self.sizes)} sizes, {len(self.first_rows)} first rows"
            )

    def __len__(self) -> int:
        return len(self.offsets)

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_page_locations, (self.offsets, self.sizes, self.first_rows)

    @classmethod
    def from_locations(cls, locations: Sequence[PageLocationLike]) -> PageLocations:
        """Gather page locations given one by one."""
        return cls(
            offsets=np.array([page.offset for page in locations], np.int64),
            sizes=np.array([page.compressed_page_size for page in locations], np.int64),
            first_rows=np.array([page.first_row_index for page in locations], np.int64),
        )

    def byte_ranges(self, page_mask: BoolArray) -> list[tuple[int, int]]:
        """The `(offset, length)` of each page that `page_mask` selects, not coalesced."""
        offsets, sizes = self.offsets[page_mask], self.sizes[page_mask]
        return list(zip(offsets.tolist(), sizes.tolist(), strict=True))


AnyPageLocations: TypeAlias = "PageLocations | Sequence[PageLocationLike]"


def as_page_locations(locations: AnyPageLocations) -> PageLocations:
    """The columnar form of page locations in either form."""
    if isinstance(locations, PageLocations):
        return locations
    return PageLocations.from_locations(locations)


def check_first_rows(first_row_indices: ArrayLike) -> Int64Array:
    """First rows of pages as a read-only int64 array.

    Raises:
        OptionError: They do not begin with 0 or are not sorted.
    """
    first_rows = _frozen_int64(first_row_indices)
    if len(first_rows) and first_rows[0] != 0:
        raise OptionError(f"the first page begins with row 0, not {first_rows[0]}")
    if (first_rows[1:] < first_rows[:-1]).any():
        raise OptionError("first row indices of pages must be sorted")
    return first_rows


def page_stops(first_rows: Int64Array, total_rows: int) -> Int64Array:
    """The row after the last of each page, at most `total_rows`.

    Pages past `total_rows` are empty, as a trimmed selection requires.
    """
    if not len(first_rows):
        return first_rows
    return np.minimum(np.append(first_rows[1:], np.int64(total_rows)), total_rows)


def _frozen_int64(values: ArrayLike) -> Int64Array:
    array = np.array(values)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or not len(array)):
        raise OptionError(f"page locations are lists of integers, not {array.dtype} {array.shape}")
    frozen = array.astype(np.int64, copy=False)
    frozen.flags.writeable = False
    return frozen


def _restore_page_locations(
    offsets: Int64Array, sizes: Int64Array, first_rows: Int64Array
) -> PageLocations:
    return PageLocations(offsets=offsets, sizes=sizes, first_rows=first_rows)

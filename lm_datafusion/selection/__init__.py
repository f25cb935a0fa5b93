"""Row selections: which rows of a row group are wanted, and which pages hold them."""

from __future__ import annotations

from lm_datafusion.selection.pages import PageLocation, PageLocationLike, PageLocations
from lm_datafusion.selection.selection import RowSelection
from lm_datafusion.selection.selector import RowSelector
from lm_datafusion.selection.strategy import (
    APPLY_THRESHOLD,
    MASK_THRESHOLD,
    RowSelectionStrategy,
)

__all__ = [
    "APPLY_THRESHOLD",
    "MASK_THRESHOLD",
    "PageLocation",
    "PageLocationLike",
    "PageLocations",
    "RowSelection",
    "RowSelectionStrategy",
    "RowSelector",
]

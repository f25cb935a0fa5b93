"""How to store a selection and apply it to a decoded column: as runs or as a mask.

In: the number of rows and of runs of a selection, and whether it skips whole pages. Out: a
`RowSelectionStrategy`.

1. A selection that skips a whole page is applied as runs. A mask covers every row, so its reader
   needs every page, including pruned ones.
2. Otherwise short runs are applied as a mask (each run costs a call), long ones as runs (each row
   of a mask costs a byte to read).

Invariant: the strategy never changes which rows are selected.
"""

from __future__ import annotations

import enum
from typing import Final

MASK_THRESHOLD: Final = 32
"""Average run length, in rows, below which a selection is stored as a mask.

The value of arrow-rs, kept as a compromise of three measurements (1M rows, half of them
selected, `python tests/benchmark/bench_selection.py`; pyarrow 26.0.1, numpy 2.4.6, 2 cores):

* memory: a byte per row against 16 per selected run, equal at a run length of 8;
* `and_then`, which every predicate calls: runs are ahead from 16 on (at 8 rows 2.5 ms against
  2.0 ms for the mask, at 16 rows 1.2 against 1.6, at 32 rows 0.53 against 1.3);
* `intersection` and `union`, called for page indexes: the mask is ahead up to 256 and 1024, but
  at 32 rows runs already take less than a millisecond (0.75 and 0.92 against 0.05).
"""

APPLY_THRESHOLD: Final = 1024
"""Average run length, in rows, below which a mask is the cheaper way to filter a column.

Far from the 32 of arrow-rs, whose decoder skips within a page. Here columns are decoded by
pyarrow, and a run costs a slice object (1 to 2 us) where a mask costs a bit per row. By the
same command, slices joined by `concat_arrays` against `Array.filter`:

* strings cross at 128 rows (at 32 rows 17 ms against 5.3 ms, at 1024 rows 2.4 against 5.8);
* int32 crosses at 8192 (at 32 rows 20 ms against 0.50 ms, at 1024 rows 0.68 against 0.23);
* one column of each in sum crosses at 1024, with a tenth of the rows selected
  (`--selected 0.1`) at 2048, with a hundredth at 4096. Where 1024 is too low for these, it
  costs less than a millisecond per million rows.

Row indices (`Array.take`) were never ahead for int32 with a tenth of the rows or more; for
strings they were where a tenth or less was selected in short runs.
"""


class RowSelectionStrategy(enum.Enum):
    """Runs or a mask, as resolved."""

    RUNS = "runs"
    MASK = "mask"


def choose_strategy(
    total_rows: int,
    selector_count: int,
    *,
    threshold: int,
    skips_pages: bool = False,
) -> RowSelectionStrategy:
    """Choose by average run length.

    Args:
        total_rows: Rows the selection covers, selected or not.
        selector_count: Its runs of either kind, selected and skipped.
        threshold: Average run length, in rows, from which runs are better than a mask.
        skips_pages: Whether some page has no selected row at all.

    Returns:
        `MASK` if runs are shorter than `threshold` on average and no page is skipped.
    """
    if not skips_pages and total_rows < selector_count * threshold:
        return RowSelectionStrategy.MASK
    return RowSelectionStrategy.RUNS

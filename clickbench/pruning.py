"""What reading skipped, level by level, for a report.

In: the counts an engine gave for a query. Out: the same counts under one set of names.

lm_datafusion's reports and DataFusion's metrics agree on most names; a level that an engine does
not have is None, which is not the same as 0. "Top k" is DataFusion's dynamic filter: row groups
that cannot hold one of the first rows any more. DataFusion prints counts above a thousand rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Counts of one query on one engine.

    `by_files` counts row groups of files that were dropped, or not needed, as a whole;
    `row_groups_left` is what remains of `row_groups` after all levels. Pages are those of the row
    groups left. `bytes_read` has what was read to prune in it, where an engine tells it.
    """

    reader: str
    row_groups: int
    by_files: int
    by_statistics: int
    by_bloom_filter: int
    by_dictionary: int | None
    by_top_k: int | None
    fully_matched: int
    pages: int
    pages_pruned: int
    rows_pruned: int | None
    bytes_read: int

    @property
    def row_groups_left(self) -> int:
        """Row groups that were read."""
        return self.row_groups - sum(count or 0 for _, count in self.levels())

    def levels(self) -> tuple[tuple[str, int | None], ...]:
        """Row groups dropped at each level, in the order of the levels."""
        return (
            ("file", self.by_files),
            ("statistics", self.by_statistics),
            ("bloom filter", self.by_bloom_filter),
            ("dictionary", self.by_dictionary),
            ("top k", self.by_top_k),
        )


def pruned_of(part: dict[str, Any], word: str, row_groups: int) -> Pruned | None:
    """What an engine skipped in a query on so many row groups; None where it did not tell."""
    counts = part["engines"].get(word, {}).get("pruned")
    if not counts:
        return None
    seen = counts.get("row_groups_total", 0)
    return Pruned(
        reader=counts["reader"],
        row_groups=max(row_groups, seen),
        by_files=max(row_groups - seen, 0),
        by_statistics=counts.get("row_groups_pruned_statistics", 0),
        by_bloom_filter=counts.get("row_groups_pruned_bloom_filter", 0),
        by_dictionary=counts.get("row_groups_pruned_dictionary"),
        by_top_k=counts.get("row_groups_pruned_dynamic_filter"),
        fully_matched=counts.get("row_groups_fully_matched", 0),
        pages=counts.get("pages_total", 0),
        pages_pruned=counts.get("pages_pruned", 0),
        rows_pruned=_rows_pruned(counts),
        bytes_read=counts.get("bytes_scanned", 0) + counts.get("bytes_metadata", 0),
    )


def _rows_pruned(counts: dict[str, Any]) -> int | None:
    if "rows_selected" in counts:
        return int(counts["rows_total"] - counts["rows_selected"])
    found = counts.get("pushdown_rows_pruned")
    return None if found is None else int(found)

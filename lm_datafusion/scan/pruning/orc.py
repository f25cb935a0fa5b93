"""Prunes stripes and row groups of an ORC file.

In: conjuncts, and the facts of a file. Out: the stripes, or the rows of a stripe, that are left.

Invariant: pruning fails open. Metadata that cannot be read, or does not fit a conjunct, leaves
everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.orc.read import group_starts
from lm_datafusion.formats.orc.statistics import RowGroupStatistics, StripeStatistics
from lm_datafusion.plan.access_plan import rows_of_verdicts
from lm_datafusion.predicate.conjunct import bind_conjuncts
from lm_datafusion.pruning import Verdict, columns_without_nan, judge
from lm_datafusion.selection import RowSelection

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from lm_datafusion.formats.orc.facts import OrcFacts
    from lm_datafusion.options import ScanOptions
    from lm_datafusion.predicate.conjunct import Conjunct
    from lm_datafusion.pruning import PruningStatistics
    from lm_datafusion.storage import OpenFile


def prune_stripes(
    facts: OrcFacts,
    file: OpenFile,
    schema: pa.Schema,
    conjuncts: Sequence[Conjunct],
    options: ScanOptions,
) -> npt.NDArray[np.bool_]:
    """For each stripe, whether all conjuncts may hold in it."""
    if not options.prune_statistics:
        return np.ones(len(facts.tail.stripes), np.bool_)
    verdicts = _verdicts(StripeStatistics(facts, file, schema), schema, conjuncts)
    return verdicts != Verdict.NO_ROWS


def prune_row_groups(
    facts: OrcFacts,
    file: OpenFile,
    schema: pa.Schema,
    conjuncts: Sequence[Conjunct],
    options: ScanOptions,
    *,
    stripe: int,
) -> RowSelection:
    """The rows of the row groups of a stripe in which all conjuncts may hold."""
    everything = RowSelection.all(facts.tail.stripes[stripe].row_count)
    if not options.prune_page_index:
        return everything
    try:
        loaded = facts.load_stripe(file, stripe)
    except CorruptFileError:
        return everything
    statistics = RowGroupStatistics(
        facts, file, schema, loaded, use_bloom_filters=options.prune_bloom_filter
    )
    verdicts = _verdicts(statistics, schema, conjuncts)
    left, _ = rows_of_verdicts(group_starts(loaded), verdicts, loaded.row_count)
    return left


def _verdicts(
    statistics: PruningStatistics, schema: pa.Schema, conjuncts: Sequence[Conjunct]
) -> npt.NDArray[np.uint8]:
    """The verdicts of a conjunction: the smallest of its conjuncts."""
    bound = bind_conjuncts(conjuncts, schema)
    nan_free = frozenset().union(*(columns_without_nan(c.tree) for c in bound))
    found = np.full(statistics.num_containers, Verdict.ALL_ROWS, np.uint8)
    for conjunct in bound:
        try:
            verdicts = judge(conjunct.tree, statistics, nan_free)
        except Exception:  # noqa: BLE001 pruning fails open
            verdicts = np.full(statistics.num_containers, Verdict.SOME_ROWS, np.uint8)
        found = np.minimum(found, verdicts)
    return found

"""Queries that are read in two phases: what is wanted is found first, and then read.

In: an optimized plan. Out: a `TopK`, a `FirstGroups`, or nothing.

Each has `narrow_query`, which finds, and `source`, which stands for the table in the query then.

Invariant: whatever a narrow query finds, the query over its `source` gives a right answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.engine.first_groups import FirstGroups, find_first_groups
from lm_datafusion.engine.top_k import TopK, find_top_k

if TYPE_CHECKING:
    import pyarrow as pa
    from datafusion import LogicalPlan

    from lm_datafusion.engine.tables import TableName

TwoPhases = TopK | FirstGroups


def find_two_phases(plan: LogicalPlan, schemas: dict[TableName, pa.Schema]) -> TwoPhases | None:
    """The two phases of a plan, if it has them.

    Args:
        plan: As DataFusion optimized it.
        schemas: Those of the tables that can be read in two phases.
    """
    return find_top_k(plan, schemas) or find_first_groups(plan, schemas)

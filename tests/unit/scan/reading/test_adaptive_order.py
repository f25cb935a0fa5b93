from __future__ import annotations

import pyarrow as pa

from lm_datafusion.plan.row_filter import FilterStep, plan_row_filter
from lm_datafusion.predicate.conjunct import Conjunct, bind_conjuncts
from lm_datafusion.scan.reading.adaptive_order import AdaptiveOrder


def chain(*texts):
    schema = pa.schema([("a", pa.int64())])
    bound = bind_conjuncts([Conjunct(text=t, columns=("a",)) for t in texts], schema)
    return plan_row_filter(
        [
            FilterStep(index=i, conjunct=c, bytes_per_row=8, selectivity=0.1 * (i + 1))
            for i, c in enumerate(bound)
        ]
    )


def indices(order):
    return [step.index for step in order.permutation()]


def test_starts_as_planned_and_learns_time_per_dropped_row():
    order = AdaptiveOrder(chain("a > 1", "a < 9", "a <> 5"), reorder=True)
    assert indices(order) == [0, 1, 2]
    first, second, _ = order.permutation()
    order.observe(first, rows_in=1000, rows_out=999, evaluate_s=0.010)
    order.observe(second, rows_in=999, rows_out=9, evaluate_s=0.001)
    assert indices(order) == [2, 1, 0]


def test_a_step_that_comes_late_is_weighed_as_if_it_came_first():
    """Of 100 rows it decodes a million: pages are decoded whole."""
    order = AdaptiveOrder(chain("a > 1", "a < 9"), reorder=True)
    dear, cheap = order.permutation()
    million = {"rows_decoded": 1_000_000}
    order.observe(dear, rows_in=1_000_000, rows_out=100, evaluate_s=0.1, decode_s=0.9, **million)
    order.observe(cheap, rows_in=100, rows_out=13, evaluate_s=0.0003, decode_s=0.3, **million)
    assert indices(order) == [1, 0]
    order.observe(cheap, rows_in=1_000_000, rows_out=990_000, evaluate_s=0.1, decode_s=0.3)
    assert indices(order) == [0, 1], "as first it drops little"


def test_what_is_dear_to_evaluate_stays_behind():
    """That it decodes many rows for the few it sees does not make it cheap for the others."""
    order = AdaptiveOrder(chain("a > 1", "a < 9"), reorder=True)
    first, dear = order.permutation()
    for _ in range(1000):
        order.observe(
            first,
            rows_in=100_000,
            rows_out=1_000,
            decode_s=0.02,
            evaluate_s=0.001,
            rows_decoded=100_000,
        )
        order.observe(
            dear,
            rows_in=1_000,
            rows_out=500,
            decode_s=0.0001,
            evaluate_s=0.0013,
            rows_decoded=100_000,
        )
        assert indices(order) == [0, 1]


def test_does_not_reorder_where_told_so():
    order = AdaptiveOrder(chain("a > 1", "a < 9"), reorder=False)
    first, _ = order.permutation()
    order.observe(first, rows_in=1000, rows_out=1000, evaluate_s=9.0)
    assert indices(order) == [0, 1]


def test_what_can_fail_stays_pinned():
    order = AdaptiveOrder(chain("a <> 0", "10 / a > 1"), reorder=True)
    first, _ = order.permutation()
    order.observe(first, rows_in=1000, rows_out=1000, evaluate_s=9.0)
    assert indices(order) == [0, 1]

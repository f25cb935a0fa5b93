from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from lm_datafusion.plan.row_filter import FilterStep, order_steps, plan_row_filter
from lm_datafusion.predicate.conjunct import Conjunct, bind_conjuncts

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])


def steps(*texts_and_costs):
    conjuncts = [Conjunct(text=text, columns=("a", "s")) for text, _, _ in texts_and_costs]
    bound = bind_conjuncts(conjuncts, SCHEMA)
    return [
        FilterStep(index=i, conjunct=c, bytes_per_row=width, selectivity=kept)
        for i, (c, (_, width, kept)) in enumerate(zip(bound, texts_and_costs, strict=True))
    ]


def order(plan):
    return [step.index for step in plan.steps]


def test_cheapest_bytes_per_dropped_row_first():
    chain = steps(("s = 'x'", 40, 0.5), ("a > 1", 8, 0.9), ("a = 1", 8, 0.01))
    assert order(plan_row_filter(chain)) == [2, 0, 1]
    assert order(plan_row_filter(chain, reorder=False)) == [0, 1, 2]


def test_a_step_that_can_fail_stays_behind_what_was_written_before_it():
    chain = steps(("a <> 0", 100, 0.99), ("10 / a > 1", 1, 0.01), ("a = 5", 8, 0.1))
    assert order(plan_row_filter(chain)) == [2, 0, 1]
    assert [s.index for s in order_steps(chain, {0: 9.0, 1: 0.1, 2: 20.0})] == [0, 1, 2]


def test_plans_are_picklable():
    plan = plan_row_filter(steps(("a = 1", 8, 0.1)))
    assert pickle.loads(pickle.dumps(plan)) == plan


@pytest.mark.parametrize("kept", [0.0, 1.0])
def test_cost_is_finite_for_extreme_guesses(kept):
    (step,) = steps(("a = 1", 8, kept))
    assert 0 < step.cost < 1

"""Which of the plans of a statement runs next."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from lm_datafusion.engine import trial


def made_up(*times_s):
    return [
        trial.PlannedAnew(references=(), frame=None, best_s=best_s, runs=2) for best_s in times_s
    ]


def test_the_slower_plan_gets_another_chance_unless_far_behind():
    def ran(behind):
        plans = made_up(1.0, behind)
        statement = trial.Trial(plans)
        return [plans.index(statement.next_plan()) for _ in range(20)]

    assert [run for run, plan in enumerate(ran(1.2), 1) if plan] == [8, 16]
    assert not any(ran(2.0))


def test_a_plan_has_to_be_clearly_faster():
    for times_s, place in (((1.0, 0.97), 0), ((1.0, 0.8), 1), ((1.0, 1.2), 0)):
        plans = made_up(*times_s)
        assert trial.Trial(plans).next_plan() is plans[place]


def test_plans_get_a_second_look_unless_far_behind():
    plans = made_up(1.0, 0.8)
    plans[0].runs = plans[1].runs = 1
    found = trial.Trial(plans)
    assert found.next_plan() is plans[0]
    plans[0].runs = 2
    assert found.next_plan() is plans[1]
    plans[1].best_s = 2.0
    assert found.next_plan() is plans[1], "one run may have been disturbed"
    plans[1].best_s = 3.5
    assert found.next_plan() is plans[0]
    plans[0].best_s, plans[1].best_s = 3.5, 0.8
    plans[0].runs, plans[1].runs = 1, 2
    assert found.next_plan() is plans[1]


def test_a_plan_that_is_expected_to_be_slower_is_not_tried():
    plans = made_up(1.0, 1.1)
    plans.append(trial.PlannedAnew(references=(), frame=None, expected_s=2.5))
    found = trial.Trial(plans)
    assert plans[2] not in [found.next_plan() for _ in range(20)]
    plans[0].best_s = plans[1].best_s = 3.0
    assert found.next_plan() is plans[2], "as slow as the others have become"


def test_what_was_expected_may_have_been_wrong():
    for other_s in (1.1, 2.0):
        plans = made_up(1.0, other_s)
        plans.append(trial.PlannedAnew(references=(), frame=None, expected_s=1.9))
        found = trial.Trial(plans)
        assert [run for run in range(1, 21) if found.next_plan() is plans[2]] == [8, 16]


def test_a_plan_that_became_slower_meanwhile_still_runs():
    """Another thread may end a run while this one chooses."""

    class Slowing(trial.PlannedAnew):
        def is_behind(self, best_s):
            self.best_s = 10.0
            return super().is_behind(best_s)

    plan = Slowing(references=(), frame=None, best_s=1.0, runs=3)
    assert trial.Trial([plan]).next_plan() is plan


def test_a_time_is_of_the_last_few_runs():
    class Slowing(trial.ReadyPlan):
        def _collect(self, context, run):
            time.sleep(0.02 if self.runs else 0)
            return []

    plan = Slowing(references=())
    plan.collect(None, None)
    assert plan.best_s < 0.02
    for _ in range(3):
        plan.collect(None, None)
    assert plan.best_s >= 0.02


def test_threads_may_run_one_plan_at_the_same_time():
    class Quick(trial.ReadyPlan):
        def _collect(self, context, run):
            return []

    statement = trial.Trial([Quick(references=()), Quick(references=())])

    def run_often():
        for _ in range(2_000):
            statement.next_plan().collect(None, None)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(run_often) for _ in range(8)]:
                done.result()
    finally:
        sys.setswitchinterval(interval)

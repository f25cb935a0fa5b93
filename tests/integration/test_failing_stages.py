"""A bug in any stage of a scan: its own error, or right rows where pruning fails open.

One function per stage raises; afterwards nothing is left, and the next scan is right.
"""

from __future__ import annotations

import pytest

import lm_datafusion as lm
from lm_datafusion.formats.cache import FACTS
from lm_datafusion.formats.parquet.facts import ParquetFacts
from lm_datafusion.formats.parquet.statistics import BloomFilterStatistics
from lm_datafusion.predicate import evaluator
from lm_datafusion.scan.memory.condition_cache import CONDITIONS
from lm_datafusion.scan.memory.footer_answers import ANSWERS
from lm_datafusion.scan.memory.stage_outcomes import OUTCOMES
from lm_datafusion.scan.memory.step_history import STEPS
from lm_datafusion.scan.planning import planner
from lm_datafusion.scan.pruning import prune
from lm_datafusion.scan.reading.batches import BatchMaker
from lm_datafusion.scan.reading.filter_chain import FilterChain
from lm_datafusion.scan.reading.limit import RowBudget
from lm_datafusion.scan.reading.row_group import RowGroupReader
from lm_datafusion.scan.reading.row_group_state import RowGroupState
from lm_datafusion.scan.top_k.best_first import BestFirst
from lm_datafusion.scan.top_k.candidates import Candidates
from tests.dataset_files import open_descriptors, scan_threads
from tests.integration.test_faults import QUERIES, rows, write

# By stage: where its function is, and whether the scan does without it.
STAGES = {
    "planning": (planner, "plan_tasks", False),
    "footers": (FACTS, "load", False),
    "statistics": (prune, "judge", True),
    "bloom filters": (BloomFilterStatistics, "may_contain", True),
    "dictionaries": (ParquetFacts, "load_dictionary", True),
    "page index": (ParquetFacts, "page_bounds", True),
    "row group": (RowGroupState, "prune", False),
    "filter step": (FilterChain, "run", False),
    "evaluation": (evaluator, "_evaluated", False),
    "projection": (RowGroupReader, "read", False),
    "batches": (BatchMaker, "make", False),
    "limit": (RowBudget, "note", False),
    "limit, ahead": (RowBudget, "should_begin", False),
    "order of pages": (BestFirst, "next_visit", False),
    "candidates": (Candidates, "add", False),
    "condition cache, asked": (CONDITIONS, "find", False),
    "condition cache, taught": (CONDITIONS, "put", False),
    "end of the scan": (STEPS, "keep", False),
    "after the end": (FACTS, "trim", False),
}
# Where each query meets every stage that it has.
ASKED = ("filter", "evaluated", "nothing matches", "limit", "first rows")


class InjectedError(Exception):
    pass


def fail(*_arguments, **_settings):
    raise InjectedError("injected")


def forget():
    for memory in (FACTS, CONDITIONS, ANSWERS, OUTCOMES):
        memory.clear()


@pytest.fixture
def path(tmp_path):
    write(tmp_path / "t.parquet", rows())
    return tmp_path / "t.parquet"


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("stage", STAGES)
def test_an_exception_in_a_stage(path, stage, threads, monkeypatch):
    data = lm.dataset(path, options=lm.ScanOptions(threads=threads, batch_rows=7))
    holder, name, fails_open = STAGES[stage]
    met = 0
    for query in ASKED:
        forget()
        expected = data.to_table(**QUERIES[query])
        forget()
        with monkeypatch.context() as patch:
            patch.setattr(holder, name, fail)
            try:
                found = data.to_table(**QUERIES[query])
            except Exception as error:  # noqa: BLE001 the one that was injected, or it is raised
                met += 1
                assert "injected" in str(error), error  # noqa: PT017 the loop goes on
                assert not fails_open
            else:
                assert found.equals(expected)
        assert scan_threads() == []
        assert open_descriptors(path) == 0
        assert data.to_table(**QUERIES[query]).equals(expected)
    assert fails_open or met

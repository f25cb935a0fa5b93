from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.predicate.evaluator import EvaluationError


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "numbers.parquet")
    pq.write_table(pa.table({"x": ["1", "2", "three"], "y": [1, 2, 3]}), path)
    return path


@pytest.mark.parametrize("never", ["1 = 2", "NULL", "(TRUE) IS NOT TRUE"])
def test_a_condition_that_never_holds_reads_nothing(path, never):
    """And hides an error that another conjunct would meet, as it does in DataFusion."""
    dataset = lm.dataset(path, options=lm.ScanOptions(prune_statistics=False))
    assert dataset.to_table(filter=f"CAST(x AS INT) = 1 AND {never}").num_rows == 0
    assert dataset.scan_reports()[-1].bytes_scanned == 0
    with pytest.raises(EvaluationError, match="three"):
        dataset.to_table(filter="CAST(x AS INT) = 1")


def test_a_condition_that_always_holds_is_not_evaluated(path):
    dataset = lm.dataset(path)
    assert dataset.to_table(filter="1 = 1 AND y > 1").num_rows == 2
    assert [step.predicate for step in dataset.scan_reports()[-1].steps] == ["y > 1"]


def test_a_conjunct_that_can_fail_is_not_evaluated_on_rows_dropped_before(path):
    dataset = lm.dataset(path)
    table = dataset.to_table(filter="y < 3 AND CAST(x AS INT) = 2")
    assert table.to_pylist() == [{"x": "2", "y": 2}]

from __future__ import annotations

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(100), "s": [f"n{i}" for i in range(100)]}), file)
    return str(file)


@pytest.fixture
def plain():
    context = datafusion.SessionContext()
    context.register_table_factory("LM_PARQUET", lm.LateTableFactory())
    return context


def test_a_plain_session_reads_late(plain, path):
    plain.sql(f"CREATE EXTERNAL TABLE t STORED AS LM_PARQUET LOCATION '{path}'")
    frame = plain.sql("SELECT s FROM t WHERE a = 7 AND s LIKE 'n%'")
    assert "DatasetExec" in frame.execution_plan().display_indent()
    assert frame.to_pydict() == {"s": ["n7"]}


def test_a_session_of_ours_knows_the_format(path):
    context = lm.SessionContext()
    context.sql(f"CREATE EXTERNAL TABLE t STORED AS LM_PARQUET LOCATION '{path}'")
    assert context.sql("SELECT count(*) AS n FROM t WHERE a < 7").to_pydict() == {"n": [7]}


def test_a_folder_with_partitions(plain, tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"a": [year]}), tmp_path / f"year={year}" / "x.parquet")
    plain.sql(f"CREATE EXTERNAL TABLE t STORED AS LM_PARQUET LOCATION '{tmp_path}'")
    assert plain.sql("SELECT a FROM t WHERE year = 2024").to_pydict() == {"a": [2024]}


def test_options_are_those_of_scans(plain, path):
    plain.sql(
        f"CREATE EXTERNAL TABLE t STORED AS LM_PARQUET LOCATION '{path}'"
        " OPTIONS ('threads' '1', 'string_type' 'string_view', 'prune_dictionary' 'false')"
    )
    assert plain.table("t").schema().field("s").type == pa.string_view()


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("STORED AS LM_PARQUET {} OPTIONS ('thread' '1')", "no option named 'thread'"),
        ("STORED AS LM_PARQUET {} OPTIONS ('threads' '0')", "threads must be at least 1"),
        ("(a BIGINT, s VARCHAR) STORED AS LM_PARQUET WITH ORDER (a) {}", "WITH ORDER"),
    ],
)
def test_what_is_not_understood_is_an_error(plain, path, rest, message):
    location = f"LOCATION '{path}'"
    statement = f"CREATE EXTERNAL TABLE t {rest.format(location)}"
    with pytest.raises(Exception, match=message):
        plain.sql(statement)


def test_a_place_that_is_not_there_is_an_error(plain, tmp_path):
    with pytest.raises(Exception, match="no file at"):
        plain.sql(
            f"CREATE EXTERNAL TABLE t STORED AS LM_PARQUET LOCATION '{tmp_path}/none.parquet'"
        )

"""A query that our readers serve leaves the user's session as it was."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from tests.eager import eager

QUERIES = (
    "SELECT a FROM t WHERE a > 90",
    "SELECT b FROM v WHERE a = 7",
    "SELECT * FROM t WHERE s LIKE '%9' ORDER BY a DESC LIMIT 3",
    "SELECT s, count(*) FROM t GROUP BY s LIMIT 2",
    "SELECT t.a FROM t JOIN other.u ON t.a = u.a WHERE u.a > 95",
    "EXPLAIN SELECT a FROM t WHERE a > 90",
)


def observed(session):
    """Everything of a session that a user can see."""
    catalogs = {
        name: {
            schema: sorted(session.catalog(name).schema(schema).table_names())
            for schema in session.catalog(name).schema_names()
        }
        for name in session.catalog_names()
    }
    views = ("tables", "columns", "views", "df_settings", "schemata", "routines")
    shown = {
        name: sorted(map(repr, session.sql(f"SELECT * FROM information_schema.{name}").to_pylist()))
        for name in views
    }
    return catalogs, shown, repr(session)


@pytest.mark.parametrize("path", ["late", "auto"])
def test_catalogs_settings_and_functions_stay(tmp_path, path):
    table = pa.table({"a": range(100), "b": range(100), "s": [f"x{i}" for i in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    config = datafusion.SessionConfig().with_information_schema(enabled=True)
    session = lm.SessionContext(config, options=lm.ScanOptions(path=path))
    session.register_parquet("t", str(tmp_path / "a.parquet"))
    session.sql("CREATE SCHEMA other")
    session.register_parquet("other.u", str(tmp_path / "a.parquet"))
    session.sql("CREATE VIEW v AS SELECT a, b * 2 AS b FROM t")
    session.register_udf(datafusion.udf(lambda x: x, [pa.int64()], pa.int64(), "immutable", "own"))
    before = observed(session)
    with eager():
        paths = set()
        for query in QUERIES * 3:
            session.sql(query).collect()
            paths |= {report.path for report in session.scan_reports()}
    assert "late" in paths
    assert observed(session) == before

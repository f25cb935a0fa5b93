"""The 43 queries give on every path what plain DataFusion gives, and what DuckDB allows."""

from __future__ import annotations

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from clickbench.answers import to_rows
from clickbench.model.hits import generate_table
from clickbench.queries import QUERY_COUNT, load_queries, load_view
from clickbench.referee import Referee

ROWS = 30_000


def nullable(table):
    """The same rows with a tenth of the values gone, in every column."""
    rng = np.random.default_rng(3)
    columns = {
        name: pc.if_else(pa.array(rng.random(len(table)) < 0.9), table[name], None)
        for name in table.column_names
    }
    return pa.table(columns)


@pytest.fixture(scope="module", params=["null-free", "nullable"])
def hits(request, tmp_path_factory):
    table = generate_table(ROWS, seed=7)
    if request.param == "nullable":
        table = nullable(table)
    path = str(tmp_path_factory.mktemp("hits") / "hits.parquet")
    pq.write_table(
        table, path, row_group_size=6_000, max_rows_per_page=1_000, write_page_index=True
    )
    return path


def session(path, context):
    context.register_parquet("hits_raw", path)
    context.sql(load_view())
    return context


@pytest.mark.parametrize("path", ["native", "late", "auto"])
def test_every_query_gives_the_answer_and_schema_of_datafusion(hits, path):
    config = datafusion.SessionConfig().with_target_partitions(2)
    plain = session(hits, datafusion.SessionContext(config))
    ours = session(hits, lm.SessionContext(config, options=lm.ScanOptions(path=path)))
    referee = Referee([hits], threads=2)
    served = set()
    for query in load_queries(tuple(range(QUERY_COUNT))):
        expected = plain.sql(query.sql).to_arrow_table()
        # A plan is made ready for the second run, and the third may try another one.
        for run in range(4 if path == "auto" else 1):
            found = ours.sql(query.sql).to_arrow_table()
            served |= {report.path for report in ours.scan_reports()}
            assert found.schema.equals(expected.schema, check_metadata=False), query.name
            answers = {"plain": to_rows(expected), "ours": to_rows(found)}
            faults = referee.judge(query.sql, answers)
            assert faults == {"plain": None, "ours": None}, f"{query.name}, run {run}: {faults}"
    if path != "auto":
        assert path in served

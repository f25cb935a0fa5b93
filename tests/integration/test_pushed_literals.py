"""Literals of every type that DataFusion pushes into a dataset keep DataFusion's meaning."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

import lm_datafusion as lm

COLUMNS = {
    "dictionary": (pa.array(["a", "b", None, "c"]).dictionary_encode(), "'a'"),
    "large_dictionary": (
        pa.array(["a", "b", None, "c"], pa.large_string()).dictionary_encode(),
        "'a'",
    ),
    "numbers_dictionary": (pa.array([1, 2, None, 3]).dictionary_encode(), "1"),
    "bytes_dictionary": (pa.array([b"a", b"b", None, b"c"]).dictionary_encode(), "x'61'"),
    "fixed": (pa.array([b"abc", b"xyz", None, b"efg"], pa.binary(3)), "x'616263'"),
    "text": (pa.array(["a", "b", None, "c"]), "'a'"),
    "bytes": (pa.array([b"a", b"b", None, b"c"]), "x'61'"),
    "half": (pa.array([1.0, float("nan"), None, 2.0], pa.float16()), "arrow_cast(1, 'Float16')"),
    "decimal": (pa.array([Decimal(1), Decimal(2), None, None], pa.decimal128(9, 2)), "1.0"),
    "time": (pa.array([1, 2, None, 3], pa.time64("us")), "arrow_cast(1, 'Time64(Microsecond)')"),
    "duration": (
        pa.array([1, 2, None, 3], pa.duration("us")),
        "arrow_cast(1, 'Duration(Microsecond)')",
    ),
    "list": (pa.array([[1], [2, None], None, []]), "[1]"),
    "words": (pa.array([["a"], ["b"], None, [None]]), "['a']"),
    "map": (
        pa.array([[("a", 1)], [("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
        "MAP {'a': 1}",
    ),
    "struct": (pa.array([{"x": 1.5}, {"x": float("nan")}, None, {"x": None}]), "{x: 1.5}"),
}
CONDITIONS = [
    "{c} = {v}",
    "{c} = {v} OR s = 'b'",
    "{c} <> {v} OR b = x'62'",
    "NOT ({c} = {v}) OR s = 'b'",
    "{c} IN ({v}, NULL)",
    "{c} IN ({v}, {v}, {v}, {v}) OR s = 'b'",
    "NOT ({c} IN ({v}, {v}, {v}, {v}))",
    "{c} BETWEEN {v} AND {v} OR s IS NULL",
    "coalesce({c} = {v}, FALSE) OR 'b' = s",
    "({c} = {v} OR (s = 'b' OR (i = 2 AND NOT ({c} < {v}))))",
]


@pytest.fixture(scope="module")
def table():
    columns = {name: values for name, (values, _) in COLUMNS.items()}
    texts = pa.array(["x", "b", None, "y"])
    return pa.table({"i": range(4), "s": texts, "b": texts.cast(pa.binary()), **columns})


@pytest.fixture(scope="module", params=["string", "string_view"])
def sessions(request, table, tmp_path_factory):
    """A plain session over a late dataset, and one over the same rows in memory."""
    path = tmp_path_factory.mktemp("literals") / "t.parquet"
    pq.write_table(table, path)
    ours, memory = SessionContext(), SessionContext()
    options = lm.ScanOptions(string_type=request.param)
    ours.register_dataset("t", lm.dataset(path, options=options))
    memory.register_record_batches("t", [table.to_batches()])
    return ours, memory


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_condition_means_what_it_means_in_memory(sessions, column, condition):
    text = condition.format(c=f'"{column}"', v=COLUMNS[column][1])
    query = f"SELECT i, s FROM t WHERE {text} ORDER BY i"
    ours, memory = (session.sql(query).to_pydict() for session in sessions)
    assert ours == memory

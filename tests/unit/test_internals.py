"""What we lean on inside pyarrow and DataFusion that they do not promise to keep.

One test per internal, named for it. A failure after an upgrade says what changed and which of
our modules has to follow; the upper bounds in pyproject.toml move only once these pass.
"""

from __future__ import annotations

import datetime as dt
import io
import pickle
import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from datafusion import SessionConfig, SessionContext
from pyarrow import acero, fs
from pyarrow._parquet import ParquetReader

from lm_datafusion.predicate.expression_tree import ExpressionTree, Field, Literal

TABLE = pa.table(
    {
        "number": pa.array([1, 2, 3, 4], pa.int64()),
        "text": ["a", "b", None, "b"],
        "parts": pa.array([{"x": 1, "y": "p"}] * 4),
    }
)
LEAVES = {"number": 0, "text": 1, "parts.x": 2, "parts.y": 3}


def parquet_reader(**options) -> ParquetReader:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=2)
    reader = ParquetReader()
    reader.open(pa.BufferReader(sink.getvalue()), **options)
    return reader


# pyarrow._parquet.ParquetReader: formats/parquet/footer.py opens, decode.py reads


def test_parquet_reader_open_takes_the_options_we_give():
    reader = parquet_reader(
        read_dictionary=None, binary_type=None, pre_buffer=False, arrow_extensions_enabled=True
    )
    assert reader.metadata.num_row_groups == 2
    assert reader.schema_arrow.equals(TABLE.schema)


def test_parquet_reader_open_counts_dictionary_columns_by_leaf():
    reader = parquet_reader(read_dictionary=[LEAVES["text"]])
    assert pa.types.is_dictionary(reader.schema_arrow.field("text").type)
    assert reader.schema_arrow.field("number").type == pa.int64()


def test_parquet_reader_open_binary_type_gives_views_where_no_type_was_stored():
    sink = io.BytesIO()
    pq.write_table(pa.table({"b": [b"x", b"y"]}), sink, store_schema=False)
    reader = ParquetReader()
    reader.open(pa.BufferReader(sink.getvalue()), binary_type=pa.binary_view())
    assert reader.read_column(0).type == pa.binary_view()


def test_parquet_reader_open_reads_a_footer_without_pages():
    sink = io.BytesIO()
    pq.write_table(TABLE, sink)
    data = sink.getvalue()
    size = int.from_bytes(data[-8:-4], "little")
    reader = ParquetReader()
    reader.open(pa.BufferReader(b"PAR1" + data[-8 - size :]))
    assert reader.metadata.num_rows == 4


def test_parquet_reader_read_column_counts_top_level_columns():
    reader = parquet_reader()
    assert reader.read_column(2).equals(TABLE.column("parts"))


def test_parquet_reader_read_row_group_counts_leaves():
    table = parquet_reader().read_row_group(
        1, column_indices=[LEAVES["parts.x"], LEAVES["parts.y"]]
    )
    assert table.column_names == ["parts"]
    assert table.column(0).to_pylist() == TABLE.column("parts").to_pylist()[2:]


# The pickled form of expressions: predicate/expression_tree.py

NANOSECOND = pa.scalar(1_700_000_000_123_456_789, pa.timestamp("ns"))
EXPRESSIONS = {
    "comparison": pc.field("a") == 1,
    "unsigned": pc.field("a") > pa.scalar(7, pa.uint64()),
    "nanoseconds": pc.field("t") >= NANOSECOND,
    "zoned timestamp": pc.field("t") < pa.scalar(5, pa.timestamp("us", "UTC")),
    "date": pc.field("d") == pa.scalar(dt.date(2024, 5, 1)),
    "binary": pc.field("b") == pa.scalar(b"\0\xff"),
    "decimal": pc.field("m") <= pa.scalar(pa.scalar("1.25").cast(pa.decimal128(9, 2)).as_py()),
    "null literal": pc.field("a") == pa.scalar(None, pa.int32()),
    "connectives": (pc.field("a") > 1) & ~(pc.field("b") < 2) | (pc.field("c") == "x"),
    "is_in": pc.field("a").isin([1, 2, 3]),
    "is_in with null": pc.field("s").isin(["x", None]),
    "is_null": pc.field("a").is_null(),
    "is_null with NaN": pc.field("a").is_null(nan_is_null=True),
    "is_valid": pc.field("a").is_valid(),
    "cast": pc.field("a").cast(pa.float32()) > 1.5,
    "nested field": pc.field("s", "x", "y") == 1,
    "repeated keys": (pc.field("a") + pc.field("a") + pc.field("a")) == pc.field("a"),
    "no literal": pc.field("a") == pc.field("b"),
    "like": pc.match_like(pc.field("s"), "a%"),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expression_pickle_round_trip_of_the_whole(name):
    expression = EXPRESSIONS[name]
    tree = ExpressionTree(expression)
    assert tree.subexpression(tree.root).equals(expression)


@pytest.mark.parametrize("name", ["comparison", "is_in", "cast", "nested field", "nanoseconds"])
def test_expression_pickle_round_trip_of_a_part(name):
    part = EXPRESSIONS[name]
    tree = ExpressionTree((pc.field("before") < 0) & part & (pc.field("after").isin([9])))
    inner = tree.root.arguments[0].arguments[1]
    assert tree.subexpression(inner).equals(part)


def test_expression_pickle_keeps_types_of_literals():
    root = ExpressionTree(EXPRESSIONS["nanoseconds"]).root
    assert root.arguments == (Field(("t",)), Literal(NANOSECOND))
    assert root.arguments[1].value.type == pa.timestamp("ns")
    unsigned = ExpressionTree(EXPRESSIONS["unsigned"]).root
    assert unsigned.arguments[1].value.type == pa.uint64()


def test_expression_pickle_function_names():
    expected = {
        "comparison": "equal",
        "is_in": "is_in",
        "is_null": "is_null",
        "is_valid": "is_valid",
    }
    assert {n: ExpressionTree(EXPRESSIONS[n]).root.function for n in expected} == expected
    connectives = ExpressionTree(EXPRESSIONS["connectives"]).root
    assert connectives.function == "or_kleene"
    assert [a.function for a in connectives.arguments] == ["and_kleene", "equal"]
    assert connectives.arguments[0].arguments[1].function == "invert"


def test_expression_pickle_is_in_options():
    options = ExpressionTree(EXPRESSIONS["is_in with null"]).root.options
    assert options["value_set"].values.to_pylist() == ["x", None]
    # SetLookupOptions: 0 matches nulls, 1 skips them.
    assert options["null_matching_behavior"].as_py() == 0
    skipping = pc.is_in(pc.field("s"), pa.array(["x"]), skip_nulls=True)
    assert ExpressionTree(skipping).root.options["null_matching_behavior"].as_py() == 1


def test_expression_pickle_is_null_options():
    assert ExpressionTree(EXPRESSIONS["is_null with NaN"]).root.options["nan_is_null"].as_py()
    assert not ExpressionTree(EXPRESSIONS["is_null"]).root.options["nan_is_null"].as_py()


def test_expression_pickle_nested_field():
    root = ExpressionTree(EXPRESSIONS["nested field"]).root
    assert root.arguments[0] == Field(("s", "x", "y"))


def test_expression_reduce_gives_a_function_and_one_buffer():
    expression = EXPRESSIONS["comparison"]
    restore, (buffer,) = expression.__reduce__()
    assert isinstance(buffer, pa.Buffer)
    assert restore(buffer).equals(expression)
    assert pickle.loads(pickle.dumps(expression)).equals(expression)


def test_key_value_metadata_keeps_repeated_keys():
    pairs = [("call", "a"), ("call", "b"), ("end", "b"), ("end", "a")]
    schema = pa.schema([("x", pa.int8())], metadata=pa.KeyValueMetadata(pairs))
    stored = schema.serialize().to_pybytes()
    assert len(re.findall(rb"call", stored)) == 2
    assert len(re.findall(rb"end", stored)) == 2


# datafusion: predicate/evaluator.py asks, predicate/fold.py reads the answers

BATCH = pa.record_batch(
    {
        "a": pa.array([1, 2], pa.int64()),
        "s": ["x", None],
        "t": pa.array([0, 1], pa.timestamp("ms")),
        "n": pa.array([{"x": 1}, {"x": 2}]),
    }
)


def fresh_context() -> SessionContext:
    return SessionContext(SessionConfig().with_target_partitions(1))


def parsed(text: str):
    return fresh_context().read_batch(BATCH).parse_sql_expr(text)


def folded(text: str):
    """As evaluator.fold does it."""
    context = fresh_context()
    context.remove_optimizer_rule("common_sub_expression_eliminate")
    frame = context.read_batch(BATCH)
    selected = frame.select(frame.parse_sql_expr(text).alias("p"))
    (expression,) = selected.optimized_logical_plan().to_variant().projections()
    while expression.variant_name() == "Alias":
        expression = expression.rex_call_operands()[0]
    return expression


def test_read_batch_leaves_nothing_registered():
    context = fresh_context()
    frame = context.read_batch(BATCH)
    frame.select(frame.parse_sql_expr("a = 1")).collect()
    assert context.catalog().schema().names() == set()


def test_read_batch_result_is_one_batch_of_all_rows():
    rows = 300_000
    context = SessionContext(SessionConfig().with_target_partitions(1).with_batch_size(1 << 20))
    frame = context.read_batch(pa.record_batch({"a": pa.array(range(rows))}))
    results = frame.select(frame.parse_sql_expr("a % 2 = 0").alias("p")).collect()
    assert [result.num_rows for result in results] == [rows]


def test_parse_sql_expr_binds_names_and_reports_missing_ones():
    assert parsed("a = 1").variant_name() == "BinaryExpr"
    frame = fresh_context().read_batch(BATCH)
    with pytest.raises(Exception, match=r"No field named"):
        frame.select(frame.parse_sql_expr("missing = 1")).optimized_logical_plan()


def test_remove_optimizer_rule_knows_common_sub_expression_eliminate():
    assert fresh_context().remove_optimizer_rule("common_sub_expression_eliminate") is True
    assert fresh_context().remove_optimizer_rule("no such rule") is False


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a = 1", "BinaryExpr"),
        ("a IN (1, 2, 3, 4, 5)", "InList"),
        ("s LIKE '%x%y%'", "Like"),
        ("(a = 1) IS TRUE", "IsTrue"),
        ("(a = 1) IS NOT TRUE", "IsNotTrue"),
        ("(a = 1) IS FALSE", "IsFalse"),
        ("(a = 1) IS NOT FALSE", "IsNotFalse"),
        ("s IS NULL", "IsNull"),
        ("s IS NOT NULL", "IsNotNull"),
        ("NOT (s LIKE 'x%' AND a = 1)", "Not"),
        ("a", "Column"),
        ("1", "Literal"),
        ("CAST(a AS DOUBLE)", "Cast"),
        ("abs(a)", "ScalarFunction"),
        ("sum(a)", "AggregateFunction"),
        ("row_number() OVER ()", "WindowFunction"),
    ],
)
def test_expr_variant_name(text, name):
    assert parsed(text).variant_name() == name


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("a = 1", "="),
        ("a <> 1", "!="),
        ("a <= 1", "<="),
        ("a = 1 AND s = 'x'", "AND"),
        ("a = 1 OR s = 'x'", "OR"),
        ("a IS DISTINCT FROM 1", "IS DISTINCT FROM"),
        ("a IS NOT DISTINCT FROM 1", "IS NOT DISTINCT FROM"),
        ("s ~ 'x'", "~"),
    ],
)
def test_expr_rex_call_operator(text, operator):
    assert parsed(text).rex_call_operator() == operator


def test_expr_rex_call_operands_of_binary_cast_and_get_field():
    left, right = parsed("a = 1").rex_call_operands()
    assert (left.variant_name(), right.variant_name()) == ("Column", "Literal")
    (inner,) = parsed("CAST(a AS DOUBLE)").rex_call_operands()
    assert inner.variant_name() == "Column"
    field = folded("n['x'] = 1").rex_call_operands()[0]
    assert str(field).startswith("Expr(get_field(")
    parent, key = field.rex_call_operands()
    assert (parent.variant_name(), key.python_value().as_py()) == ("Column", "x")


def test_expr_to_variant_of_in_list():
    variant = parsed("a NOT IN (1, 2, 3, 4, 5)").to_variant()
    assert [item.python_value().as_py() for item in variant.list()] == [1, 2, 3, 4, 5]
    assert variant.expr().to_variant().name() == "a"
    assert variant.negated() is True


def test_expr_to_variant_of_like():
    variant = parsed("s NOT LIKE 'x%'").to_variant()
    assert variant.pattern().python_value().as_py() == "x%"
    assert variant.expr().to_variant().name() == "s"
    assert variant.escape_char() is None
    assert variant.negated() is True


def test_expr_print_tells_ilike_from_like():
    assert " ILIKE " in str(parsed("s ILIKE 'x%'"))
    assert " ILIKE " not in str(parsed("s LIKE 'x%'"))


@pytest.mark.parametrize("text", ["s IS NULL", "NOT (a = 1)", "(a = 1) IS TRUE"])
def test_expr_to_variant_of_one_operand(text):
    assert parsed(text).to_variant().expr().variant_name() in {"Column", "BinaryExpr"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", pa.scalar(1, pa.int64())),
        ("a = NULL", None),
        ("s = 'x'", pa.scalar("x")),
        ("t = '1970-01-01T00:00:00.001'", pa.scalar(1, pa.timestamp("ms"))),
    ],
)
def test_expr_python_value_is_typed_as_the_column(text, expected):
    expression = folded(text)
    if expected is None:
        assert expression.variant_name() == "Literal"
        assert not expression.python_value().is_valid
        return
    value = expression.rex_call_operands()[1].python_value()
    assert isinstance(value, pa.Scalar)
    assert value.equals(expected)


def test_optimizer_folds_constants_casts_and_between():
    assert folded("1 + 1 = 2").python_value().as_py() is True
    assert folded("a BETWEEN 1 AND 2").rex_call_operator() == "AND"
    assert folded("CAST(a AS INT) = 1").variant_name() == "BinaryExpr"


def test_expr_canonical_name_tells_expressions_apart():
    assert parsed("a = 1").canonical_name() == parsed("(a) = (1)").canonical_name()
    assert parsed("a = 1").canonical_name() != parsed("a = '1'").canonical_name()
    assert parsed("s LIKE 'x'").canonical_name() != parsed("s ILIKE 'x'").canonical_name()


def test_zeros_of_either_sign_are_equal():
    batch = pa.record_batch({"x": pa.array([-0.0, 0.0])})
    context = SessionContext()
    context.register_record_batches("zeros", [[batch]])
    for text in ("x = 0", "x = -0.0", "NOT (x <> 0)", "x IS NOT DISTINCT FROM 0"):
        assert context.sql(f"SELECT x FROM zeros WHERE {text}").count() == 2


def test_the_print_of_a_session_has_its_settings():
    context = SessionContext(SessionConfig().with_target_partitions(5))
    context.sql("SET datafusion.execution.meta_fetch_concurrency = 7")
    lines = [line.strip() for line in repr(context).splitlines()]
    assert "datafusion.execution.meta_fetch_concurrency = 7" in lines
    assert "datafusion.execution.target_partitions = 5" in lines


@pytest.mark.parametrize("count", [1, 3])
def test_a_grouping_has_as_many_partitions_as_the_session_is_set_to(count):
    context = SessionContext(SessionConfig().with_target_partitions(count))
    query = "SELECT column1 FROM (VALUES (1), (2)) GROUP BY column1"
    assert context.sql(query).execution_plan().partition_count == count
    context.sql("SET datafusion.execution.target_partitions = 5")
    assert context.sql(query).execution_plan().partition_count == 5


def test_the_plan_of_a_case_shows_its_operands():
    frame = SessionContext().from_pydict({"id": [1]}, name="t")
    expression = frame.parse_sql_expr("CASE WHEN id > 1 THEN 10 / id ELSE 3 END > 2")
    (case, _) = expression.rex_call_operands()
    assert case.variant_name() == "Case"
    assert any("/" in str(operand) for operand in case.rex_call_operands())


# How pyarrow's C++ code gets at a dataset: dataset/pyarrow_files.py and lookalike.py


class _Watched(ds.FileSystemDataset):
    """Has no files until pyarrow asks for options."""

    def __init__(self, path):
        self.path = path
        super().__init__([], TABLE.schema, ds.ParquetFileFormat(), fs.LocalFileSystem())

    def _scanner_options(self, options):
        file_format = ds.ParquetFileFormat()
        fragment = file_format.make_fragment(str(self.path), fs.LocalFileSystem())
        super().__init__([fragment], TABLE.schema, file_format, fs.LocalFileSystem())
        return options


def test_scanner_options_are_asked_for_before_files_are(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE, path)
    assert ds.Scanner.from_dataset(_Watched(path)).to_table().equals(TABLE)
    scan = acero.Declaration("scan", acero.ScanNodeOptions(_Watched(path)))
    assert scan.to_table().num_rows == TABLE.num_rows


def test_arguments_are_checked_by_type_and_not_by_isinstance():
    class Impostor:
        __class__ = ds.Fragment

    assert isinstance(Impostor(), ds.Fragment)
    with pytest.raises(TypeError, match="Impostor"):
        ds.Scanner.from_fragment(Impostor())

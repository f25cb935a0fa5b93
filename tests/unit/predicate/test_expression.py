from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lm_datafusion.errors import UnsupportedFeatureError
from lm_datafusion.predicate.conjunct import bind_conjuncts
from lm_datafusion.predicate.expression import Meaning, translate_expression
from lm_datafusion.predicate.expression_tree import Call, ExpressionTree, Field, Literal, fields

SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("ns", pa.timestamp("ns", "UTC")),
        ("st", pa.struct([("x", pa.int64())])),
    ]
)
BATCH = pa.record_batch(
    [
        pa.array([1, 2, None, 9], pa.int32()),
        pa.array(["x", None, "abc", "y"]),
        pa.array([1.0, float("nan"), None, -0.0]),
        pa.array([1, 2, 3, None], pa.timestamp("ns", "UTC")),
        pa.array([{"x": 1}, {"x": None}, None, {"x": 4}], SCHEMA.field("st").type),
    ],
    schema=SCHEMA,
)
a, s, f = pc.field("a"), pc.field("s"), pc.field("f")


def test_tree_keeps_types_options_and_paths():
    moment = pa.scalar(5, pa.timestamp("ns", "UTC"))
    tree = ExpressionTree((pc.field("ns") > moment) & pc.field("st", "x").isin([1, None]))
    match tree.root:
        case Call("and_kleene", (Call("greater", (Field(("ns",)), Literal(value))), second)):
            assert value.equals(moment)
            assert second.arguments == (Field(("st", "x")),)
            assert second.options["value_set"].values.to_pylist() == [1, None]
        case other:
            pytest.fail(f"another tree: {other}")
    assert {field.path for field in fields(tree.root)} == {("ns",), ("st", "x")}


@pytest.mark.parametrize(
    "expression",
    [
        a > 5,
        s.isin(["a", "b"]),
        ~a.is_null(),
        a.cast(pa.int64()) == 5,
        pc.field("st", "x") == 1,
        f.is_null(nan_is_null=True),
        pc.match_substring(s, "x"),
        a.is_valid(),
        (a > 1) & (s == "x"),
    ],
    ids=str,
)
def test_a_subexpression_is_an_equal_expression(expression):
    tree = ExpressionTree(expression)
    assert tree.subexpression(tree.root).equals(expression)


def test_a_reference_by_position_cannot_be_looked_into():
    with pytest.raises(UnsupportedFeatureError):
        ExpressionTree(pc.field(0) > 1)
    (conjunct,) = translate_expression(pc.field(0) > 1, SCHEMA, Meaning.PYARROW)
    assert conjunct.columns == tuple(SCHEMA.names)
    (whole,) = bind_conjuncts([conjunct], SCHEMA)
    assert whole.evaluate(BATCH).to_pylist() == [False, True, None, True]


def passing(expression, meaning):
    rows = range(BATCH.num_rows)
    conjuncts = bind_conjuncts(translate_expression(expression, SCHEMA, meaning), SCHEMA)
    answers = [conjunct.evaluate(BATCH).to_pylist() for conjunct in conjuncts]
    return [row for row in rows if all(answer[row] for answer in answers)]


@pytest.mark.parametrize(
    ("expression", "datafusion", "pyarrow"),
    [
        (a > 1, [1, 3], [1, 3]),
        (~a.isin([1, 2, 3, 4]), [3], [2, 3]),
        (f > 0.5, [0, 1], [0]),
        (~(f > 0.5), [3], [1, 3]),
        (f == 0.0, [3], [3]),
        (a.isin([1, None]), [0], [0, 2]),
        (a.is_null() | (s == "y"), [2, 3], [2, 3]),
        ((a > 1) & s.is_valid(), [3], [3]),
        (pc.field("st", "x") >= 1, [0, 3], [0, 3]),
    ],
    ids=str,
)
def test_each_meaning_is_kept(expression, datafusion, pyarrow):
    assert passing(expression, Meaning.DATAFUSION) == datafusion
    assert passing(expression, Meaning.PYARROW) == pyarrow
    table = pa.Table.from_batches([BATCH])
    numbered = table.append_column("row", pa.array(range(4)))
    assert numbered.filter(expression).column("row").to_pylist() == pyarrow


def trees(expression):
    conjuncts = translate_expression(expression, SCHEMA, Meaning.PYARROW)
    return [str(conjunct.tree) for conjunct in bind_conjuncts(conjuncts, SCHEMA)]


def test_pyarrow_meaning_prunes_only_where_both_agree():
    assert trees((a > 1) & (s == "x")) == ["a > 1", "s = x"]
    assert trees(~a.isin([1])) == ["(a IS NULL OR a != 1)"] or "..." not in trees(~a.isin([1]))[0]
    assert trees(~(f > 0.5)) == ["..."]
    assert trees(a > 1.5) == ["..."]
    assert trees(pc.match_substring(s, "x")) == ["..."]

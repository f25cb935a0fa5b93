from __future__ import annotations

import pyarrow as pa
import pytest

from lm_datafusion.errors import ColumnNotFoundError, SqlError
from lm_datafusion.predicate.conjunct import Conjunct, bind_conjuncts
from lm_datafusion.predicate.fold import is_monotone_cast

SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("b", pa.int64()),
        ("s", pa.string()),
        ("v", pa.string_view()),
        ("f", pa.float64()),
        ("flag", pa.bool_()),
        ("ts", pa.timestamp("us")),
        ("d", pa.date32()),
        ("dec", pa.decimal128(10, 2)),
        ("st", pa.struct([("x", pa.int64())])),
    ]
)


def bound(text, columns):
    return bind_conjuncts([Conjunct(text=text, columns=tuple(columns))], SCHEMA)[0]


# What DataFusion folds it into, as a tree; "..." is what the tree cannot say.
TREES = [
    ("a = '5'", "a", "a = 5"),
    ("5 < a", "a", "a > 5"),
    ("a BETWEEN 1 AND 3", "a", "(a >= 1 AND a <= 3)"),
    ("a IN (1, 2, 3, 4)", "a", "a IN (1, 2, 3, 4)"),
    ("a NOT IN (1, 2, 3, NULL)", "a", "NOT (a IN (1, 2, 3) OR NULL)"),
    ("a IS NULL", "a", "a IS NULL"),
    ("a IS NOT NULL", "a", "NOT a IS NULL"),
    ("a IS DISTINCT FROM 5", "a", "NOT a IS NOT DISTINCT FROM 5"),
    ("a IS NOT DISTINCT FROM NULL", "a", "a IS NULL"),
    ("a > 1.5", "a", "CAST(a AS double) > 1.5"),
    ("CAST(a AS BIGINT) = 9", "a", "a = 9"),
    ("a > 9999999999", "a", "CAST(a AS int64) > 9999999999"),
    ("a = NULL", "a", "NULL"),
    ("1 = 2", "", "FALSE"),
    ("d >= '2020-01-31'", "d", "d >= 2020-01-31"),
    ("d > DATE '2020-01-31' - INTERVAL '1 month'", "d", "d > 2019-12-31"),
    ("ts < '2020-01-01T00:00:01'", ["ts"], "ts < 2020-01-01 00:00:01"),
    (
        "date_part('year', ts) = 2020",
        ["ts"],
        "(ts >= 2020-01-01 00:00:00 AND ts < 2021-01-01 00:00:00)",
    ),
    ("dec >= 1.5", ["dec"], "dec >= 1.50"),
    ("flag", ["flag"], "flag = True"),
    ("NOT flag", ["flag"], "NOT flag = True"),
    ("flag IS NOT TRUE", ["flag"], "NOT flag = True IS TRUE"),
    ("s LIKE 'ab%'", "s", "s LIKE 'ab%'"),
    ("v LIKE 'ab%'", "v", "v LIKE 'ab%'"),
    ("s NOT LIKE 'a_%'", "s", "NOT s LIKE 'a'..."),
    ("starts_with(s, 'ab')", "s", "s LIKE 'ab%'"),
    ("s LIKE '%ab'", "s", "s LIKE '%ab'"),
    ("s LIKE '%a%%b%'", "s", "s LIKE '%a%b%'"),
    ("s LIKE '_a%'", "s", "..."),
    ("octet_length(s) > 3", "s", "octet_length(s) > 3"),
    ("s ILIKE 'ab%'", "s", "..."),
    ("st['x'] = 1", ["st"], "st.x = 1"),
    ("a = b", "ab", "..."),
    ("a > 1 OR length(s) > 3", "as", "(a > 1 OR ...)"),
    ("CASE WHEN a > 1 THEN TRUE ELSE FALSE END", "a", "a > 1 IS TRUE"),
]


@pytest.mark.parametrize(("text", "columns", "tree"), TREES, ids=[t[0] for t in TREES])
def test_tree(text, columns, tree):
    assert str(bound(text, columns).tree) == tree


@pytest.mark.parametrize(
    ("text", "columns", "can_fail"),
    [
        ("a > 5", "a", False),
        ("a > 1.5", "a", False),
        ("s LIKE '%x%'", "s", False),
        ("s ~ 'x'", "s", False),
        ("st['x'] = 1", ["st"], False),
        ("s = 5", "s", True),
        ("10 / a > 1", "a", True),
        ("CAST(s AS INT) = 4", "s", True),
        ("a > 1 AND CAST(s AS INT) = 4", "as", True),
    ],
)
def test_whether_a_value_can_make_it_fail(text, columns, can_fail):
    assert bound(text, columns).can_fail is can_fail


def test_a_pattern_is_a_prefix_only_with_one_wildcard_at_its_end():
    assert bound("s LIKE 'ab%'", "s").tree.is_prefix
    assert not bound("s LIKE 'ab%c'", "s").tree.is_prefix
    assert not bound("s LIKE 'ab_'", "s").tree.is_prefix
    assert not bound(r"s LIKE 'ab\%'", "s").tree.is_prefix


def test_a_pattern_with_an_underscore_or_an_escape_says_its_prefix_only():
    for pattern in ("ab_", "ab_%c", r"ab\%", "ab%c_"):
        tree = bound(f"s LIKE '{pattern}'", "s").tree
        assert not tree.is_whole
        assert tree.prefix == b"ab"


@pytest.mark.parametrize(
    ("source", "target", "is_monotone"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.uint32(), pa.int64(), True),
        (pa.uint64(), pa.int64(), False),
        (pa.int8(), pa.uint16(), False),
        (pa.int64(), pa.float64(), True),
        (pa.float32(), pa.float64(), True),
        (pa.float64(), pa.float32(), False),
        (pa.decimal128(10, 2), pa.decimal128(12, 3), True),
        (pa.decimal128(10, 2), pa.decimal128(10, 3), False),
        (pa.int32(), pa.string(), False),
        (pa.string(), pa.string_view(), True),
    ],
)
def test_monotone_casts(source, target, is_monotone):
    assert is_monotone_cast(source, target) is is_monotone


def test_errors_name_the_column_or_show_the_reason():
    with pytest.raises(ColumnNotFoundError, match='no column named "aa"'):
        bind_conjuncts([Conjunct(text="aa = 1", columns=("aa",))], SCHEMA)
    with pytest.raises(SqlError, match="not a condition"):
        bound("a + 1", "a")
    with pytest.raises(SqlError, match="aggregate"):
        bound("sum(a) > 1", "a")
    with pytest.raises(SqlError, match="Int32"):
        bound("a = INTERVAL '1 day'", "a")


def test_a_part_that_cannot_be_folded_alone_is_folded_with_the_rest():
    schema = pa.schema([pa.field("x", pa.decimal128(30, 5), nullable=False)])
    large = "100000000000000000000000.00000"
    too_large = f"x IN (({large}), arrow_cast('{large}', 'Decimal128(30, 5)'), ({large}))"
    parts = [Conjunct(text=text, columns=("x",)) for text in (f"NOT ({too_large})", "x IS NULL")]
    (whole,) = bind_conjuncts(parts, schema)
    assert str(whole.tree) == "FALSE"

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_datafusion.predicate.conjunct import Conjunct, bind_conjuncts
from lm_datafusion.pruning import UnknownStatistics, Verdict, judge

NO, SOME, ALL = Verdict.NO_ROWS, Verdict.SOME_ROWS, Verdict.ALL_ROWS


class Containers(UnknownStatistics):
    """Containers with given bounds of one column `x`, all of ten rows."""

    def __init__(self, bounds, data_type, nulls=None, contains=None, nans=None):
        super().__init__(np.full(len(bounds), 10, dtype=np.int64))
        self._low = pa.array([b and b[0] for b in bounds], data_type)
        self._high = pa.array([b and b[1] for b in bounds], data_type)
        self._nulls = None if nulls is None else np.array(nulls, dtype=np.int64)
        self._contains = contains
        self._nans = None if nans is None else np.array(nans, dtype=np.int64)

    def min_values(self, column):
        return self._low

    def max_values(self, column):
        return self._high

    def null_counts(self, column):
        return self._nulls

    def nan_counts(self, column):
        return self._nans

    def may_contain(self, column, values):
        return None if self._contains is None else np.array(self._contains)


def verdicts(text, data_type, bounds, **facts):
    schema = pa.schema([pa.field("x", data_type)])
    tree = bind_conjuncts([Conjunct(text=text, columns=("x",))], schema)[0].tree
    return judge(tree, Containers(bounds, facts.pop("stored", data_type), **facts)).tolist()


BOUNDS = [(0, 9), (5, 5), (10, 20), None]
NULLS = [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 5", [SOME, ALL, NO, SOME]),
        ("x <> 5", [SOME, NO, ALL, SOME]),
        ("x < 5", [SOME, NO, NO, SOME]),
        ("x < 10", [ALL, ALL, NO, SOME]),
        ("x <= 9", [ALL, ALL, NO, SOME]),
        ("x > 9", [NO, NO, ALL, SOME]),
        ("x >= 10", [NO, NO, ALL, SOME]),
        ("x BETWEEN 5 AND 20", [SOME, ALL, ALL, SOME]),
        ("x IN (1, 5, 99, 100)", [SOME, ALL, NO, SOME]),
        ("x NOT IN (1, 5, 99, 100)", [SOME, NO, ALL, SOME]),
        ("x IS NULL", [NO, NO, NO, NO]),
        ("x IS NOT NULL", [ALL, ALL, ALL, ALL]),
        ("x IS DISTINCT FROM 5", [SOME, NO, ALL, SOME]),
        ("x = 5 OR x = 15", [SOME, ALL, SOME, SOME]),
        ("x > 3 AND x < 7", [SOME, ALL, NO, SOME]),
        ("NOT (x > 3 AND x < 7)", [SOME, NO, ALL, SOME]),
        ("x > 3 OR x % 2 = 0", [SOME, ALL, ALL, SOME]),
        ("x > 25 AND x % 2 = 0", [NO, NO, NO, SOME]),
        ("x > 9.5", [NO, NO, ALL, SOME]),
        ("(x > 9) IS TRUE", [NO, NO, ALL, SOME]),
        ("(x > 9) IS NOT TRUE", [ALL, ALL, NO, SOME]),
    ],
)
def test_integers_without_nulls(text, expected):
    assert verdicts(text, pa.int64(), BOUNDS, nulls=NULLS) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Some nulls, all null, unknown.
        ("x < 100", [SOME, NO, SOME]),
        ("x IS NULL", [SOME, ALL, SOME]),
        ("x IS NOT NULL", [SOME, NO, SOME]),
        ("x IS DISTINCT FROM 200", [ALL, ALL, ALL]),
        ("(x < 100) IS NOT TRUE", [SOME, ALL, SOME]),
        ("x < 100 OR x IS NULL", [SOME, ALL, SOME]),
        ("NOT (x < 100)", [NO, NO, NO]),
        ("x NOT IN (200, 300, 400, NULL)", [NO, NO, NO]),
    ],
)
def test_nulls_never_pass_a_comparison(text, expected):
    found = verdicts(text, pa.int64(), [(0, 9), None, (0, 9)], nulls=[3, 10, -1])
    assert found == expected


def test_text_is_compared_as_bytes_and_bounds_may_be_truncated():
    bounds = [("ab", "ac"), ("b", "c"), ("a", "z")]
    assert verdicts("x = 'abc'", pa.string(), bounds, nulls=[0, 0, 0]) == [SOME, NO, SOME]
    assert verdicts("x LIKE 'ab%'", pa.string(), bounds, nulls=[0, 0, 0]) == [SOME, NO, SOME]
    assert verdicts("x LIKE 'a%'", pa.string(), bounds, nulls=[0, 0, 0]) == [ALL, NO, SOME]
    assert verdicts("x NOT LIKE 'a%'", pa.string(), bounds, nulls=[0, 0, 0]) == [NO, ALL, SOME]
    assert verdicts("x LIKE 'a%z'", pa.string(), bounds, nulls=[0, 0, 0]) == [SOME, NO, SOME]
    assert verdicts("x > 'ü'", pa.string(), [("a", "z"), ("ü", "ü")]) == [NO, NO]
    assert verdicts("x >= 'ü'", pa.string(), [("a", "z"), ("ü", "ü")]) == [NO, SOME]


def test_nan_is_in_no_bound_and_passes_greater():
    bounds = [(0.0, 3.0), (7.0, 9.0)]
    facts = {"nulls": [0, 0]}
    assert verdicts("x > 5", pa.float64(), bounds, **facts) == [SOME, SOME]
    assert verdicts("x >= 5", pa.float64(), bounds, **facts) == [SOME, SOME]
    assert verdicts("x <> 1", pa.float64(), bounds, **facts) == [SOME, SOME]
    assert verdicts("x < 5", pa.float64(), bounds, **facts) == [SOME, SOME]
    assert verdicts("x = 8", pa.float64(), bounds, **facts) == [NO, SOME]
    assert verdicts("x = 'NaN'::double", pa.float64(), bounds, **facts) == [SOME, SOME]
    assert verdicts("x BETWEEN 4 AND 5", pa.float64(), bounds, **facts) == [NO, NO]
    assert verdicts("NOT (x BETWEEN 4 AND 5)", pa.float64(), bounds, **facts) == [SOME, SOME]
    # NaN may be beside the values in bounds, so nothing holds for all rows.
    assert verdicts("x > -1 AND x < 9.5", pa.float64(), bounds, **facts) == [SOME, SOME]
    assert verdicts("x < 'NaN'::double AND x = 8", pa.float64(), bounds, **facts) == [NO, SOME]
    nan = "x IS NOT DISTINCT FROM 'NaN'::double"
    assert verdicts(nan, pa.float64(), bounds, **facts) == [SOME, SOME]
    assert verdicts("x < 0", pa.float64(), [(0.0, 3.0)], nulls=[0]) == [SOME]


@pytest.mark.parametrize("data_type", [pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x > 5", [NO, ALL, NO, SOME, SOME]),
        ("x >= 5", [NO, ALL, NO, SOME, SOME]),
        ("x < 5", [ALL, NO, ALL, SOME, SOME]),
        ("x <= 5", [ALL, NO, ALL, SOME, SOME]),
        ("x <> 1", [SOME, ALL, NO, SOME, SOME]),
        ("x = 1", [SOME, NO, ALL, SOME, SOME]),
        ("x IS DISTINCT FROM 1", [SOME, ALL, NO, SOME, SOME]),
        ("x BETWEEN 4 AND 5", [NO, NO, NO, NO, NO]),
        ("NOT (x BETWEEN 4 AND 5)", [ALL, ALL, ALL, SOME, SOME]),
        ("x > -1 AND x < 9.5", [ALL, ALL, ALL, SOME, SOME]),
        ("x IN (1, 100, 101, 102)", [SOME, NO, ALL, SOME, SOME]),
        ("x NOT IN (1, 100, 101, 102)", [SOME, ALL, NO, SOME, SOME]),
        ("x = 'NaN'::double", [NO, NO, NO, SOME, SOME]),
        ("x <> 'NaN'::double", [ALL, ALL, ALL, SOME, SOME]),
        ("x < 'NaN'::double", [SOME, SOME, SOME, SOME, SOME]),
    ],
)
def test_bounds_say_all_where_there_is_no_nan(text, expected, data_type):
    bounds = [(0.5, 3.0), (7.0, 9.0), (1.0, 1.0), (0.5, 3.0), (0.5, 3.0)]
    facts = {"nulls": [0] * 5, "nans": [0, 0, 0, 2, -1]}
    assert verdicts(text, data_type, bounds, **facts) == expected


def test_a_container_without_nan_may_still_have_nulls():
    facts = {"nulls": [3, -1, 10], "nans": [0, 0, 0]}
    bounds = [(0.5, 3.0), (0.5, 3.0), None]
    assert verdicts("x < 5", pa.float64(), bounds, **facts) == [SOME, SOME, NO]
    assert verdicts("x > 5", pa.float64(), bounds, **facts) == [NO, NO, NO]


def test_no_nan_and_no_bounds():
    facts = {"nulls": [0], "nans": [0]}
    assert verdicts("x > 5", pa.float64(), [None], **facts) == [SOME]
    assert verdicts("x = 'NaN'::double", pa.float64(), [None], **facts) == [NO]


def test_what_a_container_cannot_contain():
    facts = {"nulls": [0, 0], "contains": [False, True]}
    assert verdicts("x = 5", pa.int64(), [(0, 9), (0, 9)], **facts) == [NO, SOME]
    assert verdicts("x IN (5, 6, 7, 8)", pa.int64(), [(0, 9), (0, 9)], **facts) == [NO, SOME]
    assert verdicts("x <> 5", pa.int64(), [(0, 9), (0, 9)], **facts) == [ALL, SOME]
    assert verdicts("x = 5 OR x > 8", pa.int64(), [(0, 9), (0, 9)], **facts) == [SOME, SOME]


def test_bounds_of_a_narrower_file_type_are_widened():
    found = verdicts("x > 2147483647", pa.int64(), [(1, 2)], stored=pa.int32(), nulls=[0])
    assert found == [NO]


def test_bounds_that_do_not_fit_the_literal_are_refused():
    with pytest.raises(TypeError, match="against"):
        verdicts("x > 5", pa.int64(), [("a", "b")], stored=pa.string())


NUMBERS = st.integers(-6, 6)
CONDITIONS = st.sampled_from(
    [
        "x {op} {a}",
        "NOT (x {op} {a})",
        "x IN ({a}, {b}, 0, 1)",
        "x NOT IN ({a}, {b}, 0, 1)",
        "x BETWEEN {a} AND {b}",
        "x {op} {a} OR x = {b}",
        "x {op} {a} AND x <> {b}",
        "x IS DISTINCT FROM {a}",
        "(x {op} {a}) IS NOT TRUE",
        "x IS NULL OR x {op} {b}",
        "x IN ({a}, {b}, 3, NULL)",
    ]
)


# What some of the numbers stand for where they are floats.
ODD_FLOATS = {-6.0: -math.nan, 6.0: math.nan, 4.0: -0.0}


@given(
    values=st.lists(st.lists(st.none() | NUMBERS, min_size=1, max_size=5), min_size=1, max_size=4),
    template=CONDITIONS,
    operator=st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]),
    literals=st.tuples(NUMBERS, NUMBERS),
    data_type=st.sampled_from([pa.int32(), pa.float64(), pa.string()]),
    counts_nan=st.booleans(),
)
def test_verdicts_are_proofs(values, template, operator, literals, data_type, counts_nan):
    """No matching row in a NO_ROWS container, no other row in an ALL_ROWS one."""
    convert = {pa.int32(): int, pa.float64(): float, pa.string(): str}[data_type]
    quote = "'{}'" if data_type == pa.string() else "({})"
    text = template.format(op=operator, a=quote.format(literals[0]), b=quote.format(literals[1]))
    text = (
        text.replace(", 0, 1)", ", '0', '1')").replace(", 3, ", ", '3', ")
        if (data_type == pa.string())
        else text
    )
    chunks = [[None if v is None else convert(v) for v in chunk] for chunk in values]
    if data_type == pa.float64():
        chunks = [[ODD_FLOATS.get(v, v) for v in chunk] for chunk in chunks]
    bounds, nulls = [], []
    for chunk in chunks:
        present = [v for v in chunk if v is not None and v == v]  # noqa: PLR0124 NaN
        bounds.append((min(present), max(present)) if present else None)
        nulls.append(chunk.count(None))
    schema = pa.schema([pa.field("x", data_type)])
    (conjunct,) = bind_conjuncts([Conjunct(text=text, columns=("x",))], schema)
    nans = [sum(v != v for v in chunk) for chunk in chunks]  # noqa: PLR0124 NaN
    is_counted = counts_nan and data_type == pa.float64()
    statistics = Containers(bounds, data_type, nulls=nulls, nans=nans if is_counted else None)
    statistics._row_counts = np.array([len(chunk) for chunk in chunks])
    for chunk, verdict in zip(chunks, judge(conjunct.tree, statistics), strict=True):
        batch = pa.record_batch([pa.array(chunk, data_type)], schema=schema)
        passes = [answer is True for answer in conjunct.evaluate(batch).to_pylist()]
        assert verdict != NO or not any(passes)
        assert verdict != ALL or all(passes)


def test_signed_zeros_are_not_told_apart():
    for low, high in [(-0.0, 0.0), (0.0, 0.0), (-0.0, -0.0)]:
        assert verdicts("x = 0", pa.float64(), [(low, high)], nulls=[0]) == [SOME]
        for text in ("x < 0", "x <= 0", "x > 0", "x >= 0", "x <= -0.0", "x IN (0.0, 7, 8, 9)"):
            assert verdicts(text, pa.float64(), [(low, high)], nulls=[0]) == [SOME]
            assert verdicts(text, pa.float64(), [(low, high)], nulls=[0], nans=[0]) == [SOME]
    assert math.copysign(1, -0.0) < 0

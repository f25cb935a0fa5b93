"""The referee passes every answer SQL allows, and no other."""

from __future__ import annotations

import pytest

from clickbench.answers import to_rows
from clickbench.engines import make_engine
from clickbench.queries import load_queries
from clickbench.referee import Referee
from tests.clickbench.small_hits import write_hits


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_hits(tmp_path_factory.mktemp("hits"))


@pytest.fixture(scope="module")
def datafusion(files):
    engine = make_engine("datafusion")
    engine.open(files, 2)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def judge(files):
    referee = Referee(files, 2)
    return lambda sql, rows: referee.judge(sql, {"answer": rows})["answer"]


def rows_of(datafusion, sql):
    return to_rows(datafusion.run(sql))


@pytest.mark.parametrize("number", [2, 7, 12, 17, 19, 23, 24, 26, 29, 35, 40])
def test_right_answers_pass_and_changed_ones_do_not(datafusion, judge, number):
    (query,) = load_queries((number,))
    rows = rows_of(datafusion, query.sql)
    assert rows
    assert judge(query.sql, rows) is None
    assert "rows, and" in judge(query.sql, rows[1:])
    for column, value in list(enumerate(rows[-1]))[-6:]:
        wrong = f"{value}x" if isinstance(value, str) and "-" not in value[:5] else None
        wrong = value + 1 if isinstance(value, int) else wrong
        wrong = value * 1.0001 if isinstance(value, float) and value else wrong
        if wrong is not None:
            changed = [*rows[:-1], [*rows[-1][:column], wrong, *rows[-1][column + 1 :]]]
            assert judge(query.sql, changed) is not None, (column, wrong)


TIED = 'SELECT "RegionID" % 7 AS r, "IsRefresh" FROM hits WHERE "IsRefresh" < 2 ORDER BY r LIMIT 3'


def test_any_member_of_a_group_that_the_limit_cuts_will_do(judge):
    for rows in ([[0, 0], [0, 0], [0, 1]], [[0, 1], [0, 1], [0, 1]]):
        assert judge(TIED, rows) is None
    assert "cannot be there" in judge(TIED, [[0, 0], [0, 0], [1, 0]])
    assert "cannot be there" in judge(TIED, [[0, 0], [0, 0], [0, 2]])


def test_a_row_more_often_than_there_is(datafusion, judge):
    sql = 'SELECT "RegionID", COUNT(*) AS c FROM hits GROUP BY "RegionID" LIMIT 2'
    rows = rows_of(datafusion, sql)
    assert judge(sql, rows) is None
    assert "too often" in judge(sql, [rows[0], rows[0]])


def test_rows_inside_the_limit_are_compared_exactly(datafusion, judge):
    sql = 'SELECT "AdvEngineID", COUNT(*) AS c FROM hits GROUP BY "AdvEngineID" ORDER BY c LIMIT 5'
    rows = rows_of(datafusion, sql)
    assert judge(sql, rows) is None
    assert judge(sql, rows[::-1]) is not None, "the order counts"


def test_a_hidden_sort_key_is_checked(datafusion, judge):
    sql = 'SELECT "URL" FROM hits WHERE "EventTime" > 1372700000 ORDER BY "EventTime" LIMIT 10'
    rows = rows_of(datafusion, sql)
    assert judge(sql, rows) is None
    other = next(row for row in reversed(rows) if row != rows[0])
    swapped = [other if row == rows[0] else rows[0] if row == other else row for row in rows]
    assert judge(sql, swapped) is not None


def test_an_offset_cuts_a_group_too(datafusion, judge):
    sql = 'SELECT "RegionID", "IsRefresh" FROM hits ORDER BY "IsRefresh" DESC LIMIT 5 OFFSET 2'
    rows = rows_of(datafusion, sql)
    assert judge(sql, rows) is None
    assert judge(sql, [*rows[:-1], [rows[-1][0], 0]]) is not None


def test_limit_without_order_takes_any_rows_there_are(datafusion, judge):
    (query,) = load_queries((17,))
    unlimited = rows_of(datafusion, query.sql.replace(" LIMIT 10", ""))
    assert judge(query.sql, unlimited[-10:]) is None
    assert judge(query.sql, [*unlimited[:9], [*unlimited[9][:2], unlimited[9][2] + 1]]) is not None
    assert "too often" in judge(query.sql, [unlimited[0]] * 10)


def test_last_digits_of_floats_do_not_count(datafusion, judge):
    (query,) = load_queries((3,))
    ((mean,),) = rows_of(datafusion, query.sql)
    assert judge(query.sql, [[mean * (1 + 1e-12)]]) is None
    assert judge(query.sql, [[mean * (1 + 1e-6)]]) is not None
    assert judge(query.sql, [[None]]) is not None


def test_an_answer_with_other_columns_is_wrong(judge):
    (query,) = load_queries((0,))
    assert judge(query.sql, [[4000]]) is None
    assert "columns" in judge(query.sql, [[4000, 1]])
    assert judge(query.sql, [["4000"]]) is not None


def test_an_empty_answer(judge):
    sql = 'SELECT "URL", COUNT(*) AS c FROM hits WHERE "URL" = \'?\' GROUP BY "URL" ORDER BY c'
    assert judge(sql, []) is None
    assert judge(sql, [["?", 1]]) is not None

"""All engines answer all queries alike."""

from __future__ import annotations

import polars as pl
import pytest

from clickbench.answers import to_rows
from clickbench.contender import Contender, ContenderError
from clickbench.dialects import translate
from clickbench.engines import EngineError, make_engine, parse_engines
from clickbench.queries import QueryChoiceError, load_queries, parse_choice
from clickbench.referee import Referee
from tests.clickbench.small_hits import write_hits

# Small files have no group of 100,000 rows: without this, two queries would have no answer.
QUERIES = [
    (query.name, query.sql.replace("> 100000", "> 10").replace("OFFSET 1000", "OFFSET 10"))
    for query in load_queries(tuple(range(43)))
]


@pytest.mark.parametrize(("file_count", "every"), [(1, 1), (3, 6)])
def test_all_engines_of_this_process_agree(tmp_path, file_count, every):
    files = write_hits(tmp_path, files=file_count)
    words = ["datafusion", "datafusion-pushdown", "lm", "lm:late", "lm:dataset", "duckdb", "polars"]
    engines = {word: make_engine(word) for word in words}
    for engine in engines.values():
        engine.open(files, pl.thread_pool_size())
    referee = Referee(files, 2)
    for name, sql in QUERIES[::every]:
        answers = {word: to_rows(engine.run(sql)) for word, engine in engines.items()}
        faults = referee.judge(sql, answers)
        assert faults == dict.fromkeys(words), name
        assert answers["duckdb"], name
    for engine in engines.values():
        engine.close()


def test_spark_agrees(tmp_path):
    pytest.importorskip("pyspark", reason="needs the extra `spark`")
    files = write_hits(tmp_path, rows=2000)
    spark = Contender("spark", files, 2, cap_s=None, log=str(tmp_path / "log"))
    referee = Referee(files, 2)
    try:
        for name, sql in QUERIES:
            if name in ("q02", "q06", "q18", "q23", "q28", "q42"):
                reply = spark.run(sql)
                assert reply["rows"], name
                assert referee.judge(sql, {"spark": reply["rows"]}) == {"spark": None}, name
        assert reply["peak_bytes"] > 200 << 20, "the JVM's memory counts"
        assert reply["cpu_s"] > 0
    finally:
        spark.close()


def test_late_reports_are_those_of_the_query_that_ran(tmp_path):
    engine = make_engine("lm:late")
    engine.open(write_hits(tmp_path, files=1), 2)
    needle = 'SELECT "URL" FROM hits WHERE "EventTime" = 1'
    engine.run(needle)
    pruned = engine.pruned(needle)
    assert pruned["reader"] == "late"
    assert pruned["row_groups_pruned_statistics"] == pruned["row_groups_total"] == 8
    engine.run("SELECT COUNT(*) FROM hits")
    assert engine.pruned("SELECT COUNT(*) FROM hits")["reader"] == "native"


@pytest.mark.parametrize(
    ("sql", "reader"),
    [
        ('SELECT SUM("AdvEngineID") FROM hits', "native"),
        ('SELECT * FROM hits WHERE "URL" LIKE \'%n%\' ORDER BY "EventTime" LIMIT 3', "late"),
    ],
)
def test_where_datafusion_reads_for_us_the_counts_are_its_own(tmp_path, sql, reader):
    engine = make_engine("lm" if reader == "native" else f"lm:{reader}")
    engine.open(write_hits(tmp_path, files=1), 2)
    engine.run(sql)
    pruned = engine.pruned(sql)
    assert pruned["reader"] == reader
    assert pruned["row_groups_total"] == 8
    assert pruned["bytes_scanned"] > 0


def test_what_datafusion_pruned(tmp_path):
    engine = make_engine("datafusion-pushdown")
    engine.open(write_hits(tmp_path, files=1), 2)
    sql = 'SELECT COUNT(*) FROM hits WHERE "EventTime" > 1375000000 AND "URL" LIKE \'%google1%\''
    pruned = engine.pruned(sql)
    assert pruned["reader"] == "native_pushdown"
    assert pruned["row_groups_total"] == 8
    assert pruned["row_groups_pruned_statistics"] == 7
    assert pruned["pushdown_rows_pruned"] > 100
    assert pruned["bytes_scanned"] > 0


def test_words_for_engines():
    assert parse_engines("datafusion, lm:late") == ("datafusion", "lm:late")
    for text in ("", "oracle", "duckdb:late", "lm:", "lm,lm"):
        with pytest.raises(EngineError):
            parse_engines(text)
    with pytest.raises(EngineError, match="no path"):
        make_engine("lm:early")


def test_words_for_queries():
    assert parse_choice("20-22, 5,q42") == (5, 20, 21, 22, 42)
    for text in ("", "43", "5-3", "x", "1--2"):
        with pytest.raises(QueryChoiceError):
            parse_choice(text)


def test_a_function_an_engine_lacks_keeps_its_name():
    assert "nobody_has_this" in translate("SELECT nobody_has_this(a) FROM t", "duckdb").lower()


def test_an_engine_that_fails_says_so_and_goes_on(tmp_path):
    files = write_hits(tmp_path, rows=100, files=1)
    contender = Contender("duckdb", files, 1, cap_s=None, log=str(tmp_path / "log"))
    try:
        with pytest.raises(ContenderError, match="nothing_like_that"):
            contender.run("SELECT nothing_like_that FROM hits")
        assert contender.run("SELECT COUNT(*) FROM hits")["rows"] == [[100]]
        contender.reopen()
        assert contender.run("SELECT COUNT(*) FROM hits")["rows"] == [[100]]
    finally:
        contender.close()


def test_a_process_that_died_is_noted_and_started_again(tmp_path):
    files = write_hits(tmp_path, rows=100, files=1)
    contender = Contender("duckdb", files, 1, cap_s=None, log=str(tmp_path / "log"))
    try:
        contender.run("SELECT COUNT(*) FROM hits")
        contender._process.kill()
        contender._process.join()
        with pytest.raises(ContenderError, match="the process of duckdb died"):
            contender.run("SELECT COUNT(*) FROM hits")
        assert contender.run("SELECT COUNT(*) FROM hits")["rows"] == [[100]]
    finally:
        contender.close()

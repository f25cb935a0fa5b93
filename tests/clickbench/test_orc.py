"""ClickBench on ORC: the layout, and engines that read it."""

from __future__ import annotations

import polars as pl
import pytest
from pyarrow import orc

from clickbench.answers import to_rows
from clickbench.contender import Contender
from clickbench.engines import EngineError, make_engine
from clickbench.layout import write_file
from clickbench.machine import DataError, find_files, machine_facts
from clickbench.model.hits import generate_blocks
from clickbench.model.plan import make_plan
from clickbench.orc_layout import ORC_SCHEMA
from clickbench.referee import Referee
from lm_datafusion.formats.cache import FactsCache
from lm_datafusion.storage import LocalStorage
from tests.clickbench.small_hits import write_hits, write_orc_hits
from tests.clickbench.test_run_engines import QUERIES

ROWS = 100_000


def test_the_layout(tmp_path, hits):
    path = tmp_path / "hits_000.orc"
    plan = make_plan(ROWS)
    write_file(generate_blocks(plan, 0, plan.blocks), str(path), "orc")
    file = orc.ORCFile(path)
    assert file.schema.names == ORC_SCHEMA.names
    assert file.schema.types == ORC_SCHEMA.types
    assert file.compression == "ZSTD"
    assert file.read().equals(hits.cast(file.schema))
    storage = LocalStorage()
    with storage.open(storage.load_version(str(path))) as opened:
        profile = FactsCache().load(opened, limit_bytes=1 << 30).load_profile(opened)
    with_filters = {column.name for column in profile.columns if column.bloom_filter_count}
    assert with_filters == {"UserID", "URLHash", "RefererHash"}
    groups = [-(-rows // 10_000) for rows in profile.row_counts]
    assert all([chunk.pages for chunk in c.chunks] == groups for c in profile.columns)
    assert machine_facts((str(path),))["rows"] == ROWS


def test_engines_of_this_process_agree(tmp_path):
    files = write_orc_hits(tmp_path)
    assert find_files(str(tmp_path)) == files
    words = ["lm", "lm:late", "lm:dataset", "pyarrow", "duckdb"]
    engines = {word: make_engine(word) for word in words}
    for engine in engines.values():
        engine.open(files, pl.thread_pool_size())
    # The judge reads the same rows as Parquet.
    (tmp_path / "parquet").mkdir()
    referee = Referee(write_hits(tmp_path / "parquet"), 2)
    for name, sql in QUERIES:
        answers = {word: to_rows(engine.run(sql)) for word, engine in engines.items()}
        assert referee.judge(sql, answers) == dict.fromkeys(words), name
    assert engines["lm"].pruned(QUERIES[0][1]) is not None
    for engine in engines.values():
        engine.close()


def test_spark_agrees(tmp_path):
    pytest.importorskip("pyspark", reason="needs the extra `spark`")
    files = write_orc_hits(tmp_path, rows=2000)
    spark = Contender("spark", files, 2, cap_s=None, log=str(tmp_path / "log"))
    referee = Referee(files, 2)
    try:
        for name, sql in QUERIES:
            if name in ("q02", "q06", "q23", "q42"):
                reply = spark.run(sql)
                assert reply["rows"], name
                assert referee.judge(sql, {"spark": reply["rows"]}) == {"spark": None}, name
    finally:
        spark.close()


def test_engines_that_do_not_read_orc_say_so(tmp_path):
    files = write_orc_hits(tmp_path, rows=100)
    for word in ("datafusion", "polars"):
        with pytest.raises(EngineError, match="does not read ORC"):
            make_engine(word).open(files, pl.thread_pool_size())


def test_a_folder_of_both_formats(tmp_path):
    write_orc_hits(tmp_path, rows=100, files=1)
    write_hits(tmp_path, rows=100, files=1)
    with pytest.raises(DataError, match="both Parquet and ORC"):
        find_files(str(tmp_path))

"""Every public method of a session and of a frame gives in ours what it gives in DataFusion's."""

from __future__ import annotations

import asyncio
import inspect

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import col, lit, udf
from datafusion.common import DFSchema

import lm_datafusion as lm
from lm_datafusion.engine.frame import LateDataFrame
from tests.side_by_side import PATHS, outcome, two_sessions


def constant(name, value):
    """A function of one integer that has one value."""
    return udf(
        lambda given: pa.array([value] * len(given), pa.int64()),
        [pa.int64()],
        pa.int64(),
        "immutable",
        name,
    )


def _public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


def test_every_method_has_datafusions_parameters():
    """Ours may take more, after DataFusion's own."""
    for theirs, ours in [
        (datafusion.SessionContext, lm.SessionContext),
        (datafusion.DataFrame, LateDataFrame),
    ]:
        for name in _public(theirs):
            method = inspect.getattr_static(theirs, name)
            if not callable(method):
                continue
            wanted = inspect.signature(getattr(theirs, name)).parameters
            found = inspect.signature(getattr(ours, name)).parameters
            if any(p.kind is p.VAR_POSITIONAL for p in found.values()):
                continue
            assert list(found)[: len(wanted)] == list(wanted) or set(wanted) <= set(found), name


# Methods that a step below does not call, and why.
NOT_CALLED = {
    "session_id": "a random text",
    "session_start_time": "a time",
    "register_object_store": "needs a store",
    "deregister_object_store": "needs a store",
    "add_physical_optimizer_rule": "needs a compiled rule",
    "set_query_planner": "needs a compiled planner",
    "with_extensions": "needs a compiled extension",
    "with_logical_extension_codec": "needs a compiled codec",
    "with_physical_extension_codec": "needs a compiled codec",
    "with_python_udf_inlining": "tested above",
    "enable_spark_functions": "tested above",
    "enable_url_table": "tested above",
    "global_ctx": "tested above",
    "register_udtf": "tested above",
    "register_udwf": "tested above",
    "register_udaf": "tested above",
    "deregister_udaf": "as deregister_udf",
    "deregister_udtf": "as deregister_udf",
    "deregister_udwf": "as deregister_udf",
    "register_avro": "needs an Avro file",
    "read_avro": "needs an Avro file",
    "register_arrow": "needs an Arrow file",
    "read_arrow": "needs an Arrow file",
    "register_catalog_provider": "tested with bindings",
    "register_catalog_provider_list": "as register_catalog_provider",
    "register_table_factory": "needs a factory",
    "copied_config": "has nothing to compare",
    "udaf": "as udf",
    "udwf": "as udf",
    "register_listing_table": "in the steps below",
}
FIRST = "SELECT id, x FROM a WHERE x > 5"


def _execute(session):
    plan = session.sql(FIRST).execution_plan()
    batches = [
        batch.to_pyarrow()
        for n in range(plan.partition_count)
        for batch in session.execute(plan, n)
    ]
    return pa.Table.from_batches(batches)


SESSION_STEPS = {
    "catalog": lambda s, _: sorted(s.catalog().schema().names()),
    "catalog_names": lambda s, _: sorted(s.catalog_names()),
    "create_dataframe": lambda s, _: s.create_dataframe(
        [[pa.record_batch({"n": [1, 2]})]], name="n"
    ),
    "create_dataframe_from_logical_plan": lambda s, _: s.create_dataframe_from_logical_plan(
        s.sql(FIRST).logical_plan()
    ),
    "deregister_table": lambda s, _: s.deregister_table("c"),
    "deregister_udf": lambda s, _: s.deregister_udf("nothing"),
    "empty_table": lambda s, _: s.empty_table(),
    "enable_ident_normalization": lambda s, _: s.enable_ident_normalization(),
    "execute": lambda s, _: _execute(s),
    "execute_logical_plan": lambda s, _: s.execute_logical_plan(s.sql(FIRST).logical_plan()),
    "from_arrow": lambda s, _: s.from_arrow(pa.table({"n": [1, 2]}), name="n1"),
    "from_pandas": lambda s, _: s.from_pandas(pa.table({"n": [1, 2]}).to_pandas(), name="n2"),
    "from_polars": lambda s, _: s.from_polars(_polars(), name="n3"),
    "from_pydict": lambda s, _: s.from_pydict({"n": [1]}, name="n4"),
    "from_pylist": lambda s, _: s.from_pylist([{"n": 1}], name="n5"),
    "logical_extension_codec_ids": lambda s, _: s.logical_extension_codec_ids(),
    "physical_extension_codec_ids": lambda s, _: s.physical_extension_codec_ids(),
    "parse_capacity_limit": lambda s, _: s.parse_capacity_limit("x", "1M"),
    "parse_sql_expr": lambda s, _: str(s.parse_sql_expr("1 + 2", DFSchema.empty())),
    "read_batch": lambda s, _: s.read_batch(pa.record_batch({"n": [1]})),
    "read_batches": lambda s, _: s.read_batches([pa.record_batch({"n": [1]})]),
    "read_csv": lambda s, f: s.read_csv(_csv(f)),
    "read_json": lambda s, f: s.read_json(_json(f)),
    "read_empty": lambda s, _: s.read_empty(),
    "read_parquet": lambda s, f: s.read_parquet(str(f / "b.parquet")).filter(col("x") > lit(5.0)),
    "read_table": lambda s, _: s.read_table(s.table_provider("a")).filter(col("x") > lit(5.0)),
    "refresh_catalogs": lambda s, _: s.refresh_catalogs(),
    "register_batch": lambda s, _: s.register_batch("r1", pa.record_batch({"n": [1]})),
    "register_csv": lambda s, f: (s.register_csv("r2", _csv(f)), s.table("r2"))[1],
    "register_dataset": lambda s, f: (
        s.register_dataset("r3", pa.dataset.dataset(f / "b.parquet")),
        s.sql("SELECT id, x FROM r3 WHERE x > 5"),
    )[1],
    "register_json": lambda s, f: (s.register_json("r4", _json(f)), s.table("r4"))[1],
    "register_listing_table": lambda s, f: (
        s.register_listing_table("r5", str(f / "b.parquet")),
        s.sql("SELECT id, x FROM r5 WHERE x > 5"),
    )[1],
    "register_parquet": lambda s, f: (
        s.register_parquet("r6", str(f / "b.parquet"), [], True),
        s.sql("SELECT id, x FROM r6 WHERE x > 5"),
    )[1],
    "register_record_batches": lambda s, _: (
        s.register_record_batches("r7", [[pa.record_batch({"n": [1]})]]),
        s.table("r7"),
    )[1],
    "register_table": lambda s, _: (
        s.register_table("r8", s.table_provider("a")),
        s.sql("SELECT id, x FROM r8 WHERE x > 5"),
    )[1],
    "register_table_provider": lambda s, _: (
        s.register_table_provider("r9", s.table_provider("a")),
        s.sql("SELECT id, x FROM r9 WHERE x > 5"),
    )[1],
    "register_udf": lambda s, _: s.register_udf(constant("one", 1)),
    "register_view": lambda s, _: (
        s.register_view("r10", s.table("a").filter(col("x") > lit(5.0))),
        s.sql("SELECT id, x FROM r10 WHERE id > 5"),
    )[1],
    "remove_optimizer_rule": lambda s, _: s.remove_optimizer_rule("push_down_filter"),
    "sql": lambda s, _: s.sql(FIRST),
    "sql_with_options": lambda s, _: s.sql_with_options(FIRST, datafusion.SQLOptions()),
    "table": lambda s, _: s.table("a").filter(col("x") > lit(5.0)),
    "table_exist": lambda s, _: (s.table_exist("a"), s.table_exist("zzz")),
    "table_provider": lambda s, _: s.table_provider("a").kind,
    "udf": lambda s, _: s.udf("abs").name,
    "udafs": lambda s, _: sorted(s.udafs()),
    "udfs": lambda s, _: sorted(s.udfs()),
    "udwfs": lambda s, _: sorted(s.udwfs()),
}


def _polars():
    import polars as pl

    return pl.DataFrame({"n": [1, 2]})


def _csv(folder):
    (folder / "one.csv").write_text("n,s\n1,x\n")
    return str(folder / "one.csv")


def _json(folder):
    (folder / "one.json").write_text('{"n": 1, "s": "x"}\n')
    return str(folder / "one.json")


def test_every_method_of_a_session_is_tried_or_named():
    assert _public(datafusion.SessionContext) <= _public(lm.SessionContext)
    assert _public(datafusion.SessionContext) <= set(SESSION_STEPS) | set(NOT_CALLED)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of DataFusion, about its own
@pytest.mark.parametrize("path", PATHS)
def test_every_method_of_a_session_gives_what_datafusion_gives(path):
    with two_sessions(path) as (plain, ours):
        for name, step in SESSION_STEPS.items():
            expected = outcome(step, *plain)
            assert not isinstance(expected, tuple), (name, expected)
            assert outcome(step, *ours) == expected, name


def _streamed(frame):
    return pa.Table.from_batches([batch.to_pyarrow() for batch in frame.execute_stream()])


def _streams(frame):
    streams = frame.execute_stream_partitioned()
    return pa.Table.from_batches([b.to_pyarrow() for stream in streams for b in stream])


def _asynchronously(frame):
    async def read():
        return [batch.to_pyarrow() async for batch in frame]

    return pa.Table.from_batches(asyncio.run(read()))


def _written(write, pattern, *, has_header=False):
    def step(session, folder, frame):
        write(session, folder, frame)
        return sorted(
            line
            for path in folder.glob(pattern)
            for line in path.read_text().splitlines()[has_header:]
        )

    return step


def _parquet(frame, folder, method, *arguments):
    target = folder / method
    getattr(frame, method)(str(target), *arguments)
    return pq.read_table(target)


def _table_written(session, frame):
    session.sql("CREATE TABLE target (id BIGINT, grp INT, name VARCHAR, x DOUBLE)")
    frame.write_table("target")
    return session.table("target")


def _shown_text(frame, capsys):
    frame.show()
    return capsys.readouterr().out


F = datafusion.functions
# What follows is called on a frame of one row group's rows in a total order, so that texts of
# it are the same too.
FRAME_STEPS = {
    "aggregate": lambda s, f, d: d.aggregate([col("grp")], [F.sum(col("id")), F.max(col("name"))]),
    "alias": lambda s, f, d: d.alias("z").select(col("z.id")),
    "cache": lambda s, f, d: d.cache(),
    "cast": lambda s, f, d: d.cast({"id": pa.int32()}),
    "col": lambda s, f, d: str(d.col("id")),
    "column": lambda s, f, d: str(d.column("id")),
    "collect": lambda s, f, d: pa.Table.from_batches(d.collect()),
    "collect_column": lambda s, f, d: sorted(map(repr, d.collect_column("id").to_pylist())),
    "collect_partitioned": lambda s, f, d: pa.Table.from_batches(
        [batch for part in d.collect_partitioned() for batch in part]
    ),
    "count": lambda s, f, d: d.count(),
    "default_str_repr": lambda s, f, d: d.default_str_repr(
        [pa.record_batch({"n": [1]})], pa.schema([("n", pa.int64())]), False, "id"
    ),
    "describe": lambda s, f, d: d.describe(),
    "distinct": lambda s, f, d: d.distinct(),
    "distinct_on": lambda s, f, d: d.distinct_on(
        [col("grp")], [col("grp")], [col("grp").sort(), col("x").sort()]
    ),
    "drop": lambda s, f, d: d.drop("id"),
    "except_all": lambda s, f, d: d.except_all(d.filter(col("id") > lit(20))),
    "execute_stream": lambda s, f, d: _streamed(d),
    "execute_stream_partitioned": lambda s, f, d: _streams(d),
    "execution_plan": lambda s, f, d: d.execution_plan().partition_count > 0,
    "fill_nan": lambda s, f, d: d.fill_nan(0.0),
    "fill_null": lambda s, f, d: d.fill_null(0),
    "filter": lambda s, f, d: d.filter(col("id") > lit(20), col("name") == lit("ann")),
    "find_qualified_columns": lambda s, f, d: list(map(str, d.find_qualified_columns("id"))),
    "head": lambda s, f, d: d.sort(col("x"), col("id")).head(3),
    "intersect": lambda s, f, d: d.intersect(s.table("a").select("id", "grp", "name", "x")),
    "into_view": lambda s, f, d: (
        s.register_table("seen", d.into_view()),
        s.sql("SELECT id FROM seen WHERE id > 9"),
    )[1],
    "join": lambda s, f, d: d.join(s.table("b").select("id", '"Day"'), on="id"),
    "join_on": lambda s, f, d: d.join_on(s.table("m").alias("m2"), col("grp") < col("m2.id")),
    "limit": lambda s, f, d: d.sort(col("x"), col("id")).limit(3, 1),
    "logical_plan": lambda s, f, d: d.logical_plan().display_indent_schema(),
    "optimized_logical_plan": lambda s, f, d: d.optimized_logical_plan().display_indent_schema(),
    "parse_sql_expr": lambda s, f, d: str(d.parse_sql_expr("id + 1")),
    "repartition": lambda s, f, d: d.repartition(3),
    "repartition_by_hash": lambda s, f, d: d.repartition_by_hash(col("id"), num=3),
    "schema": lambda s, f, d: [(x.name, str(x.type), x.nullable) for x in d.schema()],
    "select": lambda s, f, d: d.select("id", (col("x") * lit(2)).alias("y")),
    "select_exprs": lambda s, f, d: d.select_exprs("id + 1 AS k", "upper(name)").schema().names,
    "sort": lambda s, f, d: d.sort(col("x").sort(ascending=False), "id").to_pydict(),
    "sort_by": lambda s, f, d: d.sort_by(col("x"), col("id")).to_pydict(),
    "tail": lambda s, f, d: d.sort(col("x"), col("id")).tail(3),
    "to_arrow_table": lambda s, f, d: d.to_arrow_table(),
    "to_pandas": lambda s, f, d: pa.Table.from_pandas(d.to_pandas()),
    "to_polars": lambda s, f, d: d.to_polars().to_arrow(),
    "to_pydict": lambda s, f, d: pa.table(d.to_pydict()),
    "to_pylist": lambda s, f, d: pa.Table.from_pylist(d.to_pylist()),
    "transform": lambda s, f, d: d.transform(lambda g, n: g.filter(col("id") > lit(n)), 20),
    "union": lambda s, f, d: d.union(d.filter(col("id") > lit(20))),
    "union_by_name": lambda s, f, d: d.union_by_name(d.select("id")),
    "union_distinct": lambda s, f, d: d.union_distinct(d),
    "unnest_columns": lambda s, f, d: d.select(
        F.make_array(col("id"), col("grp")).alias("l")
    ).unnest_columns("l"),
    "window": lambda s, f, d: d.window(
        F.rank(order_by=[col("x")], partition_by=[col("grp")]).alias("r")
    ),
    "with_column": lambda s, f, d: d.with_column("y", col("x") + lit(1.0)),
    "with_column_renamed": lambda s, f, d: d.with_column_renamed("x", "y"),
    "with_columns": lambda s, f, d: d.with_columns((col("x") + lit(1.0)).alias("y")),
    # One file per partition, and how many there are is up to the reader.
    "write_csv": _written(
        lambda s, f, d: d.write_csv(f / "out_csv", with_header=True), "out_csv/*", has_header=True
    ),
    "write_json": _written(lambda s, f, d: d.write_json(f / "out_json"), "out_json/*"),
    "write_parquet": lambda s, f, d: _parquet(d, f, "write_parquet"),
    "write_parquet_with_options": lambda s, f, d: _parquet(
        d, f, "write_parquet_with_options", datafusion.ParquetWriterOptions()
    ),
    "write_table": lambda s, f, d: _table_written(s, d),
    "[]": lambda s, f, d: d["id", "x"],
    "iter": lambda s, f, d: pa.Table.from_batches([batch.to_pyarrow() for batch in d]),
    "aiter": lambda s, f, d: _asynchronously(d),
    "arrow_c_stream": lambda s, f, d: pa.table(d),
    "with plain frames": lambda s, f, d: (
        datafusion.DataFrame(s.table("a").df).select("id", "grp", "name", "x").intersect(d)
    ),
    "with a plain frame": lambda s, f, d: d.union(datafusion.DataFrame(d.df)),
}
PRINTED = {
    "show": lambda d: d.show(),
    "explain": lambda d: d.explain(),
    "repr": lambda d: print(repr(d)),  # noqa: T201 what is compared
    "html": lambda d: print("<table" in d._repr_html_()),  # noqa: T201
}
FRAMES = {
    "from_sql": lambda s: s.sql("SELECT id, grp, name, x FROM a WHERE x > 4 AND grp < 4"),
    "from_methods": lambda s: (
        s.table("a")
        .filter(col("x") > lit(4.0), col("grp") < lit(4))
        .select("id", "grp", "name", "x")
    ),
    "from_a_view": lambda s: (
        s.sql("CREATE OR REPLACE VIEW v AS SELECT id, grp, name, x FROM a WHERE x > 4"),
        s.table("v").filter(col("grp") < lit(4)),
    )[1],
}


def test_every_method_of_a_frame_is_tried():
    assert _public(datafusion.DataFrame) <= set(FRAME_STEPS) | set(PRINTED)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of DataFusion, about its own
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("source", FRAMES)
def test_every_method_of_a_frame_gives_what_datafusion_gives(source, path):
    made = FRAMES[source]
    with two_sessions(path) as (plain, ours):
        for name, call in FRAME_STEPS.items():

            def step(session, folder, call=call):
                return call(session, folder, made(session))

            expected = outcome(step, *plain)
            assert not isinstance(expected, tuple), (name, expected)
            assert outcome(step, *ours) == expected, name


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("printed", PRINTED)
def test_frames_print_the_same(printed, path, capfd, tmp_path):
    with two_sessions(path) as (plain, ours):
        texts = []
        for session, _ in (plain, ours):
            frame = session.sql("SELECT id, x FROM a WHERE x > 8 ORDER BY x, id")
            PRINTED[printed](frame)
            texts.append(capfd.readouterr().out)
    assert texts[0].strip()
    if printed == "explain":
        texts = [text.split("physical_plan")[0] for text in texts]
    assert texts[1] == texts[0]

from __future__ import annotations

import contextlib
import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

import lm_datafusion as lm
from lm_datafusion.formats.parquet import decode
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.options import ScanOptions
from lm_datafusion.plan import ScanRequest
from lm_datafusion.scan import plan_scan
from lm_datafusion.scan.bundle import _Profile, plan_bundles, split_bundle
from lm_datafusion.scan.planner import load_facts
from lm_datafusion.scan.row_fetch import plan_row_fetch
from lm_datafusion.sql import parse_condition

ROWS = 12_000
ROW_GROUPS = 24
GROUP_ROWS = ROWS // ROW_GROUPS


def make_table():
    rng = np.random.default_rng(11)
    place = np.arange(ROWS)
    group = place // GROUP_ROWS
    kinds = rng.integers(0, 9, ROWS)
    # Every row group has a dictionary of its own; one word is in all of them.
    words = [f"{g}-{v}" if v else "common" for g, v in np.stack([group, kinds], 1)]
    names = [None if v == 0 else f"name {v % 40}" for v in rng.integers(0, 200, ROWS)]
    return pa.table(
        {
            "id": place,
            "a": pa.array(rng.integers(0, 1000, ROWS), mask=rng.random(ROWS) < 0.1),
            "word": words,
            "name": names,
            "far": np.where(
                np.isin(group, [3, 4, 17]) & (place % 2 == 0), 500, 400 + place % 7 * 40
            ),
            "list": [[int(v)] * (v % 4) for v in rng.integers(0, 50, ROWS)],
            "pair": [
                {"x": int(v), "y": None if v % 5 else str(v)} for v in rng.integers(0, 99, ROWS)
            ],
            "wide": [f"{v:08d}" * 4 for v in rng.integers(0, 10**8, ROWS)],
        }
    )


TABLE = make_table()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("bundle") / "t.parquet")
    pq.write_table(
        TABLE,
        path,
        row_group_size=GROUP_ROWS,
        max_rows_per_page=100,
        write_page_index=True,
        use_dictionary=["word", "name"],
    )
    return path


def scan(path, condition, columns=None, **options):
    options = {"threads": 1, "condition_cache_bytes": 0} | options
    dataset = lm.dataset(path, options=ScanOptions(**options))
    table = dataset.to_table(columns=columns, filter=condition)
    return table, dataset.scan_reports()[-1]


def expected(condition, columns=None):
    context = SessionContext()
    context.register_record_batches("t", [TABLE.to_batches()])
    ids = context.sql(f"SELECT id FROM t WHERE {condition}").to_arrow_table()["id"]
    rows = TABLE.filter(pc.is_in(TABLE["id"], ids.combine_chunks()))
    return rows if columns is None else rows.select(columns)


FLAT = [name for name in TABLE.schema.names if name not in ("list", "pair")]
CONDITIONS = [
    "word = 'common'",
    "word <> 'common' AND name IS NOT NULL",
    "word LIKE '%-3' AND a < 300",
    "name IS NULL",
    "name IS NULL OR word = '5-5'",
    "far = 500",  # in three row groups only, and bounds do not tell
    "a % 97 = 3 AND far % 2 = 1",
    "id BETWEEN 4321 AND 9876 AND name LIKE 'name 1%'",
    "wide LIKE '%77%' AND word = 'common'",
    "id < 0 OR a = -1",
    "a IS NOT NULL",
    "id >= 0",
]


@pytest.mark.parametrize("batch_rows", [7, 1000, 131_072])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_row_groups_that_are_read_as_one_give_their_rows_in_order(path, condition, batch_rows):
    table, report = scan(path, condition, FLAT, batch_rows=batch_rows)
    assert table == expected(condition, FLAT)
    assert report.row_groups_total == ROW_GROUPS
    if len(table):
        assert report.row_groups_bundled > ROW_GROUPS // 3


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_pages_that_are_read_are_the_same(path, condition):
    columns = ["word", "name", "wide"]
    together, report = scan(path, condition, columns, reorder_filters=False)
    apart, alone = scan(path, condition, columns, reorder_filters=False, threads=ROW_GROUPS)
    assert together == apart
    assert not alone.row_groups_bundled
    # Where a step leaves a row group without rows, pages of dictionaries may be spared too.
    assert report.bytes_scanned <= alone.bytes_scanned * 1.01
    assert report.rows_selected == alone.rows_selected
    assert rows_of_steps(report) == rows_of_steps(alone)


def rows_of_steps(report):
    return {(step.predicate, step.rows_in, step.rows_out) for step in report.steps}


def test_of_row_groups_that_a_step_leaves_empty_no_other_column_is_read(path):
    table, report = scan(path, "far = 500", ["wide"])
    assert table == expected("far = 500", ["wide"])
    groups = [pq.read_metadata(path).row_group(place) for place in range(ROW_GROUPS)]
    sizes = {
        (place, chunk.path_in_schema): chunk.total_compressed_size
        for place, group in enumerate(groups)
        for chunk in map(group.column, range(group.num_columns))
    }
    wanted = [size for (place, name), size in sizes.items() if name == "far"]
    wanted += [sizes[place, "wide"] for place in (3, 4, 17)]
    assert report.row_groups_bundled == ROW_GROUPS
    assert report.bytes_scanned == sum(wanted)


@pytest.mark.parametrize(("condition", "count"), [("a < 20", ROW_GROUPS), ("far = 500", 3)])
def test_chunks_that_cannot_be_spliced_are_read_whole(path, monkeypatch, condition, count):
    monkeypatch.setattr(decode, "can_splice", lambda chunk: chunk.path != "wide")
    table, report = scan(path, condition, ["id", "wide"])
    assert table == expected(condition, ["id", "wide"])
    assert report.row_groups_bundled == ROW_GROUPS
    assert report.chunks_fallback == count
    assert report.fallback_columns == ("wide",)


@pytest.mark.parametrize("column", ["list", "pair"])
def test_nested_columns_keep_row_groups_apart(path, column):
    table, report = scan(path, "a < 100", ["id", column])
    assert table == expected("a < 100", ["id", column])
    assert not report.row_groups_bundled


def test_dictionaries_below_a_struct_are_read(tmp_path):
    words = pa.array([f"{row // 100}-{row % 5}" for row in range(1600)]).dictionary_encode()
    pairs = pa.StructArray.from_arrays([words], names=["word"])
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"id": range(1600), "pair": pairs}), path, row_group_size=100)
    table, _ = scan(path, "id % 7 = 1")
    assert table["pair"].to_pylist() == pairs.to_pylist()[1::7]


def test_a_file_is_closed_after_its_last_row_group(tmp_path):
    for name in range(6):
        pq.write_table(TABLE.select(["a"]), tmp_path / f"{name}.parquet", row_group_size=1000)
    options = ScanOptions(threads=1, condition_cache_bytes=0, queue_batches=1)
    dataset = lm.dataset(str(tmp_path), options=options)
    counts = [open_files(tmp_path) for _ in dataset.to_batches(filter="a % 2 = 1")]
    assert dataset.scan_reports()[-1].row_groups_bundled
    assert max(counts) <= 3  # the one that is handed out, and two of which the thread is ahead
    assert open_files(tmp_path) == 0


def open_files(folder):
    links = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/self/fd/{number}"))
    return sum(link.startswith(str(folder)) for link in links)


def test_what_is_evaluated_once_per_value_is_so_for_every_dictionary(path):
    _, report = scan(path, "word = 'common'", ["id"])
    assert report.dictionary_evaluations == ROW_GROUPS


class TestConditionCache:
    def test_every_row_group_is_remembered(self, path):
        lm.clear_condition_cache()
        condition = "a < 400 AND word <> 'common'"
        options = {"condition_cache_bytes": 1 << 20}
        first, report = scan(path, condition, ["wide"], **options)
        assert report.row_groups_bundled
        assert not report.condition_cache_hits
        again, known = scan(path, condition, ["wide"], **options)
        assert first == again == expected(condition, ["wide"])
        assert known.condition_cache_hits == ROW_GROUPS
        assert known.row_groups_bundled >= ROW_GROUPS - 1
        counted, counts = scan(path, condition, [], **options)
        assert counted.num_rows == first.num_rows
        assert not counts.bytes_scanned

    def test_one_part_of_it_serves_another_condition(self, path):
        lm.clear_condition_cache()
        options = {"condition_cache_bytes": 1 << 20}
        scan(path, "far = 500", ["id"], **options)
        condition = "far = 500 AND name LIKE '%7'"
        table, report = scan(path, condition, ["id"], **options)
        assert table == expected(condition, ["id"])
        assert report.row_groups_pruned_condition_cache == ROW_GROUPS - 3

    def test_what_statistics_say_is_not_remembered(self, path):
        lm.clear_condition_cache()
        options = {"condition_cache_bytes": 1 << 20, "reorder_filters": False}
        # The first condition holds in the later row groups as a whole, the second is asked there.
        condition = "id >= 1750 AND a < 500"
        scan(path, condition, ["id"], **options)
        used = lm.condition_cache_bytes()
        lm.clear_condition_cache()
        scan(path, condition, ["id"], threads=ROW_GROUPS, **options)
        assert lm.condition_cache_bytes() == used


def make_plan(path, condition="a < 10", columns=("id",), *, limit=None, reverse=False, **options):
    dataset = lm.dataset(path)
    conjuncts = parse_condition(condition, dataset.schema)
    request = ScanRequest(
        conjuncts=conjuncts, columns=tuple(columns), limit=limit, is_reverse=reverse
    )
    return plan_scan(dataset.table, request, ScanOptions(**options), ScanMetrics())


class TestPlan:
    def test_every_thread_has_several(self, path):
        for threads in (1, 2, 3, 6, 7):
            bundles = plan_bundles(make_plan(path, threads=threads), is_order_known=True)
            assert [place for places in bundles for place in places] == list(range(ROW_GROUPS))
            assert max(map(len, bundles)) == max(1, ROW_GROUPS // (4 * threads))

    def test_the_first_goes_alone_where_an_order_is_to_be_learned(self, path):
        bundles = plan_bundles(make_plan(path, threads=1), is_order_known=False)
        assert bundles[0] == (0,)
        assert bundles[1] == (1, 2, 3, 4, 5, 6)

    def test_where_not_all_rows_are_wanted_row_groups_stay_alone(self, path):
        for plan in (
            make_plan(path, limit=5, threads=1),
            make_plan(path, reverse=True, threads=1),
            plan_row_fetch(make_plan(path, "id >= 0", threads=1), np.arange(0, ROWS, 40)),
        ):
            bundles = plan_bundles(plan, is_order_known=True)
            assert {len(places) for places in bundles} == {1}

    def test_files_are_not_mixed(self, path, tmp_path):
        for name in "abc":
            pq.write_table(TABLE.slice(0, 4000), tmp_path / f"{name}.parquet", row_group_size=400)
        plan = make_plan(str(tmp_path), threads=1)
        for places in plan_bundles(plan, is_order_known=True):
            assert len({plan.tasks[place].file.version for place in places}) == 1
        together, report = scan(str(tmp_path), "a < 100", ["id"])
        assert report.row_groups_bundled
        rows = TABLE.slice(0, 4000)
        assert (
            together["id"].to_pylist() == rows.filter(pc.less(rows["a"], 100))["id"].to_pylist() * 3
        )

    def test_a_window_is_not_exceeded(self, path):
        plan = make_plan(path, columns=["id", "wide"], threads=1, window_bytes=40_000)
        table = lm.dataset(path).table
        facts = load_facts(table.storage, path, plan.options)
        with table.storage.open(facts.version) as file:
            places = tuple(range(6))
            bundles = list(split_bundle(places, plan, facts, file))
        assert [place for bundle in bundles for place in bundle] == list(places)
        # A chunk of `wide` has some 18,000 bytes.
        assert [len(bundle) for bundle in bundles] == [2, 2, 2]

    def test_rows_are_bounded_too(self, tmp_path):
        path = str(tmp_path / "many.parquet")
        pq.write_table(pa.table({"a": np.zeros(1_600_000, np.int8)}), path, row_group_size=100_000)
        bundles = plan_bundles(
            make_plan(path, "a = 1 OR a = 0", ["a"], threads=1, prune_statistics=False),
            is_order_known=True,
        )
        assert [len(places) for places in bundles] == [4, 4, 4, 4]
        path = str(tmp_path / "large.parquet")
        pq.write_table(pa.table({"a": np.zeros(4_800_000, np.int8)}), path, row_group_size=400_000)
        bundles = plan_bundles(
            make_plan(path, "a = 1 OR a = 0", ["a"], threads=1, prune_statistics=False),
            is_order_known=True,
        )
        assert {len(places) for places in bundles} == {2}

    def test_text_that_is_codes_in_one_of_two_row_groups_keeps_them_apart(self):
        codes = _Profile(sizes=(10,), is_codes=(True,), is_size_known=True)
        plain = _Profile(sizes=(10,), is_codes=(False,), is_size_known=True)
        assert codes.can_join(codes, 20)
        assert plain.can_join(plain, 20)
        assert not codes.can_join(plain, 20)
        assert not codes.can_join(codes, 19)

    def test_text_of_an_unknown_size_goes_alone(self, tmp_path):
        path = str(tmp_path / "t.parquet")
        schema = pa.schema({"word": pa.string()})
        small = {"dictionary_pagesize_limit": 2000, "write_batch_size": 50}
        with pq.ParquetWriter(path, schema, **small) as writer:
            for group in range(12):
                # Every third dictionary is too large, and its chunk goes on with plain pages.
                kinds = 3 if group % 3 else 400
                writer.write_table(pa.table({"word": [f"{v % kinds:030d}" for v in range(800)]}))
        plan = make_plan(path, "word <> ''", ["word"], threads=1)
        table = lm.dataset(path).table
        facts = load_facts(table.storage, path, plan.options)
        with table.storage.open(facts.version) as file:
            bundles = list(split_bundle(tuple(range(12)), plan, facts, file))
        assert [len(bundle) for bundle in bundles] == [1, 2] * 4
        found, _ = scan(path, "word <> '000000000000000000000000000001'")
        values = pq.read_table(path)
        kept = pc.not_equal(values["word"], "000000000000000000000000000001")
        assert found["word"].to_pylist() == values.filter(kept)["word"].to_pylist()


def test_views_and_dictionaries_come_out_as_asked(path):
    table, report = scan(path, "a < 500", ["word", "name"], string_type="string_view")
    assert report.row_groups_bundled
    assert table.schema.field("word").type == pa.string_view()
    assert table.cast(pa.schema({"word": pa.string(), "name": pa.string()})) == expected(
        "a < 500", ["word", "name"]
    )
    schema = pa.schema({"id": pa.int64(), "word": pa.dictionary(pa.int32(), pa.string())})
    dataset = lm.dataset(path, schema=schema, options=ScanOptions(threads=1))
    found = dataset.to_table(filter="word <> 'common'")
    assert found["word"].to_pylist() == expected("word <> 'common'")["word"].to_pylist()
    assert dataset.scan_reports()[-1].row_groups_bundled

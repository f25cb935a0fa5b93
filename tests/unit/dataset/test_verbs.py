from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import ColumnNotFoundError, OptionError
from lm_datafusion.predicate.conjunct import bind_conjuncts
from tests.dataset_files import MANY_KINDS_ROWS, same_values, write_many_kinds


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("verbs") / "kinds.parquet"
    write_many_kinds(path)
    return path


@pytest.fixture(scope="module")
def memory(path):
    return pq.read_table(path)


@pytest.fixture
def late(path):
    return lm.dataset(path)


class TestProjection:
    def test_order_of_columns_is_kept(self, late, memory):
        assert same_values(late.to_table(columns=["s", "id"]), memory.select(["s", "id"]))
        assert same_values(late.to_table(["s", "id"]), memory.select(["s", "id"]))

    def test_a_column_may_be_asked_for_twice(self, late, memory):
        found = late.to_table(columns=["id", "s", "id"], filter="id < 3")
        assert found.column_names == ["id", "s", "id"]
        assert found.num_rows == 3

    def test_filter_columns_need_not_be_projected(self, late):
        assert late.to_table(columns=["k"], filter="id = 7").column_names == ["k"]

    def test_no_columns_keep_the_number_of_rows(self, late):
        table = late.to_table(columns=[])
        assert table.num_rows == MANY_KINDS_ROWS
        assert table.num_columns == 0
        assert sum(batch.num_rows for batch in late.to_batches(columns=[])) == MANY_KINDS_ROWS
        assert late.to_table(columns=[], filter="id < 7").num_rows == 7
        assert late.head(5, columns=[]).num_rows == 5
        assert late.take([1, 1, 2], columns=[]).num_rows == 3

    @pytest.mark.parametrize(
        "columns",
        [
            {"double": pc.field("id") * 2, "s": pc.field("s")},
            {"x": pc.field("st", "x"), "upper": pc.utf8_upper(pc.field("s"))},
            {"cast": pc.field("a").cast(pa.float64())},
            {"one": pc.scalar(1)},
            {"id": pc.field("id"), "one": pc.scalar(1)},
            {"n": pc.is_null(pc.field("f"), nan_is_null=True)},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("condition", [None, pc.field("a") > 4, pc.field("id") < 0])
    def test_expressions_as_columns(self, late, path, columns, condition):
        expected = ds.dataset(path).to_table(columns=columns, filter=condition)
        assert same_values(late.to_table(columns=columns, filter=condition), expected)

    def test_schemas_of_a_scanner(self, late, memory):
        scanner = late.scanner(columns=["s", "id"], filter="a > 3")
        assert scanner.dataset_schema.equals(memory.schema)
        assert scanner.projected_schema.equals(memory.select(["s", "id"]).schema)
        scanner = late.scanner(columns={"twice": pc.field("id") * 2})
        assert scanner.projected_schema.equals(pa.schema([("twice", pa.int64())]))

    @pytest.mark.parametrize("columns", [["nothing"], {"x": pc.field("nothing")}])
    def test_unknown_columns(self, late, columns):
        with pytest.raises(ColumnNotFoundError, match="nothing"):
            late.scanner(columns=columns)

    def test_a_bare_name_is_not_a_list(self, late):
        with pytest.raises(OptionError, match=r"\['id'\]"):
            late.to_table(columns="id")


class TestBatches:
    @pytest.mark.parametrize("batch_size", [1, 7, 64, 100_000])
    def test_no_batch_is_larger_than_asked_for(self, late, memory, batch_size):
        batches = list(late.to_batches(columns=["id"], batch_size=batch_size))
        assert max(batch.num_rows for batch in batches) <= batch_size
        assert same_values(pa.Table.from_batches(batches), memory.select(["id"]))

    def test_order_is_that_of_the_file_whatever_the_threads(self, path):
        for threads in (1, 2, 7):
            options = lm.ScanOptions(threads=threads, window_bytes=64, queue_batches=1)
            found = lm.dataset(path, options=options).to_table(["id"], filter="a <> 3")
            assert found["id"].to_pylist() == [
                i for i in range(MANY_KINDS_ROWS) if i % 4 != 3 and i % 10 != 3
            ]

    def test_options_of_pyarrow_are_taken(self, late, memory):
        found = late.to_table(
            use_threads=False,
            batch_readahead=3,
            fragment_readahead=2,
            fragment_scan_options=None,
            cache_metadata=True,
            memory_pool=pa.default_memory_pool(),
        )
        assert same_values(found, memory)

    def test_a_scanner_runs_more_than_once(self, late):
        scanner = late.scanner(columns=["id"], filter="id < 10")
        assert scanner.report is None
        assert scanner.to_table().equals(scanner.to_table())
        assert scanner.count_rows() == 10
        assert scanner.head(2)["id"].to_pylist() == [0, 1]
        assert scanner.report.rows_selected >= 2
        scanner.count_rows()
        assert scanner.report.rows_selected == 10

    def test_a_reader_streams(self, late, memory):
        reader = late.scanner(columns=["id", "s"]).to_reader()
        assert reader.schema.equals(memory.select(["id", "s"]).schema)
        assert same_values(reader.read_all(), memory.select(["id", "s"]))

    def test_tagged_batches(self, late, memory):
        batches = [tagged.record_batch for tagged in late.scanner().scan_batches()]
        assert same_values(pa.Table.from_batches(batches), memory)

    def test_empty_results_have_the_schema(self, late, memory):
        found = late.to_table(filter="id < 0")
        assert found.num_rows == 0
        assert found.schema.equals(memory.schema)


class TestRows:
    def test_count(self, late):
        assert late.count_rows() == MANY_KINDS_ROWS
        assert late.count_rows(filter="a = 5") == late.to_table(filter="a = 5").num_rows
        assert late.count_rows(pc.field("a") == 5) == late.to_table(filter="a = 5").num_rows
        assert late.count_rows(filter="false") == 0

    def test_a_count_without_filter_reads_no_pages(self, late):
        scanner = late.scanner()
        assert scanner.count_rows() == MANY_KINDS_ROWS
        assert scanner.report.bytes_scanned == 0

    @pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 239, 240, 1000])
    def test_head(self, late, memory, count):
        assert same_values(late.head(count), memory.slice(0, count))

    def test_head_of_what_matches(self, late):
        found = late.head(3, columns=["id"], filter="id > 100 AND a = 5")
        assert found["id"].to_pylist() == [105, 125, 145]

    @pytest.mark.parametrize(
        "indices",
        [
            [],
            [0],
            [239],
            [5, 5, 5],
            [200, 3, 100, 3],
            list(range(239, -1, -1)),
            pa.array([7, 64, 63]),
            range(10, 20),
        ],
        ids=str,
    )
    def test_take(self, late, memory, indices):
        expected = memory.take(pa.array(list(map(int, indices)), pa.int64()))
        assert same_values(late.take(indices), expected)

    def test_take_of_what_matches(self, late):
        odd = [i for i in range(MANY_KINDS_ROWS) if i % 2]
        found = late.take([3, 0, 119], columns=["id"], filter="id % 2 = 1")
        assert found["id"].to_pylist() == [odd[3], odd[0], odd[119]]

    @pytest.mark.parametrize("indices", [[240], [-1], [0, 10_000]])
    @pytest.mark.parametrize("condition", [None, "id >= 0"])
    def test_take_of_rows_that_are_not_there(self, late, indices, condition):
        with pytest.raises(OptionError, match=str(indices[-1])):
            late.take(indices, filter=condition)

    @pytest.mark.parametrize("indices", [[1.5], [None], ["1"], [[1]], 3, pa.array([1, None])])
    def test_take_of_no_positions(self, late, indices):
        with pytest.raises(OptionError, match="whole numbers"):
            late.take(indices)

    def test_take_touches_few_pages(self, late):
        late.take([100], columns=["k"])
        report = late.scan_reports()[-1]
        assert report.pages_fetched == 1
        assert report.pages_total > 1
        assert report.bytes_scanned < report.bytes_total / 50


class TestFilters:
    def test_filters_add_up(self, late):
        both = late.filter("a > 3").filter(pc.field("id") < 50).filter("s IS NOT NULL")
        expected = late.to_table(filter="a > 3 AND id < 50 AND s IS NOT NULL")
        assert same_values(both.to_table(), expected)
        assert both.count_rows() == expected.num_rows
        assert both.count_rows(filter="id < 20") < expected.num_rows
        assert late.count_rows() == MANY_KINDS_ROWS
        assert "WHERE" in repr(both)

    def test_filters_hold_for_every_verb(self, late):
        some = late.filter("id >= 100")
        assert some.head(1)["id"].to_pylist() == [100]
        assert some.take([1], columns=["id"])["id"].to_pylist() == [101]
        assert next(some.to_batches(columns=["id"]))["id"][0].as_py() == 100
        assert some.scanner().count_rows() == 140
        assert sum(f.count_rows() for f in some.get_fragments()) == 140
        assert some.replace_schema(pa.schema([("id", pa.int32())])).count_rows() == 140
        assert some.sort_by([("id", "descending")]).head(1)["id"].to_pylist() == [239]

    @pytest.mark.parametrize("condition", [7, True, [("a", "=", 1)]])
    def test_other_filters_are_refused(self, late, condition):
        with pytest.raises(OptionError, match="filter"):
            late.to_table(filter=condition)

    def test_reports_of_a_filtered_dataset_are_those_of_the_dataset(self, late):
        late.filter("id < 9").to_table(columns=["id"])
        assert late.scan_reports()[-1].rows_selected == 9

    def test_options_can_be_changed(self, late, memory):
        assert late.with_options(threads=1).options.threads == 1
        assert same_values(late.with_options(window_bytes=1).to_table(), memory)
        with pytest.raises(OptionError, match="colour"):
            late.with_options(colour=1)


class TestFragments:
    @pytest.mark.parametrize("threads", [1, 2, 3, 16])
    def test_every_row_group_is_in_one_fragment(self, path, memory, threads):
        dataset = lm.dataset(path, options=lm.ScanOptions(threads=threads))
        fragments = list(dataset.get_fragments())
        groups = [group for f in fragments for group in sorted(f.row_groups[str(path)])]
        assert groups == [0, 1, 2, 3]
        assert len(fragments) == min(4, threads)
        assert same_values(pa.concat_tables([f.to_table() for f in fragments]), memory)

    def test_fragments_are_balanced(self, tmp_path):
        for name, groups in (("a", 1), ("b", 20), ("c", 3)):
            table = pa.table({"v": range(10 * groups)})
            pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=10)
        dataset = lm.dataset(tmp_path, options=lm.ScanOptions(threads=4))
        counts = [fragment.count_rows() for fragment in dataset.get_fragments()]
        assert counts == [60, 60, 60, 60]

    def test_a_file_that_is_there_twice(self, tmp_path):
        pq.write_table(pa.table({"v": [1, 2]}), tmp_path / "a.parquet")
        pq.write_table(pa.table({"v": [3]}), tmp_path / "b.parquet")
        paths = [tmp_path / "a.parquet", tmp_path / "b.parquet", tmp_path / "a.parquet"]
        for threads in (1, 2, 3):
            dataset = lm.dataset(paths, options=lm.ScanOptions(threads=threads))
            tables = [fragment.to_table() for fragment in dataset.get_fragments()]
            assert pa.concat_tables(tables)["v"].to_pylist() == [1, 2, 3, 1, 2]

    def test_a_filter_prunes_row_groups(self, late):
        fragments = list(late.get_fragments(pc.field("id") < 10))
        assert [sorted(groups) for f in fragments for groups in f.row_groups.values()] == [[0]]
        assert sum(f.count_rows() for f in fragments) == 64

    @pytest.mark.parametrize(
        "expression",
        [
            pc.field("s").isin(["x", None]),
            ~pc.field("s").isin(["x", None]),
            ~pc.field("s").isin(["x"]),
            pc.field("s").isin(["x"]),
            pc.field("s").isin(pa.array([None], pa.string())) | (pc.field("f") > 100),
            ~(pc.field("f") > 5),
            ~(pc.field("f") <= 5),
            ~(pc.field("f") > 5) & ~(pc.field("f") < 0),
            pc.field("f") > 5,
            pc.field("f") != 7.0,
            (pc.field("s") == "y") & ~(pc.field("f") > 5),
            pc.field("i") > 2.5,
            pc.field("f").is_null(nan_is_null=True),
        ],
        ids=str,
    )
    def test_a_filter_prunes_with_the_meaning_of_pyarrow(self, tmp_path, expression):
        """What is given to fragments again must not have lost row groups before."""
        nan = math.nan
        memory = pa.table(
            {
                "s": ["x"] * 5 + [None] * 5 + ["y"] * 5,
                "f": [nan] * 5 + [7.0, nan, 6.0, 8.0, 7.0] + [1.0, nan, -nan, None, 9.0],
                "i": pa.array([1, 2, 3, 4, 5] * 3, pa.int64()),
            }
        )
        path = tmp_path / "t.parquet"
        pq.write_table(memory, path, row_group_size=5)
        expected = ds.InMemoryDataset(memory).to_table(filter=expression)
        for threads in (1, 3):
            late = lm.dataset(path, options=lm.ScanOptions(threads=threads))
            found = [f.to_table(filter=expression) for f in late.get_fragments(expression)]
            assert same_values(pa.concat_tables(found), expected)

    def test_what_both_engines_mean_is_pruned_once(self, late):
        """Parts that were pruned by the conjuncts of a scan are not pruned again."""
        expression = (pc.field("id") < 10) & pc.field("k").isin(["key 0", "key 1"])
        (fragment,) = late.get_fragments(expression)
        scanner = fragment.scanner(late.schema, filter=expression)
        scanner.to_table()
        assert fragment._part.is_pruned_by(bind_conjuncts(scanner._conjuncts, late.schema))

    def test_there_is_always_one_fragment(self, late):
        (fragment,) = late.get_fragments("id < 0")
        assert fragment.to_table().num_rows == 0
        assert fragment.to_table().schema.equals(late.schema)
        assert fragment.count_rows() == 0

    def test_verbs_of_a_fragment(self, path):
        fragment = list(lm.dataset(path, options=lm.ScanOptions(threads=4)).get_fragments())[1]
        assert fragment.physical_schema.names[0] == "id"
        assert fragment.count_rows() == 64
        assert fragment.count_rows("id < 70") == 6
        assert fragment.head(2, columns=["id"])["id"].to_pylist() == [64, 65]
        assert fragment.take([3, 0], columns=["id"])["id"].to_pylist() == [67, 64]
        assert fragment.to_table(columns=["id"], filter="id = 127")["id"].to_pylist() == [127]
        assert [b.num_rows for b in fragment.to_batches(batch_size=32)] == [32, 32]
        assert "1 row groups" in repr(fragment)

    def test_a_filter_with_a_schema_has_the_meaning_of_datafusion(self, path):
        (fragment,) = lm.dataset(path, options=lm.ScanOptions(threads=1)).get_fragments()
        above = pc.field("f") > 1
        theirs = fragment.scanner(columns=["id"], filter=above).count_rows()
        ours = fragment.scanner(fragment.physical_schema, columns=["id"], filter=above)
        # A tenth of the rows is NaN, which DataFusion takes for the greatest number.
        assert ours.count_rows() == theirs + MANY_KINDS_ROWS // 10


class TestWholeTables:
    def test_replace_schema(self, late):
        schema = pa.schema([("a", pa.float64()), ("id", pa.string()), ("more", pa.int8())])
        replaced = late.replace_schema(schema)
        assert replaced.schema.equals(schema)
        found = replaced.to_table(filter="id = '12'")
        assert found.to_pylist() == [{"a": 2.0, "id": "12", "more": None}]

    def test_sort_by(self, late, memory):
        found = late.sort_by([("a", "descending"), ("id", "ascending")])
        expected = memory.sort_by([("a", "descending"), ("id", "ascending")])
        assert isinstance(found, ds.Dataset)
        assert same_values(found.to_table(columns=["id", "a"]), expected.select(["id", "a"]))

    @pytest.mark.parametrize("right_is_late", [True, False])
    def test_join(self, late, path, right_is_late):
        right = late.filter("id < 5") if right_is_late else ds.dataset(path)
        flat = pa.schema([("id", pa.int64()), ("k", pa.string())])
        left = late.replace_schema(flat).filter("id < 3")
        right = right.replace_schema(flat)
        found = left.join(right, keys="id", right_suffix="_right", join_type="inner")
        assert found.to_table().sort_by("id")["id"].to_pylist() == [0, 1, 2]
        assert found.to_table().column_names == ["id", "k", "k_right"]

    def test_join_asof(self, tmp_path):
        left = pa.table({"t": [1, 5, 9], "by": [1, 1, 1]})
        right = pa.table({"t": [2, 6], "by": [1, 1], "v": ["a", "b"]})
        pq.write_table(left, tmp_path / "l.parquet")
        pq.write_table(right, tmp_path / "r.parquet")
        found = lm.dataset(tmp_path / "l.parquet").join_asof(
            lm.dataset(tmp_path / "r.parquet"), on="t", by="by", tolerance=2
        )
        expected = ds.InMemoryDataset(left).join_asof(
            ds.InMemoryDataset(right), on="t", by="by", tolerance=2
        )
        assert found.to_table().equals(expected.to_table())


class TestReports:
    def test_what_a_scan_did(self, late):
        late.to_table(columns=["k"], filter="id >= 64 AND id < 70")
        report = late.scan_reports()[-1]
        assert (report.files, report.row_groups_total) == (1, 4)
        assert report.row_groups_pruned_statistics == 3
        assert (report.rows_total, report.rows_selected) == (MANY_KINDS_ROWS, 6)
        assert 0 < report.bytes_scanned < report.bytes_total
        assert report.steps[-1].rows_out == 6
        assert report.to_dict()["rows_selected"] == 6
        assert "row groups" in str(report)

    def test_reports_are_bounded(self, late):
        for _ in range(70):
            late.head(1, columns=["id"])
        assert len(late.scan_reports()) == 64

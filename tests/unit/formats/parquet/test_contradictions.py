"""Statistics that contradict themselves are no statistics: neither "no row" nor "every row"."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.parquet.facts import load_parquet_facts
from lm_datafusion.formats.parquet.statistics import PageStatistics, RowGroupStatistics
from lm_datafusion.formats.parquet.thrift import Kind
from lm_datafusion.pruning.statistics import UNKNOWN_COUNT
from lm_datafusion.storage.local import LocalStorage
from tests.footers import chunks_of, read_typed, with_footer, write_typed
from tests.parquet_files import write_parquet

ROWS = 400
GROUP = 100
MAX, MIN, NULL_COUNT, MAX_VALUE, MIN_VALUE = 1, 2, 3, 5, 6
NUM_VALUES, STATISTICS = 5, 12


def table():
    numbers = range(ROWS)
    return pa.table(
        {
            "n": pa.array([i * 37 % 100 for i in numbers], pa.int64()),
            "f": pa.array([i * 37 % 100 / 4 for i in numbers], pa.float64()),
            "s": pa.array([f"text {i * 37 % 100:03}" for i in numbers]),
            "d": pa.array([i * 37 % 100 for i in numbers], pa.int32()).cast(pa.decimal128(12, 2)),
            "gaps": pa.array([None if i % 4 == 0 else i % 100 for i in numbers], pa.int64()),
        }
    )


def data_of(**options):
    options = {
        "row_group_size": GROUP,
        "data_page_size": 64,
        "write_batch_size": 10,
        "use_dictionary": False,
    } | options
    return write_parquet(table(), **options)


def saved(tmp_path, data):
    path = tmp_path / "t.parquet"
    path.write_bytes(data)
    return path


def with_statistics(data, name, change):
    """The file with the `Statistics` of a column changed, in each row group."""
    column = table().column_names.index(name)

    def change_footer(footer):
        for chunk in chunks_of(footer, column):
            change(chunk[STATISTICS][1], chunk)

    return with_footer(data, change_footer)


def with_column_index(data, name, change):
    """The file with other column indexes for a column; the new ones stand behind the pages."""
    column = table().column_names.index(name)
    added = bytearray()
    size = int.from_bytes(data[-8:-4], "little")
    end = len(data) - 8 - size

    def change_footer(footer):
        for group in footer[4][1][1]:
            chunk = group[1][1][1][column]
            index, _ = read_typed(data[chunk[6][1] : chunk[6][1] + chunk[7][1]])
            change(index)
            encoded = write_typed(index)
            chunk[6], chunk[7] = (Kind.I64, end + len(added)), (Kind.I32, len(encoded))
            added.extend(encoded)

    changed = with_footer(data, change_footer)
    return changed[:end] + bytes(added) + changed[end:]


def swap_bounds(statistics, _chunk=None):
    for low, high in ((MIN, MAX), (MIN_VALUE, MAX_VALUE)):
        if low in statistics:
            statistics[low], statistics[high] = statistics[high], statistics[low]


def null_count(count):
    def change(statistics, _chunk):
        statistics[NULL_COUNT] = (Kind.I64, count)

    return change


def opened(path):
    storage = LocalStorage()
    return storage.open(storage.load_version(str(path)))


def facts_of(path):
    with opened(path) as file:
        return load_parquet_facts(file)


def row_group_statistics(path):
    facts = facts_of(path)
    return RowGroupStatistics(facts, range(facts.num_row_groups), {})


CONDITIONS = {
    "n": ["n > 30", "n >= 99", "n < 60", "n BETWEEN 10 AND 20", "n <> 5", "n IN (3, 99)"],
    "f": ["f > 7.5", "f < 15 AND f > 1", "f = 24.75"],
    "s": ["s > 'text 030'", "s < 'text 060'", "s LIKE 'text 0%'", "s <> 'text 005'"],
    "d": ["d > 30", "d < 60", "d = 99"],
    "gaps": ["gaps IS NULL", "gaps IS NOT NULL", "gaps > 30", "gaps < 60"],
}
EACH_CONDITION = [(name, text) for name, texts in CONDITIONS.items() for text in texts]


def rows_in_memory(text):
    from datafusion import SessionContext

    context = SessionContext()
    context.register_record_batches("t", [table().to_batches()])
    return sorted(map(repr, context.sql(f"SELECT * FROM t WHERE {text}").to_pylist()))


def assert_right(path, text):
    found = lm.dataset(path).to_table(filter=text).to_pylist()
    assert sorted(map(repr, found)) == rows_in_memory(text)
    assert lm.dataset(path).count_rows(text) == len(found)


@pytest.mark.parametrize(("name", "text"), EACH_CONDITION)
def test_rows_are_right_where_the_minimum_is_above_the_maximum(tmp_path, name, text):
    assert_right(saved(tmp_path, with_statistics(data_of(), name, swap_bounds)), text)


@pytest.mark.parametrize(("name", "text"), EACH_CONDITION)
def test_rows_are_right_where_that_is_so_in_pages(tmp_path, name, text):
    def swap(index):
        index[2], index[3] = index[3], index[2]

    data = data_of(write_page_index=True)
    assert_right(saved(tmp_path, with_column_index(data, name, swap)), text)


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("name", ["n", "f", "s", "d"])
def test_the_first_rows_are_right(tmp_path, name, descending):
    path = saved(tmp_path, with_statistics(data_of(), name, swap_bounds))
    direction = "descending" if descending else "ascending"
    found = lm.dataset(path).to_table(order_by=[(name, direction)], limit=5)[name].to_pylist()
    assert found == sorted(table()[name].to_pylist(), reverse=descending)[:5]


@pytest.mark.parametrize("name", ["n", "f", "s", "d"])
def test_bounds_that_contradict_each_other_are_unknown(tmp_path, name):
    assert row_group_statistics(saved(tmp_path, data_of())).min_values((name,)).null_count == 0
    data = with_statistics(data_of(), name, swap_bounds)
    statistics = row_group_statistics(saved(tmp_path, data))
    assert statistics.min_values((name,)).null_count == ROWS // GROUP
    assert statistics.max_values((name,)).null_count == ROWS // GROUP


def test_bounds_of_other_row_groups_are_kept(tmp_path):
    def change(footer):
        swap_bounds(chunks_of(footer, 0)[2][STATISTICS][1])

    statistics = row_group_statistics(saved(tmp_path, with_footer(data_of(), change)))
    assert statistics.min_values(("n",)).is_null().to_pylist() == [False, False, True, False]


@pytest.mark.parametrize("count", [-5, -1, GROUP + 1, 1 << 40])
@pytest.mark.parametrize("text", CONDITIONS["gaps"])
def test_a_null_count_that_cannot_be_is_not_used(tmp_path, count, text):
    path = saved(tmp_path, with_statistics(data_of(), "gaps", null_count(count)))
    assert (row_group_statistics(path).null_counts(("gaps",)) == UNKNOWN_COUNT).all()
    assert_right(path, text)


@pytest.mark.parametrize("text", CONDITIONS["gaps"])
def test_all_null_but_with_bounds_is_not_used(tmp_path, text):
    path = saved(tmp_path, with_statistics(data_of(), "gaps", null_count(GROUP)))
    statistics = row_group_statistics(path)
    assert (statistics.null_counts(("gaps",)) == UNKNOWN_COUNT).all()
    assert statistics.min_values(("gaps",)).null_count == ROWS // GROUP
    assert_right(path, text)


@pytest.mark.parametrize("count", [GROUP - 30, GROUP + 1, 0, -1])
@pytest.mark.parametrize("name", ["n", "gaps"])
def test_a_flat_chunk_of_another_number_of_values_is_corrupt(tmp_path, name, count):
    def change(_statistics, chunk):
        chunk[NUM_VALUES] = (Kind.I64, count)

    path = saved(tmp_path, with_statistics(data_of(), name, change))
    with pytest.raises(CorruptFileError, match=f'column "{name}".* {count} values for 100 rows'):
        lm.dataset(path).to_table(columns=[name])


@pytest.mark.parametrize(("count", "is_corrupt"), [(2, True), (3, False), (5, False)])
def test_a_list_has_a_value_per_row_at_least(tmp_path, count, is_corrupt):
    data = write_parquet(pa.table({"l": [[1], [], [2, 3, 4]]}))

    def change(footer):
        chunks_of(footer, 0)[0][NUM_VALUES] = (Kind.I64, count)

    facts = facts_of(saved(tmp_path, with_footer(data, change)))
    if is_corrupt:
        with pytest.raises(CorruptFileError, match="2 values for 3 rows"):
            facts.chunk(0, 0)
    else:
        assert facts.chunk(0, 0).row_count == 3


def test_a_row_group_of_fewer_rows_than_values_is_corrupt(tmp_path):
    def change(footer):
        footer[4][1][1][1][3] = (Kind.I64, 7)

    path = saved(tmp_path, with_footer(data_of(), change))
    with pytest.raises(CorruptFileError, match="row group 1 has 100 values for 7 rows"):
        lm.dataset(path).to_table(columns=["n"])


class TestPages:
    def statistics(self, path, name):
        with opened(path) as file:
            facts = load_parquet_facts(file)
            statistics = PageStatistics(facts, 0, [(name,)], file, {})
            path = (name,)
            return statistics.min_values(path), statistics.null_counts(path)

    def test_what_is_sound_is_used(self, tmp_path):
        path = saved(tmp_path, data_of(write_page_index=True))
        lower, nulls = self.statistics(path, "n")
        assert lower.null_count == 0
        assert len(lower) > 3
        assert (nulls == 0).all()

    def test_null_counts_that_do_not_add_up_are_not_used(self, tmp_path):
        """The row group has nulls; its pages say that they have none."""

        def change(index):
            kind, counts = index[5][1]
            index[5] = (Kind.LIST, (kind, [0] * len(counts)))

        data = with_column_index(data_of(write_page_index=True), "gaps", change)
        path = saved(tmp_path, data)
        _, nulls = self.statistics(path, "gaps")
        assert (nulls == UNKNOWN_COUNT).all()
        for text in CONDITIONS["gaps"]:
            assert_right(path, text)

    def test_bounds_outside_those_of_the_row_group_are_not_used(self, tmp_path):
        def change(index):
            kind, values = index[2][1]
            index[2] = (Kind.LIST, (kind, [struct.pack("<q", -(10**9)), *values[1:]]))

        data = with_column_index(data_of(write_page_index=True), "n", change)
        lower, _ = self.statistics(saved(tmp_path, data), "n")
        assert lower is None or lower.null_count == len(lower)

    def test_truncated_text_is_not_taken_for_a_contradiction(self, tmp_path):
        """A page's bound may be shorter, and so further out, than that of the row group."""

        def change(index):
            kind, values = index[2][1]
            index[2] = (Kind.LIST, (kind, [value[:2] for value in values]))

        data = with_column_index(data_of(write_page_index=True), "s", change)
        lower, _ = self.statistics(saved(tmp_path, data), "s")
        assert set(lower.to_pylist()) == {b"te"}


def test_pyarrow_reads_the_files(tmp_path):
    """The files are sound but for their statistics."""
    for data in (
        with_statistics(data_of(), "n", swap_bounds),
        with_column_index(data_of(write_page_index=True), "gaps", lambda _: None),
    ):
        assert pq.read_table(saved(tmp_path, data)).equals(table())
    assert np.unique(table()["n"].to_numpy()).size == 100

from __future__ import annotations

import itertools
import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

import lm_datafusion as lm
from lm_datafusion.errors import (
    ColumnNotFoundError,
    FileChangedError,
    FileMissingError,
    LateError,
    OptionError,
    SqlError,
)
from lm_datafusion.formats.cache import FACTS
from lm_datafusion.storage import LocalStorage, MeteredFile
from tests.dataset_files import same_values
from tests.orc_files import write

ROWS = 20_000
STRIDE = 1000


def table():
    chance = np.random.default_rng(1)
    return pa.table(
        {
            "a": pa.array(range(ROWS), pa.int64()),
            "b": pa.array(chance.integers(0, 1000, ROWS), pa.int32()),
            "s": pa.array([f"value {n % 700}" for n in range(ROWS)]),
            "l": pa.array([[n] * (n % 3) for n in range(ROWS)], pa.list_(pa.int64())),
        }
    )


@pytest.fixture(scope="module")
def whole():
    return table()


@pytest.fixture(scope="module")
def path(tmp_path_factory, whole):
    return write(
        tmp_path_factory.mktemp("orc") / "f.orc",
        whole,
        row_index_stride=STRIDE,
        stripe_size=1024,
        batch_size=5000,
    )


@pytest.fixture
def reader(path):
    found = lm.orc_reader(path)
    assert len(found.stripes) > 2
    return found


def taken(whole, selection):
    return whole.take(pa.array(selection.to_indices()))


def test_all_rows_and_columns(reader, whole):
    same_values(reader.to_table(), whole)
    assert reader.schema == whole.schema
    assert reader.total_rows == ROWS


# ---- the uses that a row selection of ORC is for ----------------------------------------


def test_skip_the_first_rows(reader, whole):
    selection = lm.RowSelection.from_selectors(
        [lm.RowSelector.skip(10_000), lm.RowSelector.select(1000)]
    )
    batches = list(reader.with_row_selection(selection))
    same_values(pa.Table.from_batches(batches), whole.slice(10_000, 1000))


def test_rows_from_filter_results(reader, whole):
    filter_1, filter_2 = (pa.array([n % k == 0 for n in range(ROWS // 2)]) for k in (7, 900))
    selection = lm.RowSelection.from_filters([filter_1, filter_2])
    found = reader.with_row_selection(selection).to_table()
    same_values(found, taken(whole, selection))


def test_stripes_and_rows_together(reader, whole):
    predicate = "a BETWEEN 9100 AND 9200 OR a BETWEEN 16500 AND 16510"
    stripes = reader.stripes_from_statistics(predicate)
    assert 0 < len(stripes) < len(reader.stripes)
    narrowed = reader.with_stripes(stripes)
    # One selection per stripe, and all of them one after the other.
    parts = [narrowed.with_stripes([i]).row_selection_from_row_index(predicate) for i in stripes]
    combined = lm.RowSelection.concat(parts)
    assert combined == narrowed.row_selection_from_row_index(predicate)
    assert combined.row_count < narrowed.total_rows
    found = narrowed.with_row_selection(combined).to_table()
    meets = (pc.field("a") >= 9100) & (pc.field("a") <= 9200)
    meets |= (pc.field("a") >= 16_500) & (pc.field("a") <= 16_510)
    same_values(found.filter(meets), whole.filter(meets))


def test_two_stages_of_filters(reader, whole):
    selection_a = reader.row_selection_from_row_index("a >= 15000")
    column_a = reader.with_row_selection(selection_a).with_columns(["a"]).to_table()["a"]
    selection_a = selection_a.and_then(lm.RowSelection.from_filters([pc.greater(column_a, 15_100)]))
    column_b = reader.with_row_selection(selection_a).with_columns(["b"]).to_table()["b"]
    selection_b = lm.RowSelection.from_filters([pc.less(column_b, 10)])
    final = selection_a.and_then(selection_b)
    found = reader.with_row_selection(final).to_table()
    same_values(found, whole.filter((pc.field("a") > 15_100) & (pc.field("b") < 10)))


# ---- selections ---------------------------------------------------------------------------


def test_a_selection_may_end_early_but_not_reach_too_far(reader, whole):
    assert reader.with_row_selection(lm.RowSelection.all(5)).to_table().num_rows == 5
    with pytest.raises(OptionError, match=f"{ROWS + 1} rows"):
        reader.with_row_selection(lm.RowSelection.all(ROWS + 1)).to_table()
    nothing = reader.with_row_selection(lm.RowSelection.none(ROWS)).to_table()
    same_values(nothing, whole.slice(0, 0))


def test_stripes_come_in_the_given_order(reader, whole):
    first = reader.stripe_rows[0]
    found = reader.with_stripes([1, 0]).to_table()
    expected = [whole.slice(first, reader.stripe_rows[1]), whole.slice(0, first)]
    same_values(found, pa.concat_tables(expected))
    assert reader.with_stripes([]).to_table().num_rows == 0


def test_columns_come_in_the_given_order(reader, whole):
    same_values(reader.with_columns(["s", "a"]).to_table(), whole.select(["s", "a"]))


def test_rows_without_columns(reader):
    selection = lm.RowSelection.from_indices([1, 5, ROWS - 1], ROWS)
    found = reader.with_columns([]).with_row_selection(selection)
    assert found.to_table().num_columns == 0
    assert sum(batch.num_rows for batch in found) == 3
    assert found.scan_ranges() == []


def test_batches_have_the_size_that_options_say(path):
    reader = lm.orc_reader(path, options=lm.ScanOptions(batch_rows=300))
    sizes = [batch.num_rows for batch in reader]
    assert max(sizes) == 300
    assert sum(sizes) == ROWS


def test_what_is_not_there_is_refused(reader, tmp_path):
    with pytest.raises(ColumnNotFoundError, match="nothing"):
        reader.with_columns(["nothing"])
    with pytest.raises(OptionError, match="no stripe 99"):
        reader.with_stripes([99])
    with pytest.raises(OptionError, match="no stripe -1"):
        reader.with_stripes([-1])
    with pytest.raises(OptionError, match="twice"):
        reader.with_stripes([0, 0])
    with pytest.raises(ColumnNotFoundError, match="nothing"):
        reader.row_selection_from_row_index("nothing = 1")
    with pytest.raises(SqlError):
        reader.row_selection_from_row_index("a = ")
    with pytest.raises(FileMissingError, match=r"none\.orc"):
        lm.orc_reader(tmp_path / "none.orc")


def test_two_columns_of_one_name(tmp_path, whole):
    twice = pa.Table.from_arrays([whole["a"], whole["b"]], names=["x", "x"])
    reader = lm.orc_reader(write(tmp_path / "f.orc", twice))
    same_values(reader.to_table(), twice)
    with pytest.raises(OptionError, match="2 columns"):
        reader.with_columns(["x"])


# ---- what is read ---------------------------------------------------------------------------


class MeteredStorage(LocalStorage):
    def __init__(self):
        self.fetched_bytes = 0

    def open(self, version):
        return MeteredFile(super().open(version), self._count)

    def _count(self, count):
        self.fetched_bytes += count


@pytest.mark.parametrize("codec", ["uncompressed", "zlib"])
def test_only_row_groups_with_selected_rows_are_fetched(tmp_path, codec):
    rows = 400_000
    values = np.random.default_rng(2).integers(0, 2**60, rows)
    source = pa.table({"a": values, "b": values[::-1]})
    path = write(tmp_path / "f.orc", source, compression=codec, row_index_stride=STRIDE)
    storage = MeteredStorage()
    reader = lm.orc_reader(path, storage=storage).with_columns(["a"])
    selection = lm.RowSelection.from_indices([200_500], rows)
    list(reader.with_row_selection(selection))  # loads the row index
    storage.fetched_bytes = 0
    narrowed = reader.with_row_selection(selection)
    same_values(narrowed.to_table(), source.select(["a"]).slice(200_500, 1))
    ranges = narrowed.scan_ranges()
    assert 0 < storage.fetched_bytes < os.path.getsize(path) / 20
    assert sum(length for _, length in ranges) < os.path.getsize(path) / 20
    assert reader.with_row_selection(lm.RowSelection.none(rows)).scan_ranges() == []


def test_ranges_of_all_rows_are_the_streams_of_the_columns(reader, path):
    ranges = sorted(reader.scan_ranges())
    assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(ranges))
    alone = [reader.with_columns([name]).scan_ranges() for name in reader.schema.names]
    assert sorted(r for found in alone for r in found) == ranges
    assert sum(length for _, length in ranges) < os.path.getsize(path)


def test_metadata_is_read_once_per_version(path):
    FACTS.clear()
    storage = MeteredStorage()
    reader = lm.orc_reader(path, storage=storage)
    reader.row_selection_from_row_index("a = 5 AND b = 7")
    before = storage.fetched_bytes
    lm.orc_reader(path, storage=storage).row_selection_from_row_index("a = 5 AND b = 7")
    assert storage.fetched_bytes == before


def test_a_file_that_changed_is_an_error(tmp_path, whole):
    path = write(tmp_path / "f.orc", whole)
    reader = lm.orc_reader(path)
    write(path, whole.slice(0, 100))
    with pytest.raises(FileChangedError, match=r"f\.orc"):
        reader.to_table()
    assert lm.orc_reader(path).total_rows == 100


# ---- pruning ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("predicate", "rows"),
    [
        ("a = 4321", STRIDE),
        ("a < 1500", 2 * STRIDE),
        ("a IN (1, 19999)", 2 * STRIDE),
        ("a > 20000", 0),
        ("a IS NULL", 0),
        ("a = 4321 AND s = 'nothing'", 0),
        ("b < 2000", ROWS),
        ("a + 1 = 5", ROWS),
        ("length(s) > 3", ROWS),
        ("a < 500 OR a > 19500", 2 * STRIDE),
    ],
)
def test_row_groups_that_a_condition_leaves(tmp_path, whole, predicate, rows):
    reader = lm.orc_reader(write(tmp_path / "f.orc", whole, row_index_stride=STRIDE))
    found = reader.row_selection_from_row_index(predicate)
    assert (found.row_count, found.total_rows) == (rows, ROWS)


def test_options_of_pruning(path):
    options = lm.ScanOptions(prune_statistics=False, prune_page_index=False)
    reader = lm.orc_reader(path, options=options)
    assert reader.row_selection_from_row_index("a < 0").selects_all()
    assert reader.stripes_from_statistics("a < 0") == list(reader.stripes)


def test_filters_of_bytes_that_miss_values_are_not_asked(tmp_path):
    """The C++ writer of PyArrow puts other values into them."""
    values = pa.array([n % 50 + 30 for n in range(1000)], pa.int8())
    path = write(tmp_path / "f.orc", {"b": values}, row_index_stride=100, bloom_filter_columns=[1])
    reader = lm.orc_reader(path)
    assert reader.row_selection_from_row_index("b = 47").selects_all()


def test_unions_are_read_but_not_asked(tmp_path):
    codes, offsets = pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32())
    union = pa.UnionArray.from_dense(codes, offsets, [pa.array([1, 2]), pa.array(["x"])])
    path = write(tmp_path / "f.orc", {"u": union, "a": [1, 2, 3]})
    reader = lm.orc_reader(path)
    same_values(reader.to_table(), orc.read_table(path))
    assert reader.row_selection_from_row_index("a = 9").row_count == 0
    with pytest.raises(LateError):
        reader.row_selection_from_row_index("u = 1")

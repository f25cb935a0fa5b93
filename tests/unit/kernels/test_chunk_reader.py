"""`ChunkReader`: columns of several row groups, read as one, beside PyArrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.kernels import kernel_info

if not kernel_info().is_active:
    pytest.skip(str(kernel_info()), allow_module_level=True)

from lm_datafusion.formats.parquet.conditions import OPERATORS
from lm_datafusion.formats.parquet.decode import FileColumn
from lm_datafusion.formats.parquet.kernel_chunk import load_chunk_pages
from lm_datafusion.kernels.columns import (
    TEXT_LENGTH,
    TEXT_LIKE,
    ChunkPages,
    ChunkReader,
    IntTest,
    TextTest,
)
from lm_datafusion.kernels.pages import PageError, UnsupportedPageError
from lm_datafusion.metrics import ScanMetrics
from lm_datafusion.options import ScanOptions
from lm_datafusion.predicate.tree import Operator
from lm_datafusion.scan.planning.planner import load_facts
from lm_datafusion.storage import LocalFile, LocalStorage
from tests.kernel_chunks import ROW_KINDS, some_rows

ROWS = 4000
GROUP = 700


def make_table(seed: int) -> pa.Table:
    """Columns whose dictionaries differ between row groups, and outgrow their limit in some."""
    rng = np.random.default_rng(seed)
    words = np.array(["", "a", "google", "a long word that no view can hold", "ж" * 9])
    group = np.arange(ROWS) // GROUP
    few = words[rng.integers(0, len(words), ROWS)]
    few = [f"{word}{group[i]}" if word else "" for i, word in enumerate(few)]
    many = [f"value number {n} of many" if n % 3 else "" for n in rng.integers(0, 900, ROWS)]
    numbers = rng.integers(0, 50, ROWS) + 1000 * group
    is_null = rng.random(ROWS) < 0.2
    return pa.table(
        {
            "few": pa.array(few, mask=is_null),
            "many": pa.array(many),
            "numbers": pa.array(numbers),
            "wide": pa.array(rng.integers(0, 1 << 40, ROWS)),
        }
    )


@pytest.fixture(params=["zstd", "snappy", "none", "gzip"])
def opened(request, tmp_path):
    table = make_table(3)
    path = str(tmp_path / "t.parquet")
    pq.write_table(
        table,
        path,
        row_group_size=GROUP,
        compression=request.param,
        max_rows_per_page=90,
        dictionary_pagesize_limit=4000,
        write_page_index=True,
    )
    facts = load_facts(LocalStorage(), path, ScanOptions())
    with LocalStorage().open(facts.version) as file:
        yield table, facts, file


def reader_of(opened, name, given=None, groups=None):
    table, facts, file = opened
    index = table.schema.get_field_index(name)
    data_type = given or table.schema.field(name).type
    column = FileColumn(facts, index, data_type, (file, file), ScanMetrics())
    numbers = range(facts.num_row_groups) if groups is None else groups
    reader = column.open_kernel([facts.chunks_of(number, index)[0] for number in numbers])
    assert reader is not None
    return reader


@pytest.mark.parametrize("kind", ROW_KINDS)
@pytest.mark.parametrize("name", ["few", "many", "numbers", "wide"])
def test_rows_of_all_row_groups(opened, name, kind):
    rng = np.random.default_rng(len(kind))
    expected = opened[0].column(name).combine_chunks()
    for given in (None, pa.string_view()) if name in ("few", "many") else (None,):
        reader = reader_of(opened, name, given)
        for _ in range(3):
            rows = some_rows(rng, ROWS, kind)
            found = reader.read(rows, 0, ROWS)
            found.validate(full=True)
            wanted = expected if rows is None else expected.take(pa.array(rows))
            assert found.to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize("kind", ROW_KINDS)
@pytest.mark.parametrize(
    ("name", "test", "passes"),
    [
        ("few", TextTest(TEXT_LENGTH, operator=OPERATORS[Operator.NE]), lambda v: v != ""),
        ("many", TextTest(TEXT_LIKE, [b"7"]), lambda v: "7" in v),
        ("numbers", IntTest(3, OPERATORS[Operator.GE], 2020), lambda v: v >= 2020),
        ("wide", IntTest(3, OPERATORS[Operator.LT], 1 << 39), lambda v: v < 1 << 39),
    ],
)
def test_conditions_on_all_row_groups(opened, name, test, passes, kind):
    rng = np.random.default_rng(len(kind))
    values = opened[0].column(name).to_pylist()
    given = pa.string_view() if name in ("few", "many") else None
    reader = reader_of(opened, name, given)
    rows = some_rows(rng, ROWS, kind)
    asked = range(ROWS) if rows is None else rows.tolist()
    expected = [row for row in asked if values[row] is not None and passes(values[row])]
    found, held = reader.filter(rows, 0, ROWS, test, None, True)
    assert found.tolist() == expected
    held.validate(full=True)
    assert held.to_pylist() == [values[row] for row in expected]


def test_ranges_that_begin_in_a_later_row_group(opened):
    values = opened[0].column("few").to_pylist()
    reader = reader_of(opened, "few", pa.string_view())
    for start, stop in ((1500, 1501), (GROUP, 2 * GROUP), (2 * GROUP - 1, 2 * GROUP + 1)):
        assert reader.read(None, start, stop).to_pylist() == values[start:stop]


def test_values_of_dictionaries_that_somebody_else_has_judged(opened):
    values = opened[0].column("numbers").to_pylist()
    reader = reader_of(opened, "numbers")
    passes = []
    for group in range(-(-ROWS // GROUP)):
        dictionary = reader.dictionary_values(group)
        known = [value % 7 == 0 for value in dictionary.to_pylist()]
        passes.append(np.array([*known, False]))
    found, _ = reader.filter(None, 0, ROWS, None, passes, False)
    assert found.tolist() == [row for row, value in enumerate(values) if value % 7 == 0]


def test_a_dictionary_that_nobody_has_judged(opened):
    reader = reader_of(opened, "numbers")
    known = np.ones(len(reader.dictionary_values(0)) + 1, dtype=np.bool_)
    passes = [known, *[None] * (-(-ROWS // GROUP) - 1)]
    with pytest.raises(UnsupportedPageError):
        reader.filter(None, 0, ROWS, None, passes, False)


def test_counts(opened):
    _, facts, _ = opened
    reader = reader_of(opened, "wide")
    pages = sum(-(-min(GROUP, ROWS - start) // 90) for start in range(0, ROWS, GROUP))
    reader.read(np.array([0, 1, GROUP], dtype=np.int32), 0, ROWS)
    assert reader.pages_fetched == 2
    fetched = reader.bytes_fetched
    other = reader_of(opened, "wide")
    other.read(None, 0, ROWS)
    assert other.pages_fetched == pages
    assert other.bytes_fetched <= facts.version.size_bytes
    assert 0 < fetched < other.bytes_fetched
    both = fetched + other.bytes_fetched
    reader.join(other)
    assert (reader.pages_fetched, reader.bytes_fetched) == (pages, both)
    assert other.bytes_fetched == 0


def test_readers_of_other_chunks_do_not_join(opened):
    with pytest.raises(ValueError, match="other chunks"):
        reader_of(opened, "wide").join(reader_of(opened, "wide", groups=[0]))


def test_the_dictionary_is_left_alone_where_pages_do_not_need_it(opened):
    """Of a chunk that went on without its dictionary, the last page is PLAIN."""
    table, facts, file = opened
    index = table.schema.get_field_index("many")
    chunk = facts.chunks_of(0, index)[0]
    assert not chunk.is_all_dictionary(file)
    values = table.column("many").to_pylist()
    reader = reader_of(opened, "many", groups=[0])
    last = chunk.load_pages(file).locations
    found = reader.read(np.array([GROUP - 1], dtype=np.int32), 0, GROUP)
    assert found.to_pylist() == values[GROUP - 1 : GROUP]
    assert reader.bytes_fetched == last.sizes[-1]
    # The second page is coded, and the dictionary comes on demand.
    found = reader.read(np.array([100], dtype=np.int32), 0, GROUP)
    assert found.to_pylist() == values[100:101]
    lead = int(last.offsets[0]) - chunk.byte_range.offset
    assert reader.bytes_fetched == last.sizes[-1] + last.sizes[1] + lead


class Remote:
    """A file without a descriptor, which counts what is asked of it."""

    def __init__(self, file: LocalFile) -> None:
        self.file = file
        self.size_bytes = file.version.size_bytes
        self.asked = []

    def descriptor(self):
        return -1

    def fetch(self, ranges, target):
        self.asked += ranges
        position = 0
        for offset, length in ranges:
            with open(self.file.version.path, "rb") as data:
                data.seek(offset)
                target[position : position + length] = data.read(length)
            position += length
        assert position == len(target)


def test_a_file_that_is_not_local(opened):
    table, facts, file = opened
    index = table.schema.get_field_index("few")
    chunks = [load_chunk_pages(facts.chunks_of(n, index)[0], file) for n in range(3)]
    remote = Remote(file)
    kind_of = FileColumn(facts, index, pa.string(), (file, file), ScanMetrics())
    kind_of.open_kernel([facts.chunks_of(0, index)[0]])
    reader = ChunkReader(chunks, kind_of._kind, remote)
    values = table.column("few").to_pylist()
    assert reader.read(None, 0, 3 * GROUP).to_pylist() == values[: 3 * GROUP]
    # The dictionary page and the data pages of a chunk follow one another.
    assert len(remote.asked) == 3
    assert sum(length for _, length in remote.asked) == reader.bytes_fetched


def test_a_descriptor_of_nothing_falls_back_to_the_file(opened, monkeypatch):
    monkeypatch.setattr(LocalFile, "descriptor", lambda _: 1 << 20)
    values = opened[0].column("wide").to_pylist()
    assert reader_of(opened, "wide").read(None, 0, ROWS).to_pylist() == values


def test_pages_outside_the_file(opened):
    table, facts, file = opened
    index = table.schema.get_field_index("wide")
    chunk = facts.chunks_of(0, index)[0]
    locations = chunk.load_pages(file).locations
    sizes = locations.sizes.copy()
    sizes[0] = facts.version.size_bytes
    pages = load_chunk_pages(chunk, file)
    broken = type(pages)(
        locations.offsets,
        sizes,
        locations.first_rows,
        chunk.row_count,
        dictionary_offset=chunk.byte_range.offset,
        max_definition_level=1,
        physical_type="INT64",
        fixed_length=None,
        codec="UNCOMPRESSED",
        make_decompressor=None,
        is_all_coded=False,
    )
    column = FileColumn(facts, index, pa.int64(), (file, file), ScanMetrics())
    column.open_kernel([chunk])
    with pytest.raises(PageError, match="nowhere in the file"):
        ChunkReader([broken], column._kind, column._source).read(None, 0, GROUP)


def hostile_reader(opened, *places) -> ChunkReader:
    """A reader of chunks of one page each: where the page begins, the dictionary, the size."""
    table, facts, file = opened
    index = table.schema.get_field_index("wide")
    column = FileColumn(facts, index, pa.int64(), (file, file), ScanMetrics())
    column.open_kernel([facts.chunks_of(0, index)[0]])
    one = np.ones(1, dtype=np.int64)
    chunks = [
        ChunkPages(
            offset * one,
            size * one,
            0 * one,
            GROUP,
            dictionary_offset=dictionary_offset,
            max_definition_level=1,
            physical_type="INT64",
            fixed_length=None,
            codec="UNCOMPRESSED",
            make_decompressor=None,
            is_all_coded=False,
        )
        for offset, dictionary_offset, size in places
    ]
    return ChunkReader(chunks, column._kind, column._source)


def test_ranges_whose_sum_is_more_than_a_number_can_say(opened):
    """Together they come to a few bytes again; each is checked before it counts."""
    size = opened[1].version.size_bytes
    first = (size - 100, 4, 40)
    rest = [(2**62 - 1, 4 + size // 4, 40)] * 4
    for places in ([first, *rest], rest, [(-5, 0, 40)], [(size - 10, size, 40)]):
        reader = hostile_reader(opened, *places)
        with pytest.raises(PageError, match="nowhere in the file"):
            reader.read(None, 0, GROUP * len(places))
        assert reader.bytes_fetched == 0


def test_pages_that_overlap_are_no_more_than_the_file(opened):
    reader = hostile_reader(opened, *[(4, 4, opened[1].version.size_bytes - 10)] * 3)
    with pytest.raises(PageError, match="nowhere in the file"):
        reader.read(None, 0, 3 * GROUP)


def test_a_dictionary_outside_the_file(opened):
    with pytest.raises(PageError, match="nowhere in the file"):
        hostile_reader(opened, (2**61, 4, 40)).dictionary_values(0)


def test_no_chunks(opened):
    with pytest.raises(ValueError, match="no chunks"):
        hostile_reader(opened)

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from clickbench.layout import LayoutWriter, write_file, writer_options
from clickbench.model.hits import generate_blocks
from clickbench.model.plan import make_plan
from clickbench.schema import SCHEMA
from lm_datafusion.formats.parquet.page_index import parse_offset_index
from tests.parquet_files import column_chunk, offset_index_bytes

ROWS = 500_000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layouts")
    plan = make_plan(ROWS)
    paths = {}
    for layout in ("clickbench", "tuned"):
        paths[layout] = folder / f"{layout}.parquet"
        write_file(generate_blocks(plan, 0, plan.blocks), str(paths[layout]), layout)
    return paths


def chunks(metadata):
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            yield metadata.row_group(group).column(column)


def test_clickbench_looks_like_the_public_file(files):
    metadata = pq.read_metadata(files["clickbench"])
    sizes = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    assert sizes == [55 * 8192, ROWS - 55 * 8192]
    assert metadata.metadata is None  # no Arrow schema
    data = files["clickbench"].read_bytes()
    for number, chunk in enumerate(chunks(metadata)):
        assert chunk.compression == "SNAPPY"
        assert chunk.statistics.has_min_max
        assert chunk.bloom_filter_offset is None
        assert "RLE_DICTIONARY" not in chunk.encodings
        group, column = divmod(number, metadata.num_columns)
        assert not {4, 5, 6, 7} & set(column_chunk(data, group, column))  # no page index
    schema = pq.read_schema(files["clickbench"])
    assert schema.equals(SCHEMA)
    first = {chunk.path_in_schema: chunk for chunk in list(chunks(metadata))[:105]}
    assert set(first["WatchID"].encodings) == {"PLAIN_DICTIONARY", "PLAIN", "RLE"}  # fell back
    assert set(first["OS"].encodings) == {"PLAIN_DICTIONARY", "RLE"}


def test_tuned_has_pages_of_the_same_rows_in_every_column(files):
    metadata = pq.read_metadata(files["tuned"])
    data = files["tuned"].read_bytes()
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        for column in range(metadata.num_columns):
            index = parse_offset_index(offset_index_bytes(data, group, column))
            assert index.first_rows.tolist() == list(range(0, rows, 20_000))


def test_tuned_has_bloom_filters_where_they_help(files):
    metadata = pq.read_metadata(files["tuned"])
    filtered = {chunk.path_in_schema for chunk in chunks(metadata) if chunk.bloom_filter_offset}
    assert filtered == {"UserID", "URLHash", "RefererHash"}
    assert {chunk.compression for chunk in chunks(metadata)} == {"ZSTD"}


def test_layouts_hold_the_same_rows(files):
    assert pq.read_table(files["clickbench"]).equals(pq.read_table(files["tuned"]))


def test_the_cut_into_tables_does_not_matter(tmp_path, hits):
    for number, step in enumerate((7_001, 100_000)):
        with LayoutWriter(str(tmp_path / f"{number}.parquet"), "tuned") as writer:
            for start in range(0, hits.num_rows, step):
                writer.write(hits.slice(start, step))
    one, other = (tmp_path / f"{number}.parquet" for number in range(2))
    assert one.read_bytes() == other.read_bytes()


def test_a_file_has_its_name_only_when_it_is_complete(tmp_path, hits):
    def tables():
        yield hits
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        write_file(tables(), str(tmp_path / "hits.parquet"), "tuned")
    assert not (tmp_path / "hits.parquet").exists()


def test_unknown_layouts_are_refused():
    with pytest.raises(ValueError, match="no layout 'best'"):
        writer_options("best")

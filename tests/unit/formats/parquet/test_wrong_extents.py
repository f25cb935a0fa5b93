"""Metadata that is wrong about bytes, rows, lengths or time zones: right rows, or an error."""

from __future__ import annotations

import base64

import numpy as np
import pyarrow as pa
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.parquet.page_header import parse_page_header
from lm_datafusion.formats.parquet.thrift import Kind
from tests.footers import chunks_of, elements_of, read_typed, with_footer, write_typed
from tests.parquet_files import metadata_of, write_parquet

ROWS = 400
TYPE_LENGTH, TOTAL_COMPRESSED_SIZE = 2, 7
OFFSET_INDEX_OFFSET, OFFSET_INDEX_LENGTH = 4, 5


def file_of(column, **options):
    pages = {"write_page_index": True, "data_page_size": 1, "write_batch_size": 50}
    plain = {"compression": "NONE", "use_dictionary": False, "max_rows_per_page": 50}
    return write_parquet(pa.table({"c": column, "n": range(ROWS)}), **(pages | plain | options))


def saved(tmp_path, data):
    path = tmp_path / "t.parquet"
    path.write_bytes(data)
    return path


def with_short_page(data, page):
    """The file with an offset index in which a page has half its bytes."""
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    added = bytearray()

    def change(footer):
        chunk = footer[4][1][1][0][1][1][1][0]
        index, _ = read_typed(data, chunk[OFFSET_INDEX_OFFSET][1])
        location = index[1][1][1][page]
        location[2] = (Kind.I32, location[2][1] // 2)
        added.extend(write_typed(index))
        chunk[OFFSET_INDEX_OFFSET] = (Kind.I64, end)
        chunk[OFFSET_INDEX_LENGTH] = (Kind.I32, len(added))

    changed = with_footer(data, change)
    return changed[:end] + bytes(added) + changed[end:]


@pytest.mark.parametrize("page", [0, 3, 7])
@pytest.mark.parametrize("condition", [None, "n < 330", "n IN (20, 160, 390)", "c > -1"])
def test_a_page_is_as_long_as_its_header_says(tmp_path, page, condition):
    values = np.arange(ROWS) * 7 % 1000
    data = file_of(pa.array(values, pa.int64()))
    expected = lm.dataset(saved(tmp_path, data)).to_table(filter=condition)
    (tmp_path / "t.parquet").write_bytes(with_short_page(data, page))
    assert lm.dataset(tmp_path / "t.parquet").to_table(filter=condition) == expected


@pytest.mark.parametrize("condition", [None, "n = 20", "c = 20"])
def test_a_chunk_that_ends_outside_the_file_is_corrupt(tmp_path, condition):
    data = file_of(pa.array(range(ROWS), pa.int64()))

    def change(footer):
        chunks_of(footer, 0)[0][TOTAL_COMPRESSED_SIZE] = (Kind.I64, 1 << 32)

    path = saved(tmp_path, with_footer(data, change))
    with pytest.raises(CorruptFileError, match=r"t\.parquet"):
        lm.dataset(path).to_table(filter=condition)


def test_values_of_a_gigabyte_each_are_refused(tmp_path):
    data = file_of(pa.array([b"four"] * ROWS, pa.binary(4)))

    def change(footer):
        elements_of(footer)[1][TYPE_LENGTH] = (Kind.I32, 1 << 30)

    with pytest.raises(CorruptFileError, match=r'"c" has values of 1,073,741,824 bytes'):
        lm.dataset(saved(tmp_path, with_footer(data, change)))


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_time_zone_that_is_no_text_is_refused(tmp_path, is_nested):
    column = pa.array([0] * ROWS, pa.timestamp("us", tz="Europe/Oslo"))
    if is_nested:
        column = pa.StructArray.from_arrays([column], names=["at"])
    data = file_of(column)
    schema = metadata_of(data).metadata[b"ARROW:schema"]
    damaged = base64.b64decode(schema).replace(b"Europe/Oslo", b"Europe/\xff\xfe\xfdo")
    assert damaged != base64.b64decode(schema)
    with pytest.raises(CorruptFileError, match="utf-8"):
        lm.dataset(saved(tmp_path, data.replace(schema, base64.b64encode(damaged))))


@pytest.mark.parametrize("condition", [None, "n < 60", "n = 20"])
def test_a_page_of_lists_with_a_row_too_many_is_corrupt(tmp_path, condition):
    data = bytearray(file_of(pa.array([[n, n] for n in range(ROWS)], pa.list_(pa.int32()))))
    start = metadata_of(bytes(data)).row_group(0).column(0).data_page_offset
    levels = start + parse_page_header(bytes(data), start).header_bytes + 5
    assert data[levels] == 0b10101010  # of repetition, two values a row
    data[levels] = 0b10101000
    with pytest.raises(CorruptFileError, match="more than the 400 rows"):
        lm.dataset(saved(tmp_path, bytes(data))).to_table(filter=condition)


def test_a_page_without_values_has_a_header_of_none(tmp_path):
    nulls = pa.array([None] * ROWS, pa.int64())
    data = bytearray(file_of(nulls, column_encoding={"c": "DELTA_BINARY_PACKED"}))
    assert lm.dataset(saved(tmp_path, bytes(data))).to_table()["c"].null_count == ROWS
    start = metadata_of(bytes(data)).row_group(0).column(0).data_page_offset
    header = parse_page_header(bytes(data), start)
    body = start + header.header_bytes
    values = body + 4 + int.from_bytes(data[body : body + 4], "little")
    assert data[values + 2] != 0  # mini-blocks of a block, behind a block's size of two bytes
    data[values + 2] = 0
    with pytest.raises(CorruptFileError, match=r"t\.parquet"):
        lm.dataset(saved(tmp_path, bytes(data))).to_table()

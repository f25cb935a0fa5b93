from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.formats.parquet.thrift import (
    MAX_DEPTH,
    Kind,
    NeedMoreData,
    ThriftError,
    optional,
    read_list_header,
    read_struct,
    read_struct_list,
    required,
    required_list,
    skip_struct,
    write_struct,
)
from tests.parquet_files import file_from_footer, footer_bytes, metadata_of, write_parquet

TABLE = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [[1.5], [], None]})


@pytest.mark.parametrize(
    ("encoded", "fields"),
    [
        ("00", {}),
        ("15 02 00", {1: 1}),
        ("15 01 00", {1: -1}),
        ("16 ac04 00", {1: 278}),
        ("14 fe01 15 00 00", {1: 127, 2: 0}),
        ("16 feffffffffffffffff01 00", {1: 2**63 - 1}),
        ("16 ffffffffffffffffff01 00", {1: -(2**63)}),
        ("11 22 00", {1: True, 3: False}),
        ("13 80 13 7f 00", {1: -128, 2: 127}),
        ("17 000000000000f8bf 00", {1: -1.5}),
        ("18 03 616263 18 00 00", {1: b"abc", 2: b""}),
        ("05 50 02 00", {40: 1}),  # long form: the id itself, zigzag
        ("f5 02 05 04 02 00", {15: 1, 2: 1}),  # long form may go back
        ("19 35 02 04 06 00", {1: [1, 2, 3]}),
        ("1a 23 ff 01 00", {1: [-1, 1]}),  # a set of bytes
        ("19 fc 0f" + "00" * 15 + "00", {1: [{}] * 15}),
        ("19 05 00", {1: []}),
        ("19 00 00", {1: []}),  # an empty list has no use for its type
        ("19 31 01 02 00 00", {1: [True, False, False]}),
        ("19 22 01 02 00", {1: [True, False]}),
        ("19 18 01 61 00", {1: [b"a"]}),
        ("19 19 15 02 00", {1: [[1]]}),
        ("1c 15 02 00 16 04 00", {1: {1: 1}, 2: 2}),
    ],
)
def test_reads_what_the_protocol_says(encoded, fields):
    data = bytes.fromhex(encoded)
    assert read_struct(data) == (fields, len(data))
    assert skip_struct(data + b"more") == len(data)
    assert read_struct(b"\x15" + data + b"more", 1) == (fields, len(data) + 1)


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        ("16 ffffffffffffffffffff01 00", "longer than 10 bytes"),
        ("16 ffffffffffffffffff02 00", "more than 64 bits"),
        ("1b 00 00", "not in Parquet"),
        ("1d 00 00", "not in Parquet"),
        ("10 00", "not in Parquet"),
        ("19 31 01 03 01 00", "neither true nor false"),
        ("19 1b 00 00", "not in Parquet"),
        ("18 8080808008 00", "above 2147483647"),
        ("19 f5 8080808008 00", "above 2147483647"),
    ],
)
def test_malformed_bytes_raise(encoded, message):
    with pytest.raises(ThriftError, match=message) as info:
        read_struct(bytes.fromhex(encoded))
    assert type(info.value) is ThriftError  # no use in reading more


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "15",
        "15 80",
        "15 02",
        "18 05 61",
        "17 00000000",
        "19",
        "19 f5",
        "19 f5 ffffffff07 02 02",  # 2**31-1 elements are announced, two bytes are there
        "19 31 01 01",
        "1c 00",
        "05",
    ],
)
def test_a_buffer_that_ends_early_asks_for_more(encoded):
    with pytest.raises(NeedMoreData, match="does not end within"):
        read_struct(bytes.fromhex(encoded))


def test_an_offset_outside_the_buffer_raises():
    with pytest.raises(NeedMoreData):
        read_struct(b"\x00", 1)
    with pytest.raises(ThriftError, match="negative"):
        read_struct(b"\x00", -1)


@pytest.mark.parametrize("opening", [b"\x1c", b"\x19\x1c", b"\x19" + b"\x19" * 5])
def test_nesting_is_bounded(opening):
    with pytest.raises(ThriftError, match="nested deeper") as info:
        read_struct(opening * 10_000)
    assert type(info.value) is ThriftError


def test_nesting_to_the_bound_is_read():
    data = b"\x1c" * MAX_DEPTH + b"\x00" * (MAX_DEPTH + 1)
    assert skip_struct(data) == len(data)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_buffer_is_read_as_unsigned_bytes(wrap):
    data = write_struct([(1, Kind.I64, 2**40), (2, Kind.BINARY, b"\xff\x80")])
    fields, stop = read_struct(wrap(data))
    assert (fields, stop) == ({1: 2**40, 2: b"\xff\x80"}, len(data))
    assert type(fields[2]) is bytes


def test_required_and_optional_check_types():
    fields = {1: 5, 2: True, 3: [1], 4: []}
    assert required(fields, 1, int) == 5
    assert optional(fields, 9, int) is None
    assert optional(fields, 2, bool) is True
    assert required_list(fields, 3, int) == [1]
    assert required_list(fields, 4, bytes) == []
    for bad in (
        lambda: required(fields, 9, int),
        lambda: required(fields, 2, int),  # a bool is no int here
        lambda: optional(fields, 1, bytes),
        lambda: required_list(fields, 3, bytes),
        lambda: required_list(fields, 1, int),
    ):
        with pytest.raises(ThriftError, match="should be"):
            bad()


def test_list_header():
    assert read_list_header(bytes.fromhex("3c00"), 0) == (3, Kind.STRUCT, 1)
    assert read_list_header(bytes.fromhex("19fc0f") + b"\x00" * 15, 1) == (15, Kind.STRUCT, 3)
    with pytest.raises(NeedMoreData):
        read_list_header(b"\x19", 1)


def test_struct_list_keeps_the_bytes_of_its_elements():
    elements = [write_struct([(1, Kind.I32, n)]) for n in (1, 1000)]
    data = write_struct(
        [
            (1, Kind.I32, 7),
            (2, Kind.BOOL, True),
            (40, Kind.BINARY, b"skipped"),
            (41, Kind.LIST, (Kind.STRUCT, elements)),
            (42, Kind.I32, 1),
        ]
    )
    before, found, stop = read_struct_list(data, 41)
    assert before == {1: 7, 2: True, 40: b"skipped"}
    assert found == [(elements[0], {1: 1}), (elements[1], {1: 1000})]
    assert stop == len(data) - 3
    assert read_struct_list(data[:stop], 41) == (before, found, stop)  # the rest is not looked at


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([(1, Kind.I32, 7)], "no field 2"),
        ([(2, Kind.I32, 7)], "should be a list"),
        ([(2, Kind.LIST, (Kind.I32, [1]))], "should be of structs"),
    ],
)
def test_struct_list_that_is_none_raises(fields, message):
    with pytest.raises(ThriftError, match=message):
        read_struct_list(write_struct(fields), 2)


def test_writer_refuses_what_does_not_fit():
    with pytest.raises(AssertionError, match="does not fit I32"):
        write_struct([(1, Kind.I32, 2**31)])
    with pytest.raises(NotImplementedError):
        write_struct([(1, Kind.SET, [])])


def test_footer_agrees_with_pyarrow():
    data = write_parquet(TABLE, row_group_size=2)
    footer, stop = read_struct(footer_bytes(data))
    metadata = metadata_of(data)
    assert stop == len(footer_bytes(data))
    assert footer[3] == metadata.num_rows == 3
    assert footer[6].decode() == metadata.created_by
    assert len(footer[4]) == metadata.num_row_groups == 2
    for group, fields in enumerate(footer[4]):
        for column, chunk in enumerate(fields[1]):
            expected = metadata.row_group(group).column(column)
            assert b".".join(chunk[3][3]).decode() == expected.path_in_schema
            assert chunk[3][5] == expected.num_values
            assert chunk[3][7] == expected.total_compressed_size
            assert chunk[3][9] == expected.data_page_offset


def test_written_footer_is_read_by_pyarrow():
    data = write_parquet(TABLE)
    _, schema, _ = read_struct_list(footer_bytes(data), 2)
    _, row_groups, _ = read_struct_list(footer_bytes(data), 4)
    pair = write_struct([(1, Kind.BINARY, b"key"), (2, Kind.BINARY, b"value")])
    footer = write_struct(
        [
            (1, Kind.I32, 2),
            (2, Kind.LIST, (Kind.STRUCT, [raw for raw, _ in schema])),
            (3, Kind.I64, 3),
            (4, Kind.LIST, (Kind.STRUCT, [raw for raw, _ in row_groups])),
            (5, Kind.LIST, (Kind.STRUCT, [pair])),
            (6, Kind.BINARY, b"lm_datafusion"),
        ]
    )
    pages = data[4 : -8 - len(footer_bytes(data))]
    file = pq.ParquetFile(io.BytesIO(b"PAR1" + pages + file_from_footer(footer)[4:]))
    assert file.metadata.created_by == "lm_datafusion"
    assert file.metadata.metadata == {b"key": b"value"}
    assert file.read().equals(TABLE.cast(file.schema_arrow))

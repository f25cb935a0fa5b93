"""Bytes and page tables that once made a kernel leave its buffers, or trust what it should not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lm_datafusion.formats.parquet.thrift import Kind
from lm_datafusion.kernels import kernel_info
from tests.footers import write_typed

if not kernel_info().is_active:
    pytest.skip("no kernels", allow_module_level=True)

from lm_datafusion.kernels.columns import (
    TEXT_LENGTH,
    FixedBuilder,
    IntTest,
    TextTest,
    filter_rows,
    read_rows,
)
from lm_datafusion.kernels.pages import (
    PageError,
    PageReader,
    Scratch,
    parse_column_index,
    parse_offset_index,
    walk_pages,
)

PLAIN, RLE = 0, 3
INT32 = 2  # as `IntTest` counts types
GE = 5


def v1_page(body: bytes, count: int, *, encoding: int = PLAIN, size: int | None = None) -> bytes:
    """A V1 data page; `size` is what its header claims the body decompresses to."""
    fields = {1: (Kind.I32, count), 2: (Kind.I32, encoding), 3: (Kind.I32, RLE), 4: (Kind.I32, RLE)}
    sizes = {2: (Kind.I32, len(body) if size is None else size), 3: (Kind.I32, len(body))}
    return write_typed({1: (Kind.I32, 0), **sizes, 5: (Kind.STRUCT, fields)}) + body


def ints(*values: int) -> bytes:
    return np.array(values, dtype=np.int32).tobytes()


def set_pages(reader, data, *, starts, first_rows, row_ends, numbers=None, decompress=None):
    numbers = range(len(starts)) if numbers is None else numbers
    lists = (np.array(list(x), dtype=np.int64) for x in (numbers, starts, first_rows, row_ends))
    reader.set_pages(Scratch(), decompress, pa.py_buffer(data), *lists)


def int_builder():
    return FixedBuilder(pa.int32(), 4, 4)


def at_least(literal: int) -> IntTest:
    return IntTest(INT32, GE, literal)


NO_ROWS = np.zeros(0, dtype=np.int32)


def test_no_rows_are_not_all_rows():
    reader = PageReader(0)
    page = v1_page(ints(*range(1000)), 1000)
    set_pages(reader, page, starts=[0], first_rows=[0], row_ends=[1000])
    assert len(read_rows(reader, int_builder(), NO_ROWS, 0, 1000)) == 0
    found, values = filter_rows(reader, at_least(0), None, NO_ROWS, 0, 1000, builder=int_builder())
    assert len(found) == len(values) == 0


@pytest.mark.parametrize(
    ("first_rows", "row_ends"),
    [
        ([0, 0], [4, 4]),
        ([0, 3], [4, 7]),
        ([4, 0], [8, 4]),
        ([-1, 4], [3, 8]),
        ([0, 4], [4, 2**31]),
        ([0, 4], [4, 3]),
        ([0, 2**62], [4, -(2**62)]),
        ([0], [4, 8]),
    ],
)
def test_pages_have_to_be_behind_one_another(first_rows, row_ends):
    reader = PageReader(0)
    page = v1_page(ints(1, 2, 3, 4), 4)
    with pytest.raises(PageError, match="rows"):
        set_pages(
            reader, page + page, starts=[0, len(page)], first_rows=first_rows, row_ends=row_ends
        )
    assert reader.page_count == 0


@pytest.mark.parametrize("rows", [[0, 5], [5, 20], [11, 12], None])
def test_rows_that_no_page_holds(rows):
    reader = PageReader(0)
    page = v1_page(ints(1, 2, 3, 4), 4)
    wanted = None if rows is None else np.array(rows, dtype=np.int32)
    places = {"starts": [0, len(page)], "first_rows": [4, 12], "row_ends": [8, 16]}
    set_pages(reader, page + page, **places)
    with pytest.raises(PageError, match="row"):
        read_rows(reader, int_builder(), wanted, 0, 30)
    with pytest.raises(PageError, match="row"):
        filter_rows(reader, at_least(0), None, wanted, 0, 30)


LARGEST_ID = b"\x05\xfe\xff\xff\xff\x0f\x00"  # field 2^31 - 1, an integer


def test_field_ids_have_16_bits():
    data = LARGEST_ID + b"\x15\x00\x00"  # and a field behind it
    with pytest.raises(PageError):
        walk_pages(data)
    with pytest.raises(PageError):
        parse_offset_index(data)
    with pytest.raises(PageError):
        parse_column_index(data)


def read_first(reader, page, *, start=0, count=4, decompress=None):
    """Reads the first row, so that the page is kept for the others."""
    places = {"starts": [start], "first_rows": [0], "row_ends": [count]}
    set_pages(reader, page, decompress=decompress, **places)
    try:
        return read_rows(reader, int_builder(), np.zeros(1, dtype=np.int32), 0, count)[0].as_py()
    finally:
        reader.release()


def test_no_page_is_taken_for_one_that_was_kept():
    reader = PageReader(0)
    page = v1_page(ints(1, 2, 3, 4), 4)
    set_pages(reader, page, starts=[0], first_rows=[0], row_ends=[4])
    assert len(read_rows(reader, int_builder(), None, 0, 1)) == 1
    # Not released: what was kept of it points into memory that may be gone.
    assert reader.kept_page == -1
    set_pages(reader, b"", starts=[-1], first_rows=[0], row_ends=[4])
    with pytest.raises(PageError, match="outside"):
        read_rows(reader, int_builder(), None, 0, 4)


def test_kept_page_that_was_read_again_may_be_another():
    codec = pa.Codec("snappy")
    small, large = ints(1, 2, 3, 4), ints(*range(5, 3005))
    pages = [
        v1_page(codec.compress(body, asbytes=True), len(body) // 4, size=len(body))
        for body in (small, large)
    ]
    reader = PageReader(0)
    assert read_first(reader, pages[0], decompress=codec.decompress) == 1
    assert reader.kept_page == 0
    assert read_first(reader, pages[1], count=3000, decompress=codec.decompress) == 5


def test_page_that_cannot_be_opened_is_not_kept_as_the_one_before():
    reader = PageReader(0)
    page = v1_page(ints(1, 2, 3, 4), 4)
    broken = v1_page(ints(9, 9, 9, 9), 4, size=15)
    starts = [0, len(page)]
    set_pages(reader, page + broken, starts=starts, first_rows=[0, 4], row_ends=[4, 8])
    with pytest.raises(PageError, match="sizes"):
        read_rows(reader, int_builder(), np.array([0, 4], dtype=np.int32), 0, 8)
    reader.release()
    assert reader.kept_page == -1


@pytest.mark.parametrize("rows", [None, [1, 2]])
def test_length_is_compared_with_the_smallest_number(rows):
    body = b"".join(len(word).to_bytes(4, "little") + word for word in (b"a", b"", b"bcd"))
    reader = PageReader(0)
    set_pages(reader, v1_page(body, 3), starts=[0], first_rows=[0], row_ends=[3])
    wanted = None if rows is None else np.array(rows, dtype=np.int32)
    test = TextTest(TEXT_LENGTH, operator=GE, length=-(2**63))
    found, _ = filter_rows(reader, test, None, wanted, 0, 3)
    assert found.tolist() == (rows or [0, 1, 2])

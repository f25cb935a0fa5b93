from __future__ import annotations

import pytest

from lm_datafusion.formats.orc.decode import load_cuttable
from lm_datafusion.formats.orc.layout import column_layout
from lm_datafusion.formats.orc.row_index import START, Position, RowIndex, is_usable
from lm_datafusion.formats.orc.spec import StreamKind
from lm_datafusion.protobuf import encode_field, encode_varint
from lm_datafusion.storage import ByteRange
from tests.orc_files import opened, write


def entry(*positions):
    return encode_field(1, encode_field(1, b"".join(map(encode_varint, positions))))


@pytest.fixture
def text_layout(tmp_path):
    """PRESENT, DATA and LENGTH of a text column."""
    values = [None, "a"] * 500
    path = write(tmp_path / "f.orc", {"a": values}, row_index_stride=100, compression="zlib")
    with opened(path) as (file, facts):
        return column_layout(facts.tail, facts.load_stripe(file, 0), 1)


def test_positions_are_in_the_order_of_the_layout(text_layout):
    index = RowIndex(entry() + entry(1, 2, 3, 4, 5, 6, 7, 8, 9))
    assert index.positions(0, text_layout, has_chunks=True) == {
        StreamKind.PRESENT: START,
        StreamKind.DATA: START,
        StreamKind.LENGTH: START,
    }
    assert index.positions(1, text_layout, has_chunks=True) == {
        StreamKind.PRESENT: Position(1, 2, 3, 4),
        StreamKind.DATA: Position(5, 6, 0, 0),
        StreamKind.LENGTH: Position(7, 8, 9, 0),
    }


def test_without_compression_there_are_no_chunks(text_layout):
    index = RowIndex(entry() + entry(1, 2, 3, 4, 5, 6))
    assert index.positions(1, text_layout, has_chunks=False) == {
        StreamKind.PRESENT: Position(0, 1, 2, 3),
        StreamKind.DATA: Position(0, 4, 0, 0),
        StreamKind.LENGTH: Position(0, 5, 6, 0),
    }


@pytest.mark.parametrize("count", [0, 8, 10])
def test_numbers_that_do_not_fit_the_streams_are_not_used(text_layout, count):
    index = RowIndex(entry() + entry(*range(count)))
    assert index.positions(1, text_layout, has_chunks=True) is None


@pytest.mark.parametrize(
    "position",
    [
        Position(101, 0, 0, 0),
        Position(0, 65, 0, 0),
        Position(0, 0, 1 << 40, 0),
        Position(0, 0, 0, 8),
    ],
)
def test_positions_outside_their_stream_are_not_used(position):
    streams = {StreamKind.DATA: ByteRange(1000, 100)}
    assert is_usable({StreamKind.DATA: Position(100, 64, 512, 7)}, streams, block_size=64)
    assert not is_usable({StreamKind.DATA: position}, streams, block_size=64)
    assert not is_usable({StreamKind.DATA: Position(0, 101, 0, 0)}, streams, block_size=None)
    # A stream that the stripe does not have has positions all the same.
    assert is_usable({StreamKind.LENGTH: position}, streams, block_size=64)


def test_a_row_index_of_another_length_is_not_used(tmp_path):
    path = write(tmp_path / "f.orc", {"a": list(range(1000))}, row_index_stride=100)
    with opened(path) as (file, facts):
        stripe = facts.load_stripe(file, 0)
        assert load_cuttable(facts, file, stripe, [0], [(1, 3)]) is not None
        facts._row_indexes[0, 1] = RowIndex(entry() * 9)
        assert load_cuttable(facts, file, stripe, [0], [(1, 3)]) is None
        facts._row_indexes[0, 1] = None
        assert load_cuttable(facts, file, stripe, [0], [(1, 3)]) is None

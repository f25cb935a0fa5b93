from __future__ import annotations

import pytest

from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.orc.spec import EncodingKind, StreamKind, TypeKind
from lm_datafusion.formats.orc.stripe import StripeBytes, load_stripe
from lm_datafusion.formats.orc.tail import load_tail
from lm_datafusion.protobuf import encode_field
from lm_datafusion.storage import ByteRange, LocalStorage
from tests.orc_files import opened, write
from tests.unit.formats.orc.test_tail import file_bytes
from tests.unit.formats.orc.test_tail import stripe as stripe_information

TABLE = encode_field(
    4, encode_field(1, TypeKind.STRUCT) + encode_field(2, 1) + encode_field(3, b"a")
) + encode_field(4, encode_field(1, TypeKind.STRING))
PLAIN = encode_field(2, b"")


def stream(kind, column, length):
    return encode_field(
        1, encode_field(1, kind) + encode_field(2, column) + encode_field(3, length)
    )


def load(tmp_path, footer):
    """A stripe of seven rows, ten bytes of streams and the given footer."""
    tail = TABLE + stripe_information(footer=len(footer)) + encode_field(6, 7)
    data = bytearray(file_bytes(tail, body=10 + len(footer)))
    data[13 : 13 + len(footer)] = footer
    path = tmp_path / "made_up.orc"
    path.write_bytes(data)
    storage = LocalStorage()
    with storage.open(storage.load_version(str(path))) as file:
        return load_stripe(file, load_tail(file), 0)


def test_streams_lie_one_after_the_other(tmp_path):
    streams = stream(StreamKind.DATA, 1, 4) + stream(StreamKind.LENGTH, 1, 6)
    stripe = load(tmp_path, streams + PLAIN * 2)
    assert stripe.streams[1, StreamKind.LENGTH] == ByteRange(7, 6)
    assert stripe.value_streams(1) == [StreamKind.DATA, StreamKind.LENGTH]
    assert stripe.group_count == 1  # there is no row index


@pytest.mark.parametrize(
    "footer",
    [
        stream(StreamKind.DATA, 1, 11) + PLAIN * 2,
        stream(StreamKind.DATA, 1, 1 << 62) + PLAIN * 2,
        stream(StreamKind.DATA, 1, 2) * 2 + PLAIN * 2,
        PLAIN,
        PLAIN * 3,
        b"\x0a\x7f",
        PLAIN + encode_field(2, encode_field(1, EncodingKind.DICTIONARY) + encode_field(2, 8)),
    ],
    ids=["long", "longest", "twice", "few", "many", "no message", "dictionary"],
)
def test_hostile_footers_are_corrupt_files(tmp_path, footer):
    with pytest.raises(CorruptFileError, match=r"made_up\.orc.*stripe 0"):
        load(tmp_path, footer)


def test_row_groups_of_a_stripe(tmp_path):
    path = write(tmp_path / "f.orc", {"a": list(range(1001))}, row_index_stride=100)
    with opened(path) as (file, facts):
        stripe = facts.load_stripe(file, 0)
        assert (stripe.stride, stripe.group_count) == (100, 11)
        assert facts.load_stripe(file, 0) is stripe


class CountingFile:
    def __init__(self, data):
        self.data, self.fetched = data, []

    def fetch_ranges(self, ranges):
        self.fetched += ranges
        return [self.data[r.offset : r.stop] for r in ranges]

    def fetch_into(self, ranges, target):
        target[:] = b"".join(self.fetch_ranges(ranges))


def test_bytes_are_fetched_once():
    file = CountingFile(bytes(range(250)) * 400)
    source = StripeBytes(file)
    source.prefetch([ByteRange(0, 10), ByteRange(20, 10), ByteRange(90_000, 10), ByteRange(5, 0)])
    assert file.fetched == [ByteRange(0, 30), ByteRange(90_000, 10)]
    assert bytes(source.view(22, 25)) == file.data[22:25]
    assert bytes(source.view(3, 3)) == b""
    assert len(file.fetched) == 2
    assert bytes(source.view(28, 40)) == file.data[28:40]
    assert bytes(source.view(30, 38)) == file.data[30:38]
    assert file.fetched[2:] == [ByteRange(28, 12)]

from __future__ import annotations

import pyarrow as pa
import pytest

from lm_datafusion.errors import CorruptFileError, LateError, UnsupportedFeatureError
from lm_datafusion.formats.orc.spec import Compression, TypeKind
from lm_datafusion.formats.orc.tail import load_tail
from lm_datafusion.protobuf import encode_field
from lm_datafusion.storage import LocalStorage
from tests.orc_files import CODECS, opened, write

ROOT = encode_field(4, encode_field(1, TypeKind.STRUCT))


def stripe(offset=3, index=0, data=10, footer=5, rows=7):
    numbers = enumerate((offset, index, data, footer, rows), start=1)
    return encode_field(3, b"".join(encode_field(n, value) for n, value in numbers))


def file_bytes(footer=ROOT, *, body=20, magic=b"ORC", **fields):
    """A file with a made-up tail; `fields` are fields of the postscript by number."""
    numbers = {1: len(footer), 2: Compression.NONE, 3: 1024, 5: 0}
    numbers |= {int(name.removeprefix("f")): value for name, value in fields.items()}
    end = b"".join(encode_field(n, value) for n, value in numbers.items())
    end += encode_field(8000, magic)
    return b"ORC" + bytes(body) + footer + end + bytes((len(end),))


def load(tmp_path, data):
    path = tmp_path / "made_up.orc"
    path.write_bytes(data)
    storage = LocalStorage()
    with storage.open(storage.load_version(str(path))) as file:
        return load_tail(file)


def test_a_made_up_tail_is_read(tmp_path):
    tail = load(tmp_path, file_bytes(ROOT + stripe() + encode_field(6, 7)))
    assert tail.stripes[0].row_count == 7
    assert tail.stripes[0].stop == 18
    assert tail.types.names == ()


@pytest.mark.parametrize("codec", CODECS)
def test_tails_of_every_codec(tmp_path, codec):
    path = write(tmp_path / "f.orc", {"a": [1, 2], "b": ["x", None]}, compression=codec)
    with opened(path) as (file, facts):
        assert facts.tail.types.names == ("a", "b")
        assert facts.tail.footer.row_count == 2
        assert facts.load_stripe(file, 0).row_count == 2
        assert len(facts.load_stripe_statistics(file)) == 1


def test_a_footer_larger_than_the_first_read(tmp_path):
    columns = {f"a column with a long name, number {n}": [n] for n in range(900)}
    path = write(tmp_path / "f.orc", columns)
    with opened(path) as (_, facts):
        assert facts.tail.types.names == tuple(columns)
        assert facts.tail.length_bytes > 16 * 1024


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ORC",
        b"ORC\x00\xff",
        b"not an ORC file at all, but long enough for one",
        file_bytes(magic=b"ROC").replace(b"ORC", b"CRO", 1),
        file_bytes(f1=1 << 40),
        file_bytes(f5=1 << 40),
        file_bytes(f2=9),
        file_bytes(f2=Compression.ZLIB, f3=0),
        file_bytes(f2=Compression.ZLIB, f3=1 << 40),
        file_bytes(f2=Compression.ZLIB),
        file_bytes(ROOT + stripe(data=1000) + encode_field(6, 7)),
        file_bytes(ROOT + stripe(offset=1 << 60) + encode_field(6, 7)),
        file_bytes(ROOT + stripe(rows=1 << 40) + encode_field(6, 1 << 40)),
        file_bytes(ROOT + stripe() + encode_field(6, 8)),
        file_bytes(b"\x22\x7f"),
        file_bytes(ROOT * 2),
    ],
)
def test_hostile_tails_are_corrupt_files(tmp_path, data):
    with pytest.raises(CorruptFileError, match=r"made_up\.orc"):
        load(tmp_path, data)


@pytest.mark.parametrize("footer", [b"", encode_field(4, encode_field(1, TypeKind.INT))])
def test_a_root_that_is_no_struct_is_refused(tmp_path, footer):
    with pytest.raises(UnsupportedFeatureError, match=r"made_up\.orc: .* struct"):
        load(tmp_path, file_bytes(footer))


def test_a_file_cut_off_anywhere_is_an_error_that_names_it(tmp_path):
    whole = write(tmp_path / "whole.orc", {"a": list(range(100))}, compression="zlib")
    with open(whole, "rb") as file:
        data = file.read()
    for length in range(len(data)):
        with pytest.raises(LateError, match=r"made_up\.orc"):
            load(tmp_path, data[:length])


def test_encrypted_columns_are_known(tmp_path):
    types = encode_field(1, TypeKind.STRUCT)
    for column, name in enumerate((b"a", b"b"), start=1):
        types += encode_field(2, column) + encode_field(3, name)
    long = encode_field(4, encode_field(1, TypeKind.LONG))
    variant = encode_field(10, encode_field(3, encode_field(1, 2)))
    tail = load(tmp_path, file_bytes(encode_field(4, types) + long * 2 + variant))
    assert not tail.has_encrypted(1)
    assert tail.has_encrypted(2)
    assert tail.has_encrypted(0)


def test_pyarrow_is_not_needed_for_a_tail(tmp_path):
    path = write(tmp_path / "f.orc", pa.table({"a": pa.array([], pa.int8())}))
    with opened(path) as (_, facts):
        assert facts.tail.footer.row_count == 0

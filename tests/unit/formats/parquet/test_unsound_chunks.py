"""Metadata of chunks that would end the process if PyArrow were asked for it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.parquet import unsound_chunks
from lm_datafusion.formats.parquet.schema_elements import parse_schema_elements
from lm_datafusion.formats.parquet.thrift import Kind, ThriftError
from lm_datafusion.formats.parquet.unsound_chunks import find_unsound_chunks
from tests.footers import chunks_of, with_footer
from tests.parquet_files import footer_bytes, write_parquet

TABLE = pa.table({"n": pa.array([1, None, 3]), "t": ["a", "b", "c"], "l": [[1], [], [2, 3]]})
DATA = write_parquet(TABLE, row_group_size=2)
CODEC, SIZES = 4, 16


def change_codec(number):
    return lambda chunk: chunk.update({CODEC: (Kind.I32, number)})


def change_sizes(fields):
    return lambda chunk: chunk.update({SIZES: (Kind.STRUCT, fields)})


def histogram(*counts):
    return (Kind.LIST, (Kind.I64, list(counts)))


UNSOUND = {
    "codec": (0, change_codec(8)),
    "negative codec": (1, change_codec(-1)),
    "codec of four bytes": (1, change_codec(2**31 - 1)),
    "definition levels": (0, change_sizes({3: histogram(1, 2, 3)})),
    "repetition levels": (0, change_sizes({2: histogram(1, 2)})),
    "levels of a list": (2, change_sizes({2: histogram(1, 2), 3: histogram(1, 2)})),
    "text of a number": (0, change_sizes({1: (Kind.I64, 5)})),
}
SOUND = {
    "no sizes": (0, lambda chunk: chunk.pop(SIZES, None)),
    "empty histogram": (0, change_sizes({2: histogram(), 3: histogram()})),
    "text": (1, change_sizes({1: (Kind.I64, 3), 3: histogram(0, 2)})),
}


def changed(column, change, row_group=1):
    return with_footer(DATA, lambda footer: change(chunks_of(footer, column)[row_group]))


@pytest.fixture(params=["kernels", "python"])
def find(request, monkeypatch):
    """`find_unsound_chunks` with and without kernels."""
    if request.param == "python":

        class Inactive:
            is_active = False

        monkeypatch.setattr(unsound_chunks, "kernel_info", Inactive)
    return find_unsound_chunks


@pytest.mark.parametrize("name", UNSOUND)
def test_unsound_chunks_are_found(find, name):
    column, change = UNSOUND[name]
    footer = footer_bytes(changed(column, change))
    assert find(footer, parse_schema_elements(footer)) == {(1, column)}


@pytest.mark.parametrize("name", SOUND)
def test_sound_chunks_are_not(find, name):
    footer = footer_bytes(changed(*SOUND[name]))
    assert find(footer, parse_schema_elements(footer)) == frozenset()


def test_every_prefix_of_a_footer_is_none(find):
    footer = footer_bytes(DATA)
    schema = parse_schema_elements(footer)
    for size in range(len(footer)):
        with pytest.raises(ThriftError):
            find(footer[:size], schema)


@pytest.mark.parametrize("name", UNSOUND)
def test_the_column_cannot_be_read_but_others_can(tmp_path, name):
    column, change = UNSOUND[name]
    path = tmp_path / "t.parquet"
    path.write_bytes(changed(column, change))
    names = TABLE.column_names
    dataset = lm.dataset(path)
    with pytest.raises(CorruptFileError, match=f'column "{names[column]}'):
        dataset.to_table(columns=[names[column]])
    others = [other for other in names if other != names[column]]
    assert dataset.to_table(columns=others).equals(TABLE.select(others))


@pytest.mark.parametrize("fields", [(5,), (6,), (5, 6), (1, 2, 5, 6)])
def test_empty_bounds_of_numbers_prune_nothing(tmp_path, fields):
    def empty(chunk):
        chunk[12][1].update(dict.fromkeys(fields, (Kind.BINARY, b"")))

    path = tmp_path / "t.parquet"
    path.write_bytes(changed(0, empty))
    dataset = lm.dataset(path)
    assert dataset.to_table(columns=["t"], filter="n = 3").to_pydict() == {"t": ["c"]}
    assert dataset.scan_reports()[-1].row_groups_pruned_statistics == 1

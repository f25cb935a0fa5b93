"""Parquet files for tests: the shared corpus, and the parts of a file cut out of its bytes."""

from __future__ import annotations

import contextlib
import io
import math
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.formats.parquet.thrift import read_struct
from lm_datafusion.predicate.kinds import is_text_or_bytes

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"
CORPUS_DATA = CORPUS / "parquet-testing" / "data"
# pyarrow does not open this file ("Map keys must be annotated as required").
UNREADABLE = CORPUS_DATA / "incorrect_map_schema.parquet"
CORPUS_FILES = [
    path
    for folder in (CORPUS, CORPUS_DATA)
    for path in sorted(folder.glob("*.parquet"))
    if path != UNREADABLE
]

needs_corpus = pytest.mark.skipif(not CORPUS_FILES, reason=f"no corpus of files in {CORPUS}")
# One case per file of the corpus that pyarrow opens; without the corpus, one that is skipped.
each_corpus_file = pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.name) for path in CORPUS_FILES]
    or [pytest.param(None, marks=needs_corpus, id="absent")],
)


def write_parquet(table, **options) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def metadata_of(data: bytes):
    return pq.ParquetFile(io.BytesIO(data)).metadata


def footer_bytes(data: bytes) -> bytes:
    size = int.from_bytes(data[-8:-4], "little")
    return data[-8 - size : -8]


def file_from_footer(footer: bytes) -> bytes:
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def chunk_start(data: bytes, row_group: int, column: int) -> int:
    """Where a column chunk begins: at the dictionary page if there is one."""
    chunk = metadata_of(data).row_group(row_group).column(column)
    # 0 stands for "no such page" in files of some writers.
    return min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))


def chunk_bytes(data: bytes, row_group: int, column: int) -> bytes:
    """The pages of a column chunk."""
    size = metadata_of(data).row_group(row_group).column(column).total_compressed_size
    return data[chunk_start(data, row_group, column) :][:size]


def column_chunk(data: bytes, row_group: int, column: int) -> dict:
    """The `ColumnChunk` struct: pyarrow shows no offsets of page indexes."""
    footer, _ = read_struct(footer_bytes(data))
    return footer[4][row_group][1][column]


def offset_index_bytes(data: bytes, row_group: int, column: int) -> bytes:
    chunk = column_chunk(data, row_group, column)
    return data[chunk[4] : chunk[4] + chunk[5]]


def column_index_bytes(data: bytes, row_group: int, column: int) -> bytes:
    chunk = column_chunk(data, row_group, column)
    return data[chunk[6] : chunk[6] + chunk[7]]


def bloom_filter_bytes(data: bytes, row_group: int, column: int) -> bytes:
    """Header and bitset, and whatever follows where the file does not say their length."""
    chunk = metadata_of(data).row_group(row_group).column(column)
    length = chunk.bloom_filter_length
    return data[chunk.bloom_filter_offset :][:length]


def unpacked_encodings(data_type: pa.DataType) -> list[str]:
    """Encodings of a flat type that kernels turn into PLAIN; that itself for booleans."""
    if pa.types.is_boolean(data_type):
        return ["PLAIN"]
    if is_text_or_bytes(data_type):
        return ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
    if pa.types.is_fixed_size_binary(data_type):
        return ["DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"]
    if pa.types.is_floating(data_type):
        return ["BYTE_STREAM_SPLIT"]
    return ["DELTA_BINARY_PACKED", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]


@contextlib.contextmanager
def every_dictionary():
    """Dictionaries are read ahead in small files too, where they save next to nothing."""
    limits = {"FEWEST_DATA_BYTES": 0, "LARGEST_SHARE": math.inf}
    with mock.patch.multiple("lm_datafusion.formats.parquet.dictionary", **limits):
        yield

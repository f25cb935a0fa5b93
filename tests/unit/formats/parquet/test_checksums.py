"""Pages with checksums: those that are right are read, those that are wrong are not decoded."""

from __future__ import annotations

import random
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.parquet.page_checks import BadPage, check_pages
from lm_datafusion.formats.parquet.page_header import walk_page_headers
from lm_datafusion.kernels import kernel_info
from tests.parquet_files import CORPUS_DATA, chunk_bytes, chunk_start, needs_corpus, write_parquet

VERIFY = lm.ScanOptions(verify_checksums=True, threads=1)
ROWS = 300
TABLE = pa.table(
    {
        "number": pa.array([i % 40 for i in range(ROWS)], pa.int64()),
        "text": pa.array([None if i % 7 == 0 else f"word {i % 50}" for i in range(ROWS)]),
        "nested": pa.array([[i, i + 1] for i in range(ROWS)], pa.list_(pa.int32())),
    }
)


def write(path, **options):
    defaults = {"write_page_checksum": True, "max_rows_per_page": 100, "row_group_size": 150}
    path.write_bytes(write_parquet(TABLE, **(defaults | options)))
    return path


def damage_page(path, column, page, *, row_group=0):
    """Flips a bit in the body of a page; where the page begins."""
    data = bytearray(path.read_bytes())
    start = chunk_start(bytes(data), row_group, column)
    pages = list(walk_page_headers(chunk_bytes(bytes(data), row_group, column)))
    offset, header = pages[page]
    data[start + offset + header.header_bytes + header.compressed_size - 1] ^= 1
    path.write_bytes(data)
    return start + offset


@pytest.mark.skipif(not kernel_info().is_active, reason="no kernels")
def test_kernel_computes_the_checksum_of_zlib():
    from lm_datafusion.kernels.pages import crc32

    data = random.Random(5).randbytes(5000)
    for start in range(20):
        for length in [*range(200), 1000, 4097, 4900]:
            piece = data[start : start + length]
            assert crc32(piece) == zlib.crc32(piece), (start, length)


@pytest.mark.parametrize("compression", ["NONE", "SNAPPY", "ZSTD", "GZIP", "LZ4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_right_checksums(tmp_path, compression, version, use_dictionary):
    path = write(
        tmp_path / "t.parquet",
        compression=compression,
        data_page_version=version,
        use_dictionary=use_dictionary,
    )
    dataset = lm.dataset(path, options=VERIFY)
    assert dataset.to_table().equals(TABLE)
    assert dataset.count_rows("number = 7 AND text LIKE 'w%'") == 6


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("page", [0, 1, 2])
@pytest.mark.parametrize("row_group", [0, 1])
def test_a_wrong_checksum_names_file_column_and_page(tmp_path, version, column, page, row_group):
    path = write(tmp_path / "t.parquet", compression="NONE", data_page_version=version)
    offset = damage_page(path, column, page, row_group=row_group)  # page 0 is the dictionary
    name = TABLE.column_names[column]
    with pytest.raises(CorruptFileError, match="checksum") as caught:
        lm.dataset(path, options=VERIFY).to_table(columns=[name])
    assert caught.value.path == str(path)
    assert caught.value.column == name
    assert caught.value.offset_bytes == offset


@pytest.mark.parametrize("column", ["number", "nested"])
def test_pages_that_are_not_read_are_not_verified(tmp_path, column):
    options = {"use_dictionary": False, "write_page_index": True}
    path = write(tmp_path / "t.parquet", compression="NONE", **options)
    damage_page(path, TABLE.column_names.index(column), 1)  # rows 100 to 149
    dataset = lm.dataset(path, options=VERIFY)
    assert dataset.take([3, 70, 200]).equals(TABLE.take([3, 70, 200]))
    with pytest.raises(CorruptFileError, match="checksum"):
        dataset.take([3, 120])


def test_a_dictionary_with_a_wrong_checksum_prunes_nothing(tmp_path):
    path = write(tmp_path / "t.parquet", compression="NONE")
    data = bytearray(path.read_bytes())
    start = chunk_start(bytes(data), 0, 1)
    at = data.index(b"word 10", start)
    data[at : at + 4] = b"WORD"
    path.write_bytes(data)
    wanted = {"columns": ["text"], "filter": "text = 'word 10'"}
    with pytest.raises(CorruptFileError, match="checksum"):
        lm.dataset(path, options=VERIFY).to_table(**wanted)
    assert lm.dataset(path).to_table(**wanted).num_rows < 6


def test_a_dictionary_that_was_read_before_is_verified_when_that_is_asked_for(tmp_path):
    path = write(tmp_path / "t.parquet", compression="NONE")
    damage_page(path, 0, 0)
    assert lm.dataset(path).to_table(columns=["number"]).num_rows == ROWS
    with pytest.raises(CorruptFileError, match="checksum"):
        lm.dataset(path, options=VERIFY).to_table(columns=["number"])


@pytest.mark.parametrize(
    ("column", "condition"),
    [("number", "number + 0 = 39"), ("number", "number = 39"), ("text", "text = 'word 49'")],
)
@pytest.mark.parametrize("page", [0, 1])  # the dictionary, or the first data page
def test_what_scans_without_verifying_learned_is_not_used(tmp_path, column, condition, page):
    path = write(tmp_path / "t.parquet", compression="NONE", write_page_index=False)
    damage_page(path, TABLE.column_names.index(column), page)
    wanted = {"columns": ["nested"], "filter": condition}
    options = {"threads": 1, "prune_statistics": False}
    for _ in range(3):
        lm.dataset(path, options=lm.ScanOptions(**options)).to_table(**wanted)
    verifying = lm.ScanOptions(**options, verify_checksums=True)
    with pytest.raises(CorruptFileError, match="checksum"):
        lm.dataset(path, options=verifying).to_table(**wanted)


def test_what_verifying_scans_learned_is_used_by_the_next(tmp_path):
    path = write(tmp_path / "t.parquet", compression="NONE")
    dataset = lm.dataset(path, options=VERIFY)
    for hits in (0, 2):
        assert dataset.to_table(columns=["nested"], filter="number + 0 = 39").num_rows == 7
        assert dataset.scan_reports()[-1].condition_cache_hits == hits


def test_files_without_checksums_are_read(tmp_path):
    path = write(tmp_path / "t.parquet", write_page_checksum=False)
    assert lm.dataset(path, options=VERIFY).to_table().equals(TABLE)


def test_by_default_what_datafusion_reads_is_read(tmp_path):
    path = write(tmp_path / "t.parquet", compression="NONE", use_dictionary=False)
    damage_page(path, 0, 0)
    assert not lm.ScanOptions().verify_checksums
    assert lm.dataset(path).to_table().equals(pq.read_table(path))


def test_check_pages_says_where():
    pages = chunk_bytes(write_parquet(TABLE, write_page_checksum=True, compression="NONE"), 0, 0)
    check_pages(memoryview(pages), largest_bytes=1 << 20, verify=True)
    damaged = pages[:-1] + bytes([pages[-1] ^ 1])
    check_pages(memoryview(damaged), largest_bytes=1 << 20, verify=False)
    with pytest.raises(BadPage, match="checksum") as caught:
        check_pages(memoryview(damaged), largest_bytes=1 << 20, verify=True)
    assert caught.value.offset == list(walk_page_headers(pages))[-1][0]
    with pytest.raises(BadPage, match="claims more"):
        check_pages(memoryview(pages), largest_bytes=10, verify=False)


@needs_corpus
@pytest.mark.parametrize(
    "name",
    [
        "datapage_v1-snappy-compressed-checksum",
        "datapage_v1-uncompressed-checksum",
        "plain-dict-uncompressed-checksum",
        "rle-dict-snappy-checksum",
    ],
)
def test_files_of_other_writers_with_right_checksums(name):
    path = CORPUS_DATA / f"{name}.parquet"
    assert lm.dataset(path, options=VERIFY).to_table().equals(pq.read_table(path))


@needs_corpus
@pytest.mark.parametrize(
    "name", ["datapage_v1-corrupt-checksum", "rle-dict-uncompressed-corrupt-checksum"]
)
def test_files_of_other_writers_with_wrong_checksums(name):
    path = CORPUS_DATA / f"{name}.parquet"
    with pytest.raises(CorruptFileError, match="checksum") as caught:
        lm.dataset(path, options=VERIFY).to_table()
    assert caught.value.offset_bytes is not None
    assert lm.dataset(path).to_table().equals(pq.read_table(path))

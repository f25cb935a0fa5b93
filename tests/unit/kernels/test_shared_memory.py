"""Memory that several threads, or one page after the other, use."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lm_datafusion.formats.parquet.codecs import make_decompressor
from lm_datafusion.kernels.columns import TextBuilder, read_rows
from lm_datafusion.kernels.pages import PageReader, Scratch

# Four threads look for the values of one dictionary at the same time. Freed memory is overwritten
# (MALLOC_PERTURB_), so that whoever reads it does not get what was there.
RACE = """
import io, threading
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from lm_datafusion.kernels.columns import Dictionary, TextBuilder, read_rows
from lm_datafusion.kernels.pages import PageReader, Scratch, walk_pages

COUNT = 200_000
values = [f"value-{n:07d}" for n in range(COUNT)]
file = io.BytesIO()
pq.write_table(pa.table({"a": values}), file, compression="none", data_page_size=1 << 13,
               dictionary_pagesize_limit=1 << 30, write_statistics=False)
chunk = pq.ParquetFile(file).metadata.row_group(0).column(0)
start = chunk.dictionary_page_offset
buffer = pa.py_buffer(file.getvalue()[start : start + chunk.total_compressed_size])
pages = walk_pages(buffer)[1:]
starts = np.ascontiguousarray(pages[:, 0])
edges = np.concatenate([[0], np.cumsum(pages[:, 5])]).astype(np.int64)
numbers = np.arange(len(pages), dtype=np.int64)
wanted = np.arange(0, COUNT, 50, dtype=np.int32)
expected = pa.array(values).take(pa.array(wanted))

def read(dictionary, barrier, found):
    reader = PageReader(1, "BYTE_ARRAY")
    reader.set_pages(Scratch(), None, buffer, numbers, starts, edges[:-1].copy(), edges[1:].copy())
    builder = TextBuilder(pa.string(), dictionary, is_text=True, is_view=False)
    barrier.wait()
    found.append(read_rows(reader, builder, wanted, 0, COUNT))

for _ in range(25):
    dictionary, barrier, found = Dictionary(buffer, 0, None), threading.Barrier(4), []
    threads = [threading.Thread(target=read, args=(dictionary, barrier, found)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(array.equals(expected) for array in found)
"""


def test_threads_share_a_dictionary():
    environment = {**os.environ, "MALLOC_PERTURB_": "165"}
    done = subprocess.run(
        [sys.executable, "-c", RACE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def text_page(letter: str, times: int) -> tuple[list[str], pa.Buffer]:
    values = [letter * 20 + str(n) * times for n in range(500)]
    file = io.BytesIO()
    pq.write_table(pa.table({"a": values}), file, compression="zstd", use_dictionary=False)
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(0)
    start = chunk.data_page_offset
    return values, pa.py_buffer(file.getvalue()[start : start + chunk.total_compressed_size])


def test_a_kept_page_that_was_fetched_again_is_the_new_one():
    _, old = text_page("a", 1)
    values, new = text_page("b", 2)
    _, other = text_page("c", 1)
    scratch, decompress = Scratch(), make_decompressor("ZSTD")

    def read(reader, buffer, first, start, stop):
        places = [np.array([value], dtype=np.int64) for value in (0, first, 0, 500)]
        reader.set_pages(scratch, decompress, buffer, *places)
        builder = TextBuilder(pa.string(), None, is_text=True, is_view=False)
        found = read_rows(reader, builder, None, start, stop)
        reader.release()
        return found.to_pylist()

    reader = PageReader(1, "BYTE_ARRAY")
    read(reader, old, 0, 0, 10)
    assert reader.kept_page == 0
    assert read(reader, new, 0, 0, 10) == values[:10]
    read(PageReader(1, "BYTE_ARRAY"), other, 0, 0, 500)
    assert read(reader, new, -1, 10, 20) == values[10:20]

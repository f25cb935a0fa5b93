"""How long the parsers of Parquet's own structures take.

Run: `python -m tests.benchmark.bench_parquet_bytes`. Prints the best of 15 repeats.
"""

from __future__ import annotations

import timeit

import pyarrow as pa

from lm_datafusion.formats.parquet.bloom_filter import BloomFilter, parse_bloom_filter_header
from lm_datafusion.formats.parquet.page_header import parse_page_header, walk_page_headers
from lm_datafusion.formats.parquet.page_index import parse_column_index, parse_offset_index
from lm_datafusion.formats.parquet.schema_elements import parse_schema_elements
from lm_datafusion.formats.parquet.thrift import read_struct
from tests.parquet_files import (
    bloom_filter_bytes,
    chunk_bytes,
    column_index_bytes,
    footer_bytes,
    offset_index_bytes,
    write_parquet,
)

ROWS_PER_PAGE = 1000


def best_us(function, *, repeat=15):
    timer = timeit.Timer(function)
    number = max(1, timer.autorange()[0] // 20)
    return min(timer.repeat(repeat=repeat, number=number)) / number * 1e6


def pages_file(num_pages, **options):
    values = pa.array(range(num_pages * ROWS_PER_PAGE), pa.int64())
    options = {"write_page_index": True, "use_dictionary": False} | options
    return write_parquet(pa.table({"n": values}), max_rows_per_page=ROWS_PER_PAGE, **options)


def measures():
    for num_pages in (26, 1000):
        data = pages_file(num_pages, row_group_size=num_pages * ROWS_PER_PAGE)
        offsets, bounds = offset_index_bytes(data, 0, 0), column_index_bytes(data, 0, 0)
        assert len(parse_offset_index(offsets).sizes) == num_pages
        yield f"offset index, {num_pages} pages", lambda raw=offsets: parse_offset_index(raw)
        yield f"column index, {num_pages} pages", lambda raw=bounds: parse_column_index(raw)
    plain = chunk_bytes(pages_file(26), 0, 0)
    yield "page header", lambda: parse_page_header(plain)
    view = memoryview(plain)
    yield "page header, memoryview", lambda: parse_page_header(view)
    with_statistics = chunk_bytes(pages_file(26, write_page_index=False), 0, 0)
    yield "page header with statistics", lambda: parse_page_header(with_statistics)
    v2 = chunk_bytes(pages_file(26, data_page_version="2.0"), 0, 0)
    yield "page header, V2", lambda: parse_page_header(v2)
    yield "walk over 26 pages", lambda: list(walk_page_headers(plain))
    wide = write_parquet(pa.table({f"c{n}": range(800) for n in range(105)}), row_group_size=100)
    footer = footer_bytes(wide)
    yield "schema, 105 columns", lambda: parse_schema_elements(footer)
    yield f"whole footer, {len(footer)} bytes", lambda: read_struct(footer)
    raw = bloom_filter_bytes(pages_file(26, bloom_filter_options={"n": {"ndv": 26_000}}), 0, 0)
    yield "bloom filter header", lambda: parse_bloom_filter_header(raw)
    num_bytes, start = parse_bloom_filter_header(raw)
    bloom_filter = BloomFilter(raw[start : start + num_bytes])
    present, absent = (7).to_bytes(8, "little"), (10**9 + 3).to_bytes(8, "little")
    yield "bloom filter, value present", lambda: bloom_filter.might_contain(present)
    yield "bloom filter, value absent", lambda: bloom_filter.might_contain(absent)


if __name__ == "__main__":
    for name, function in measures():
        print(f"{name:32} {best_us(function):10.2f} us")

"""Files made to take all memory, all time or the process: a `CorruptFileError`, soon and cheaply.

Each is read in a process whose address space is bounded, so that memory that is only asked for
counts as well.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.formats.parquet.thrift import Kind
from tests.footers import chunks_of, elements_of, read_typed, with_footer, write_typed
from tests.parquet_files import file_from_footer, footer_bytes, write_parquet

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LARGEST = 2**31 - 1
MOST_SECONDS = 10
ROOM = 900 << 20
SCRIPT = """
import json, resource, sys, time
import lm_datafusion as lm
lm.dataset(sys.argv[1]).to_table(filter="c > 1")  # everything is loaded
with open("/proc/self/status") as file:
    used = next(int(l.split()[1]) << 10 for l in file if l.startswith("VmSize"))
limit = used + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for line in sys.stdin:
    path, condition = json.loads(line)
    start = time.process_time()
    try:
        dataset = lm.dataset(path, options=lm.ScanOptions(threads=1))
        found = {"rows": dataset.to_table(filter=condition or None).num_rows}
    except lm.LateError as error:
        found = {"error": type(error).__name__, "text": str(error)[:500]}
    except BaseException as error:
        found = {"error": repr(error)[:500], "text": ""}
    found["seconds"] = time.process_time() - start
    print(json.dumps(found), flush=True)
"""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="address space is bounded on Linux only"
)


@pytest.fixture(scope="module", params=["kernels", "no kernels"])
def process(request, tmp_path_factory):
    """A process that reads files, with so many bytes of memory to spare."""
    folder = tmp_path_factory.mktemp("hostile")
    whole = folder / "whole.parquet"
    pq.write_table(pa.table({"c": [1, 2, 3]}), whole)
    environment = os.environ | ({"LM_DATAFUSION_KERNELS": "off"} if "no" in request.param else {})
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(whole), str(ROOM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    ) as started:
        yield started
        started.kill()


@pytest.fixture
def read(process, tmp_path):
    """Reads a file; what came of it."""

    def run(data: bytes, condition: str = ""):
        path = tmp_path / "hostile.parquet"
        path.write_bytes(data)
        process.stdin.write(json.dumps([str(path), condition]) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"the process ended: {process.wait()}"
        found = json.loads(line)
        assert found["seconds"] < MOST_SECONDS, found
        return found

    return run


def file_of(values, **options) -> bytes:
    table = pa.table({"c": values})
    return write_parquet(table, **({"compression": "NONE", "use_dictionary": False} | options))


def with_page(data: bytes, change, number: int = 0) -> bytes:
    """The file with another page: `change(header, body)` gives both, changed."""
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    metadata = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0)
    position = metadata.dictionary_page_offset or metadata.data_page_offset
    stop = position + metadata.total_compressed_size
    pieces, offsets = [], {}
    while position < stop:
        header, body = read_typed(data, position)
        position = body + header[3][1]
        packed = data[body:position]
        if len(pieces) == number:
            header, packed = change(header, packed)
        where = at + sum(map(len, pieces))
        offsets.setdefault(11 if 7 in header else 9, where)
        pieces.append(write_typed(header) + packed)
    pages = b"".join(pieces)

    def move(footer):
        chunk = chunks_of(footer, 0)[0]
        for field, where in offsets.items():
            chunk[field] = (Kind.I64, where)
        chunk[7] = (Kind.I64, len(pages))
        for field in (4, 5, 6, 7):
            footer[4][1][1][0][1][1][1][0].pop(field, None)

    footer = footer_bytes(with_footer(data, move))
    return data[:at] + pages + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def is_corrupt(found) -> bool:
    assert found.get("error") == "CorruptFileError", found
    return "hostile.parquet" in found["text"]


def test_the_process_reads_what_is_whole(read):
    data = file_of(list(range(1000)), compression="ZSTD")
    assert read(data)["rows"] == 1000
    assert read(with_page(data, lambda *page: page))["rows"] == 1000


def test_footers_that_nest_deeply(read):
    assert is_corrupt(read(file_from_footer(b"\x1c" * 200_000)))
    assert is_corrupt(read(file_from_footer(b"\x19" * 200_000)))


def test_schemas_that_nest_deeply(read):
    def nest(footer):
        elements = elements_of(footer)
        group = {3: (Kind.I32, 1), 4: (Kind.BINARY, b"g"), 5: (Kind.I32, 1)}
        elements[1:1] = [group] * 50_000

    assert is_corrupt(read(with_footer(file_of([1]), nest)))


@pytest.mark.parametrize(
    "field", [0x29, 0x49, 0x59, 0x79], ids=["schema", "groups", "pairs", "orders"]
)
def test_lists_that_claim_a_billion_entries(read, field):
    footer = footer_bytes(file_of([1]))
    version = footer[:2]
    hostile = version + bytes([field - 0x10 if field > 0x29 else 0x19])
    assert is_corrupt(read(file_from_footer(hostile + b"\xfc\x80\x94\xeb\xdc\x03" + footer[3:])))


@pytest.mark.parametrize("compression", ["NONE", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("size", [1 << 27, 1 << 30, LARGEST])
def test_pages_that_claim_gigabytes(read, compression, version, size):
    def claim(header, body):
        header[2] = (Kind.I32, size)
        return header, body

    data = file_of([1, None, 3], compression=compression, data_page_version=version)
    assert is_corrupt(read(with_page(data, claim)))


@pytest.mark.parametrize("compression", ["GZIP", "ZSTD", "BROTLI"])
@pytest.mark.parametrize("condition", ["", "c = 5"])
def test_pages_that_decompress_to_a_gigabyte(read, compression, condition):
    packed = pa.Codec(compression.lower()).compress(bytes(1 << 29), asbytes=True)

    def blow_up(header, _body):
        header[2], header[3] = (Kind.I32, 1 << 29), (Kind.I32, len(packed))
        return header, packed

    data = file_of(np.arange(100, dtype=np.int64), compression=compression)
    assert is_corrupt(read(with_page(data, blow_up), condition))


@pytest.mark.parametrize("compression", ["NONE", "SNAPPY", "ZSTD"])
@pytest.mark.parametrize("field", ["size", "values"])
@pytest.mark.parametrize("condition", ["", "c = 'b'", "c = 'nowhere'"])
def test_dictionaries_that_claim_gigabytes(read, compression, field, condition):
    def claim(header, body):
        if field == "size":
            header[2] = (Kind.I32, LARGEST)
        else:
            header[7][1][1] = (Kind.I32, LARGEST)
        return header, body

    data = file_of(["a", "b", "c"] * 50, compression=compression, use_dictionary=True)
    found = read(with_page(data, claim), condition)
    # Statistics say that nothing is there to be read.
    assert found.get("rows") == 0 if condition == "c = 'nowhere'" else is_corrupt(found)


@pytest.mark.parametrize("rows", [10**9, LARGEST, 2**31, 2**40, 2**62])
@pytest.mark.parametrize("condition", ["", "c > 1", "c IS NULL"])
def test_row_groups_that_claim_billions_of_rows(read, rows, condition):
    def claim(footer):
        footer[3] = (Kind.I64, rows)
        footer[4][1][1][0][3] = (Kind.I64, rows)

    assert is_corrupt(read(with_footer(file_of([1, 2, 3]), claim), condition))


@pytest.mark.parametrize("rows", [10**9, LARGEST, 2**40])
def test_row_groups_and_chunks_that_claim_billions_of_rows(read, rows):
    def claim(footer):
        footer[3] = (Kind.I64, rows)
        footer[4][1][1][0][3] = (Kind.I64, rows)
        chunks_of(footer, 0)[0][5] = (Kind.I64, rows)

    assert is_corrupt(read(with_footer(file_of([1, 2, 3]), claim), "c > 1"))

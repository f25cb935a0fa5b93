"""ORC files for tests: tables of every type, written by PyArrow; and facts about a file."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from lm_datafusion.formats.orc.file_facts import load_orc_facts
from lm_datafusion.storage import LocalStorage

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "orc"
CODECS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")

needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason=f"no corpus of ORC files in {CORPUS}")


@contextlib.contextmanager
def opened(path):
    """A file and its facts."""
    storage = LocalStorage()
    with storage.open(storage.load_version(str(path))) as file:
        yield file, load_orc_facts(file)


def write(path, columns, **options):
    """Writes columns, a table or a mapping."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    orc.write_table(table, str(path), **options)
    return str(path)


def _values(random, make, null_share):
    return lambda n: [None if random.random() < null_share else make() for _ in range(n)]


def _integers(random):
    """Numbers in the shapes that runs are made for."""
    shape = random.randrange(5)
    state = [random.randint(-100, 100)]

    def make():
        if shape == 0:
            return random.randint(-(2**63), 2**63 - 1)
        if shape == 1:  # constant, with outliers
            return state[0] if random.random() < 0.97 else random.randint(0, 2**40)
        state[0] += 1 if shape == 2 else random.randint(0, 9) if shape == 3 else 0
        return state[0] if shape < 4 else random.randint(0, 3)

    return make


def _union(random, length):
    codes = [random.randrange(2) for _ in range(length)]
    offsets, counts = [], [0, 0]
    for code in codes:
        offsets.append(counts[code])
        counts[code] += 1
    children = [
        pa.array([random.randint(0, 99) for _ in range(counts[0])], pa.int64()),
        pa.array([str(random.randint(0, 99)) for _ in range(counts[1])], pa.string()),
    ]
    return pa.UnionArray.from_dense(
        pa.array(codes, pa.int8()), pa.array(offsets, pa.int32()), children
    )


def makers(random):
    """By name: a function that makes an array of a length, for every type PyArrow writes."""
    share = random.choice((0.0, 0.0, 0.1, 0.5, 0.95, 1.0))
    integer = _integers(random)

    def text():
        return random.choice(("", "a", "ä€", "x" * 40)) + str(
            random.randint(0, random.choice((3, 10**6)))
        )

    def nested():
        return [
            random.choice((None, {"c": random.choice((None, text()))}))
            for _ in range(random.randint(0, 3))
        ]

    def array(make, data_type):
        return lambda n: pa.array(_values(random, make, share)(n), data_type)

    def narrow(bits):
        return lambda: (integer() + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

    pairs = pa.struct([("a", pa.int8()), ("b", pa.list_(pa.struct([("c", pa.string())])))])
    return {
        "boolean": array(lambda: random.random() < 0.5, pa.bool_()),
        "byte": array(narrow(8), pa.int8()),
        "short": array(narrow(16), pa.int16()),
        "integer": array(narrow(32), pa.int32()),
        "long": array(narrow(64), pa.int64()),
        "float": array(
            lambda: random.choice((0.5, -0.0, float("nan"), random.random())), pa.float32()
        ),
        "double": array(
            lambda: random.choice((0.0, float("inf"), random.gauss(0, 9))), pa.float64()
        ),
        "string": array(text, pa.string()),
        "large_string": array(text, pa.large_string()),
        "binary": array(lambda: random.randbytes(random.randint(0, 9)), pa.binary()),
        "date": lambda n: pa.array(
            _values(random, lambda: random.randint(-90_000, 90_000), share)(n), pa.int32()
        ).cast(pa.date32()),
        "timestamp": lambda n: pa.array(
            _values(random, lambda: random.randint(-(10**18), 10**18), share)(n), pa.int64()
        ).cast(pa.timestamp("ns")),
        "instant": lambda n: pa.array(
            _values(random, lambda: random.randint(-(10**18), 10**18), share)(n), pa.int64()
        ).cast(pa.timestamp("ns", "UTC")),
        "decimal": array(
            lambda: Decimal(random.randint(-(10**9), 10**9)).scaleb(-3), pa.decimal128(15, 3)
        ),
        "long_decimal": array(
            lambda: Decimal(random.randint(-(10**30), 10**30)).scaleb(-2), pa.decimal128(38, 2)
        ),
        "list": array(
            lambda: [random.choice((None, integer())) for _ in range(random.randint(0, 4))],
            pa.list_(pa.int64()),
        ),
        "map": array(
            lambda: [(str(k), random.random() < 0.5) for k in range(random.randint(0, 3))],
            pa.map_(pa.string(), pa.bool_()),
        ),
        "struct": array(
            lambda: {"a": random.choice((None, narrow(8)())), "b": random.choice((None, nested()))},
            pairs,
        ),
        "union": lambda n: _union(random, n),
    }

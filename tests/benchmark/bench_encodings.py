"""Processor time of the late path beside DataFusion, by the encoding of the pages.

    python -m tests.benchmark.bench_encodings [--rows 1000000] [--repeats 9] [--codec snappy]

A file per encoding, of the column in question and a number beside it. Two queries each, with as
many threads on both sides: all values of the column; and the rows that meet a condition on it, one
in a hundred, with both columns. No condition cache. Contenders take turns. Shown are minima: other
work on the machine only ever adds. `LM_DATAFUSION_KERNELS=off` shows the same by PyArrow.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import SessionConfig, SessionContext

import lm_datafusion as lm
from tests.benchmark.bench_scan import THREADS
from tests.benchmark.timing import interleave


def make_columns(rows: int) -> dict[str, tuple[pa.Array, list[str], str]]:
    """By name: values, the encodings to write them in, and a condition that one in 100 meets."""
    rng = np.random.default_rng(0)
    wide = rng.integers(0, 1 << 40, rows)
    narrow = rng.integers(0, 1_000_000, rows).astype(np.int32)
    steps = np.cumsum(rng.integers(0, 1000, rows))
    doubles = rng.normal(size=rows)
    floats = doubles.astype(np.float32)
    parts = (rng.integers(0, high, rows).tolist() for high in (100, 10_000, 100))
    urls = [f"http://example.com/{a}/page{b}?q={c}" for a, b, c in zip(*parts, strict=True)]
    whole = ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]
    text = ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
    return {
        "int64": (pa.array(wide), whole, f"v < {int(np.quantile(wide, 0.01))}"),
        "int64, ascending": (pa.array(steps), whole[1:2], "v % 100 = 7"),
        "int32": (pa.array(narrow), whole, f"v < {int(np.quantile(narrow, 0.01))}"),
        "double": (pa.array(doubles), [whole[0], whole[2]], f"v < {np.quantile(doubles, 0.01)}"),
        "float": (pa.array(floats), [whole[0], whole[2]], f"v < {np.quantile(floats, 0.01)}"),
        "text": (pa.array(urls), text, "v LIKE '%q=77'"),
        "text, sorted": (pa.array(sorted(urls)), text[2:], "v LIKE '%q=77'"),
    }


def measure(path: str, condition: str, repeats: int) -> str:
    """Processor time of both, in milliseconds, and their ratio: all values, then some rows."""
    context = SessionContext(SessionConfig().with_target_partitions(THREADS))
    context.register_parquet("t", path)
    # DataFusion reads text as views.
    options = lm.ScanOptions(threads=THREADS, string_type="string_view", condition_cache_bytes=0)
    data = lm.dataset(path, options=options)
    shown = []
    for columns, where in ((["v"], None), (["v", "k"], condition)):
        sql = f"SELECT {', '.join(columns)} FROM t" + (f" WHERE {where}" if where else "")
        runs = {
            "datafusion": lambda sql=sql: context.sql(sql).collect(),
            "late": lambda c=columns, w=where: data.to_table(columns=c, filter=w),
        }
        least = {name: 1e3 * min(t.cpu) for name, t in interleave(runs, repeats).items()}
        ratio = least["late"] / least["datafusion"]
        shown.append(f"{least['datafusion']:12.1f}{least['late']:8.1f}{ratio:7.2f}")
    return "".join(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description="The late path by the encoding of pages.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--codec", default="snappy")
    arguments = parser.parse_args()
    print(f"{'':44}{'all values':>27}{'one in a hundred':>27}")
    print(f"{'':44}" + f"{'datafusion':>12}{'late':>8}{'ratio':>7}" * 2)
    for name, (values, encodings, condition) in make_columns(arguments.rows).items():
        table = pa.table({"v": values, "k": np.arange(arguments.rows, dtype=np.int32)})
        for encoding in encodings:
            with tempfile.TemporaryDirectory(prefix="lm-bench-") as folder:
                path = str(pathlib.Path(folder) / "encoded.parquet")
                pq.write_table(
                    table,
                    path,
                    use_dictionary=False,
                    column_encoding={"v": encoding, "k": "PLAIN"},
                    compression=arguments.codec,
                    row_group_size=max(1, arguments.rows // 4),
                )
                line = measure(path, condition, arguments.repeats)
                print(f"{name + ', ' + encoding:44}{line}", flush=True)


if __name__ == "__main__":
    main()

"""Comparisons by PyArrow's kernels against DataFusion, which would say the same.

    python -m tests.benchmark.bench_evaluate [--repeats 50]

For whole numbers and text, of few rows (a dictionary) and of many (a row group). Text is handed to
DataFusion as views, and the cast is part of its time: that is how a scan would.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lm_datafusion.predicate.conjunct import Conjunct, bind_conjuncts
from tests.benchmark.timing import interleave

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = (100, 5_000, 262_144)


def columns(rows: int) -> dict[str, tuple[str, pa.Array]]:
    """Values, and a condition on them."""
    rng = np.random.default_rng(3)
    words = [("" if n % 3 else f"слово {n}") for n in rng.integers(0, 5_000, rows)]
    return {
        "int16": ("x <> 0", pa.array(rng.integers(0, 50, rows).astype(np.int16))),
        "int64": ("x < 7", pa.array(rng.integers(0, 50, rows))),
        "text": ("x <> ''", pa.array(words)),
    }


def contenders(text: str, values: pa.Array) -> dict[str, Callable[[], object]]:
    """The two, on the same values."""
    data_type = pa.string_view() if pa.types.is_string(values.type) else values.type
    schema = pa.schema([("x", data_type)])
    (conjunct,) = bind_conjuncts([Conjunct(text=text, columns=("x",))], schema)

    def asked() -> object:
        return conjunct.evaluate(pa.record_batch([values.cast(data_type)], names=["x"]))

    assert conjunct.answer(values).to_pylist() == asked().to_pylist()
    return {"pyarrow": lambda: conjunct.answer(values), "datafusion": asked}


def main() -> None:
    parser = argparse.ArgumentParser(description="PyArrow's kernels against DataFusion.")
    parser.add_argument("--repeats", type=int, default=50)
    repeats = parser.parse_args().repeats
    print(f"{'':8}{'rows':>10}{'PyArrow us':>12}{'DataFusion us':>15}")
    for rows in ROWS:
        for name, (text, values) in columns(rows).items():
            times = interleave(contenders(text, values), repeats)
            took = [times[word].wall_ms * 1e3 for word in ("pyarrow", "datafusion")]
            print(f"{name:8}{rows:10,}{took[0]:12.0f}{took[1]:15.0f}")


if __name__ == "__main__":
    main()

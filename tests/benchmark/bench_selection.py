"""Runs against masks: what applying a selection costs, and what combining two costs.

    python tests/benchmark/bench_selection.py [--rows N] [--repeats N] [--selected FRACTION]

For each average run length, counting selected and skipped runs (both geometrically distributed),
two kinds of tables:

* applying the selection to a decoded pyarrow column: by runs as slices joined with
  `concat_arrays`, by runs as `take` of row indices, and by mask as `Array.filter`. Making the
  slices, the indices or the Arrow mask out of the backing is part of the time.
* `and_then`, `intersection` and `union` of two selections, on each backing.

Repeats of all contenders are interleaved, so that a busy machine disturbs them alike; shown are
medians of wall time and, in brackets, of CPU time of the process, in milliseconds. Where runs
become cheaper than the mask is where the thresholds of `selection/strategy.py` belong.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from functools import partial

import numpy as np
import pyarrow as pa

from lm_datafusion.selection import APPLY_THRESHOLD, MASK_THRESHOLD
from lm_datafusion.selection.mask import Mask

RUN_LENGTHS = [2**power for power in range(15)]


def random_mask(rng, run_length, total_rows, selected):
    """Selected and skipped runs in turn, `run_length` rows long on average over both kinds."""
    num_pairs = total_rows // run_length + 2
    lengths = np.empty(2 * num_pairs, np.int64)
    lengths[::2] = rng.geometric(1 / (2 * run_length * selected), num_pairs)
    lengths[1::2] = rng.geometric(1 / (2 * run_length * (1 - selected)), num_pairs)
    return np.resize(np.repeat(np.arange(2 * num_pairs) % 2 == 0, lengths), total_rows)


def run_lengths(selected):
    """Those at which neither kind of run is shorter than a row."""
    return [n for n in RUN_LENGTHS if 2 * n * min(selected, 1 - selected) >= 1]


def apply_slices(array, runs):
    starts, lengths = runs.starts.tolist(), (runs.stops - runs.starts).tolist()
    return pa.concat_arrays([array.slice(*run) for run in zip(starts, lengths, strict=True)])


def apply_indices(array, runs):
    return array.take(pa.array(runs.to_indices()))


def apply_mask(array, mask):
    packed = pa.py_buffer(np.packbits(mask.bits, bitorder="little"))
    return array.filter(pa.BooleanArray.from_buffers(pa.bool_(), len(mask.bits), [None, packed]))


def measure(contenders, repeats):
    """Median (wall, CPU) milliseconds by contender, repeats interleaved."""
    times = {name: ([], []) for name in contenders}
    for repeat in range(repeats + 1):
        for name, contender in contenders.items():
            wall, cpu = time.perf_counter(), time.process_time()
            contender()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if repeat:  # the first round warms up
                times[name][0].append(1000 * wall)
                times[name][1].append(1000 * cpu)
    return {name: tuple(map(statistics.median, pair)) for name, pair in times.items()}


def print_table(title, rows):
    print(f"\n{title}: median ms, wall (CPU)")
    names = list(next(iter(rows.values())))
    print(f"{'run length':>10} " + " ".join(f"{name:>21}" for name in names))
    for run_length, row in rows.items():
        cells = " ".join(f"{wall:12.3f} ({cpu:6.2f})" for wall, cpu in row.values())
        print(f"{run_length:>10} {cells}")


def print_crossing(rows, runs_name, mask_name):
    ahead = [length for length, row in rows.items() if row[runs_name][0] < row[mask_name][0]]
    steady = [n for n in rows if all(m in ahead for m in rows if m >= n)]
    where = f"from run length {steady[0]} on" if steady else "nowhere in this table"
    print(f"  {runs_name} beats {mask_name} {where}")


def bench_apply(rng, options):
    total_rows = options.rows
    integers = pa.array(rng.integers(0, 1 << 30, total_rows, dtype=np.int32))
    words = pa.array([f"https://example.com/{n:x}" for n in rng.integers(0, 1 << 30, 1000)])
    strings = words.take(pa.array(rng.integers(0, 1000, total_rows)))
    for title, array in (("apply to int32", integers), ("apply to string", strings)):
        rows = {}
        for run_length in run_lengths(options.selected):
            mask = Mask(random_mask(rng, run_length, total_rows, options.selected))
            runs = mask.to_runs()
            expected = apply_mask(array, mask)
            assert apply_slices(array, runs).equals(expected)
            assert apply_indices(array, runs).equals(expected)
            contenders = {
                "runs: slices": partial(apply_slices, array, runs),
                "runs: indices": partial(apply_indices, array, runs),
                "mask: filter": partial(apply_mask, array, mask),
            }
            rows[run_length] = measure(contenders, options.repeats)
        print_table(title, rows)
        print_crossing(rows, "runs: slices", "mask: filter")
        print_crossing(rows, "runs: indices", "mask: filter")


def bench_algebra(rng, options):
    total_rows = options.rows
    for operation in ("and_then", "intersection", "union"):
        rows = {}
        for run_length in run_lengths(options.selected):
            left = Mask(random_mask(rng, run_length, total_rows, options.selected))
            other_rows = left.row_count if operation == "and_then" else total_rows
            right = Mask(random_mask(rng, run_length, other_rows, options.selected))
            contenders = {
                "runs": partial(getattr(left.to_runs(), operation), right.to_runs()),
                "mask": partial(getattr(left, operation), right),
            }
            rows[run_length] = measure(contenders, options.repeats)
        print_table(operation, rows)
        print_crossing(rows, "runs", "mask")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each selection")
    parser.add_argument("--repeats", type=int, default=11, help="timed rounds per contender")
    parser.add_argument("--selected", type=float, default=0.5, help="fraction of the rows")
    parser.add_argument("--seed", type=int, default=0, help="of the random run lengths")
    options = parser.parse_args()
    print(
        f"{options.rows} rows, {options.repeats} repeats, {options.selected:.0%} selected; "
        f"Python {platform.python_version()}, numpy {np.__version__}, pyarrow {pa.__version__}; "
        f"MASK_THRESHOLD = {MASK_THRESHOLD}, APPLY_THRESHOLD = {APPLY_THRESHOLD}"
    )
    rng = np.random.default_rng(options.seed)
    bench_apply(rng, options)
    bench_algebra(rng, options)


if __name__ == "__main__":
    main()

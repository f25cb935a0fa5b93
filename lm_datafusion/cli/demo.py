"""The demo: one file, two selective queries, four readers.

In: a number of rows. Out: a table of times, and a report of what our scan pruned.

1. A sample file is written to a temporary folder, or to a given one.
2. Each query runs with pyarrow.dataset, with DataFusion over the file (default options, so without
   filter pushdown), with `lm.dataset`, and with DataFusion over `lm.dataset`. The readers take
   turns, so that load on the machine affects all of them; the best run counts.
3. Results are compared row by row; the demo fails if they differ.

Both queries keep a few adjacent rows and many columns: the best case of late materialization. They
say nothing about queries that read whole columns anyway, or whose rows are spread over every page.

Invariant: the faster reader is named, whichever it is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lm_datafusion.cli.sample_file import (
    NUMBER_FILLERS,
    TEXT_FILLERS,
    middle_visit,
    user_of,
    write_sample,
)
from lm_datafusion.dataset import LateDataset, dataset
from lm_datafusion.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from datafusion import SessionContext

FILE_NAME: Final = "lm_datafusion_demo.parquet"
BYTES_PER_ROW: Final = 200  # measured, rounded up
STOCK: Final = "pyarrow.dataset"
NATIVE: Final = "DataFusion"
LATE: Final = "lm.dataset"
OVER_LATE: Final = "DataFusion over lm.dataset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query, in SQL and as a PyArrow filter."""

    title: str
    columns: tuple[str, ...]
    condition: str
    expression: pc.Expression

    @property
    def sql(self) -> str:
        """The whole statement, over a table `t`."""
        return f"SELECT {', '.join(self.columns)} FROM t WHERE {self.condition}"  # noqa: S608 ours


@dataclass(slots=True)
class Timing:
    """The best wall and CPU time of the runs so far."""

    wall_s: float = float("inf")
    cpu_s: float = float("inf")

    def note(self, wall_s: float, cpu_s: float) -> None:
        """Records one more run."""
        self.wall_s = min(self.wall_s, wall_s)
        self.cpu_s = min(self.cpu_s, cpu_s)


def run_demo(*, rows: int, repeats: int, folder: str | None) -> int:
    """Writes the sample, runs the queries, prints the results.

    Args:
        rows: Rows of the sample.
        repeats: Runs of each query with each reader.
        folder: Where to keep the sample; None for a folder that is removed afterwards.

    Returns:
        The exit code: 1 if the readers' results differ.
    """
    with _sample_folder(folder) as home:
        path = os.path.join(home, FILE_NAME)
        _write(path, rows)
        late = dataset(path)
        readers = _readers(path, late)
        print(f"Each query runs {repeats} times with each reader, in turns; the best run counts.")
        are_equal = [_compare(query, readers, late, repeats) for query in _queries(rows)]
        if folder is not None:
            print(f"\nThe sample file is {path}")
    return 0 if all(are_equal) else 1


def _queries(rows: int) -> list[Query]:
    user = user_of(middle_visit(rows))
    wide = ("event_id", "event_time", "url", "status", *NUMBER_FILLERS[:4], *TEXT_FILLERS[:4])
    return [
        Query(
            title="Needle: what one user did",
            columns=wide,
            condition=f"user_id = {user}",
            expression=ds.field("user_id") == user,
        ),
        Query(
            title="Search: failures of the checkout",
            columns=wide,
            condition="url LIKE '%/checkout/%' AND status = 503",
            expression=pc.match_substring(ds.field("url"), "/checkout/")
            & (ds.field("status") == pa.scalar(503, pa.int16())),
        ),
    ]


def _readers(path: str, late: LateDataset) -> dict[str, Callable[[Query], pa.Table]]:
    stock = ds.dataset(path)
    native, over_late = _datafusion_contexts(path, late)
    return {
        STOCK: lambda q: stock.to_table(list(q.columns), filter=q.expression),
        NATIVE: lambda q: native.sql(q.sql).to_arrow_table(),
        LATE: lambda q: late.to_table(list(q.columns), filter=q.condition),
        OVER_LATE: lambda q: over_late.sql(q.sql).to_arrow_table(),
    }


def _datafusion_contexts(path: str, late: LateDataset) -> tuple[SessionContext, SessionContext]:
    """Two plain contexts with a table `t`: DataFusion's own reader, and ours."""
    from datafusion import SessionContext

    native, over_late = SessionContext(), SessionContext()
    native.register_parquet("t", path)
    over_late.register_dataset("t", late)
    return native, over_late


def _compare(
    query: Query,
    readers: dict[str, Callable[[Query], pa.Table]],
    late: LateDataset,
    repeats: int,
) -> bool:
    timings = {name: Timing() for name in readers}
    answers: dict[str, pa.Table] = {}
    report = None
    for _ in range(repeats):
        for name, read in readers.items():
            wall, cpu = time.perf_counter(), time.process_time()
            answers[name] = read(query)
            timings[name].note(time.perf_counter() - wall, time.process_time() - cpu)
            if name == LATE:
                report = late.scan_reports()[-1]
    print(f"\n{query.title}\n  {query.sql}\n")
    _print_timings(timings)
    are_equal = _check_answers(answers)
    print(f"\n{LATE} in its last run:\n{report}")
    return are_equal


def _print_timings(timings: dict[str, Timing]) -> None:
    print(f"  {'reader':<28}{'wall ms':>9}{'CPU ms':>9}")
    for name, timing in timings.items():
        print(f"  {name:<28}{timing.wall_s * 1e3:>9.1f}{timing.cpu_s * 1e3:>9.1f}")
    print()
    for ours, other in ((LATE, STOCK), (LATE, NATIVE), (OVER_LATE, NATIVE)):
        print(f"  {ours} {_ratio(timings[ours].wall_s, timings[other].wall_s)} {other}")


def _ratio(ours_s: float, other_s: float) -> str:
    if ours_s <= other_s:
        return f"is {other_s / ours_s:.1f} times as fast as"
    return f"is SLOWER: it takes {ours_s / other_s:.1f} times as long as"


def _check_answers(answers: dict[str, pa.Table]) -> bool:
    """Compares the answers with pyarrow's, in the same order and schema."""
    expected = answers[STOCK].sort_by("event_id")
    wrong = [
        name
        for name, answer in answers.items()
        if not answer.cast(expected.schema).sort_by("event_id").equals(expected)
    ]
    if wrong:
        print(f"  ANSWERS DIFFER from those of {STOCK}: {', '.join(wrong)}")
    else:
        print(f"  all {len(answers)} answers are equal: {expected.num_rows:,} rows")
    return not wrong


@contextlib.contextmanager
def _sample_folder(folder: str | None) -> Iterator[str]:
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="lm_datafusion_") as temporary:
        yield temporary


def _write(path: str, rows: int) -> None:
    free = shutil.disk_usage(os.path.dirname(path) or ".").free
    if free < rows * BYTES_PER_ROW:
        raise StorageError(
            f"the sample needs {rows * BYTES_PER_ROW / 1e6:,.0f} MB, but {os.path.dirname(path)}"
            f" has {free / 1e6:,.0f} MB free; ask for fewer --rows, or another --dir"
        )
    started = time.perf_counter()
    is_terminal = sys.stdout.isatty()

    def show(done: int) -> None:
        if is_terminal:
            print(f"\rWriting {done:,} of {rows:,} rows", end="", flush=True)

    show(0)
    write_sample(path, rows, show)
    size = os.path.getsize(path) / 1e6
    elapsed = time.perf_counter() - started
    start = "\r" if is_terminal else ""
    print(f"{start}Wrote {rows:,} rows ({size:,.0f} MB) in {elapsed:.0f} s        ")

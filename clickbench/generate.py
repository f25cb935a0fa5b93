"""Makes Parquet or ORC files with rows like those of ClickBench's `hits`, on Spark.

The same (rows, seed) always gives the same data, whatever the files, cores and layout. A job
that was interrupted goes on where it was when the same command is given again. The folder gets
hits_000.parquet, hits_001.parquet, ... in the order of the table, and _manifest.json with row
counts and checksums.

Why Spark schedules but pyarrow writes: each task makes the blocks of one file and writes it
itself, since parquet-java can neither be set to row groups in multiples of 8192 rows nor to leave
out the page index, and rows would have to cross from Python to Java for it. Spark gives the
cores, the order, the retries, and on a cluster the machines (the folder has to be shared then).
A file is one task, so fewer files than cores leave cores idle.

Measured on 2 cores: 10 million rows in 121 s, with 2.7 GB for all processes together.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clickbench.layout import LAYOUTS, file_suffix, write_file
from clickbench.manifest import FileEntry, ManifestError, Workplace, file_checksum
from clickbench.model.plan import BLOCK_ROWS, MODEL_VERSION, make_plan
from clickbench.progress import INTERRUPTED, Progress
from clickbench.spark_session import JavaMissingError, run_tasks

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    import pyarrow as pa

HELP = "make data like that of ClickBench"
ROWS_PER_FILE = 1_000_000
_LEAST, _MOST = 10_000, 100_000_000


@dataclass(frozen=True)
class FileTask:
    """One file to be made: its data set and its rows."""

    folder: str
    name: str
    rows: int
    seed: int
    layout: str
    first_block: int
    last_block: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `python -m clickbench generate`."""
    parser.add_argument(
        "--rows", type=_count, required=True, metavar="N",
        help="rows, 10,000 to 100 million; 1m and 50k are understood",
    )  # fmt: skip
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the files")
    parser.add_argument(
        "--layout", choices=LAYOUTS, default="clickbench",
        help="clickbench: like the public files; tuned: what we recommend; orc: as ORC"
        " (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="default: %(default)s")
    parser.add_argument(
        "--files", type=int, metavar="K",
        help="files to cut the rows into (default: one per million rows, but one per core at "
        "least); each is made by one core",
    )  # fmt: skip
    parser.add_argument("--cores", type=int, metavar="C", help="cores to use (default: all)")


def _count(text: str) -> int:
    """A number of rows such as 1000000, 1_000_000, 50k or 10m."""
    factor = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    return int(float(text[:-1]) * factor) if factor > 1 else int(text.replace(",", ""))


_count.__name__ = "number of rows"  # argparse names the type in its message


def main(arguments: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    if not _LEAST <= arguments.rows <= _MOST:
        print(f"--rows must be {_LEAST:,} to {_MOST:,}", file=sys.stderr)
        return 2
    start = time.monotonic()
    cores = arguments.cores or os.cpu_count() or 1
    files = arguments.files or max(math.ceil(arguments.rows / ROWS_PER_FILE), cores)
    try:
        manifest = generate(
            arguments.rows, arguments.out,
            layout=arguments.layout, seed=arguments.seed, files=files, cores=cores,
        )  # fmt: skip
    except (ManifestError, JavaMissingError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on where this one was", file=sys.stderr)
        return INTERRUPTED
    print(
        f"{manifest['rows']:,} rows in {len(manifest['files'])} files, {manifest['bytes']:,} bytes,"
        f" checksum {manifest['checksum']}, {time.monotonic() - start:.1f} s"
    )
    return 0


def generate(
    rows: int,
    folder: str,
    *,
    layout: str = "clickbench",
    seed: int = 0,
    files: int = 2,
    cores: int | None = None,
) -> dict[str, Any]:
    """Makes a data set, or what is missing of it.

    Returns:
        The manifest.

    Raises:
        ManifestError: The folder holds something else.
    """
    folder = os.path.abspath(folder)
    tasks = plan_files(rows, folder, layout=layout, seed=seed, files=files)
    parameters = {
        "rows": rows, "seed": seed, "layout": layout, "files": len(tasks), "model": MODEL_VERSION,
    }  # fmt: skip
    workplace = Workplace(folder)
    done_before = workplace.manifest()
    if done_before is not None and done_before["parameters"] == parameters:
        return done_before
    done = workplace.begin(parameters)
    missing = [task for task in tasks if task.name not in done]
    if missing:
        with Progress(rows, workplace.rows_made):
            made = run_tasks(make_file, missing, cores)
        done |= {entry.name: entry for entry in made}
    return workplace.finish(parameters, [done[task.name] for task in tasks])


def plan_files(rows: int, folder: str, *, layout: str, seed: int, files: int) -> list[FileTask]:
    """Cuts a data set into files of whole blocks, as even as can be."""
    blocks = -(-rows // BLOCK_ROWS)
    files = max(min(files, blocks), 1)
    borders = [number * blocks // files for number in range(files + 1)]
    digits = max(len(str(files - 1)), 3)
    suffix = file_suffix(layout)
    return [
        FileTask(folder, f"hits_{number:0{digits}}{suffix}", rows, seed, layout, first, last)
        for number, (first, last) in enumerate(itertools.pairwise(borders))
    ]


def make_file(task: FileTask) -> FileEntry:
    """Makes one file, its entry, and notes of progress on the way; runs on a worker."""
    workplace = Workplace(task.folder)
    plan = make_plan(task.rows, task.seed)
    checksums: list[str] = []
    path = workplace.path(task.name)
    write_file(_noted_blocks(task, workplace, checksums), path, task.layout)
    first_row, _ = plan.block_range(task.first_block)
    _, last_row = plan.block_range(task.last_block - 1)
    entry = FileEntry(
        name=task.name,
        first_row=first_row,
        rows=last_row - first_row,
        bytes=os.path.getsize(path),
        checksum=file_checksum(path),
        block_checksums=checksums,
    )
    workplace.finish_file(entry)
    return entry


def _noted_blocks(task: FileTask, workplace: Workplace, checksums: list[str]) -> Iterator[pa.Table]:
    """The blocks of a file; each is noted when it is made."""
    from clickbench.model.hits import block_checksum, generate_block

    plan = make_plan(task.rows, task.seed)
    made = 0
    for block in range(task.first_block, task.last_block):
        table = generate_block(plan, block)
        checksums.append(block_checksum(table))
        made += table.num_rows
        workplace.note_progress(task.name, made)
        yield table

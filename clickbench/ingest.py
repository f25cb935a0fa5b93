"""Makes Parquet files in one of the layouts from the real data of ClickBench, on Spark.

Sources are hits.parquet, hits_*.parquet, hits.tsv or hits.tsv.gz. The schema is enforced: 105
columns of the types of hits.parquet, none of them NULL. A row that does not fit is set aside in
_rejected_NNN.jsonl, with its source, its line (or row) number from 1, the reason and the raw
text; _manifest.json counts them by reason. Values that are not UTF-8 are repaired and counted by
column. Rows in = rows out + rows set aside, or the command fails.

The folder gets hits_000.parquet, hits_001.parquet, ... in the order of the source. A job that
was interrupted goes on when the same command is given again. As in generate, Spark runs the
tasks and pyarrow reads and writes. A .gz file cannot be read in parallel and is first unpacked
into DIR/_work, which takes the room of the text.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import pyarrow.parquet as pq

from clickbench.conform import (
    Conformed,
    SchemaError,
    check_schema,
    conform_batch,
    conform_text,
)
from clickbench.layout import LAYOUTS, file_suffix, write_file
from clickbench.manifest import FileEntry, ManifestError, Workplace, file_checksum
from clickbench.progress import INTERRUPTED, Progress
from clickbench.schema import SCHEMA
from clickbench.sources import (
    Piece,
    SourceError,
    count_breaks,
    find_sources,
    parquet_pieces,
    read_lines,
    text_pieces,
    unpack,
)
from clickbench.spark_session import JavaMissingError, run_tasks
from clickbench.tsv import split_fields

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    import pyarrow as pa

HELP = "make data of the real files of ClickBench"
_BATCH_ROWS = 65_536
_FIELD_COUNT = "number of fields"
_RAW_BYTES = 20_000  # of a rejected row that are kept


@dataclass(frozen=True)
class IngestTask:
    """One output file to be made of one piece of a source."""

    folder: str
    name: str
    rejected_name: str
    layout: str
    piece: Piece


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `python -m clickbench ingest`."""
    parser.add_argument(
        "--from", dest="sources", nargs="+", required=True, metavar="FILE",
        help="hits.parquet, 'hits_*.parquet', hits.tsv or hits.tsv.gz; several are read in turn",
    )  # fmt: skip
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the files")
    parser.add_argument(
        "--layout", choices=LAYOUTS, default="clickbench",
        help="clickbench: like the public files; tuned: what we recommend (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--cores", type=int, metavar="C", help="cores to use (default: all)")


def main(arguments: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    start = time.monotonic()
    try:
        manifest = ingest(
            arguments.sources, arguments.out, layout=arguments.layout, cores=arguments.cores
        )
    except (ManifestError, SourceError, SchemaError, JavaMissingError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on where this one was", file=sys.stderr)
        return INTERRUPTED
    print(
        f"{manifest['rows']:,} rows in {len(manifest['files'])} files, {manifest['bytes']:,} bytes,"
        f" {time.monotonic() - start:.1f} s"
    )
    if manifest["rejected_rows"]:
        print(f"{manifest['rejected_rows']:,} rows set aside in {arguments.out}/_rejected_*.jsonl:")
        for reason, count in sorted(manifest["rejected"].items(), key=lambda item: -item[1]):
            print(f"  {count:>10,}  {reason}")
    for column, count in manifest["repaired"].items():
        print(f"  {count:>10,}  values of {column} were not UTF-8 and are repaired")
    return 0


def ingest(
    patterns: list[str], folder: str, *, layout: str = "clickbench", cores: int | None = None
) -> dict[str, Any]:
    """Brings real data into a layout, or what is missing of it.

    Returns:
        The manifest.

    Raises:
        ManifestError: The folder holds something else.
        SourceError: A source is missing or of no known kind.
        SchemaError: A source has other columns than `hits`.
    """
    folder = os.path.abspath(folder)
    sources = [os.path.abspath(path) for path in find_sources(patterns)]
    parameters = {
        "from": [[path, os.path.getsize(path)] for path in sources],
        "layout": layout,
    }
    workplace = Workplace(folder)
    finished = workplace.manifest()
    if finished is not None and finished["parameters"] == parameters:
        return finished
    done = workplace.begin(parameters)
    tasks = _plan(workplace, sources, layout, cores or os.cpu_count() or 1)
    missing = [task for task in tasks if task.name not in done]
    if missing:
        with Progress(_expected_rows(tasks), workplace.rows_made):
            made = run_tasks(ingest_piece, missing, cores)
        done |= {entry.name: entry for entry in made}
    return _finish(workplace, parameters, [done[task.name] for task in tasks])


def _plan(workplace: Workplace, sources: list[str], layout: str, cores: int) -> list[IngestTask]:
    pieces: list[Piece] = []
    for path in sources:
        if path.endswith(".parquet"):
            pieces += parquet_pieces(path)
            check_schema(path)
        elif path.endswith(".gz"):
            pieces += unpack(path, workplace.work("unpacked"))
        else:
            pieces += text_pieces(path, cores, lambda cuts: run_tasks(count_breaks, cuts, cores))
    return [
        IngestTask(
            workplace.folder,
            f"hits_{number:03}{file_suffix(layout)}",
            f"_rejected_{number:03}.jsonl",
            layout,
            piece,
        )
        for number, piece in enumerate(pieces)
    ]  # fmt: skip


def _expected_rows(tasks: list[IngestTask]) -> int:
    """About how many rows there are, for the progress bar."""
    bytes_ = sum(task.piece.stop - task.piece.start for task in tasks if task.piece.is_text)
    rows = bytes_ // 700
    for path in {task.piece.path for task in tasks if not task.piece.is_text}:
        rows += pq.read_metadata(path).num_rows
    return rows


def _finish(
    workplace: Workplace, parameters: dict[str, Any], entries: list[FileEntry]
) -> dict[str, Any]:
    rejected: Counter[str] = Counter()
    repaired: Counter[str] = Counter()
    for entry in entries:
        rejected.update(entry.rejected)
        repaired.update(entry.repaired)
    placed = []
    row = 0
    for entry in entries:
        placed.append(FileEntry(**{**vars(entry), "first_row": row}))
        row += entry.rows
    return workplace.finish(
        parameters, placed,
        rejected_rows=rejected.total(), rejected=dict(rejected), repaired=dict(repaired),
    )  # fmt: skip


class _Intake:
    """Takes batches of one piece; keeps count of every row."""

    def __init__(self, task: IngestTask, rejects: TextIO) -> None:
        self._task, self._rejects = task, rejects
        self.rows_in = self.rows_out = 0
        self.rejected: Counter[str] = Counter()
        self.repaired: Counter[str] = Counter()

    def tables(self) -> Iterator[pa.Table]:
        """The rows that fit, batch by batch."""
        workplace = Workplace(self._task.folder)
        batches = self._text() if self._task.piece.is_text else self._parquet()
        for conformed in batches:
            self.repaired.update(conformed.repaired)
            self.rows_out += conformed.table.num_rows
            workplace.note_progress(self._task.name, self.rows_in)
            if conformed.table.num_rows:
                yield conformed.table

    def _set_aside(self, row: int, reason: str, kind: str, raw: str) -> None:
        self.rejected[kind] += 1
        entry = {"source": self._task.piece.source, "line": row + 1, "reason": reason, "raw": raw}
        self._rejects.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def _text(self) -> Iterator[Conformed]:
        line = self._task.piece.first_row
        for data in read_lines(self._task.piece):
            fields = split_fields(data, len(SCHEMA))
            conformed = conform_text(fields.columns)
            reasons = {
                int(number): f"{fields.counts[number]} fields instead of {len(SCHEMA)}"
                for number in range(len(fields.counts))
                if fields.counts[number] != len(SCHEMA)
            }
            reasons |= {int(fields.whole[row]): why for row, why in conformed.bad.items()}
            for number, reason in sorted(reasons.items()):
                raw = data[fields.line_starts[number] : fields.line_ends[number]][:_RAW_BYTES]
                kind = _FIELD_COUNT if " fields instead" in reason else reason.split(":")[0]
                text = raw.decode(errors="backslashreplace")
                self._set_aside(line + number, reason, kind, text)
            line += len(fields.counts)
            self.rows_in += len(fields.counts)
            yield conformed

    def _parquet(self) -> Iterator[Conformed]:
        piece = self._task.piece
        row = piece.first_row
        with pq.ParquetFile(piece.path) as file:
            groups = list(range(piece.start, piece.stop))
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups):
                conformed = conform_batch(batch)
                for number, reason in sorted(conformed.bad.items()):
                    raw = str(batch.slice(number, 1).to_pylist()[0])[:_RAW_BYTES]
                    self._set_aside(row + number, reason, reason.split(":")[0], raw)
                row += batch.num_rows
                self.rows_in += batch.num_rows
                yield conformed


def ingest_piece(task: IngestTask) -> FileEntry:
    """Makes one file of one piece; runs on a worker.

    Raises:
        RuntimeError: Rows were lost, which must not be.
    """
    from clickbench.model.hits import block_checksum

    workplace = Workplace(task.folder)
    path, rejected_path = workplace.path(task.name), workplace.path(task.rejected_name)
    waiting = f"{rejected_path}.{os.getpid()}.writing"
    checksums = []
    with open(waiting, "w", encoding="utf-8") as rejects:
        intake = _Intake(task, rejects)

        def tables() -> Iterator[pa.Table]:
            for table in intake.tables():
                checksums.append(block_checksum(table.combine_chunks()))
                yield table

        write_file(tables(), path, task.layout)
    rows = pq.read_metadata(path).num_rows
    if intake.rows_in != rows + intake.rejected.total():
        raise RuntimeError(
            f"{task.name}: {intake.rows_in} rows in, but {rows} out and "
            f"{intake.rejected.total()} set aside"
        )
    if intake.rejected:
        os.replace(waiting, rejected_path)
    else:
        os.remove(waiting)
    entry = FileEntry(
        name=task.name,
        first_row=0,  # known when all files are done
        rows=rows,
        bytes=os.path.getsize(path),
        checksum=file_checksum(path),
        block_checksums=checksums,
        rejected=dict(intake.rejected),
        repaired=dict(intake.repaired),
    )
    workplace.finish_file(entry)
    return entry

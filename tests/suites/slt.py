"""DataFusion's sqllogictest files as a differential suite.

    python -m tests.suites.slt --files datafusion/sqllogictest/test_files --root datafusion
    python -m tests.suites.slt --files DIR --paths auto,late --match 'join*.slt'

The folder can also be given by SLT_FILES, and its root by SLT_ROOT: what files name by relative
paths has to be under the root. Each file runs in a process of its own, by which a crash, or one
that takes too long, is a failure of that file alone. A process makes a folder per session, in
which all under the root is linked, and only `scratch` is the session's own.

Prints what was counted, and each difference as a script. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.suites.records import parse_records
from tests.suites.side_by_side import PATHS, Difference, Result, compare, reproduction

if TYPE_CHECKING:
    import datafusion

SCRATCH = "scratch"


@dataclass(slots=True)
class FileResult:
    """What came of one file; `failure` says why there is no result."""

    file: str
    result: Result = field(default_factory=Result)
    scripts: list[str] = field(default_factory=list)
    failure: str = ""
    elapsed_s: float = 0.0


def run_files(
    files: list[pathlib.Path],
    folder: pathlib.Path,
    root: pathlib.Path,
    *,
    paths: tuple[str, ...] = PATHS,
    out: pathlib.Path,
    timeout_s: float = 600.0,
    workers: int = 1,
) -> list[FileResult]:
    """Runs files, each in a process of its own.

    Args:
        files: The files.
        folder: The folder they are relative to.
        root: What has to be linked: the folder, or one above it.
        paths: Paths of ours.
        out: Where scripts and their data go.
        timeout_s: How long a file may take.
        workers: How many processes run at a time.
    """
    out.mkdir(parents=True, exist_ok=True)

    def run(file: pathlib.Path) -> FileResult:
        found = _run_process(file, folder, root, paths, out, timeout_s)
        number = len(found.result.differences)
        words = found.failure.partition("\n")[0] or f"{number} differences"
        print(f"{found.file}: {words}, {found.elapsed_s:.1f} s", file=sys.stderr, flush=True)
        return found

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(run, files))


def _run_process(
    file: pathlib.Path,
    folder: pathlib.Path,
    root: pathlib.Path,
    paths: tuple[str, ...],
    out: pathlib.Path,
    timeout_s: float,
) -> FileResult:
    name = str(file.relative_to(folder))
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        answer, printed = pathlib.Path(temporary) / "answer", pathlib.Path(temporary) / "printed"
        command = [sys.executable, "-m", "tests.suites.slt", "--one", str(file)]
        command += ["--files", str(folder), "--root", str(root), "--paths", ",".join(paths)]
        command += ["--out", str(out), "--answer", str(answer)]
        with printed.open("wb") as stream:
            try:
                code = subprocess.run(
                    command, stdout=stream, stderr=stream, timeout=timeout_s, check=False
                ).returncode
                failure = f"exit code {code}" if code else ""
            except subprocess.TimeoutExpired:
                failure = f"took longer than {timeout_s:.0f} s"
        if failure:
            last = printed.read_text(errors="replace")[-2000:]
            return FileResult(
                name, failure=f"{failure}\n{last}", elapsed_s=time.monotonic() - started
            )
        result, scripts = pickle.loads(answer.read_bytes())
    return FileResult(name, result, scripts, elapsed_s=time.monotonic() - started)


def run_one(
    file: pathlib.Path,
    folder: pathlib.Path,
    root: pathlib.Path,
    paths: tuple[str, ...],
    out: pathlib.Path,
) -> FileResult:
    """Runs one file in this process."""
    name = str(file.relative_to(folder))
    found = FileResult(name)
    with tempfile.TemporaryDirectory() as temporary:

        def folder_of(side: str) -> pathlib.Path:
            return make_tree(root, folder, pathlib.Path(temporary) / side, name)

        found.result = compare(
            parse_records(file),
            folder_of,
            paths,
            lambda session: _prepared(session, file.relative_to(folder)),
            lambda text: print(text, flush=True),
        )
        for number, difference in enumerate(found.result.differences):
            data = out / name.replace("/", "_") / str(number)
            found.scripts.append(reproduction(difference, data, folder.parent))
            (data / "show.py").write_text(found.scripts[-1])
    return found


def _prepared(session: datafusion.SessionContext, file: pathlib.Path) -> datafusion.SessionContext:
    """What DataFusion's own runner adds to sessions of some files, as far as Python can."""
    if "spark" in file.parts:
        session.enable_spark_functions()
        session.sql("SET datafusion.sql_parser.dialect = 'Spark'")
    return session.enable_url_table() if file.name == "dynamic_file.slt" else session


def make_tree(
    root: pathlib.Path, folder: pathlib.Path, target: pathlib.Path, file: str
) -> pathlib.Path:
    """A folder in which everything under a root is linked, but `scratch` is new.

    Returns:
        The folder above that of the files: statements name paths from there.
    """
    here = target
    here.mkdir(parents=True)
    for part in (*folder.relative_to(root).parts, None):
        for entry in root.iterdir():
            if entry.name not in (part, SCRATCH):
                (here / entry.name).symlink_to(entry)
        if part is None:
            break
        root, here = root / part, here / part
        here.mkdir()
    (here / SCRATCH / pathlib.Path(file).with_suffix("")).mkdir(parents=True)
    return here.parent


def report(results: list[FileResult], paths: tuple[str, ...], *, scripts: bool = True) -> bool:
    """Prints what was found; whether nothing differs."""
    counts: collections.Counter[str] = collections.Counter()
    for found in results:
        counts += found.result.counts
    differences = [(found, d, s) for found in results for d, s in _pairs(found)]
    failures = [found for found in results if found.failure]
    if scripts:
        for found, difference, script in differences:
            print(f"\n{'=' * 88}\n{found.file}: {_headline(difference)}")
            print(f"DataFusion: {difference.wanted}\nours:       {difference.found}\n{script}")
    for found in failures:
        print(f"\n{found.file}: {found.failure}")
    print(f"\n{len(results)} files, paths {', '.join(paths)}")
    for name, count in sorted(counts.items()):
        print(f"{count:8,} {name}")
    kinds = collections.Counter(f"{d.path}: {d.kind}" for _, d, _ in differences)
    for kind, count in sorted(kinds.items()):
        print(f"{count:8,} differences on {kind}")
    print(f"{len(differences):8,} differences, {len(failures)} files that did not end")
    return not differences and not failures


def _pairs(found: FileResult) -> list[tuple[Difference, str]]:
    return list(zip(found.result.differences, found.scripts, strict=True))


def _headline(difference: Difference) -> str:
    record = difference.record
    where = f"{record.file}:{record.line}"
    return f"{difference.kind} on {difference.path}, run {difference.run + 1}, {where}"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--files", default=os.environ.get("SLT_FILES"))
    parser.add_argument("--root", default=os.environ.get("SLT_ROOT"))
    parser.add_argument("--paths", default=",".join(PATHS))
    parser.add_argument("--match", default="*.slt", help="a glob of file names")
    parser.add_argument("--out", default="build/suites", help="where scripts and their data go")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds per file")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.files:
        parser.error("--files or SLT_FILES names the folder of .slt files")
    folder = pathlib.Path(options.files).resolve()
    root = pathlib.Path(options.root).resolve() if options.root else folder.parent
    paths, out = tuple(options.paths.split(",")), pathlib.Path(options.out).resolve()
    if options.one:
        found = run_one(pathlib.Path(options.one), folder, root, paths, out)
        answer = (found.result, found.scripts)
        pathlib.Path(options.answer).write_bytes(pickle.dumps(answer))
        return 0
    matching = (file for file in folder.rglob(options.match) if file.is_file())
    files = sorted(file for file in matching if SCRATCH not in file.parts)
    results = run_files(
        files,
        folder,
        root,
        paths=paths,
        out=out,
        timeout_s=options.timeout,
        workers=options.workers,
    )
    return 0 if report(results, paths) else 1


if __name__ == "__main__":
    sys.exit(main())

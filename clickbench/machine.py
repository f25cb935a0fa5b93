"""Facts about the machine, the software and the data of a run.

In: the files of `hits`. Out: dicts for the results file.

`fingerprint` and `versions` are part of what makes runs comparable: lm_datafusion's own version
number does not change with every edit, so a digest of its sources stands beside it.
"""

from __future__ import annotations

import glob
import hashlib
import importlib.metadata
import json
import os
import platform
from typing import Any

import pyarrow.parquet as pq
from pyarrow import orc

import lm_datafusion

_PACKAGES = {
    "datafusion": ("datafusion",),
    "lm": ("lm_datafusion", "datafusion", "pyarrow"),
    "duckdb": ("duckdb",),
    "polars": ("polars",),
    "spark": ("pyspark",),
    "pyarrow": ("pyarrow", "datafusion"),
}


class DataError(ValueError):
    """A folder without data files, or with others than before."""


def find_files(folder: str) -> tuple[str, ...]:
    """The Parquet or ORC files of a folder, or the one file that was named, as absolute paths.

    Raises:
        DataError: There are none.
    """
    if os.path.isfile(folder):
        return (os.path.abspath(folder),)
    root = glob.escape(os.path.abspath(folder))
    found = [sorted(glob.glob(os.path.join(root, f"*{suffix}"))) for suffix in (".parquet", ".orc")]
    if not any(found):
        raise DataError(
            f"{folder}: no *.parquet and no *.orc there; `python -m clickbench generate` makes some"
        )
    if all(found):
        raise DataError(f"{folder}: both Parquet and ORC, such as {found[0][0]} and {found[1][0]}")
    return tuple(found[0] or found[1])


def fingerprint(files: tuple[str, ...]) -> str:
    """Changes when a file does: names, sizes and times."""
    facts = [
        (os.path.basename(file), os.stat(file).st_size, os.stat(file).st_mtime_ns) for file in files
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def check_unchanged(files: tuple[str, ...], known: str) -> None:
    """Looks whether files are still those of a fingerprint.

    Raises:
        DataError: One was changed or is gone.
    """
    try:
        same = fingerprint(files) == known
    except OSError:
        same = False
    if not same:
        raise DataError(
            f"{os.path.dirname(files[0])} changed while the queries ran; what was measured before"
            " and after cannot be compared: start again with --fresh"
        )


def versions(words: tuple[str, ...]) -> dict[str, str]:
    """Versions of what the engines are made of."""
    found: dict[str, str] = {}
    for word in words:
        name = word.partition(":")[0].removesuffix("-pushdown")
        for package in _PACKAGES[name]:
            found[package] = importlib.metadata.version(package)
        if name == "lm":
            found["lm_datafusion"] += f" ({_source_digest()})"
    return found


def machine_facts(files: tuple[str, ...]) -> dict[str, Any]:
    """What a reader wants to know of the machine and the data."""
    counts = [_row_counts(file) for file in files]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "files": len(files),
        "bytes": sum(os.path.getsize(file) for file in files),
        "rows": sum(rows for rows, _ in counts),
        "row_groups": sum(row_groups for _, row_groups in counts),
        "manifest": _manifest(files),
    }


def _row_counts(path: str) -> tuple[int, int]:
    """The rows of a file, and its row groups or stripes."""
    if path.endswith(".orc"):
        found = orc.ORCFile(path)
        return found.nrows, found.nstripes
    metadata = pq.read_metadata(path)
    return metadata.num_rows, metadata.num_row_groups


def _manifest(files: tuple[str, ...]) -> Any:
    """How the data was made, as `generate` and `ingest` write it down beside their files."""
    for name in ("_manifest.json", "manifest.json"):
        path = os.path.join(os.path.dirname(files[0]), name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return json.load(file)
    return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _source_digest() -> str:
    folder = os.path.dirname(lm_datafusion.__file__)
    whole = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.py"), recursive=True)):
        with open(path, "rb") as file:
            whole.update(file.read())
    return whole.hexdigest()[:8]

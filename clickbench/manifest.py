"""What a folder of files holds: row counts, sizes, checksums; and what is done of it so far.

In: entries of finished files. Out: `_manifest.json` beside the files, and, while work is under
way, `_work/` with the parameters of the job and one entry per finished file.

The checksum of the data is a hash over the checksums of its blocks in order, so that it does not
depend on the cut into files; each file's own bytes have a checksum as well.

Invariant: an entry is written after its file has its final name, and both appear whole or not at
all. So after an interruption, files with an entry are done and all others are made again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from typing import Any

import xxhash

MANIFEST = "_manifest.json"
_WORK = "_work"
_PARAMETERS = "parameters.json"
_CHUNK_BYTES = 1 << 22


class ManifestError(RuntimeError):
    """A folder holds something else than what is asked for."""


@dataclass(frozen=True)
class FileEntry:
    """One finished file."""

    name: str
    first_row: int
    rows: int
    bytes: int
    checksum: str  # of the file's bytes
    block_checksums: list[str]  # of the rows, block by block
    rejected: dict[str, int] = field(default_factory=dict)  # rows set aside, by kind of reason
    repaired: dict[str, int] = field(default_factory=dict)  # values made valid, by column


def write_json(path: str, content: dict[str, Any]) -> None:
    """Writes a JSON file that appears whole or not at all."""
    waiting = f"{path}.{os.getpid()}.writing"
    with open(waiting, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
    os.replace(waiting, path)


def read_json(path: str) -> dict[str, Any] | None:
    """A JSON file, or None if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            content: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    return content


def file_checksum(path: str) -> str:
    """A hash of a file's bytes."""
    digest = xxhash.xxh3_128()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def data_checksum(entries: list[FileEntry]) -> str:
    """A hash of all rows in order, whatever the files."""
    digest = xxhash.xxh3_128()
    for entry in entries:
        for checksum in entry.block_checksums:
            digest.update(bytes.fromhex(checksum))
    return digest.hexdigest()


@dataclass(frozen=True)
class Workplace:
    """A folder in which a job makes files."""

    folder: str

    def path(self, name: str) -> str:
        """A file of the folder."""
        return os.path.join(self.folder, name)

    def work(self, name: str) -> str:
        """A file of the folder that lasts as long as the job."""
        return os.path.join(self.folder, _WORK, name)

    def manifest(self) -> dict[str, Any] | None:
        """The manifest, if the job is done."""
        return read_json(self.path(MANIFEST))

    def begin(self, parameters: dict[str, Any]) -> dict[str, FileEntry]:
        """Starts a job or takes up the same one again; the files that are done already.

        Raises:
            ManifestError: The folder has files of another job.
        """
        os.makedirs(self.work(""), exist_ok=True)
        before = read_json(self.work(_PARAMETERS)) or (self.manifest() or {}).get("parameters")
        if before is not None and before != parameters:
            raise ManifestError(
                f"{self.folder} holds data of other parameters: {_difference(before, parameters)}. "
                "Give those again, or another folder."
            )
        if before is None:
            kinds = (".parquet", ".orc")
            others = [name for name in os.listdir(self.folder) if name.endswith(kinds)]
            if others:
                raise ManifestError(
                    f"{self.folder} has data files, such as {others[0]}, but no manifest. "
                    "Give another folder."
                )
            write_json(self.work(_PARAMETERS), parameters)
        for name in os.listdir(self.folder):
            if name.endswith(".writing"):
                os.remove(self.path(name))
        return self._done()

    def _done(self) -> dict[str, FileEntry]:
        entries = {}
        for name in os.listdir(self.work("")):
            content = read_json(self.work(name)) if name.endswith(".entry") else None
            if content is None:
                continue
            entry = FileEntry(**content)
            with contextlib.suppress(FileNotFoundError):
                if os.path.getsize(self.path(entry.name)) == entry.bytes:
                    entries[entry.name] = entry
        return entries

    def note_progress(self, name: str, rows: int) -> None:
        """Notes how many rows of a file are made; read by `rows_made`."""
        with open(self.work(f"{name}.progress"), "w", encoding="utf-8") as file:
            file.write(str(rows))

    def rows_made(self) -> int:
        """Rows made by all running tasks, as far as noted."""
        total = 0
        for name in os.listdir(self.work("")):
            if name.endswith(".progress"):
                with open(self.work(name), encoding="utf-8") as file:
                    total += int(file.read() or 0)
        return total

    def finish_file(self, entry: FileEntry) -> None:
        """Notes that a file is done."""
        write_json(self.work(f"{entry.name}.entry"), asdict(entry))

    def finish(
        self, parameters: dict[str, Any], entries: list[FileEntry], **more: Any
    ) -> dict[str, Any]:
        """Writes the manifest and clears away the notes of the job."""
        manifest = {
            "parameters": parameters,
            "rows": sum(entry.rows for entry in entries),
            "bytes": sum(entry.bytes for entry in entries),
            "checksum": data_checksum(entries),
            **more,
            "files": [asdict(entry) for entry in entries],
        }
        write_json(self.path(MANIFEST), manifest)
        shutil.rmtree(self.work(""))
        return manifest


def _difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {before.get(name)} (not {after.get(name)})" for name in names)

"""The thread that changes files while others read them.

In: folders, one per table. Out: files that come, change and go, each change in the table's ledger.

| table | what happens to its files |
|---|---|
| `added` | new files come, old ones go; a name does not come again soon |
| `swapped` | another file takes the name at once (`os.replace`) |
| `rewritten` | cut to nothing and written again under the same inode, in several steps |

Invariant: a change is in the ledger before the first byte of it can be read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.soak.contents import file_bytes, make_rows
from tests.soak.ledger import ABSENT, Ledger

if TYPE_CHECKING:
    import pathlib
    import random
    import threading

    import pyarrow as pa

TABLES = ("added", "swapped", "rewritten")
FEWEST_FILES, MOST_FILES = 3, 7
# Names of `added`; far more than are there at a time.
NAMES = 200


class SoakTable:
    """A folder of files that change."""

    def __init__(self, name: str, home: pathlib.Path, seed: int) -> None:
        self.name = name
        self.seed = seed
        self.folder = home / name
        self.ledger = Ledger()
        self._staging = home / "staging"
        self._next_version = 0
        self._next_file = 0
        for folder in (self.folder, self._staging):
            folder.mkdir(exist_ok=True, parents=True)
        for _ in range(MOST_FILES - 2):
            self._add()

    def contents(self, file: int, version: int) -> pa.Table:
        """The rows of a version of a file."""
        return make_rows(self.seed, self.name, file, version)

    def change(self, rng: random.Random, is_over: threading.Event) -> str:
        """Changes one file; says how."""
        if self.name == "added":
            return self._add_or_remove(rng)
        file = rng.choice(sorted(self.ledger.current()))
        if self.name == "swapped":
            return self._replace(file)
        return self._rewrite(file, rng, is_over)

    def _add_or_remove(self, rng: random.Random) -> str:
        files = sorted(self.ledger.current())
        if len(files) <= FEWEST_FILES or (len(files) < MOST_FILES and rng.random() < 0.5):
            return self._add()
        file = rng.choice(files)
        with self.ledger.change(file, ABSENT):
            os.unlink(self._path(file))
        return "removed"

    def _add(self) -> str:
        file = self._next_file % NAMES
        self._next_file += 1
        self._replace(file)
        return "added"

    def _replace(self, file: int) -> str:
        version, data = self._new_version(file)
        staged = self._staging / f"{self.name}_{file}"
        staged.write_bytes(data)
        with self.ledger.change(file, version):
            os.replace(staged, self._path(file))
        return "replaced"

    def _rewrite(self, file: int, rng: random.Random, is_over: threading.Event) -> str:
        version, data = self._new_version(file)
        steps = rng.choice([1, 1, 2, 5])
        # DataFusion takes a file without bytes for one without rows.
        with self.ledger.change(file, ABSENT):
            target = open(self._path(file), "wb", buffering=0)  # noqa: SIM115 closed below
        with self.ledger.change(file, version), target:
            for step in range(steps):
                part = data[len(data) * step // steps : len(data) * (step + 1) // steps]
                target.write(part)
                if step + 1 < steps:
                    is_over.wait(rng.choice([0, 0.002, 0.01]))
        return "rewritten"

    def _new_version(self, file: int) -> tuple[int, bytes]:
        version = self._next_version
        self._next_version += 1
        return version, file_bytes(self.seed, self.name, file, version)

    def _path(self, file: int) -> str:
        return str(self.folder / f"f{file:03}.parquet")

"""How large the notebooks' data is and where it lies.

In: environment variables. Out: `Settings`, and data sets, which are made where they are missing.

| variable | default | meaning |
|---|---|---|
| `CLICKBENCH_ROWS` | 500000 | rows of each data set |
| `CLICKBENCH_DATA` | `data/notebooks` of the checkout | folder for the data sets |
| `CLICKBENCH_QUERIES` | the notebook's | as `19,36-38` |
| `CLICKBENCH_REPEAT` | 5 | timed runs of each query and engine |

Why in another process: a JVM that has made data keeps the memory it was started with, and a Spark
that is measured afterwards would have to live with it.

Invariant: nothing is written outside the folder for the data.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from dataclasses import dataclass, field

from clickbench.queries import Query, load_queries, parse_choice

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILES = 4  # so that there are row groups to skip, however few the rows


def _variable(name: str, default: str) -> str:
    return os.environ.get(name) or default


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says; the defaults where it says nothing."""

    rows: int = field(default_factory=lambda: int(_variable("CLICKBENCH_ROWS", "500000")))
    repeat: int = field(default_factory=lambda: int(_variable("CLICKBENCH_REPEAT", "5")))
    folder: str = field(
        default_factory=lambda: _variable(
            "CLICKBENCH_DATA", os.path.join(CHECKOUT, "data", "notebooks")
        )
    )

    def data(self, layout: str) -> str:
        """The folder of a data set, which is made if it is not there yet.

        Raises:
            RuntimeError: It could not be made.
        """
        folder = os.path.join(self.folder, f"{layout}_{self.rows}")
        command = [sys.executable, "-m", "clickbench", "generate", "--layout", layout]
        command += ["--rows", str(self.rows), "--files", str(FILES), "--out", folder]
        done = subprocess.run(
            command, cwd=CHECKOUT, check=False, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"no data in {folder}:\n{done.stdout}")
        return folder

    def files(self, layout: str) -> tuple[str, ...]:
        """The files of a data set, which are made if they are not there yet."""
        return tuple(sorted(glob.glob(os.path.join(glob.escape(self.data(layout)), "*.parquet"))))


def chosen_queries(default: str) -> tuple[Query, ...]:
    """The queries that the environment names, or those of a notebook."""
    return load_queries(parse_choice(_variable("CLICKBENCH_QUERIES", default)))

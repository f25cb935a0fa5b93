"""The formats that there are, by name."""

from __future__ import annotations

from typing import Final

PARQUET: Final = "Parquet"
ORC: Final = "ORC"
# How names of files of a format end.
SUFFIXES: Final = {PARQUET: (".parquet", ".parq", ".pq"), ORC: (".orc",)}

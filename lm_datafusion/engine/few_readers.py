"""Footers of local files are read by few threads, for each of them keeps memory from then on.

In: a session, and the place of files it is about to look into. Out: a block in which DataFusion
reads no more of them at a time than it has partitions.

DataFusion reads local files on threads made for work that blocks: one for each read under way, up
to 32 while footers are read (`meta_fetch_concurrency`). All of them are used in turn afterwards, so
none ever ends, and each holds on to memory of the columns it read last. Measured with ten files and
two partitions (`tests/benchmark/bench_readers.py`): 7 or 8 threads instead of up to 15, up to half
of the memory less, and up to half of the time less where fresh memory is slow to come by, as in
many virtual machines. Local footers come no later for it: parsing them is what takes time.

Invariant: after the block, the session's settings are what they were.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import datafusion

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

_AT_A_TIME = "datafusion.execution.meta_fetch_concurrency"
_PARTITIONS = "datafusion.execution.target_partitions"
_SETTINGS = (
    "SELECT name, value FROM information_schema.df_settings"
    f" WHERE name IN ('{_AT_A_TIME}', '{_PARTITIONS}')"
)


@contextmanager
def few_readers(
    context: datafusion.SessionContext, place: str | os.PathLike[str]
) -> Iterator[None]:
    """Reads few footers at a time, if the files are those of this machine.

    Args:
        context: The session, with DataFusion's own methods.
        place: A path or a URL of files, or a statement that names them.
    """
    found = None if _is_elsewhere(str(place)) else _settings(context)
    if found is None or found[_AT_A_TIME] <= found[_PARTITIONS]:
        yield
        return
    context.sql(f"SET {_AT_A_TIME} = {found[_PARTITIONS]}")
    try:
        yield
    finally:
        context.sql(f"SET {_AT_A_TIME} = {found[_AT_A_TIME]}")


def _is_elsewhere(place: str) -> bool:
    """Whether files may come over a network, where it pays to wait for many at a time."""
    return "://" in place.replace("file://", "")


def _settings(context: datafusion.SessionContext) -> dict[str, int] | None:
    """Both settings, asked of a copy: the session itself may not let them be seen."""
    try:
        copy = datafusion.SessionContext(context.copied_config().with_information_schema())
        rows = [row for batch in copy.sql(_SETTINGS).collect() for row in batch.to_pylist()]
        found = {row["name"]: int(row["value"]) for row in rows}
    except Exception:  # noqa: BLE001 tables are registered all the same
        return None
    return found if len(found) == len((_AT_A_TIME, _PARTITIONS)) else None

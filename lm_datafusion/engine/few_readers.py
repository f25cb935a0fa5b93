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

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    import datafusion

_AT_A_TIME = "datafusion.execution.meta_fetch_concurrency"
_PARTITIONS = "datafusion.execution.target_partitions"
# As the print of a session has them; to ask for them in SQL would load 10 MB more.
_SETTING = re.compile(
    rf"^\s*({re.escape(_AT_A_TIME)}|{re.escape(_PARTITIONS)}) = (\d+)$", re.MULTILINE
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
    """Both settings; None if the session does not tell."""
    found = {name: int(value) for name, value in _SETTING.findall(repr(context))}
    return found if found.keys() == {_AT_A_TIME, _PARTITIONS} else None

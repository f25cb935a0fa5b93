"""Tables of local files are registered by few threads, for each of them keeps memory afterwards.

In: a session, and the place of files that are about to become a table of it. Out: a session over
the same catalog that reads no more footers at a time than there are cores.

DataFusion reads local files on threads made for work that blocks: one for each read under way, up
to 32 while footers are read (`meta_fetch_concurrency`). All of them are used in turn afterwards, so
none ever ends, and each holds on to memory of the columns it read last. Measured with ten files on
two cores (`tests/benchmark/bench_readers.py`): 7 or 8 threads instead of up to 15, up to half of
the memory less, and up to half of the time less where fresh memory is slow to come by, as in many
virtual machines. To read more footers at a time than there are cores gains little for local files,
as parsing them is what takes time: to register 150 files of 150 columns took 1.1 to 1.2 times as
long. The same holds for tables of the same files whose reader takes filters
(`engine.own_tables`): with them made by many threads, ClickBench's Q23 in the `clickbench` layout
took 3.2 GB after eight runs instead of 1.3 to 1.7 (`bench_readers --queries 23 --path auto`).

Invariant: the session itself is not changed: no setting of it, and none of its functions, which
DataFusion makes anew where a setting changes.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datafusion

_AT_A_TIME = "datafusion.execution.meta_fetch_concurrency"
_CATALOG = "datafusion.catalog.default_catalog"


def with_few_readers(
    context: datafusion.SessionContext, place: str | os.PathLike[str]
) -> datafusion.SessionContext:
    """The session to register a table with; itself where there is nothing to gain.

    Args:
        context: A session, with DataFusion's own methods.
        place: A path or a URL of files.
    """
    # As the print of a session has them; to ask for them in SQL would load 10 MB more.
    said = repr(context)
    at_a_time, catalog = (_setting(name, said) for name in (_AT_A_TIME, _CATALOG))
    cores = os.cpu_count() or 1
    has_many = at_a_time.isdecimal() and int(at_a_time) > cores
    # Another session would make a default catalog that is missing, for this one, too.
    if not has_many or not _may_be_many_here(str(place)) or catalog not in context.catalog_names():
        return context
    other = context.enable_url_table()
    other.sql(f"SET {_AT_A_TIME} = {cores}")
    return other


def _setting(name: str, said: str) -> str:
    """What the print of a session says of a setting; nothing if it says nothing."""
    found = re.search(rf"^\s*{re.escape(name)} = (.*)$", said, re.MULTILINE)
    return found[1] if found else ""


def _may_be_many_here(place: str) -> bool:
    """Whether it may be many files of this machine; over a network it pays to wait for many."""
    return "://" not in place.removeprefix("file://") and not os.path.isfile(place)

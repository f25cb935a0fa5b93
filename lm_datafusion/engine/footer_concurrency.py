"""Tables of local files are registered with few threads, because each keeps memory afterwards.

In: a session, and a path of files that are about to become a table of it. Out: a session over
the same catalog that reads no more footers at a time than there are cores.

DataFusion reads local files on threads for blocking work: one per read under way, up to 32 while
it reads footers (`meta_fetch_concurrency`). It uses all of them in turn afterwards, so none ever
ends, and each holds on to memory of the columns it read last. Measured with ten files on two cores
(`tests/benchmark/bench_readers.py`): 7 or 8 threads instead of up to 15, up to half the memory, and
up to half the time where fresh memory is slow to come by, as in many virtual machines. Reading
more footers at a time than there are cores gains little for local files, because parsing them is
what takes time: registering 150 files of 150 columns takes 1.1 to 1.2 times as long.

Invariant: the session itself is not changed: none of its settings, and none of its functions,
which DataFusion makes again where a setting changes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lm_datafusion.engine.settings import setting

if TYPE_CHECKING:
    import datafusion

_CONCURRENCY = "datafusion.execution.meta_fetch_concurrency"
_CATALOG = "datafusion.catalog.default_catalog"


def with_footer_concurrency(
    context: datafusion.SessionContext, path: str | os.PathLike[str]
) -> datafusion.SessionContext:
    """The session to register a table with; the same session where there is nothing to gain.

    Args:
        context: A session, with DataFusion's own methods.
        path: A path or a URL of files.
    """
    concurrency, catalog = (setting(context, name) for name in (_CONCURRENCY, _CATALOG))
    cores = os.cpu_count() or 1
    is_high = concurrency.isdecimal() and int(concurrency) > cores
    # Another session would create a missing default catalog, and this one would see it.
    if not is_high or not _may_be_local_files(str(path)) or catalog not in context.catalog_names():
        return context
    other = context.enable_url_table()
    other.sql(f"SET {_CONCURRENCY} = {cores}")
    return other


def _may_be_local_files(path: str) -> bool:
    """Whether a path may be many local files; over a network it pays to wait for many at a time."""
    return "://" not in path.removeprefix("file://") and not os.path.isfile(path)

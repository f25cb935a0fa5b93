"""Tables of local files are registered with few threads, because each keeps memory afterwards.

In: a catalog, and a path of files that are about to become a table of it. Out: a session over the
same catalog that reads no more footers at a time than there are cores.

DataFusion reads local files on threads for blocking work: up to 32 while it reads footers
(`meta_fetch_concurrency`). It uses all of them in turn afterwards, so none ever ends, and each
holds on to memory of the columns it read last. Six ClickBench files on two cores
(`tests/benchmark/bench_readers.py`): 8 threads instead of 9 to 15, query 3 takes 67 ms of processor
time instead of 187, query 20 takes 900 ms and 1,370 MB instead of 1,450 ms and 1,640 MB.
Registering 150 files of 150 columns takes 1.1 to 1.2 times as long.

Invariant: the session itself is not changed: none of its settings, and none of its functions,
which DataFusion makes again where a setting changes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datafusion

    from lm_datafusion.engine.catalog import SessionCatalog

_CONCURRENCY = "datafusion.execution.meta_fetch_concurrency"


def with_footer_concurrency(
    catalog: SessionCatalog, path: str | os.PathLike[str]
) -> datafusion.SessionContext:
    """The session to register a table with; the user's own where there is nothing to gain."""
    context, concurrency = catalog.context, catalog.setting(_CONCURRENCY)
    cores = os.cpu_count() or 1
    is_high = concurrency.isdecimal() and int(concurrency) > cores
    default = catalog.setting("datafusion.catalog.default_catalog")
    # Another session would create a missing default catalog, and this one would see it.
    if not is_high or not _may_be_local_files(str(path)) or default not in context.catalog_names():
        return context
    other = context.enable_url_table()
    other.sql(f"SET {_CONCURRENCY} = {cores}")
    return other


def _may_be_local_files(path: str) -> bool:
    """Whether a path may be many local files; over a network it pays to wait for many at a time."""
    return "://" not in path.removeprefix("file://") and not os.path.isfile(path)

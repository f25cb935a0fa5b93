"""`CREATE EXTERNAL TABLE ... STORED AS LM_PARQUET`, in any DataFusion session.

    context = datafusion.SessionContext()
    context.register_table_factory("LM_PARQUET", lm_datafusion.LateTableFactory())
    context.sql("CREATE EXTERNAL TABLE hits STORED AS LM_PARQUET LOCATION 'hits.parquet'")

In: the statement as DataFusion parsed it. Out: a table that scans late.

Invariant: an option that is not understood is an error.
"""

from __future__ import annotations

import os
import urllib.parse
from typing import TYPE_CHECKING, Any

from datafusion.catalog import Table, TableProviderFactory

from lm_datafusion.engine.dataset_table import NamedDataset, of_orc
from lm_datafusion.errors import OptionError
from lm_datafusion.options import ScanOptions
from lm_datafusion.storage import is_remote_url

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

    from lm_datafusion.dataset import LateDataset
    from lm_datafusion.engine.watch import Run

_WORDS = {"true": True, "false": False}


class LateTableFactory(TableProviderFactory):
    """Makes tables that scan late.

    Args:
        options: How its tables are scanned; `OPTIONS (...)` of a statement come on top, by the
            names of `ScanOptions`: `OPTIONS ('threads' '4', 'prune_bloom_filter' 'false')`.
    """

    def __init__(self, options: ScanOptions | None = None) -> None:
        self._options = options or ScanOptions()

    def create(self, cmd: Any) -> Table:
        """The table of one statement; DataFusion calls this."""
        from lm_datafusion.dataset import dataset

        if cmd.table_partition_cols() or cmd.order_exprs():
            raise OptionError(
                "a table that scans late takes no PARTITIONED BY (folder names like year=2024"
                " become columns by themselves) and no WITH ORDER"
            )
        # DataFusion puts options without a namespace under the table's format.
        given = {name.removeprefix("format."): _value(v) for name, v in cmd.options().items()}
        options = self._options.with_changes(**given)
        paths = [_path(location) for location in cmd.locations()]
        return Table(self._provided(dataset(paths, options=options)))

    def _provided(self, made: LateDataset) -> Dataset:
        """What DataFusion scans."""
        return made


class NamedTableFactory(LateTableFactory):
    """Makes tables of one session, which its access paths serve; errors go to a run."""

    def __init__(self, options: ScanOptions, run: Run) -> None:
        super().__init__(options)
        self._run = run

    def _provided(self, made: LateDataset) -> Dataset:
        return NamedDataset(of_orc(made), self._run)


def _path(location: str) -> str:
    if location.startswith("file://"):
        return urllib.parse.unquote(urllib.parse.urlsplit(location).path)
    if is_remote_url(location):
        return location
    return os.path.abspath(location)


def _value(text: str) -> Any:
    return _WORDS.get(text.lower(), int(text) if text.isdigit() else text)

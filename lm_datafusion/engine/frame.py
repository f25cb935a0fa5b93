"""`LateDataFrame`: DataFusion's DataFrame, whose readers are chosen when it runs.

In: a frame as DataFusion planned it. Out: the same rows, from the readers that suit its tables.
Methods that derive a frame give such frames again; those that run it ask the session what to run
instead; all others are DataFusion's own, over its own plan.

Invariant: a choice is made each time a frame runs, so a frame sees the files of that time, as
DataFusion's frames do.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import datafusion

from lm_datafusion.forks import cached_property

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lm_datafusion.engine.server import QueryServer
    from lm_datafusion.options import ScanOptions

_Frame = datafusion.DataFrame
_RUNNING = """
    __repr__ _repr_html_ __arrow_c_stream__ cache collect collect_column collect_partitioned count
    execute_stream execute_stream_partitioned show to_arrow_table to_pandas to_polars to_pydict
    to_pylist write_csv write_json write_parquet write_parquet_with_options write_table
""".split()
_DERIVING = [
    name
    for name, method in vars(_Frame).items()
    if getattr(method, "__annotations__", {}).get("return") == "DataFrame" and name not in _RUNNING
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A query as the user gave it: SQL, and values for its placeholders, by name."""

    text: str
    param_values: dict[str, Any] | None = None
    named_params: dict[str, Any] | None = None

    @property
    def has_params(self) -> bool:
        """Whether the text alone is not the whole query."""
        return bool(self.param_values or self.named_params)

    def planned(
        self,
        context: datafusion.SessionContext,
        text: str | None = None,
        checks: datafusion.SQLOptions | None = None,
    ) -> _Frame:
        """The query, or another text with its values, as a session plans it."""
        given = self.text if text is None else text
        return context.sql(given, checks, self.param_values, **(self.named_params or {}))


class LateDataFrame(datafusion.DataFrame):
    """A DataFrame of a session that chooses readers.

    Args:
        native: The frame as DataFusion planned it, or what plans it if a plan is kept.
        server: Chooses what runs.
        options: How its tables are scanned; None to follow tables and session.
        statement: The query it came from; None for one that was put together by methods.
        version: The version of the catalog it was planned in; None if that is not known.
        source: The frame of `read_parquet` that it was made of, if there is exactly one.
    """

    def __init__(
        self,
        native: _Frame | Callable[[], _Frame],
        server: QueryServer,
        *,
        options: ScanOptions | None = None,
        statement: Statement | None = None,
        version: int | None = None,
        source: _Frame | None = None,
    ) -> None:
        if isinstance(native, _Frame):
            super().__init__(native.df)
        else:
            self._plan = native
        self._server = server
        self.scan_options = options
        self.statement = statement
        self.version = version
        self.source = source

    @cached_property
    def df(self) -> Any:
        """What DataFusion's methods work on; planned when the first of them is called."""
        return self._plan().df

    @property
    def native(self) -> _Frame:
        """The frame as DataFusion planned it."""
        return _Frame(self.df)

    def _derived(self, made: _Frame, others: Iterable[Any]) -> LateDataFrame:
        """A frame made of this one and others: of the same version, and of one source at most."""
        frames = [self, *(other for other in others if isinstance(other, _Frame))]
        versions = {getattr(frame, "version", None) for frame in frames}
        sources = {id(s): s for f in frames if (s := getattr(f, "source", None)) is not None}
        return LateDataFrame(
            made,
            self._server,
            options=self.scan_options,
            version=self.version if len(versions) == 1 else None,
            source=next(iter(sources.values())) if len(sources) == 1 else None,
        )

    def execution_plan(self) -> datafusion.ExecutionPlan:
        """The plan that would run."""
        return self._server.plan(self).execution_plan()


def _deriving(name: str) -> Callable[..., Any]:
    method = getattr(_Frame, name)

    @functools.wraps(method)
    def derive(self: LateDataFrame, *arguments: Any, **options: Any) -> Any:
        made = method(self, *arguments, **options)
        is_plain = type(made) is _Frame
        return self._derived(made, [*arguments, *options.values()]) if is_plain else made

    return derive


def _running(name: str) -> Callable[..., Any]:
    method = getattr(_Frame, name)

    @functools.wraps(method)
    def run(self: LateDataFrame, *arguments: Any, **options: Any) -> Any:
        return self._server.run(self, lambda frame: method(frame, *arguments, **options), name)

    return run


for _name in _DERIVING:
    setattr(LateDataFrame, _name, _deriving(_name))
for _name in _RUNNING:
    setattr(LateDataFrame, _name, _running(_name))

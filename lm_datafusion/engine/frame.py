"""`LateDataFrame`: DataFusion's DataFrame, whose paths are chosen when it runs.

In: a frame as DataFusion planned it. Out: the same frame, or one over other readers of the same
tables.

Methods that derive a frame from it give such frames again. Methods that run it ask the session
which frame to run instead. All other methods are DataFusion's own, over DataFusion's own plan.

Invariant: choosing happens anew each time a frame runs, so a frame sees the files of that time,
as DataFusion's frames do.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import datafusion
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lm_datafusion.options import ScanOptions

_Frame = datafusion.DataFrame
# No state of the catalog: names may have changed while a frame was planned.
NO_EPOCH = -1
_DERIVING = (
    "__getitem__",
    "alias",
    "select",
    "drop",
    "window",
    "filter",
    "with_column",
    "with_columns",
    "with_column_renamed",
    "aggregate",
    "sort",
    "cast",
    "limit",
    "head",
    "tail",
    "distinct",
    "join",
    "join_on",
    "repartition",
    "repartition_by_hash",
    "union",
    "intersect",
    "except_all",
    "union_by_name",
    "distinct_on",
    "sort_by",
    "unnest_columns",
    "fill_null",
    "fill_nan",
)
_RUNNING = (
    "__repr__",
    "_repr_html_",
    "collect_column",
    "cache",
    "collect_partitioned",
    "show",
    "write_csv",
    "write_parquet",
    "write_parquet_with_options",
    "write_json",
    "write_table",
    "execute_stream",
    "execute_stream_partitioned",
    "to_polars",
    "count",
    "__arrow_c_stream__",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A query as the user gave it.

    Attributes:
        text: SQL.
        param_values: Scalars for its placeholders, by name.
        named_params: Texts for its placeholders, by name.
    """

    text: str
    param_values: dict[str, Any] | None = None
    named_params: dict[str, Any] | None = None

    def planned_as(
        self,
        text: str,
        context: datafusion.SessionContext,
        checks: datafusion.SQLOptions | None = None,
    ) -> datafusion.DataFrame:
        """Another text, planned with the values of this query."""
        return context.sql(text, checks, self.param_values, **(self.named_params or {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a frame was made of others: a method of DataFusion's frames, called on one of them."""

    frame: LateDataFrame
    method: Callable[..., datafusion.DataFrame]
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    @property
    def frames(self) -> list[LateDataFrame]:
        """The frames it was made of."""
        given = [self.frame, *self.arguments, *self.options.values()]
        return [value for value in given if isinstance(value, LateDataFrame)]

    def made_of(
        self, instead: Callable[[LateDataFrame], datafusion.DataFrame]
    ) -> datafusion.DataFrame:
        """The same, made of other frames."""

        def value(given: Any) -> Any:
            return instead(given) if isinstance(given, LateDataFrame) else given

        options = {name: value(given) for name, given in self.options.items()}
        return self.method(instead(self.frame), *map(value, self.arguments), **options)


class Server(Protocol):
    """Chooses what runs when a frame runs."""

    def serve(self, frame: LateDataFrame, *, runs: bool = True) -> datafusion.DataFrame:
        """The frame to run instead; its rows, names and types are the same.

        Args:
            frame: What the user made.
            runs: Whether it runs now; if not, only its plan is wanted.
        """

    def run(
        self,
        frame: LateDataFrame,
        action: Callable[[datafusion.DataFrame], Any],
        *,
        repeats: bool = True,
    ) -> Any:
        """What an action gives that runs a frame.

        Args:
            frame: What the user made.
            action: What is done with the frame to run instead.
            repeats: Whether it may be done twice, should it fail the first time.
        """

    def collect_again(self, frame: LateDataFrame) -> list[pa.RecordBatch] | None:
        """The rows of a frame, if a plan is ready for it."""


class LateDataFrame(datafusion.DataFrame):
    """A DataFrame of a session that chooses readers.

    Args:
        native: The frame as DataFusion planned it; or what plans it, if a plan that is ready may
            serve instead.
        server: Chooses what runs.
        options: How its tables are scanned; None to follow tables and session.
        statement: The query it came from; None for one that was put together by methods.
        epoch: The state of the catalog it was planned in, if that is known.
        recipe: How it was made of other frames, if it was and that can be done again.
    """

    def __init__(
        self,
        native: datafusion.DataFrame | Callable[[], datafusion.DataFrame],
        server: Server,
        *,
        options: ScanOptions | None = None,
        statement: Statement | None = None,
        epoch: int = NO_EPOCH,
        recipe: Recipe | None = None,
    ) -> None:
        if isinstance(native, _Frame):
            super().__init__(native.df)
        else:
            self._plan = native
        self._server = server
        self.scan_options = options
        self.statement = statement
        self.epoch = epoch
        self.recipe = recipe

    @functools.cached_property
    def df(self) -> Any:
        """What DataFusion's methods work on; planned when the first of them is called."""
        return self._plan().df

    @property
    def native(self) -> datafusion.DataFrame:
        """The frame as DataFusion planned it."""
        return datafusion.DataFrame(self.df)

    def _derived(
        self, made: datafusion.DataFrame, others: Iterable[Any], recipe: Recipe | None
    ) -> LateDataFrame:
        """A frame made of this one and others: of the same state of the catalog, or of none."""
        epochs = {getattr(o, "epoch", NO_EPOCH) for o in others if isinstance(o, _Frame)}
        epoch = self.epoch if epochs <= {self.epoch} else NO_EPOCH
        return LateDataFrame(
            made, self._server, options=self.scan_options, epoch=epoch, recipe=recipe
        )

    def execution_plan(self) -> datafusion.ExecutionPlan:
        """The plan that would run."""
        return self._server.serve(self, runs=False).execution_plan()

    def collect(self) -> list[pa.RecordBatch]:
        """The rows, as batches."""
        batches = self._server.collect_again(self)
        return self._server.run(self, _Frame.collect) if batches is None else batches

    def to_arrow_table(self) -> pa.Table:
        """The rows, as a table."""
        batches = self._server.collect_again(self)
        if batches is None:
            return self._server.run(self, _Frame.to_arrow_table)
        # As DataFusion does: batches may forbid nulls where the plan allows them.
        return pa.Table.from_batches(batches, schema=None if batches else self.schema())

    def to_pandas(self) -> Any:
        """The rows, as a pandas DataFrame."""
        return self.to_arrow_table().to_pandas()

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows, as dicts."""
        return self.to_arrow_table().to_pylist()

    def to_pydict(self) -> dict[str, list[Any]]:
        """The columns, as lists."""
        return self.to_arrow_table().to_pydict()


def sources_of(frame: LateDataFrame) -> list[LateDataFrame]:
    """The frames that a frame was made of and that were not made of others, each once."""
    seen: dict[int, LateDataFrame] = {}
    waiting = [frame]
    while waiting:
        frame = waiting.pop()
        if id(frame) not in seen:
            seen[id(frame)] = frame
            waiting += [] if frame.recipe is None else frame.recipe.frames
    return [frame for frame in seen.values() if frame.recipe is None]


def rebuilt(
    frame: LateDataFrame, source: Callable[[LateDataFrame], datafusion.DataFrame]
) -> datafusion.DataFrame:
    """A frame made again, by the same methods, of other sources; each part once."""
    made: dict[int, datafusion.DataFrame] = {}

    def again(part: LateDataFrame) -> datafusion.DataFrame:
        if id(part) not in made:
            made[id(part)] = source(part) if part.recipe is None else part.recipe.made_of(again)
        return made[id(part)]

    return again(frame)


def _deriving(name: str) -> Callable[..., Any]:
    method = getattr(datafusion.DataFrame, name)

    @functools.wraps(method)
    def derive(self: LateDataFrame, *arguments: Any, **options: Any) -> Any:
        made = method(self, *arguments, **options)
        if type(made) is not datafusion.DataFrame:
            return made
        given = [*arguments, *options.values()]
        recipe = None
        # How many rows come before a tail was counted when it was made; what can be read once
        # has been read.
        if name != "tail" and not any(isinstance(value, Iterator) for value in given):
            recipe = Recipe(
                frame=self,
                method=method,
                arguments=tuple(map(_kept, arguments)),
                options={word: _kept(value) for word, value in options.items()},
            )
        return self._derived(made, given, recipe)

    return derive


def _kept(argument: Any) -> Any:
    """An argument as it is now, whatever becomes of a list that holds it."""
    return copy.copy(argument) if isinstance(argument, list | dict | set) else argument


def _running(name: str) -> Callable[..., Any]:
    method = getattr(datafusion.DataFrame, name)

    @functools.wraps(method)
    def run(self: LateDataFrame, *arguments: Any, **options: Any) -> Any:
        def action(frame: datafusion.DataFrame) -> Any:
            return method(frame, *arguments, **options)

        return self._server.run(self, action, repeats=not name.startswith("write_"))

    return run


for _name in _DERIVING:
    setattr(LateDataFrame, _name, _deriving(_name))
for _name in _RUNNING:
    setattr(LateDataFrame, _name, _running(_name))

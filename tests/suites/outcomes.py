"""What came of a statement, in a form that can be compared.

In: a frame that ran, or an error. Out: `Outcome`s, and whether two of them are the same.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

# Names that are drawn again each time, and numbers of threads and addresses in memory.
_DRAWN = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|0x[0-9a-f]+|\b[0-9a-zA-Z]{16}(?=[_.])|view_\w{36}")
# Of several names that are as near, DataFusion suggests any.
_GUESS = re.compile(r"Did you mean '.*?'\??", re.DOTALL)
# Who holds how much memory when there is none left; a plan with the fields of a hash table.
_CONSUMERS = re.compile(r"(?<=Resources exhausted).*|(?<=breaking queries, operator).*", re.DOTALL)
_GLUE = " | "


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement gave.

    Attributes:
        schema: Name, type, nullability and metadata of each column.
        rows: One text per row, in order.
        error: Type and text of what was raised; empty if nothing was.
    """

    schema: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    error: str = ""

    @property
    def bag(self) -> tuple[str, ...]:
        """The rows in any order."""
        return tuple(sorted(self.rows))

    def is_same(self, other: Outcome, key: str | None = None) -> bool:
        """Whether two statements gave the same rows.

        Args:
            other: The other.
            key: What the rows are in the order of: a name of a column, whose values then have to
                come in the same order. Rows that tie may be in any.
        """
        if (self.error, self.schema, self.bag) != (other.error, other.schema, other.bag):
            return False
        return key is None or self._in_order(key) == other._in_order(key)

    def _in_order(self, key: str) -> list[str]:
        """The values of a column; whole rows if it is none."""
        names = [column.partition(_GLUE)[0].lower() for column in self.schema]
        parts = [row.split(_GLUE) for row in self.rows]
        if key.lower() not in names or any(len(row) != len(names) for row in parts):
            return list(self.rows)
        return [row[names.index(key.lower())] for row in parts]

    def __str__(self) -> str:
        if self.error:
            return self.error
        shown = "\n".join(f"  {row}" for row in self.rows[:8])
        more = f"\n  ... {len(self.rows)} rows" if len(self.rows) > 8 else ""
        return f"({'; '.join(self.schema)})\n{shown}{more}"


def outcome_of(run: Callable[[], pa.Table], root: str) -> Outcome:
    """What a run gives; paths under `root` are shown without it."""
    try:
        table = run()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 compared; a panic of DataFusion's is no Exception
        return Outcome(error=_plain(f"{type(error).__name__}: {error}", root))
    schema = tuple(
        _GLUE.join([f.name, str(f.type), str(f.nullable), str(f.metadata)]) for f in table.schema
    )
    columns = [_texts(column, root) for column in table.columns]
    rows = map(_GLUE.join, zip(*columns, strict=True)) if columns else [""] * table.num_rows
    return Outcome(schema=schema, rows=tuple(rows))


def _plain(text: str, root: str) -> str:
    for written in (root, root.lstrip("/")):
        text = text.replace(written, "")
    return _DRAWN.sub("{drawn}", _CONSUMERS.sub("", _GUESS.sub("", text)))


def _texts(column: pa.ChunkedArray, root: str) -> list[str]:
    try:
        return [_text(value, root) for value in column.to_pylist()]
    except Exception:  # noqa: BLE001 times that Python cannot hold
        pass
    try:
        return list(map(str, column.cast(pa.string()).to_pylist()))
    except Exception:  # noqa: BLE001 types that PyArrow cannot show
        return [f"<{column.type}>"] * len(column)


def _text(value: Any, root: str) -> str:
    """A value; floats without their last digits, which depend on the order of a sum."""
    if isinstance(value, float):
        sign = "-" if math.isnan(value) and math.copysign(1, value) < 0 else ""
        return f"{sign}{value:.9g}"
    if isinstance(value, str):
        return repr(_plain(value, root) if root.lstrip("/") in value else value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text(part, root) for part in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}: {_text(v, root)}' for k, v in value.items())}}}"
    return repr(value)

"""The predicate tree: the part of a conjunct that statistics can answer.

In: folded expressions (`predicate.fold`). Out: frozen nodes that `pruning` matches on.

Nodes are SQL expressions with three-valued logic. `Residual` is anything else: it may be true,
false or null for any row.

Invariant: nodes are immutable and picklable; literals are pyarrow scalars of the type that
DataFusion coerced them to.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class Operator(Enum):
    """A comparison between a column and a literal, the column on the left."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    def mirrored(self) -> Operator:
        """The equivalent operator with the sides swapped."""
        return _MIRRORED.get(self, self)


_MIRRORED = {
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column by its path, optionally with a monotone cast (`cast_type`).

    The path of a flat column has one name; that of a struct leaf begins with its parents' names.
    """

    path: tuple[str, ...]
    cast_type: pa.DataType | None = None

    def __str__(self) -> str:
        name = ".".join(self.path)
        return name if self.cast_type is None else f"CAST({name} AS {self.cast_type})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column operator literal`; null for a null column."""

    column: ColumnReference
    operator: Operator
    literal: pa.Scalar

    def __str__(self) -> str:
        return f"{self.column} {self.operator.value} {self.literal}"


@dataclass(frozen=True, slots=True)
class NullSafeEqual:
    """`column IS NOT DISTINCT FROM literal`, the literal not null; never null."""

    column: ColumnReference
    literal: pa.Scalar

    def __str__(self) -> str:
        return f"{self.column} IS NOT DISTINCT FROM {self.literal}"


@dataclass(frozen=True, slots=True)
class InList:
    """`column IN (values)`: null for a null column; no value is null."""

    column: ColumnReference
    values: pa.Array

    def __str__(self) -> str:
        shown = ", ".join(str(value) for value in self.values[:5])
        return f"{self.column} IN ({shown}{', ...' if len(self.values) > 5 else ''})"  # noqa: PLR2004 five fit a line


@dataclass(frozen=True, slots=True)
class Like:
    """`column LIKE pattern`; null for a null column.

    Attributes:
        column: The text.
        parts: The text between the % signs, in order, without empty parts.
        is_anchored_left: The first part begins the value: the pattern does not begin with %.
        is_anchored_right: The last part ends it.
        is_whole: The parts express the whole pattern. Otherwise (it has `_` or an escape) they are
            the text before that, and a matching value begins with it.
    """

    column: ColumnReference
    parts: tuple[bytes, ...]
    is_anchored_left: bool
    is_anchored_right: bool
    is_whole: bool = True

    @property
    def prefix(self) -> bytes:
        """What every match begins with; empty if unknown."""
        return self.parts[0] if self.is_anchored_left and self.parts else b""

    @property
    def is_prefix(self) -> bool:
        """Whether every value that begins with the prefix matches."""
        return self.is_whole and len(self.parts) == 1 and not self.is_anchored_right

    def __str__(self) -> str:
        text = "%".join(part.decode(errors="replace") for part in self.parts)
        if not self.is_whole:
            return f"{self.column} LIKE {text!r}..."
        left = "" if self.is_anchored_left else "%"
        right = "" if self.is_anchored_right else "%"
        return f"{self.column} LIKE {left + text + right!r}"


@dataclass(frozen=True, slots=True)
class ByteLength:
    """`octet_length(column) operator length`; null for a null column."""

    column: ColumnReference
    operator: Operator
    length: int

    def __str__(self) -> str:
        return f"octet_length({self.column}) {self.operator.value} {self.length}"


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`; never null."""

    column: ColumnReference

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL."""

    value: bool | None

    def __str__(self) -> str:
        return "NULL" if self.value is None else str(self.value).upper()


@dataclass(frozen=True, slots=True)
class And:
    """Every child."""

    children: tuple[Predicate, ...]

    def __str__(self) -> str:
        return "(" + " AND ".join(str(child) for child in self.children) + ")"


@dataclass(frozen=True, slots=True)
class Or:
    """Any child."""

    children: tuple[Predicate, ...]

    def __str__(self) -> str:
        return "(" + " OR ".join(str(child) for child in self.children) + ")"


@dataclass(frozen=True, slots=True)
class Not:
    """`NOT child`; null stays null."""

    child: Predicate

    def __str__(self) -> str:
        return f"NOT {self.child}"


@dataclass(frozen=True, slots=True)
class IsTrue:
    """`child IS TRUE`: false where the child is null; never null."""

    child: Predicate

    def __str__(self) -> str:
        return f"{self.child} IS TRUE"


@dataclass(frozen=True, slots=True)
class Residual:
    """What the tree cannot express."""

    def __str__(self) -> str:
        return "..."


Predicate = (
    Comparison
    | NullSafeEqual
    | InList
    | Like
    | ByteLength
    | IsNull
    | Constant
    | And
    | Or
    | Not
    | IsTrue
    | Residual
)


def references(predicate: Predicate) -> frozenset[ColumnReference]:
    """The columns whose bounds can decide the tree."""
    match predicate:
        case And(children) | Or(children):
            return frozenset().union(*(references(child) for child in children))
        case Not(child) | IsTrue(child):
            return references(child)
        case Constant() | Residual() | ByteLength() | Like(is_anchored_left=False):
            return frozenset()
        case _:
            return frozenset({predicate.column})

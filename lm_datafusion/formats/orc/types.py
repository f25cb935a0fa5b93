"""The tree of types: columns by number, by path, and renumbered for a splice.

In: the types of a footer, in pre-order: column 0 is the root, and the columns below a column follow
it. Out: numbers of columns, and type messages of a file with only some of the top-level columns.

Invariant: every column has exactly one parent, whose number is smaller; the columns below a column
are a range of numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.formats.orc.spec import TypeKind
from lm_datafusion.protobuf import encode_field, encode_varint, fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.formats.orc.messages import ColumnType

_SUBTYPES = 2


class TypeTree:
    """The columns of a file.

    Raises:
        ValueError: The types are no tree in pre-order.
    """

    def __init__(self, types: Sequence[ColumnType]) -> None:
        self.types = tuple(types)
        self._stops = _subtree_stops(self.types)

    def __len__(self) -> int:
        return len(self.types)

    @property
    def has_struct_root(self) -> bool:
        """Whether the file is a table."""
        return bool(self.types) and self.types[0].kind == TypeKind.STRUCT

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the top-level columns."""
        return self.types[0].names

    def top_level(self, index: int) -> int:
        """The number of a top-level column."""
        return self.types[0].subtypes[index]

    def subtree(self, column: int) -> range:
        """A column and all columns below it."""
        return range(column, self._stops[column])

    def find(self, path: Sequence[str]) -> int | None:
        """The column at a path of names through structs; None unless there is exactly one."""
        column = 0
        for name in path:
            parent = self.types[column]
            if parent.kind != TypeKind.STRUCT or parent.names.count(name) != 1:
                return None
            column = parent.subtypes[parent.names.index(name)]
        return column

    def is_below_list(self, column: int) -> bool:
        """Whether a column can have more values than there are rows."""
        many = (TypeKind.LIST, TypeKind.MAP)
        parents = range(column)
        return any(self.types[p].kind in many and column in self.subtree(p) for p in parents)

    def renumbered(self, top_level: Sequence[int]) -> dict[int, int]:
        """New numbers of the root, some top-level columns and all below them, in new order."""
        numbers = {0: 0}
        for index in top_level:
            for column in self.subtree(self.top_level(index)):
                numbers[column] = len(numbers)
        return numbers

    def messages(self, top_level: Sequence[int], numbers: dict[int, int]) -> list[bytes]:
        """Type messages of a file with only some top-level columns."""
        root = encode_field(1, TypeKind.STRUCT)
        if top_level:
            chosen = [numbers[self.top_level(index)] for index in top_level]
            root += encode_field(_SUBTYPES, b"".join(map(encode_varint, chosen)))
        root += b"".join(encode_field(3, self.names[index].encode()) for index in top_level)
        return [root, *(self._message(column, numbers) for column in numbers if column)]

    def _message(self, column: int, numbers: dict[int, int]) -> bytes:
        column_type = self.types[column]
        kept = b"".join(
            encode_field(number, value)
            for number, value in fields(column_type.message)
            if number != _SUBTYPES
        )
        if not column_type.subtypes:
            return kept
        children = b"".join(encode_varint(numbers[child]) for child in column_type.subtypes)
        return kept + encode_field(_SUBTYPES, children)


def _subtree_stops(types: Sequence[ColumnType]) -> list[int]:
    """The number after the last column below each column."""
    stops = [0] * len(types)
    for column in range(len(types) - 1, -1, -1):
        stop = column + 1
        for child in types[column].subtypes:
            if child != stop or child >= len(types):
                raise ValueError(f"column {child} is not where its parent {column} says")
            stop = stops[child]
        stops[column] = stop
        names = types[column].names
        if types[column].kind == TypeKind.STRUCT and len(names) != len(types[column].subtypes):
            raise ValueError(f"column {column} has {len(names)} names for its columns")
    if types and stops[0] != len(types):
        raise ValueError(f"{len(types)} columns, of which {stops[0]} have a place")
    return stops

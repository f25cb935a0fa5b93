"""The schema in the footer of a Parquet file: a flat list, and the tree it encodes.

In: the bytes of a footer (`FileMetaData`). Out: `SchemaElements`: every element with its bytes, the
top-level fields with their ranges of elements and leaf columns, and each leaf with its path and its
maximum levels. Only fields 1 (version) and 2 (schema) are read: the rest is most of a footer, and
pyarrow has already parsed it.

The list is the tree in depth-first order; each element gives its number of children
(parquet.thrift, "SchemaElement"). Levels are counted along the path as in "Nested Encoding": one
definition level per element that is not REQUIRED, one repetition level per REPEATED one.

Invariants:
* Fields cover all elements but the root, in order, without gaps; their leaf ranges cover all
  leaves. Leaf ordinals are the positions of column chunks in a row group.
* The bytes of an element, embedded in another footer, describe the same element.
* A footer that begins with the `source` of a schema has that schema: nothing after it is read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from lm_datafusion.formats.parquet.spec import Repetition
from lm_datafusion.formats.parquet.thrift import (
    Fields,
    Kind,
    Octets,
    ThriftError,
    optional,
    read_struct_list,
    required,
    write_struct,
)

# A null takes as much memory as a value of fixed length, so a length that is damaged is expensive.
MAX_FIXED_LENGTH = 1 << 24
MAX_SCHEMA_DEPTH = 256  # bounds the total length of all paths; Arrow's own formats stop at 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaElement:
    """One node of the schema; `raw` is the encoded element.

    `physical_type` is a `PhysicalType` and `converted_type` a `ConvertedType` of the
    specification, kept as numbers: a newer writer may use others.
    """

    raw: bytes
    name: str
    physical_type: int | None
    type_length: int | None
    repetition: Repetition
    num_children: int
    converted_type: int | None
    has_logical_type: bool

    @property
    def is_group(self) -> bool:
        """Whether the element contains other elements instead of values."""
        return self.num_children > 0 or self.physical_type is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One leaf column. `path` begins at the top-level field; the root is not part of it."""

    path: tuple[str, ...]
    element_index: int
    max_definition_level: int
    max_repetition_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopLevelField:
    """A child of the root: elements `[first, stop)` and leaf columns `[first_leaf, stop_leaf)`."""

    name: str
    first: int
    stop: int
    first_leaf: int
    stop_leaf: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaElements:
    """The schema of one file, or of many. `elements[0]` is the root.

    `source` is what it was parsed from: the footer up to the end of its schema.
    """

    version: int
    elements: tuple[SchemaElement, ...]
    fields: tuple[TopLevelField, ...]
    leaves: tuple[Leaf, ...]
    source: bytes = field(repr=False)

    @property
    def root(self) -> SchemaElement:
        """The element whose children are the top-level fields."""
        return self.elements[0]


# Parsing 105 columns takes 1 ms; a table's files share one schema, and a query has few tables.
_recent: deque[SchemaElements] = deque(maxlen=8)


def load_schema_elements(footer_bytes: bytes) -> SchemaElements:
    """The schema of a footer; cached if a recent one begins with the same bytes.

    Raises:
        ThriftError: As `parse_schema_elements`.
    """
    for known in tuple(_recent):
        if footer_bytes.startswith(known.source):
            return known
    found = parse_schema_elements(footer_bytes)
    _recent.appendleft(found)
    return found


def parse_schema_elements(footer_bytes: Octets) -> SchemaElements:
    """Parse the schema out of a footer.

    Args:
        footer_bytes: The `FileMetaData` struct, or at least its beginning.

    Returns:
        The schema.

    Raises:
        NeedMoreData: The bytes end before the schema does.
        ThriftError: The bytes are not a footer, or the list is not a tree.
    """
    before, raw_elements, stop = read_struct_list(footer_bytes, 2)
    elements = tuple(_element(raw, fields) for raw, fields in raw_elements)
    if not elements:
        raise ThriftError("the schema has no root")
    fields, leaves = _walk(elements)
    return SchemaElements(
        version=required(before, 1, int),
        elements=elements,
        fields=fields,
        leaves=leaves,
        source=bytes(memoryview(footer_bytes)[:stop]),
    )


def with_children(root: SchemaElement, num_children: int) -> bytes:
    """The bytes of a root like `root` but with `num_children` top-level fields.

    Other fields of a root (a field id, a logical type) have no meaning there and are omitted.
    """
    return write_struct(
        [
            (3, Kind.I32, root.repetition),
            (4, Kind.BINARY, root.name.encode()),
            (5, Kind.I32, num_children),
        ]
    )


def _element(raw: bytes, fields: Fields) -> SchemaElement:
    try:
        name = required(fields, 4, bytes).decode()
        # The root often has no repetition. Elsewhere it is required; readers default to 0.
        repetition = Repetition(optional(fields, 3, int) or 0)
    except ThriftError:
        raise
    except ValueError as error:
        raise ThriftError(f"schema element {raw!r}: {error}") from None
    num_children = optional(fields, 5, int) or 0
    if num_children < 0:
        raise ThriftError(f'schema element "{name}" has {num_children} children')
    type_length = optional(fields, 2, int)
    if type_length is not None and type_length > MAX_FIXED_LENGTH:
        raise ThriftError(f'schema element "{name}" has values of {type_length:,} bytes')
    return SchemaElement(
        raw=raw,
        name=name,
        physical_type=optional(fields, 1, int),
        type_length=type_length,
        repetition=repetition,
        num_children=num_children,
        converted_type=optional(fields, 6, int),
        has_logical_type=10 in fields,
    )


@dataclass(slots=True)
class _OpenGroup:
    """A group during the walk: what its children inherit, and how many are still to come."""

    children_left: int
    path: tuple[str, ...]
    definition_level: int
    repetition_level: int


def _walk(
    elements: tuple[SchemaElement, ...],
) -> tuple[tuple[TopLevelField, ...], tuple[Leaf, ...]]:
    """Find fields and leaves: one pass over the list, with a stack of incomplete groups."""
    fields: list[TopLevelField] = []
    leaves: list[Leaf] = []
    open_groups = [_OpenGroup(elements[0].num_children, (), 0, 0)]
    first = stop = 1
    first_leaf = 0
    while open_groups:
        if not open_groups[-1].children_left:
            open_groups.pop()
        elif stop == len(elements):
            raise ThriftError(f"the schema has {stop} elements, its groups announce more")
        else:
            _visit(elements[stop], stop, open_groups, leaves)
            stop += 1
        if len(open_groups) == 1 and stop > first:  # back at the root: a field is complete
            fields.append(_field(elements, (first, stop), (first_leaf, len(leaves))))
            first, first_leaf = stop, len(leaves)
    if stop != len(elements):
        raise ThriftError(f"the schema has {len(elements)} elements, its groups hold {stop}")
    return tuple(fields), tuple(leaves)


def _visit(
    element: SchemaElement, index: int, open_groups: list[_OpenGroup], leaves: list[Leaf]
) -> None:
    """Take the next child of the innermost group: record a leaf, or enter a group."""
    parent = open_groups[-1]
    parent.children_left -= 1
    path = (*parent.path, element.name)
    definition_level = parent.definition_level + (element.repetition != Repetition.REQUIRED)
    repetition_level = parent.repetition_level + (element.repetition == Repetition.REPEATED)
    if element.is_group:
        if len(open_groups) >= MAX_SCHEMA_DEPTH:
            raise ThriftError(f"the schema is nested deeper than {MAX_SCHEMA_DEPTH}")
        open_groups.append(
            _OpenGroup(element.num_children, path, definition_level, repetition_level)
        )
    else:
        leaves.append(
            Leaf(
                path=path,
                element_index=index,
                max_definition_level=definition_level,
                max_repetition_level=repetition_level,
            )
        )


def _field(
    elements: tuple[SchemaElement, ...], span: tuple[int, int], leaf_span: tuple[int, int]
) -> TopLevelField:
    return TopLevelField(
        name=elements[span[0]].name,
        first=span[0],
        stop=span[1],
        first_leaf=leaf_span[0],
        stop_leaf=leaf_span[1],
    )

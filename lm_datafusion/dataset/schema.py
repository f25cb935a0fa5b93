"""One schema for many files.

In: the schemas of files. Out: the schema of the table.

Columns are matched by name. A column that some files lack is null there. Types are widened where no
value changes; anything else is a clash.

Invariant: the table's type holds every value of every file without loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.errors import SchemaClashError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.options import StringType


def unify_schemas(schemas: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """Unifies the schemas of files.

    Args:
        schemas: Pairs of a path and the schema of the file there.

    Raises:
        SchemaClashError: A column has incompatible types; the message names both files.
    """
    _, first = schemas[0]
    if all(schema.equals(first) for _, schema in schemas[1:]):
        return first
    fields: dict[str, tuple[pa.Field, str]] = {}
    counts: dict[str, int] = {}
    for path, schema in schemas:
        for field in schema:
            counts[field.name] = counts.get(field.name, 0) + 1
            known = fields.get(field.name)
            fields[field.name] = (
                (field, path)
                if known is None
                else (
                    _unify_field(known[0], field, known[1], path),
                    known[1],
                )
            )
    unified = [
        field if counts[field.name] == len(schemas) else field.with_nullable(True)
        for field, _ in fields.values()
    ]
    return pa.schema(unified, metadata=first.metadata)


def _unify_field(known: pa.Field, other: pa.Field, known_path: str, path: str) -> pa.Field:
    data_type = _common_type(known.type, other.type)
    if data_type is None:
        raise SchemaClashError(
            f'column "{known.name}" is {known.type} in {known_path} but {other.type} in {path}'
        )
    return pa.field(
        known.name, data_type, nullable=known.nullable or other.nullable, metadata=known.metadata
    )


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The narrowest type that holds the values of both, or None."""
    if left == right:
        return left
    for narrow, wide in ((left, right), (right, left)):
        if _widens_to(narrow, wide):
            return wide
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        # An unsigned and a signed type; neither holds the other.
        width = 2 * max(left.bit_width, right.bit_width)
        return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(width)
    if pa.types.is_decimal(left) and pa.types.is_decimal(right):
        return _common_decimal(left, right)
    return None


def _widens_to(narrow: pa.DataType, wide: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(narrow):
        return True
    if types.is_dictionary(narrow):
        return narrow.value_type == wide or _widens_to(narrow.value_type, wide)
    if types.is_integer(narrow) and types.is_integer(wide):
        if types.is_unsigned_integer(narrow) and types.is_signed_integer(wide):
            return bool(wide.bit_width > narrow.bit_width)
        same = types.is_signed_integer(narrow) == types.is_signed_integer(wide)
        return bool(same and wide.bit_width > narrow.bit_width)
    if types.is_integer(narrow) and types.is_floating(wide):
        # A double holds every integer of up to 53 bits, a float of up to 24.
        return bool(narrow.bit_width * 2 <= wide.bit_width)
    if types.is_floating(narrow) and types.is_floating(wide):
        return bool(wide.bit_width > narrow.bit_width)
    pairs = {
        (pa.string(), pa.large_string()),
        (pa.string(), pa.string_view()),
        (pa.binary(), pa.large_binary()),
        (pa.binary(), pa.binary_view()),
    }
    return (narrow, wide) in pairs


def _common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + scale <= 38:  # noqa: PLR2004 digits of 128 bits
        return pa.decimal128(whole + scale, scale)
    return pa.decimal256(whole + scale, scale) if whole + scale <= 76 else None  # noqa: PLR2004


def with_string_type(schema: pa.Schema, string_type: StringType) -> pa.Schema:
    """The schema with text and bytes in the requested type."""
    if string_type == "string":
        return schema
    fields = [field.with_type(_view_type(field.type)) for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def _view_type(data_type: pa.DataType) -> pa.DataType:
    """The type that DataFusion's own reader uses: top level only."""
    types = pa.types
    if types.is_string(data_type) or types.is_large_string(data_type):
        return pa.string_view()
    if types.is_binary(data_type) or types.is_large_binary(data_type):
        return pa.binary_view()
    return data_type

"""Tests for kinds of Arrow types: Arrow has several types for text and bytes."""

from __future__ import annotations

import pyarrow as pa


def is_text(data_type: pa.DataType) -> bool:
    """Whether values are strings, in any of Arrow's layouts or dictionary-encoded."""
    types = pa.types
    if types.is_dictionary(data_type):
        return is_text(data_type.value_type)
    return (
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_string_view(data_type)
    )


def is_text_or_bytes(data_type: pa.DataType) -> bool:
    """Whether values are strings or bytes of any length, not dictionary-encoded."""
    types = pa.types
    return not types.is_dictionary(data_type) and (
        is_text(data_type)
        or types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_binary_view(data_type)
    )


def has_union(data_type: pa.DataType) -> bool:
    """Whether a type is a union or contains one."""
    if pa.types.is_union(data_type):
        return True
    return any(has_union(data_type.field(i).type) for i in range(data_type.num_fields))


def without_unions(schema: pa.Schema) -> pa.Schema:
    """The columns that conditions can name: neither DataFusion nor PyArrow can compare unions."""
    return pa.schema([field for field in schema if not has_union(field.type)], schema.metadata)

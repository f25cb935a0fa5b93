"""Values as SQL text in DataFusion's dialect.

In: a pyarrow scalar. Out: SQL that DataFusion folds back into the same value of the same type.

Invariant: `evaluator.constant(literal_sql(x))` equals `x`, including its type.
"""

from __future__ import annotations

import math

import pyarrow as pa

from lm_datafusion.errors import UnsupportedFeatureError

_INTEGER_NAMES = {
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
}
_FLOAT_NAMES = {pa.float16(): "Float16", pa.float32(): "Float32", pa.float64(): "Float64"}
_UNIT_NAMES = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}


def quote_identifier(name: str) -> str:
    """A column name as SQL, with any characters."""
    return '"' + name.replace('"', '""') + '"'


def quote_string(text: str) -> str:
    """A string as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def type_name(data_type: pa.DataType) -> str:
    """The name of a type for DataFusion's `arrow_cast`."""
    types = pa.types
    if data_type in _INTEGER_NAMES:
        return _INTEGER_NAMES[data_type]
    if data_type in _FLOAT_NAMES:
        return _FLOAT_NAMES[data_type]
    if types.is_timestamp(data_type):
        zone = "None" if data_type.tz is None else f'Some("{data_type.tz}")'
        return f"Timestamp({_UNIT_NAMES[data_type.unit]}, {zone})"
    if types.is_time(data_type):
        return f"Time{data_type.bit_width}({_UNIT_NAMES[data_type.unit]})"
    if types.is_duration(data_type):
        return f"Duration({_UNIT_NAMES[data_type.unit]})"
    if types.is_decimal(data_type):
        return f"Decimal{data_type.bit_width}({data_type.precision}, {data_type.scale})"
    if types.is_fixed_size_binary(data_type):
        return f"FixedSizeBinary({data_type.byte_width})"
    if data_type in _PLAIN_NAMES:
        return _PLAIN_NAMES[data_type]
    return _nested_name(data_type)


def _nested_name(data_type: pa.DataType) -> str:
    types = pa.types
    if types.is_dictionary(data_type):
        return f"Dictionary({type_name(data_type.index_type)}, {type_name(data_type.value_type)})"
    if types.is_struct(data_type):
        return f"Struct({', '.join(map(_struct_field_name, data_type))})"
    if types.is_map(data_type):
        order = "sorted" if data_type.keys_sorted else "unsorted"
        return f"Map({_struct_field_name(data_type.field(0))}, {order})"
    if not _is_list(data_type) or "'" in data_type.value_field.name:
        raise UnsupportedFeatureError(f"no SQL spelling for values of type {data_type}")
    item = f"{_field_type_name(data_type.value_field)}, field: '{data_type.value_field.name}'"
    if types.is_fixed_size_list(data_type):
        return f"FixedSizeList({data_type.list_size} x {item})"
    return f"LargeList({item})" if types.is_large_list(data_type) else f"List({item})"


def _is_list(data_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(data_type)
        or types.is_large_list(data_type)
        or types.is_fixed_size_list(data_type)
    )


def _struct_field_name(field: pa.Field) -> str:
    if '"' in field.name or "\\" in field.name:
        raise UnsupportedFeatureError(f"no SQL spelling for a field with the name {field.name}")
    return f'"{field.name}": {_field_type_name(field)}'


def _field_type_name(field: pa.Field) -> str:
    return type_name(field.type) if field.nullable else f"non-null {type_name(field.type)}"


_PLAIN_NAMES = {
    pa.bool_(): "Boolean",
    pa.string(): "Utf8",
    pa.large_string(): "LargeUtf8",
    pa.string_view(): "Utf8View",
    pa.binary(): "Binary",
    pa.large_binary(): "LargeBinary",
    pa.binary_view(): "BinaryView",
    pa.date32(): "Date32",
    pa.date64(): "Date64",
    pa.null(): "Null",
}


def literal_sql(scalar: pa.Scalar) -> str:
    """A value as SQL.

    Raises:
        UnsupportedFeatureError: SQL text cannot express the type.
    """
    data_type = scalar.type
    if pa.types.is_null(data_type):
        return "NULL"
    if not scalar.is_valid:
        return f"arrow_cast(NULL, {quote_string(type_name(data_type))})"
    if pa.types.is_boolean(data_type):
        return "TRUE" if scalar.as_py() else "FALSE"
    if pa.types.is_string(data_type):
        return quote_string(scalar.as_py())
    if data_type == pa.int64() and scalar.as_py() > -(1 << 63):
        return f"({scalar.as_py()})"
    return f"arrow_cast({_source_sql(scalar)}, {quote_string(type_name(data_type))})"


def _source_sql(scalar: pa.Scalar) -> str:
    """What `arrow_cast` starts from: a string for numbers and text, an integer for times."""
    types = pa.types
    data_type = scalar.type
    if types.is_dictionary(data_type):
        return literal_sql(scalar.value)
    if _is_list(data_type):
        return _array_sql(scalar.values)
    if types.is_map(data_type):
        return f"map({_array_sql(scalar.values.field(0))}, {_array_sql(scalar.values.field(1))})"
    if types.is_struct(data_type):
        fields = (f"{quote_string(name)}, {literal_sql(value)}" for name, value in scalar.items())
        return f"named_struct({', '.join(fields)})"
    if (
        types.is_fixed_size_binary(data_type)
        or types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or data_type == _VIEW
    ):
        return f"x'{scalar.as_py().hex()}'"
    if types.is_date32(data_type):
        return f"arrow_cast({scalar.value}, 'Int32')"
    if types.is_temporal(data_type) and not types.is_interval(data_type):
        width = data_type.bit_width
        return f"arrow_cast({scalar.value}, 'Int{width}')"
    if types.is_floating(data_type):
        return quote_string(_float_text(float(scalar.as_py())))
    if types.is_decimal(data_type):
        return quote_string(format(scalar.as_py(), "f"))  # never 0E-7, which DataFusion refuses
    return quote_string(str(scalar.as_py()))


def _array_sql(values: pa.Array) -> str:
    return f"make_array({', '.join(map(literal_sql, values))})"


_VIEW = pa.binary_view()


def _float_text(value: float) -> str:
    if value != value:  # noqa: PLR0124 only NaN differs from itself
        return "NaN" if math.copysign(1.0, value) > 0 else "-NaN"
    return repr(value)

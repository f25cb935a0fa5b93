"""Values as SQL text in DataFusion's spelling.

In: a pyarrow scalar. Out: SQL that DataFusion folds back into the same value of the same type.

Invariant: `evaluator.constant(literal_sql(x))` equals `x`, type included.
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
    """A column name as SQL, whatever characters it holds."""
    return '"' + name.replace('"', '""') + '"'


def quote_string(text: str) -> str:
    """A string as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def type_name(data_type: pa.DataType) -> str:
    """A type in the words of DataFusion's `arrow_cast`."""
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
    name = _PLAIN_NAMES.get(data_type)
    if name is None:
        raise UnsupportedFeatureError(f"no SQL spelling for values of type {data_type}")
    return name


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
        UnsupportedFeatureError: A type that SQL text cannot carry.
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
    if types.is_binary(data_type) or types.is_large_binary(data_type) or data_type == _VIEW:
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


_VIEW = pa.binary_view()


def _float_text(value: float) -> str:
    if value != value:  # noqa: PLR0124 only NaN differs from itself
        return "NaN" if math.copysign(1.0, value) > 0 else "-NaN"
    return repr(value)

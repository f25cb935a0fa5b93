"""Converts Arrow values to plain Python values, and those to JSON.

In: an Arrow array. Out: one value per row: None, bool, int, float, Decimal, str, list or dict.

* Dates, times and timestamps are ISO 8601 text with all the digits of their unit; a timestamp
  with a zone ends in its offset.
* Durations and intervals are ISO 8601 text (`P1M2DT3.5S`).
* Bytes are hexadecimal text. Invalid UTF-8 in a text column becomes U+FFFD.
* A map with text keys is a dict; any other map is a list of `[key, value]`.

JSON has no NaN and no infinity: they are written as the strings "NaN", "Infinity" and "-Infinity".
Integers and decimals are numbers with all their digits.

Invariant: two different values of a column never print alike, except for invalid UTF-8.
"""

from __future__ import annotations

import itertools
import json
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_UNITS_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NANOSECONDS: Final = 10**9
_quoted: Final = json.JSONEncoder(ensure_ascii=False).encode
_OFFSET: Final = r"([+-]\d\d)(\d\d)$"


def plain_values(array: pa.Array) -> list[Any]:
    """The values of an array, one per row."""
    types, data_type = pa.types, array.type
    if types.is_dictionary(data_type):
        return plain_values(array.dictionary_decode())
    if types.is_run_end_encoded(data_type):
        return plain_values(pc.run_end_decode(array))
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_values(array.storage)
    if types.is_nested(data_type):
        return _nested_values(array)
    if types.is_temporal(data_type):
        return _temporal_values(array)
    return _flat_values(array)


def json_texts(array: pa.Array) -> list[str]:
    """The values of an array as JSON, one text per row."""
    values = plain_values(array)
    if pa.types.is_integer(array.type):
        return ["null" if value is None else str(value) for value in values]
    if _is_text(array.type):
        return ["null" if value is None else _quoted(value) for value in values]
    return list(map(json_text, values))


def json_text(value: Any) -> str:
    """A plain value as JSON."""
    match value:
        case None:
            return "null"
        case str():
            return _quoted(value)
        case float():
            return repr(value) if math.isfinite(value) else f'"{_odd_float(value)}"'
        case Decimal():
            return format(value, "f")
        case list():
            return f"[{', '.join(map(json_text, value))}]"
        case dict():
            pairs = (f"{json_text(str(k))}: {json_text(v)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        case _:
            return json.dumps(value)


def _odd_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _flat_values(array: pa.Array) -> list[Any]:
    types, data_type = pa.types, array.type
    if types.is_float16(data_type) or types.is_float32(data_type):
        # The shortest digits for the same number: 0.1, not 0.10000000149011612.
        numbers = zip(array.to_numpy(zero_copy_only=False), array.is_valid(), strict=True)
        return [float(str(number)) if valid.as_py() else None for number, valid in numbers]
    if _is_bytes(data_type):
        return [None if value is None else value.hex() for value in array.to_pylist()]
    if _is_text(data_type):
        return _text_values(array)
    return array.to_pylist()


def _is_bytes(data_type: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_fixed_size_binary(data_type)
        or data_type == pa.binary_view()
    )


def _is_text(data_type: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or data_type == pa.string_view()
    )


def _text_values(array: pa.Array) -> list[str | None]:
    try:
        return array.to_pylist()
    except UnicodeDecodeError:
        as_bytes = pa.binary_view() if array.type == pa.string_view() else pa.binary()
        raw = array.cast(as_bytes).to_pylist()
        return [None if value is None else value.decode(errors="replace") for value in raw]


def _temporal_values(array: pa.Array) -> list[str | None]:
    types, data_type = pa.types, array.type
    if types.is_timestamp(data_type):
        text = pc.replace_substring(array.cast(pa.string()), " ", "T", max_replacements=1)
        if data_type.tz is not None:
            text = pc.replace_substring_regex(text, _OFFSET, r"\1:\2")
        return text.to_pylist()
    if types.is_duration(data_type):
        scale = _NANOSECONDS // _UNITS_PER_SECOND[data_type.unit]
        counts = array.cast(pa.int64()).to_pylist()
        return [None if count is None else _iso_duration(0, 0, count * scale) for count in counts]
    if types.is_interval(data_type):
        return [None if value is None else _iso_duration(*value) for value in array.to_pylist()]
    return array.cast(pa.string()).to_pylist()


def _iso_duration(months: int, days: int, nanoseconds: int) -> str:
    date = "".join(f"{count}{unit}" for count, unit in ((months, "M"), (days, "D")) if count)
    if not nanoseconds and date:
        return f"P{date}"
    whole, rest = divmod(abs(nanoseconds), _NANOSECONDS)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    sign = "-" if nanoseconds < 0 else ""
    return f"P{date}T{sign}{whole}{fraction}S"


def _nested_values(array: pa.Array) -> list[Any]:
    types, data_type = pa.types, array.type
    if types.is_struct(data_type):
        names = [data_type.field(index).name for index in range(data_type.num_fields)]
        children = [plain_values(child) for child in array.flatten()]
        rows = zip(*children, strict=True) if children else itertools.repeat((), len(array))
        return _where_valid(array, [dict(zip(names, row, strict=True)) for row in rows])
    if types.is_map(data_type):
        return _map_values(array)
    if types.is_union(data_type):
        return [value if value is None else str(value) for value in array.to_pylist()]
    return _list_values(array, plain_values)


def _map_values(array: pa.Array) -> list[Any]:
    data_type = array.type
    entry = pa.struct([("key", data_type.key_type), ("value", data_type.item_type)])
    lists = _list_values(array.cast(pa.list_(entry)), plain_values)
    pairs = [row if row is None else [[e["key"], e["value"]] for e in row] for row in lists]
    if not _is_text(data_type.key_type):
        return pairs
    return [row if row is None else dict(row) for row in pairs]


def _list_values(array: pa.Array, convert: Callable[[pa.Array], list[Any]]) -> list[Any]:
    values = iter(convert(array.flatten()))  # skips the values under null lists
    lengths = pc.list_value_length(array).to_pylist()
    return [None if n is None else list(itertools.islice(values, n)) for n in lengths]


def _where_valid(array: pa.Array, values: Sequence[Any]) -> list[Any]:
    if not array.null_count:
        return list(values)
    flags = array.is_valid().to_pylist()
    return [value if valid else None for value, valid in zip(values, flags, strict=True)]

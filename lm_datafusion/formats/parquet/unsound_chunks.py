"""Finds column chunks whose metadata crashes PyArrow.

In: the bytes of a footer and its schema. Out: the chunks with an unknown codec, or with
`SizeStatistics` whose histogram has the wrong number of levels, or that count bytes of text for
other values.

Why: PyArrow checks these when the metadata of a chunk is accessed, in calls that must not fail, and
so aborts the process. Kernels walk the footer; without them the generic reader does, which takes
longer than PyArrow.

Invariant: the metadata of every other chunk can be accessed safely in PyArrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lm_datafusion.formats.parquet.spec import Codec, PhysicalType
from lm_datafusion.formats.parquet.thrift import Fields, ThriftError, read_struct
from lm_datafusion.kernels import kernel_info

if TYPE_CHECKING:
    from lm_datafusion.formats.parquet.schema_elements import SchemaElements

_CODEC = 4
_SIZE_STATISTICS = 16
_CODECS = frozenset(Codec)


def find_unsound_chunks(footer: bytes, schema: SchemaElements) -> frozenset[tuple[int, int]]:
    """The (row group, leaf) pairs of chunks that must not be accessed in PyArrow.

    Raises:
        ThriftError: The bytes are not a footer.
    """
    expected = [
        (
            leaf.max_repetition_level + 1,
            leaf.max_definition_level + 1,
            schema.elements[leaf.element_index].physical_type == PhysicalType.BYTE_ARRAY,
        )
        for leaf in schema.leaves
    ]
    if not kernel_info().is_active:
        return _find_unsound_chunks(footer, expected)
    from lm_datafusion.kernels import pages

    try:
        table = np.array(expected, dtype=np.int64).reshape(-1, 3)
        return frozenset(pages.find_unsound_chunks(footer, table))
    except pages.PageError as error:
        raise ThriftError(str(error)) from None


def _find_unsound_chunks(
    footer: bytes, expected: list[tuple[int, int, bool]]
) -> frozenset[tuple[int, int]]:
    """The same without kernels."""
    fields, _ = read_struct(footer)
    try:
        return frozenset(
            (row_group, leaf)
            for row_group, group in enumerate(fields.get(4, []))
            for leaf, chunk in enumerate(group.get(1, []))
            if leaf < len(expected) and _is_unsound(chunk.get(3, {}), expected[leaf])
        )
    except (AttributeError, TypeError) as error:
        raise ThriftError(f"no footer: {error}") from None


def _is_unsound(metadata: Fields, expected: tuple[int, int, bool]) -> bool:
    repetition_levels, definition_levels, has_bytes = expected
    sizes: Fields = metadata.get(_SIZE_STATISTICS, {})
    # An empty histogram counts as absent.
    return (
        metadata.get(_CODEC, 0) not in _CODECS
        or len(sizes.get(2) or ()) not in (0, repetition_levels)
        or len(sizes.get(3) or ()) not in (0, definition_levels)
        or (1 in sizes and not has_bytes)
    )

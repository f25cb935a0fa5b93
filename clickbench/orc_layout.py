"""ORC files of `hits`, written by pyarrow.

In: Arrow tables of consecutive rows. Out: a file.

What a writer of ORC does when it is asked to: ZSTD in blocks of 64 KiB; stripes of 64 MiB before
compression; a row index every 10,000 rows, with minima and maxima; dictionaries where they save
half; bloom filters for the columns that have them in the layout `tuned`.

ORC has no unsigned numbers: `EventDate` is a number of 32 bits. Queries read it as a date in any
case.

Invariant: the rows of the file are the rows given, in order, whatever their cut into tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pyarrow as pa
from pyarrow import orc

from clickbench.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

ORC_SCHEMA = pa.schema(
    [field.with_type(pa.int32()) if field.type == pa.uint16() else field for field in SCHEMA]
)
_STRIPE_BYTES = 64 << 20
_STRIDE_ROWS = 10_000
_BATCH_ROWS = 8_192
_DICTIONARY_SHARE = 0.5
_FALSE_POSITIVES = 0.01


class OrcLayoutWriter:
    """Writes tables to an ORC file; it is complete at the end of a `with`.

    Args:
        path: The file.
        bloom_columns: Names of columns that get bloom filters.
    """

    def __init__(self, path: str, bloom_columns: Sequence[str]) -> None:
        self._writer = orc.ORCWriter(
            path,
            batch_size=_BATCH_ROWS,
            stripe_size=_STRIPE_BYTES,
            compression="zstd",
            row_index_stride=_STRIDE_ROWS,
            dictionary_key_size_threshold=_DICTIONARY_SHARE,
            # The root of the columns has the number 0.
            bloom_filter_columns=[1 + SCHEMA.get_field_index(name) for name in bloom_columns],
            bloom_filter_fpp=_FALSE_POSITIVES,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, table: pa.Table) -> None:
        """Takes the next rows."""
        self._writer.write(table.cast(ORC_SCHEMA))

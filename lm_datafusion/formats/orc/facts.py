"""Facts of a file: its tail, and what else of its metadata has been read so far.

In: an open file. Out: stripes, row indexes, bloom filters and statistics, each read once.

Invariant: all facts are of one version of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_datafusion.errors import UnsupportedFeatureError
from lm_datafusion.formats.orc.bloom_filter import BloomFilters, are_trusted
from lm_datafusion.formats.orc.column_statistics import ColumnStatistics
from lm_datafusion.formats.orc.damage import named_damage
from lm_datafusion.formats.orc.groups import ColumnGroups
from lm_datafusion.formats.orc.layout import column_layout
from lm_datafusion.formats.orc.row_index import RowIndex
from lm_datafusion.formats.orc.spec import StreamKind
from lm_datafusion.formats.orc.stripe import Stripe, load_stripe
from lm_datafusion.formats.orc.tail import load_tail
from lm_datafusion.protobuf import as_bytes, fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lm_datafusion.storage import FileVersion, OpenFile

# The largest row index or bloom filter stream of a column, and the largest section of statistics.
_MOST_INDEX_BYTES = 256 << 20
# Objects made of a byte of metadata take about this many.
_OBJECT_BYTES = 8


class OrcFacts:
    """The metadata of one version of a file; grows as it is read."""

    def __init__(self, file: OpenFile) -> None:
        self.version: FileVersion = file.version
        self.tail = load_tail(file)
        self._stripes: dict[int, Stripe] = {}
        self._row_indexes: dict[tuple[int, int], RowIndex | None] = {}
        self._bloom_filters: dict[tuple[int, int], BloomFilters | None] = {}
        self._stripe_statistics: list[bytes] | None = None
        # By stripe: the statistics message of each column.
        self._column_statistics: dict[int, list[bytes]] = {}

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.version.path

    def memory_bytes(self) -> int:
        """About how much memory the facts take."""
        # Copies: other threads may load more meanwhile.
        indexes = sum(i.length_bytes for i in list(self._row_indexes.values()) if i is not None)
        filters = sum(f.length_bytes for f in list(self._bloom_filters.values()) if f is not None)
        footers = sum(s.length_bytes for s in list(self._stripes.values()))
        footers += self.tail.length_bytes
        statistics = sum(map(len, self._stripe_statistics or ()))
        statistics += sum(
            len(message) + _OBJECT_BYTES * 5
            for messages in list(self._column_statistics.values())
            for message in messages
        )
        return 4096 + _OBJECT_BYTES * footers + indexes + filters + statistics

    def load_stripe(self, file: OpenFile, index: int) -> Stripe:
        """A stripe of the file.

        Raises:
            CorruptFileError: Its footer is damaged.
        """
        stripe = self._stripes.get(index)
        if stripe is None:
            stripe = self._stripes[index] = load_stripe(file, self.tail, index)
        return stripe

    def load_row_index(self, file: OpenFile, stripe: Stripe, column: int) -> RowIndex | None:
        """The row index of a column; None if it has none."""
        key = stripe.index, column
        if key not in self._row_indexes:
            data = self._load_stream(file, stripe, column, StreamKind.ROW_INDEX)
            with named_damage(self.path, f"the row index of column {column}"):
                self._row_indexes[key] = None if data is None else RowIndex(data)
        return self._row_indexes[key]

    def load_bloom_filters(
        self, file: OpenFile, stripe: Stripe, column: int
    ) -> BloomFilters | None:
        """The bloom filters of a column, by row group; None if it has none that can be trusted."""
        key = stripe.index, column
        if key not in self._bloom_filters:
            found = None
            if are_trusted(self.tail.footer, stripe.encodings[column]):
                data = self._load_stream(file, stripe, column, StreamKind.BLOOM_FILTER_UTF8)
                with named_damage(self.path, f"the bloom filters of column {column}"):
                    found = None if data is None else BloomFilters(data)
            self._bloom_filters[key] = found
        return self._bloom_filters[key]

    def load_stripe_statistics(self, file: OpenFile) -> Sequence[bytes]:
        """The statistics message of each stripe; none if there is not one per stripe."""
        if self._stripe_statistics is None:
            with named_damage(self.path, "the statistics of stripes"):
                (packed,) = file.fetch_ranges([self.tail.metadata])
                data = self.tail.chunks.inflate(packed, limit=_MOST_INDEX_BYTES)
                found = [as_bytes(value) for number, value in fields(data) if number == 1]
            is_complete = len(found) == len(self.tail.stripes)
            self._stripe_statistics = found if is_complete else []
        return self._stripe_statistics

    def stripe_statistics(self, stripe: int, column: int) -> ColumnStatistics | None:
        """The statistics of a column of a stripe, if they have been loaded and can be read."""
        if not self._stripe_statistics:
            return None
        try:
            messages = self._column_statistics.get(stripe)
            if messages is None:
                found = fields(self._stripe_statistics[stripe])
                messages = [as_bytes(value) for number, value in found if number == 1]
                self._column_statistics[stripe] = messages
            return ColumnStatistics.parse(messages[column]) if column < len(messages) else None
        except ValueError:
            return None

    def load_groups(
        self, file: OpenFile, stripe: Stripe, columns: Sequence[int]
    ) -> dict[int, ColumnGroups] | None:
        """The row groups of columns with all below them; None if one cannot be cut.

        Args:
            file: Where row indexes come from.
            stripe: That has the row groups.
            columns: Numbers of columns.
        """
        found = {}
        for column in (c for top in columns for c in self.tail.types.subtree(top)):
            if not stripe.value_streams(column):
                continue
            layout = column_layout(self.tail, stripe, column)
            index = None if layout is None else self.load_row_index(file, stripe, column)
            if layout is None or index is None:
                return None
            found[column] = ColumnGroups(
                stripe=stripe,
                column=column,
                layout=layout,
                index=index,
                chunks=self.tail.chunks,
            )
        return found

    def check_readable(self, columns: Sequence[int]) -> None:
        """Refuses encrypted columns, whose values PyArrow replaces by masks without a word.

        Args:
            columns: Top-level columns, by their place among the names.

        Raises:
            UnsupportedFeatureError: A column is encrypted.
        """
        for index in columns:
            if self.tail.has_encrypted(self.tail.types.top_level(index)):
                name = self.tail.types.names[index]
                raise UnsupportedFeatureError(f'{self.path}: the column "{name}" is encrypted')

    def _load_stream(
        self, file: OpenFile, stripe: Stripe, column: int, kind: StreamKind
    ) -> bytes | None:
        place = stripe.streams.get((column, kind))
        if place is None:
            return None
        with named_damage(self.path, f"an index of column {column}"):
            (packed,) = file.fetch_ranges([place])
            return self.tail.chunks.inflate(packed, limit=_MOST_INDEX_BYTES)

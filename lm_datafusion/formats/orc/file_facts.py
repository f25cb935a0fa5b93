"""`OrcFileFacts`: an ORC file as the rooms above see files of any format.

In: an open file. Out: facts of its tail and stripes, and what follows from them; see
`formats.protocol`. A stripe is a row group there, and a row group of a stripe a page.

Invariant: as of the modules it is made of.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import numpy as np

from lm_datafusion.errors import CorruptFileError
from lm_datafusion.forks import cached_property
from lm_datafusion.formats.names import ORC
from lm_datafusion.formats.orc import profile
from lm_datafusion.formats.orc.chunk import OrcChunk
from lm_datafusion.formats.orc.column import OrcColumn
from lm_datafusion.formats.orc.decode import decode_schema
from lm_datafusion.formats.orc.facts import OrcFacts
from lm_datafusion.formats.orc.read import plan_row_ranges, read_rows
from lm_datafusion.formats.orc.statistics import (
    BloomFilterStatistics,
    RowGroupStatistics,
    StripeStatistics,
)
from lm_datafusion.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from lm_datafusion.formats.profile import FileProfile, PageProfile
    from lm_datafusion.metrics import ScanMetrics
    from lm_datafusion.selection import RowSelection
    from lm_datafusion.storage import OpenFile

# Rows of a column that are decoded at a time: memory grows with it.
PORTION_ROWS: Final = 1 << 18


class OrcFileFacts(OrcFacts):
    """What is known about one version of an ORC file."""

    format_name = ORC

    def __init__(self, file: OpenFile) -> None:
        super().__init__(file)
        self._chunks: dict[tuple[int, int], tuple[OrcChunk]] = {}

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns, as PyArrow reads them."""
        return decode_schema(self, range(len(self.tail.types.names)))

    @property
    def num_row_groups(self) -> int:
        """Stripes of the file."""
        return len(self.tail.stripes)

    def row_count(self, row_group: int) -> int:
        """Rows of a stripe."""
        return self.tail.stripes[row_group].row_count

    @cached_property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """Rows of all stripes."""
        counts = np.array([stripe.row_count for stripe in self.tail.stripes], np.int64)
        counts.flags.writeable = False
        return counts

    @cached_property
    def column_indices(self) -> dict[str, list[int]]:
        """The top-level columns by name."""
        found: dict[str, list[int]] = {}
        for index, name in enumerate(self.tail.types.names):
            found.setdefault(name, []).append(index)
        return found

    @property
    def chunk_count(self) -> int:
        """Stripes, indexes and filters loaded so far."""
        return len(self._stripes) + len(self._row_indexes) + len(self._bloom_filters)

    def portion_rows(self, batch_rows: int) -> int:
        """Whole row groups, and not few: to cut them out takes longer than to decode 1,000 rows."""
        stride = self.tail.footer.row_index_stride
        wanted = max(batch_rows, PORTION_ROWS)
        return wanted // stride * stride if 0 < stride < wanted else wanted

    def chunks_of(self, row_group: int, column: int) -> tuple[OrcChunk]:
        """A top-level column of a stripe."""
        key = (row_group, column)
        found = self._chunks.get(key)
        if found is None:
            found = self._chunks[key] = (OrcChunk(self, row_group, column),)
        return found

    def decoding(self, row_group: int, column: int) -> object:  # noqa: ARG002
        """All stripes are decoded in the same way."""
        return None

    def claimed_order(self, row_group: int, column: str) -> None:  # noqa: ARG002
        """ORC does not say how rows are sorted."""
        return

    def row_group_statistics(
        self, row_groups: Sequence[int], constants: Mapping[str, pa.Scalar]
    ) -> StripeStatistics:
        """Statistics of stripes."""
        return StripeStatistics(self, self.schema, row_groups, constants)

    def filter_answers(
        self, row_group: int, file: OpenFile, constants: Mapping[str, pa.Scalar]
    ) -> BloomFilterStatistics:
        """What the bloom filters of a stripe say."""
        stripe = self.load_stripe(file, row_group)
        return BloomFilterStatistics(self, self.schema, stripe, file, constants)

    def page_bounds(
        self,
        row_group: int,
        columns: Sequence[tuple[str, ...]],  # noqa: ARG002 all have the same row groups
        file: OpenFile,
        constants: Mapping[str, pa.Scalar],
    ) -> RowGroupStatistics:
        """Statistics of the row index of a stripe."""
        stripe = self.load_stripe(file, row_group)
        return RowGroupStatistics(self, self.schema, stripe, file, constants)

    def load_dictionary(
        self,
        row_group: int,  # noqa: ARG002
        column: int,  # noqa: ARG002
        file: OpenFile,  # noqa: ARG002
        *,
        limit_bytes: int,  # noqa: ARG002
        verify_checksums: bool,  # noqa: ARG002
    ) -> None:
        """Dictionaries are not used."""
        return

    def open_column(
        self,
        column: int,
        given: pa.DataType,  # noqa: ARG002 PyArrow decides on the type
        files: tuple[OpenFile, OpenFile],
        metrics: ScanMetrics,  # noqa: ARG002 decoders count
        *,
        verify_checksums: bool,  # noqa: ARG002 ORC has none
    ) -> OrcColumn:
        """A top-level column."""
        return OrcColumn(self, column, files)

    def read_rows(
        self, row_group: int, columns: Sequence[int], rows: RowSelection, file: OpenFile
    ) -> Iterator[pa.RecordBatch]:
        """Some rows of a stripe."""
        return read_rows(self, file, self.load_stripe(file, row_group), columns, rows)

    def plan_row_ranges(
        self, row_group: int, columns: Sequence[int], rows: RowSelection, file: OpenFile
    ) -> list[ByteRange]:
        """The byte ranges of their row groups."""
        return plan_row_ranges(self, file, self.load_stripe(file, row_group), columns, rows)

    def plan_index_ranges(
        self,
        row_group: int,
        columns: Sequence[int],
        pruned: Sequence[int],  # noqa: ARG002
        *,
        with_filters: bool,  # noqa: ARG002
    ) -> list[ByteRange]:
        """The footer and the index of a stripe."""
        stripe = self.tail.stripes[row_group]
        found = []
        # The index of a stripe is in one piece.
        tops = [self.tail.types.top_level(column) for column in columns]
        if any((row_group, top) not in self._row_indexes for top in tops):
            found.append(ByteRange(stripe.offset, stripe.index_length))
        if row_group not in self._stripes:
            found.append(ByteRange(stripe.footer_offset, stripe.footer_length))
        size = self.version.size_bytes
        return [wanted for wanted in found if 0 <= wanted.offset < wanted.stop <= size]

    def load_indexes(self, row_group: int, columns: Sequence[int], file: OpenFile) -> None:
        """Reads the footer of a stripe, and the row indexes of columns."""
        with contextlib.suppress(CorruptFileError):  # decoding reports it
            stripe = self.load_stripe(file, row_group)
            self.load_groups(
                file, stripe, [self.tail.types.top_level(column) for column in columns]
            )

    def load_profile(self, file: OpenFile) -> FileProfile:
        """What there is to say about the file."""
        return profile.load_profile(self, file)

    def load_page_profiles(self, column: str, file: OpenFile) -> list[PageProfile]:
        """The row groups of the stripes, by a leaf column."""
        return profile.load_pages(self, column, file)


def load_orc_facts(file: OpenFile) -> OrcFileFacts:
    """Reads the tail of a file, with the statistics of its stripes.

    Raises:
        CorruptFileError: It is not an ORC file.
        UnsupportedFeatureError: It is not a table.
    """
    facts = OrcFileFacts(file)
    with contextlib.suppress(CorruptFileError):  # pruning fails open
        facts.load_stripe_statistics(file)
    _ = facts.schema  # a file without a readable schema is refused here
    return facts

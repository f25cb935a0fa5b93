"""One column of some stripes: reads rows by the row groups that hold them.

In: a column of a file, stripes, and the rows wanted. Out: exactly those rows.

1. Row groups that hold a row are cut out of the stripe and decoded by PyArrow (`decode`).
2. Rows that are not wanted are dropped.

A scan asks for the rows of a stripe in portions, which end anywhere. The row groups at both ends
of a portion are held, so that the next one does not decode them again. A stripe that cannot be cut
is decoded once, and held; so is one whose dictionary would be decoded for every portion.

Conditions are not tested on encoded values.

Invariant: the values are those of exactly the rows asked for, in order.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from lm_datafusion.formats.orc.decode import decode_groups, load_cuttable
from lm_datafusion.formats.orc.groups import group_rows
from lm_datafusion.formats.orc.read import WINDOW_ROWS, group_ranges, group_starts
from lm_datafusion.selection import RowSelection
from lm_datafusion.selection.values import select_values
from lm_datafusion.storage import MeteredFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lm_datafusion.formats.orc.file_facts import OrcFileFacts
    from lm_datafusion.formats.orc.stripe import Stripe
    from lm_datafusion.predicate.tree import Predicate
    from lm_datafusion.storage import OpenFile

    Values: TypeAlias = pa.Array | pa.ChunkedArray

# Bytes of values that are decoded, or held, at a time.
WINDOW_BYTES: Final = 64 << 20
# A dictionary is decoded for each portion. From this share of its row groups on, a stripe with one
# is decoded as a whole.
DICTIONARY_SHARE: Final = 0.25


class OrcColumn:
    """A top-level column of a file.

    Args:
        facts: The file.
        column: The column.
        files: Where values come from, and the same for reads that count as metadata.

    Raises:
        UnsupportedFeatureError: The column is encrypted.
    """

    def __init__(self, facts: OrcFileFacts, column: int, files: tuple[OpenFile, OpenFile]) -> None:
        facts.check_readable([column])
        self.facts = facts
        self.column = column
        self.files = files
        self.stored: pa.DataType = facts.schema.field(column).type

    def open(self, row_groups: Sequence[int]) -> OrcDecoder:
        """A decoder of the column in some stripes; reads nothing."""
        return OrcDecoder(self, row_groups)


class OrcDecoder:
    """Decodes a top-level column in some stripes. Not thread-safe.

    Row numbers run across stripes: those of the second follow those of the first.
    """

    def __init__(self, column: OrcColumn, row_groups: Sequence[int]) -> None:
        self._column = column
        counts = [column.facts.row_count(number) for number in row_groups]
        self._borders = [0, *itertools.accumulate(counts)]
        self._row_groups = row_groups
        self._parts: list[_StripeColumn | None] = [None] * len(row_groups)
        self._file = MeteredFile(column.files[0], self._count_bytes)
        self._others_decoded = False
        self.bytes_fetched = 0
        self.rows_decoded = 0

    @property
    def uncompressed_bytes(self) -> int:
        """About how many bytes its values take once decoded."""
        facts, column = self._column.facts, self._column.column
        return sum(facts.chunks_of(n, column)[0].uncompressed_bytes for n in self._row_groups)

    @property
    def pages_seen(self) -> int:
        """Row groups of the stripes that were looked at."""
        return sum(len(part.fetched) for part in self._parts if part is not None)

    @property
    def pages_fetched(self) -> int:
        """Row groups that were read, each counted once."""
        return sum(int(np.count_nonzero(part.fetched)) for part in self._parts if part is not None)

    @property
    def is_spliced(self) -> bool | None:
        """Whether anything was decoded: always by PyArrow."""
        return True if self.rows_decoded or self._others_decoded else None

    def locate(self) -> None:
        """Reads the footers of the stripes."""
        for index in range(len(self._parts)):
            self._part(index)

    def read(self, rows: RowSelection) -> Values:
        """Values of rows, in order.

        Raises:
            CorruptFileError: A stripe is damaged.
            UnsupportedFeatureError: PyArrow cannot read it.
        """
        chunks: list[pa.Array] = []
        for index, (start, stop) in enumerate(itertools.pairwise(self._borders)):
            part = rows if len(self._parts) == 1 else rows.slice(start, stop)
            if part.selects_any():
                chunks += self._part(index).read(part)
        return chunks[0] if len(chunks) == 1 else pa.chunked_array(chunks, self._column.stored)

    def filter(
        self,
        rows: RowSelection,  # noqa: ARG002
        tree: Predicate,  # noqa: ARG002
        passes: Sequence[npt.NDArray[np.bool_] | None] | None,  # noqa: ARG002
        *,
        is_held: bool,  # noqa: ARG002
    ) -> None:
        """Nothing is tested on encoded values."""
        return

    def can_test(self, tree: Predicate) -> bool:  # noqa: ARG002
        """Nothing is tested on encoded values."""
        return False

    def is_all_dictionary(self) -> bool:
        """Dictionaries are not used."""
        return False

    def load_dictionary(self, chunk: int) -> pa.Array | None:  # noqa: ARG002
        """Dictionaries are not used."""
        return None

    def share_dictionaries(self, other: object) -> None:
        """Dictionaries are not used."""

    def join(self, other: OrcDecoder) -> None:
        """Adds the counts of another decoder of the same stripes."""
        self.bytes_fetched += other.bytes_fetched
        other.bytes_fetched = 0
        self._others_decoded |= other.is_spliced is True
        for index, part in enumerate(other._parts):
            if part is not None:
                self._part(index).fetched |= part.fetched

    def _part(self, index: int) -> _StripeColumn:
        part = self._parts[index]
        if part is None:
            part = self._parts[index] = _StripeColumn(self, self._row_groups[index])
        return part

    def _count_bytes(self, count: int) -> None:
        self.bytes_fetched += count

    def load_stripe(self, index: int) -> Stripe:
        """The stripe with some number in the file."""
        return self._column.facts.load_stripe(self._column.files[1], index)

    def _window_rows(self, stripe: Stripe) -> int:
        """Rows that are decoded at a time."""
        (chunk,) = self._column.facts.chunks_of(stripe.index, self._column.column)
        row_bytes = chunk.uncompressed_bytes / max(1, stripe.row_count)
        return min(WINDOW_ROWS, int(WINDOW_BYTES / max(row_bytes, 1)))

    def is_better_whole(self, stripe: Stripe, group_count: int) -> bool:
        """Whether some row groups take about as long as all, because of a dictionary."""
        facts, column = self._column.facts, self._column.column
        numbers = facts.tail.types.subtree(facts.tail.types.top_level(column))
        return (
            DICTIONARY_SHARE * stripe.group_count <= group_count < stripe.group_count
            and any(stripe.encodings[number].is_dictionary for number in numbers)
            and facts.chunks_of(stripe.index, column)[0].uncompressed_bytes <= WINDOW_BYTES
        )

    def decode(self, stripe: Stripe, groups: list[int]) -> Iterator[_Piece]:
        """The values of row groups, a window at a time; of the whole stripe if it cannot be cut."""
        facts, column = self._column.facts, [self._column.column]
        cut = load_cuttable(facts, self._column.files[1], stripe, column, group_ranges(groups))
        windows: list[Sequence[int]] = [range(stripe.group_count)]
        if cut is not None:
            most = max(1, self._window_rows(stripe) // stripe.stride)
            windows = [groups[start : start + most] for start in range(0, len(groups), most)]
        for window in windows:
            ranges = group_ranges(list(window))
            batch = decode_groups(facts, self._file, stripe, column, ranges, cut)
            self.rows_decoded += batch.num_rows
            yield _Piece(window, batch.column(0))


class _Piece(NamedTuple):
    """Row groups of a stripe, ascending, and their values."""

    groups: Sequence[int]
    values: pa.Array


class _StripeColumn:
    """The column in one stripe."""

    def __init__(self, decoder: OrcDecoder, index: int) -> None:
        self._decoder = decoder
        self._stripe = decoder.load_stripe(index)
        self._starts = group_starts(self._stripe)
        # All of the stripe, if it had to be decoded as a whole for less.
        self._whole: pa.Array | None = None
        # Row groups at the ends of the last portion.
        self._held: dict[int, pa.Array] = {}
        self.fetched = np.zeros(len(self._starts), np.bool_)

    def read(self, rows: RowSelection) -> list[pa.Array]:
        """Values of rows of the stripe; at least one."""
        stride = self._stripe.stride
        starts, stops = rows.to_ranges()
        run = (int(starts[0]), int(stops[0])) if len(starts) == 1 else None
        if self._whole is None:
            groups: list[int] = (
                np.flatnonzero(rows.page_mask(self._starts)).tolist()
                if run is None
                else list(range(run[0] // stride, -(-run[1] // stride)))
            )
            if self._decoder.is_better_whole(self._stripe, len(groups)):
                groups = list(range(self._stripe.group_count))
            pieces = self._pieces(groups)
            if len(pieces) == 1 and len(pieces[0].values) == self._stripe.row_count:
                self._whole = None if rows.selects_all() else pieces[0].values
            else:
                self._held = self._borders(pieces)
        else:
            pieces = [_Piece(range(self._stripe.group_count), self._whole)]
        found = [self._selected(piece, rows, run) for piece in pieces]
        return [values for values in found if len(values)]

    def _selected(self, piece: _Piece, rows: RowSelection, run: tuple[int, int] | None) -> pa.Array:
        """The values of a piece that are wanted."""
        if run is not None:
            first, count = piece.groups[0] * self._stripe.stride, len(piece.values)
            start = min(max(run[0] - first, 0), count)
            stop = max(min(run[1] - first, count), start)
            return piece.values if stop - start == count else piece.values[start:stop]
        ranges = group_ranges(list(piece.groups))
        wanted = RowSelection.concat(rows.slice(*self._rows_of(*part)) for part in ranges)
        return select_values(piece.values, wanted)

    def _pieces(self, groups: list[int]) -> list[_Piece]:
        """The values of row groups in order, in pieces."""
        held = {group: self._held[group] for group in groups if group in self._held}
        missing = [group for group in groups if group not in held]
        if missing and any(missing[0] < group < missing[-1] for group in held):
            held, missing = {}, groups
        pieces = [_Piece((group,), values) for group, values in held.items()]
        if missing:
            decoded = list(self._decoder.decode(self._stripe, missing))
            for piece in decoded:
                self.fetched[list(piece.groups)] = True
            if len(decoded) == 1 and len(decoded[0].values) == self._stripe.row_count:
                return decoded
            pieces += decoded
        return sorted(pieces, key=lambda piece: piece.groups[0])

    def _borders(self, pieces: list[_Piece]) -> dict[int, pa.Array]:
        """The first and the last row group of a portion: the next one may begin in it."""
        first, last = pieces[0], pieces[-1]
        head, tail = (self._row_count(group) for group in (first.groups[0], last.groups[-1]))
        return {
            first.groups[0]: first.values[:head],
            last.groups[-1]: last.values[len(last.values) - tail :],
        }

    def _row_count(self, group: int) -> int:
        return group_rows(self._stripe, [(group, group + 1)])

    def _rows_of(self, start: int, stop: int) -> tuple[int, int]:
        return start * self._stripe.stride, min(stop * self._stripe.stride, self._stripe.row_count)

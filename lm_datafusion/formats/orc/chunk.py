"""One top-level column of one stripe: how large it is.

In: the facts of a file. Out: sizes, estimated from statistics of the stripe, and the first rows of
row groups.

Invariant: sizes are about speed and memory only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lm_datafusion.formats.orc.read import group_starts
from lm_datafusion.formats.orc.spec import TypeKind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lm_datafusion.formats.orc.facts import OrcFacts
    from lm_datafusion.storage import OpenFile

# Bytes of a decoded value.
_WIDTHS: Final[dict[int, int]] = {
    TypeKind.BOOLEAN: 1,
    TypeKind.BYTE: 1,
    TypeKind.SHORT: 2,
    TypeKind.INT: 4,
    TypeKind.FLOAT: 4,
    TypeKind.DATE: 4,
    TypeKind.LIST: 4,
    TypeKind.MAP: 4,
    TypeKind.STRUCT: 1,
    TypeKind.UNION: 5,
    TypeKind.DECIMAL: 16,
}
_WIDTH: Final = 8
_TEXTS: Final = frozenset({TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.BINARY})
# Bytes of a text of which nothing is known, and of the offset of any.
_TEXT_BYTES: Final = 24
_OFFSET_BYTES: Final = 4


class OrcChunk:
    """One top-level column of one stripe."""

    __slots__ = ("_column", "_facts", "_stripe", "is_text", "stored_bytes", "uncompressed_bytes")

    def __init__(self, facts: OrcFacts, stripe: int, column: int) -> None:
        self._facts = facts
        self._stripe = stripe
        self._column = facts.tail.types.top_level(column)
        numbers = facts.tail.types.subtree(self._column)
        kinds = [facts.tail.types.types[number].kind for number in numbers]
        self.is_text = any(kind in _TEXTS for kind in kinds)
        self.uncompressed_bytes = sum(decoded_bytes(facts, stripe, number) for number in numbers)
        self.stored_bytes = self._stored_bytes()

    def load_first_rows(self, file: OpenFile) -> npt.NDArray[np.int64]:
        """The first row of each row group of the stripe."""
        return group_starts(self._facts.load_stripe(file, self._stripe))

    def _stored_bytes(self) -> int:
        """The share of the stripe that statistics say, or that an average column has."""
        tail, total = self._facts.tail, 0
        data_bytes = tail.stripes[self._stripe].data_length
        for number in tail.types.subtree(self._column):
            statistics = self._facts.stripe_statistics(self._stripe, number)
            if statistics is None or statistics.stored_bytes is None:
                return data_bytes // max(1, len(tail.types.names))
            total += max(0, statistics.stored_bytes)
        return min(total, data_bytes)


def decoded_bytes(facts: OrcFacts, stripe: int, number: int) -> int:
    """About how many bytes the values of a column take once decoded, without those below it."""
    kind = facts.tail.types.types[number].kind
    statistics = facts.stripe_statistics(stripe, number)
    known = None if statistics is None else statistics.value_count
    count = facts.tail.stripes[stripe].row_count if known is None else max(0, known)
    if kind not in _TEXTS:
        return count * _WIDTHS.get(kind, _WIDTH)
    length = None if statistics is None else statistics.total_length
    text_bytes = count * _TEXT_BYTES if length is None or length < 0 else length
    return text_bytes + count * _OFFSET_BYTES

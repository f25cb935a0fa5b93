"""Which streams a column has, and how they are cut.

In: the type and the encoding of a column. Out: its streams in the order of positions.

Streams that are not listed are needed whole, whatever the rows: those of a dictionary.

Invariant: a type or encoding that is not known has no layout (None), and is read as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from lm_datafusion.formats.orc.runs import BYTE_RUNS, RUNS_V1, RUNS_V2, RunFormat
from lm_datafusion.formats.orc.spec import VERSION_2_DRAFT, EncodingKind, StreamKind, TypeKind

if TYPE_CHECKING:
    from lm_datafusion.formats.orc.messages import ColumnType
    from lm_datafusion.formats.orc.stripe import Stripe
    from lm_datafusion.formats.orc.tail import Tail


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How a stream is cut.

    Attributes:
        runs: The format of its runs; None if it consists of plain bytes.
        is_bits: Whether a value of a run is eight bits.
    """

    runs: RunFormat | None = None
    is_bits: bool = False

    @property
    def counts(self) -> int:
        """How many numbers of a position follow chunk and byte."""
        return 0 if self.runs is None else 2 if self.is_bits else 1


class StreamLayout(NamedTuple):
    """A stream of a column, and how it is cut."""

    kind: StreamKind
    cut: Cut


_PLAIN: Final = Cut()
_BITS: Final = Cut(runs=BYTE_RUNS, is_bits=True)
_BYTES: Final = Cut(runs=BYTE_RUNS)
_MOST_DECIMAL_64: Final = 18

_INTEGERS = (TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.DATE)
_TEXTS = (TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR)
_DICTIONARIES = (EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2)


def column_layout(tail: Tail, stripe: Stripe, column: int) -> tuple[StreamLayout, ...] | None:
    """The streams of a column that are cut, in the order of positions; None if not known."""
    column_type, encoding = tail.types.types[column], stripe.encodings[column].kind
    try:
        kind, encoding = TypeKind(column_type.kind), EncodingKind(encoding)
    except ValueError:
        return None
    streams = _streams(kind, encoding)
    if kind is TypeKind.DECIMAL and _is_decimal_64(tail, column_type):
        streams = ((StreamKind.DATA, Cut(runs=RUNS_V2.signed)),)
    present = (
        ((StreamKind.PRESENT, _BITS),) if (column, StreamKind.PRESENT) in stripe.streams else ()
    )
    return tuple(StreamLayout(*stream) for stream in present + streams)


def _is_decimal_64(tail: Tail, column_type: ColumnType) -> bool:
    is_short = 0 < column_type.precision <= _MOST_DECIMAL_64
    return is_short and tail.post_script.version == VERSION_2_DRAFT


def _streams(kind: TypeKind, encoding: EncodingKind) -> tuple[tuple[StreamKind, Cut], ...]:
    is_v2 = encoding in (EncodingKind.DIRECT_V2, EncodingKind.DICTIONARY_V2)
    runs = RUNS_V2 if is_v2 else RUNS_V1
    signed, unsigned = Cut(runs=runs.signed), Cut(runs=runs.unsigned)
    if kind in _INTEGERS:
        return ((StreamKind.DATA, signed),)
    if kind in _TEXTS and encoding in _DICTIONARIES:
        return ((StreamKind.DATA, unsigned),)
    if kind in _TEXTS or kind is TypeKind.BINARY:
        return ((StreamKind.DATA, _PLAIN), (StreamKind.LENGTH, unsigned))
    if kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
        return ((StreamKind.DATA, signed), (StreamKind.SECONDARY, unsigned))
    if kind is TypeKind.DECIMAL:
        return ((StreamKind.DATA, _PLAIN), (StreamKind.SECONDARY, signed))
    if kind in (TypeKind.LIST, TypeKind.MAP):
        return ((StreamKind.LENGTH, unsigned),)
    return _PLAIN_STREAMS[kind]


_PLAIN_STREAMS: Final[dict[TypeKind, tuple[tuple[StreamKind, Cut], ...]]] = {
    TypeKind.BOOLEAN: ((StreamKind.DATA, _BITS),),
    TypeKind.BYTE: ((StreamKind.DATA, _BYTES),),
    TypeKind.UNION: ((StreamKind.DATA, _BYTES),),
    TypeKind.FLOAT: ((StreamKind.DATA, _PLAIN),),
    TypeKind.DOUBLE: ((StreamKind.DATA, _PLAIN),),
    TypeKind.STRUCT: (),
}

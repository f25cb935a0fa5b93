"""The profile of an ORC file.

In: facts of a file. Out: its `FileProfile`, and `PageProfile`s of a column: of the row groups of
its stripes.

It reads the footers of all stripes, and row indexes of the columns that are asked for.

Invariant: bounds that pruning cannot use are not shown as bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.names import ORC
from lm_datafusion.formats.orc.chunk import decoded_bytes
from lm_datafusion.formats.orc.spec import Compression, EncodingKind, StreamKind, TypeKind, Writer
from lm_datafusion.formats.orc.statistics import RowGroupStatistics, StripeStatistics, leaf_type
from lm_datafusion.formats.profile import (
    ChunkProfile,
    ColumnProfile,
    FileProfile,
    PageProfile,
)
from lm_datafusion.pruning.overlap import is_ascending, overlap_share

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import IntEnum

    from lm_datafusion.formats.orc.file_facts import OrcFileFacts
    from lm_datafusion.formats.orc.stripe import Stripe
    from lm_datafusion.storage import OpenFile

_DICTIONARIES = (EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2)
_WRITERS = {int(Writer.JAVA): "ORC Java", int(Writer.CPP): "ORC C++"}
_MANY = (TypeKind.LIST, TypeKind.MAP, TypeKind.UNION)


def load_profile(facts: OrcFileFacts, file: OpenFile) -> FileProfile:
    """Reads the profile of a file.

    Raises:
        CorruptFileError: The footer of a stripe is damaged.
        StorageError: The file cannot be read.
    """
    stripes = [facts.load_stripe(file, index) for index in range(facts.num_row_groups)]
    footer, post_script = facts.tail.footer, facts.tail.post_script
    writer = _WRITERS.get(footer.writer, f"writer {footer.writer}")
    return FileProfile(
        path=facts.path,
        size_bytes=facts.version.size_bytes,
        footer_bytes=facts.tail.length_bytes,
        created_by=" ".join(filter(None, (writer, footer.software_version))),
        format_version=".".join(map(str, post_script.version)),
        row_counts=tuple(stripe.row_count for stripe in stripes),
        sorted_by=(),
        columns=tuple(_column(facts, path, number, stripes) for path, number in _leaves(facts)),
    )


def load_pages(facts: OrcFileFacts, column: str, file: OpenFile) -> list[PageProfile]:
    """The row groups of all stripes; none where they cannot be told apart."""
    path, number = next(leaf for leaf in _leaves(facts) if ".".join(leaf[0]) == column)
    pages: list[PageProfile] = []
    for index in range(facts.num_row_groups):
        stripe = facts.load_stripe(file, index)
        pages += _stripe_pages(facts, stripe, path, number, file)
    return pages


def _leaves(facts: OrcFileFacts) -> Iterator[tuple[tuple[str, ...], int]]:
    """Paths and numbers of the columns below structs that are no structs."""
    types = facts.tail.types
    waiting: list[tuple[tuple[str, ...], int]] = [
        ((name,), number) for name, number in zip(types.names, types.types[0].subtypes, strict=True)
    ]
    while waiting:
        path, number = waiting.pop(0)
        found = types.types[number]
        if found.kind != TypeKind.STRUCT:
            yield path, number
            continue
        inner = zip(found.names, found.subtypes, strict=True)
        waiting[:0] = [((*path, name), child) for name, child in inner]


def _column(
    facts: OrcFileFacts, path: tuple[str, ...], number: int, stripes: list[Stripe]
) -> ColumnProfile:
    kind = facts.tail.types.types[number].kind
    statistics = StripeStatistics(facts, facts.schema, range(len(stripes)), {})
    nothing = pa.nulls(len(stripes))
    minima = statistics.min_values(path)
    maxima = statistics.max_values(path)
    minima = nothing if minima is None else minima
    maxima = nothing if maxima is None else maxima
    nulls = statistics.null_counts(path)
    null_counts = [None] * len(stripes) if nulls is None else nulls.tolist()
    profiles = tuple(
        _chunk(facts, stripe, number, (low, high), None if count is None or count < 0 else count)
        for stripe, low, high, count in zip(
            stripes, minima.to_pylist(), maxima.to_pylist(), null_counts, strict=True
        )
    )
    counts = [s.row_count - (p.null_count or 0) for s, p in zip(stripes, profiles, strict=True)]
    data_type = leaf_type(facts.schema, path)
    return ColumnProfile(
        name=".".join(path),
        physical_type=_name(TypeKind, kind),
        data_type="" if data_type is None else str(data_type),
        is_repeated=kind in _MANY,
        has_statistics=any(facts.stripe_statistics(s.index, number) for s in stripes),
        is_all_null=bool(profiles)
        and all(p.null_count is not None for p in profiles)
        and not any(counts),
        has_page_bounds=any(p.has_column_index for p in profiles)
        and minima.null_count < len(minima),
        chunks=profiles,
        overlap=overlap_share(minima, maxima, counts) if len(stripes) > 1 else None,
        is_ascending=is_ascending(minima, maxima),
        format_name=ORC,
    )


def _chunk(
    facts: OrcFileFacts,
    stripe: Stripe,
    number: int,
    bounds: tuple[object, object],
    null_count: int | None,
) -> ChunkProfile:
    below = facts.tail.types.subtree(number)
    encoding = stripe.encodings[number]
    values = [stripe.streams[n, kind] for n in below for kind in stripe.value_streams(n)]
    is_dictionary = encoding.kind in _DICTIONARIES
    has_index = (number, StreamKind.ROW_INDEX) in stripe.streams
    filters = stripe.streams.get((number, StreamKind.BLOOM_FILTER_UTF8))
    return ChunkProfile(
        row_group=stripe.index,
        offset=min((place.offset for place in values), default=stripe.information.offset),
        compressed_bytes=sum(place.length for place in values),
        uncompressed_bytes=sum(decoded_bytes(facts, stripe.index, n) for n in below),
        encodings=(_name(EncodingKind, encoding.kind),),
        codec=_name(Compression, facts.tail.post_script.compression),
        minimum=bounds[0],
        maximum=bounds[1],
        null_count=null_count,
        dictionary="all" if is_dictionary else "none",
        distinct=encoding.dictionary_size if is_dictionary else None,
        has_column_index=has_index,
        has_offset_index=has_index,
        says_column_index=has_index,
        bloom_filter_bytes=0 if filters is None else filters.length,
        pages=stripe.group_count if has_index else None,
    )


def _name(kinds: type[IntEnum], number: int) -> str:
    return kinds(number).name if number in list(kinds) else str(number)


def _stripe_pages(
    facts: OrcFileFacts, stripe: Stripe, path: tuple[str, ...], number: int, file: OpenFile
) -> list[PageProfile]:
    lengths = _lengths(facts, stripe, number, file)
    if lengths is None:
        return []
    statistics = RowGroupStatistics(facts, facts.schema, stripe, file, {})
    minima, maxima = statistics.min_values(path), statistics.max_values(path)
    nothing = pa.nulls(stripe.group_count)
    return [
        PageProfile(
            row_group=stripe.index,
            page=group,
            first_row=first_row,
            row_count=row_count,
            length_bytes=length,
            minimum=(nothing if minima is None else minima)[group].as_py(),
            maximum=(nothing if maxima is None else maxima)[group].as_py(),
        )
        for group, (first_row, row_count, length) in enumerate(
            zip(statistics.starts.tolist(), statistics.row_counts().tolist(), lengths, strict=True)
        )
    ]


def _lengths(facts: OrcFileFacts, stripe: Stripe, number: int, file: OpenFile) -> list[int] | None:
    """The bytes of each row group; None if the row index does not say."""
    try:
        columns = facts.load_groups(file, stripe, [number])
        ranges = [(group, group + 1) for group in range(stripe.group_count)]
        if not columns or not all(column.are_usable(ranges) for column in columns.values()):
            return None
        return [
            sum(wanted.length for c in columns.values() for wanted in c.byte_ranges([group]))
            for group in ranges
        ]
    except (CorruptFileError, ValueError, IndexError):
        return None

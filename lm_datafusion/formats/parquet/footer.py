"""Facts about one Parquet file, loaded once per file version.

In: an open file. Out: `FileFacts`: the footer as pyarrow parsed it, the Arrow schema pyarrow
reads the file with, and a `ChunkFacts` per leaf column and row group.

Invariant: facts belong to one `FileVersion` and never change.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow._parquet import ParquetReader as ParquetReader  # noqa: PLC0414 the door to it

from lm_datafusion.errors import CorruptFileError, UnsupportedFeatureError
from lm_datafusion.forks import cached_property
from lm_datafusion.formats.parquet.chunk import ChunkFacts
from lm_datafusion.formats.parquet.chunk_tail import (
    ChunkTail,
    find_chunk_tail,
    parse_chunk_tails,
)
from lm_datafusion.formats.parquet.column_orders import find_total_orders
from lm_datafusion.formats.parquet.schema_elements import SchemaElements, load_schema_elements
from lm_datafusion.formats.parquet.spec import MAGIC, PhysicalType
from lm_datafusion.formats.parquet.thrift import ThriftError
from lm_datafusion.formats.parquet.unsound_chunks import find_unsound_chunks
from lm_datafusion.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import numpy.typing as npt
    import pyarrow.parquet as pq

    from lm_datafusion.formats.parquet.schema_elements import Leaf
    from lm_datafusion.storage import FileVersion, OpenFile

Held = TypeVar("Held")

ARROW_SCHEMA_KEY: Final = b"ARROW:schema"
ENCRYPTED_MAGIC: Final = b"PARE"
# One read gets the footer of most files; reading 64 KiB costs no more than 8 bytes.
_TAIL_GUESS_BYTES: Final = 64 * 1024
_LENGTH_AND_MAGIC_BYTES: Final = 8


class FileFacts:
    """What is known about one version of a Parquet file."""

    def __init__(self, version: FileVersion, footer: bytes) -> None:
        self.version = version
        self.footer = footer
        try:
            alone = MAGIC + footer + struct.pack("<I", len(footer)) + MAGIC
            reader = open_reader(pa.py_buffer(alone))
            self.metadata: pq.FileMetaData = reader.metadata
            self.schema: pa.Schema = reader.schema_arrow
            self.elements: SchemaElements = load_schema_elements(footer)
            for data_type in self.schema.types:
                _check_time_zones(data_type)
        except (pa.ArrowException, OSError, ThriftError, UnicodeDecodeError) as error:
            raise footer_error(version.path, error) from error
        self._row_counts: dict[int, int] = {}
        self._chunks: dict[tuple[int, int], ChunkFacts] = {}
        self._column_chunks: dict[tuple[int, int], tuple[ChunkFacts, ...]] = {}
        self._remembered: dict[Hashable, Any] = {}
        self._all_tails: list[list[ChunkTail]] | None = None
        self._search_start = 0
        self.writer_schema = _writer_schema(self.metadata, len(self.elements.fields))

    @property
    def num_row_groups(self) -> int:
        """Row groups in the file."""
        return int(self.metadata.num_row_groups)

    def row_count(self, row_group: int) -> int:
        """Rows of a row group."""
        count = self._row_counts.get(row_group)
        if count is None:
            count = self._row_counts[row_group] = int(self.metadata.row_group(row_group).num_rows)
        if count < 0:
            raise CorruptFileError(
                f"row group {row_group} claims {count} rows", path=self.version.path
            )
        return count

    @cached_property
    def row_counts(self) -> npt.NDArray[np.int64]:
        """Rows of all row groups."""
        counts = np.array([self.row_count(n) for n in range(self.num_row_groups)], dtype=np.int64)
        counts.flags.writeable = False
        return counts

    @cached_property
    def column_indices(self) -> dict[str, list[int]]:
        """The top-level columns by name."""
        found: dict[str, list[int]] = {}
        for index, name in enumerate(self.schema.names):
            found.setdefault(name, []).append(index)
        return found

    def chunk(self, row_group: int, leaf: int) -> ChunkFacts:
        """The facts of one column chunk."""
        key = (row_group, leaf)
        facts = self._chunks.get(key)
        if facts is None:
            metadata = self._chunk_metadata(row_group, leaf)
            node = self.elements.leaves[leaf]
            facts = ChunkFacts(
                metadata,
                node,
                self.row_count(row_group),
                lambda: self._find_tail(metadata, row_group, leaf),
                fixed_length=self.elements.elements[node.element_index].type_length,
            )
            facts = self._chunks.setdefault(key, facts)
        return facts

    def _chunk_metadata(self, row_group: int, leaf: int) -> pq.ColumnChunkMetaData:
        """Pyarrow's metadata of a chunk, checked first: pyarrow would abort the process."""
        if (row_group, leaf) in self._unsound_chunks:
            raise CorruptFileError(
                f"the codec or the size statistics of row group {row_group} cannot be right",
                path=self.version.path,
                column=".".join(self.elements.leaves[leaf].path),
            )
        if self._is_encrypted(row_group, leaf):
            name = ".".join(self.elements.leaves[leaf].path)
            raise UnsupportedFeatureError(
                f'{self.version.path}, column "{name}": encrypted; decrypt the file first'
            )
        try:
            metadata = self.metadata.row_group(row_group).column(leaf)
        except IndexError:
            metadata = None
        known = self.elements.leaves[leaf]
        physical_type = self.elements.elements[known.element_index].physical_type
        if metadata is None or physical_type != _physical_type(metadata.physical_type):
            raise CorruptFileError(
                f"row group {row_group} does not fit the schema",
                path=self.version.path,
                column=".".join(known.path),
            )
        self._check_counts(metadata.num_values, row_group, known)
        return metadata

    def _check_counts(self, num_values: int, row_group: int, leaf: Leaf) -> None:
        """Checks that each row has one value, perhaps null, or at least one in a repeated column.

        Otherwise readers that count rows and readers that count values would differ.
        """
        row_count = self.row_count(row_group)
        is_flat = leaf.max_repetition_level == 0
        if num_values < row_count or (is_flat and num_values != row_count):
            raise CorruptFileError(
                f"row group {row_group} has {num_values} values for {row_count} rows",
                path=self.version.path,
                column=".".join(leaf.path),
            )

    @cached_property
    def _unsound_chunks(self) -> frozenset[tuple[int, int]]:
        try:
            return find_unsound_chunks(self.footer, self.elements)
        except ThriftError as error:
            raise footer_error(self.version.path, error) from error

    def _is_encrypted(self, row_group: int, leaf: int) -> bool:
        """Whether a chunk of a file with a plain footer is encrypted.

        Such a footer is signed: it goes on after its metadata.
        """
        if self.metadata.serialized_size == len(self.footer):
            return False
        tail = self._parsed_tail(row_group, leaf)
        return tail is None or tail.is_encrypted

    def chunks_of(self, row_group: int, column: int) -> tuple[ChunkFacts, ...]:
        """The chunks of a top-level column: one, or one per leaf of a nested column."""
        key = (row_group, column)
        found = self._column_chunks.get(key)
        if found is None:
            field = self.elements.fields[column]
            leaves = range(field.first_leaf, field.stop_leaf)
            found = tuple([self.chunk(row_group, leaf) for leaf in leaves])
            self._column_chunks[key] = found
        return found

    def leaf_index(self, path: tuple[str, ...]) -> int | None:
        """The leaf at a path, if it is not inside a list or map; None otherwise."""
        index = self._leaf_indices.get(path)
        is_flat = index is not None and self.elements.leaves[index].max_repetition_level == 0
        return index if is_flat else None

    @cached_property
    def _leaf_indices(self) -> dict[tuple[str, ...], int]:
        # In reverse, so that the first of several leaves with one path wins.
        leaves = self.elements.leaves
        return {leaves[index].path: index for index in reversed(range(len(leaves)))}

    def has_total_order(self, leaf: int) -> bool:
        """Whether the bounds of a leaf use IEEE 754's total order."""
        return leaf in self._total_orders

    @cached_property
    def _total_orders(self) -> frozenset[int]:
        return find_total_orders(self.footer, self.metadata)

    def column_type(self, column: int) -> pa.DataType:
        """The Arrow type of a top-level column."""
        return self._column_types[column]

    @cached_property
    def _column_types(self) -> list[pa.DataType]:
        return list(self.schema.types)

    def leaf_type(self, path: tuple[str, ...]) -> pa.DataType:
        """The Arrow type of a leaf."""
        data_type = self.schema.field(path[0]).type
        for name in path[1:]:
            data_type = data_type.field(name).type
        return data_type.value_type if pa.types.is_dictionary(data_type) else data_type

    @property
    def chunk_count(self) -> int:
        """The number of column chunks used so far."""
        return len(self._chunks)

    def memory_bytes(self) -> int:
        """The approximate size; a footer parsed by pyarrow takes about four times its bytes."""
        chunks = list(self._chunks.values())
        remembered = sum(map(_held_bytes, list(self._remembered.values())))
        return 5 * len(self.footer) + sum(chunk.memory_bytes() for chunk in chunks) + remembered

    def remember(self, name: Hashable, compute: Callable[[], Held]) -> Held:
        """The cached result of a computation on these facts, by name.

        For arrays and bytes.
        """
        if name not in self._remembered:
            self._remembered[name] = compute()
        found: Held = self._remembered[name]
        return found

    def _find_tail(
        self, chunk: pq.ColumnChunkMetaData, row_group: int, leaf: int
    ) -> ChunkTail | None:
        try:
            found = find_chunk_tail(self.footer, chunk, self._search_start)
            if found is not None:
                tail, self._search_start = found
                return tail
        except (ThriftError, AttributeError, TypeError):
            return None
        return self._parsed_tail(row_group, leaf)

    def _parsed_tail(self, row_group: int, leaf: int) -> ChunkTail | None:
        try:
            if self._all_tails is None:
                self._all_tails = parse_chunk_tails(self.footer)
            return self._all_tails[row_group][leaf]
        except (ThriftError, IndexError, AttributeError, TypeError):
            return None


def _check_time_zones(data_type: pa.DataType) -> None:
    """Raises `UnicodeDecodeError` if a time zone is not UTF-8: DataFusion would panic."""
    if pa.types.is_timestamp(data_type):
        _ = data_type.tz
    elif pa.types.is_dictionary(data_type):
        _check_time_zones(data_type.value_type)
    elif data_type.num_fields:
        for number in range(data_type.num_fields):
            _check_time_zones(data_type.field(number).type)


def _held_bytes(held: Any) -> int:
    return 0 if held is None else int(held.nbytes if hasattr(held, "nbytes") else len(held))


def _writer_schema(metadata: pq.FileMetaData, num_fields: int) -> pa.Schema | None:
    """The Arrow schema that an Arrow writer stored in the footer."""
    encoded = (metadata.metadata or {}).get(ARROW_SCHEMA_KEY)
    if encoded is None:
        return None
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))
    except (pa.ArrowException, ValueError, OSError):
        return None
    return schema if len(schema) == num_fields else None


def _physical_type(name: str) -> int | None:
    return PhysicalType[name] if name in PhysicalType.__members__ else None


def load_footer(file: OpenFile) -> bytes:
    """Reads the footer.

    Raises:
        CorruptFileError: The file is empty, truncated, or not a Parquet file.
        UnsupportedFeatureError: The footer is encrypted.
    """
    size, path = file.version.size_bytes, file.version.path
    if size == 0:
        raise CorruptFileError("the file is empty, not a Parquet file", path=path)
    if size < _LENGTH_AND_MAGIC_BYTES + len(MAGIC):
        raise CorruptFileError(f"{size} bytes are too few for a Parquet file", path=path)
    guess = min(size, _TAIL_GUESS_BYTES)
    tail = file.fetch_ranges([ByteRange(size - guess, guess)])[0]
    magic = tail[-4:]
    if magic == ENCRYPTED_MAGIC:
        raise UnsupportedFeatureError(f"{path}: the footer is encrypted; decrypt the file first")
    if magic != MAGIC:
        raise CorruptFileError(
            f"not a Parquet file, or cut short: it ends in {magic!r} instead of {MAGIC!r}",
            path=path,
        )
    length = struct.unpack_from("<I", tail, len(tail) - _LENGTH_AND_MAGIC_BYTES)[0]
    start = size - _LENGTH_AND_MAGIC_BYTES - length
    if start < len(MAGIC):
        raise CorruptFileError(f"a footer of {length} bytes does not fit", path=path)
    if length + _LENGTH_AND_MAGIC_BYTES <= guess:
        return tail[-length - _LENGTH_AND_MAGIC_BYTES : -_LENGTH_AND_MAGIC_BYTES]
    return file.fetch_ranges([ByteRange(start, length)])[0]


def open_reader(
    source: pa.Buffer | pa.NativeFile,
    *,
    dictionary_columns: list[int] | None = None,
    verify_checksums: bool = False,
) -> ParquetReader:
    """Pyarrow's reader over bytes or a file, as `pyarrow.parquet.ParquetFile` sets it up.

    Internal to pyarrow: `ParquetFile` would cost three times as much per splice.
    """
    reader = ParquetReader()
    reader.open(
        pa.BufferReader(source) if isinstance(source, pa.Buffer) else source,
        read_dictionary=dictionary_columns,
        pre_buffer=False,
        arrow_extensions_enabled=True,
        page_checksum_verification=verify_checksums,
    )
    return reader


def footer_error(path: str, error: Exception) -> CorruptFileError | UnsupportedFeatureError:
    """Converts pyarrow's error about a footer to one of ours."""
    if isinstance(error, NotImplementedError):
        return UnsupportedFeatureError(f"{path}: {error}")
    return CorruptFileError(f"the footer cannot be read: {error}", path=path)

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lm_datafusion.kernels.pages import PageReader

SIMD: str
TEXT_LIKE: int
TEXT_IN: int
TEXT_LENGTH: int
TEXT_ORDER: int

def choose_simd(portable: bool = False) -> str: ...

class ValueTest: ...

class IntTest(ValueTest):
    def __init__(
        self,
        integer_type: int,
        operator: int,
        literal: int,
        members: NDArray[np.int64] | None = None,
        is_negated: bool = False,
    ) -> None: ...

class TextTest(ValueTest):
    def __init__(
        self,
        kind: int,
        parts: Sequence[bytes] = (),
        *,
        operator: int = 0,
        length: int = 0,
        is_anchored_left: bool = False,
        is_anchored_right: bool = False,
        is_negated: bool = False,
    ) -> None: ...

class AllTest(ValueTest):
    def __init__(self, first: ValueTest, rest: ValueTest) -> None: ...

class Dictionary:
    value_count: int
    size_bytes: int
    def __init__(
        self,
        buffer: Any,
        start: int,
        decompress: Callable[..., Any] | None,
        verify: bool = False,
        largest_page: int = ...,
    ) -> None: ...
    def test(self, test: ValueTest) -> NDArray[np.uint8]: ...
    def to_array(self, builder: Builder) -> Any: ...

class Builder:
    row_count: int
    def finish(self) -> Any: ...

class FixedBuilder(Builder):
    def __init__(
        self, data_type: Any, stored: int, given: int, dictionary: Dictionary | None = None
    ) -> None: ...

class BooleanBuilder(Builder):
    def __init__(self) -> None: ...

class TextBuilder(Builder):
    def __init__(
        self,
        data_type: Any,
        dictionary: Dictionary | None = None,
        *,
        is_text: bool,
        is_view: bool,
    ) -> None: ...

def read_rows(
    reader: PageReader, builder: Builder, rows: NDArray[np.int32] | None, start: int, stop: int
) -> Any: ...
def filter_rows(
    reader: PageReader,
    test: ValueTest | None,
    passes: NDArray[np.uint8] | None,
    rows: NDArray[np.int32] | None,
    start: int,
    stop: int,
    *,
    null_passes: bool = False,
    builder: Builder | None = None,
) -> tuple[NDArray[np.int32], Any]: ...
def take_views(array: Any, rows: NDArray[np.int32]) -> Any: ...
def rows_of_mask(mask: NDArray[np.uint8], start: int = 0) -> NDArray[np.int32]: ...
def rows_of_ranges(
    starts: NDArray[np.int64], stops: NDArray[np.int64], count: int
) -> NDArray[np.int32]: ...

class ChunkPages:
    row_count: int
    codec: str
    @property
    def dictionary_size(self) -> int: ...
    def __init__(
        self,
        offsets: NDArray[np.int64],
        sizes: NDArray[np.int64],
        first_rows: NDArray[np.int64],
        row_count: int,
        *,
        dictionary_offset: int,
        max_definition_level: int,
        physical_type: str,
        fixed_length: int | None,
        codec: str,
        make_decompressor: Callable[[str], Callable[..., Any]] | None,
        is_all_coded: bool,
    ) -> None: ...

class ValueKind:
    data_type: Any
    def __init__(
        self,
        builder: type[Builder],
        data_type: Any,
        *,
        stored: int = 0,
        given: int = 0,
        is_text: bool = False,
        is_view: bool = False,
    ) -> None: ...
    def make(self, dictionary: Dictionary | None = None) -> Builder: ...

class Source(Protocol):
    @property
    def size_bytes(self) -> int: ...
    @property
    def descriptor(self) -> Callable[[], int]: ...
    def fetch(self, ranges: list[tuple[int, int]], target: memoryview) -> None: ...

class ChunkReader:
    page_count: int
    pages_fetched: int
    bytes_fetched: int
    @property
    def rows_decoded(self) -> int: ...
    def __init__(
        self,
        chunks: Sequence[ChunkPages],
        kind: ValueKind,
        source: Source,
        *,
        verify: bool = False,
        largest_page: int = ...,
    ) -> None: ...
    def join(self, other: ChunkReader) -> None: ...
    def share_dictionaries(self, other: ChunkReader) -> None: ...
    def read(self, rows: NDArray[np.int32] | None, start: int, stop: int) -> Any: ...
    def filter(
        self,
        rows: NDArray[np.int32] | None,
        start: int,
        stop: int,
        test: ValueTest | None,
        passes: Sequence[NDArray[np.bool_] | None] | None,
        is_held: bool,
    ) -> tuple[NDArray[np.int32], Any]: ...
    def dictionary_values(self, chunk: int) -> Any: ...

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER_FIELDS: tuple[str, ...]

class PageError(ValueError):
    page: int | None
    chunk: int | None

class UnsupportedPageError(PageError): ...
class TooLargeError(UnsupportedPageError): ...
class RefusedPageError(PageError): ...
class TextError(RefusedPageError): ...

def walk_pages(buffer: Any, start: int = 0) -> NDArray[np.int64]: ...
def parse_offset_index(buffer: Any) -> NDArray[np.int64]: ...
def parse_column_index(buffer: Any) -> dict[int, Any]: ...
def find_unsound_chunks(buffer: Any, expected: NDArray[np.int64]) -> list[tuple[int, int]]: ...
def crc32(buffer: Any) -> int: ...
def measure_lz4(buffer: Any) -> int: ...
def plan_pages(
    offsets: NDArray[np.int64],
    sizes: NDArray[np.int64],
    first_rows: NDArray[np.int64],
    row_count: int,
    rows: NDArray[np.int32] | None,
    start: int,
    stop: int,
    *,
    kept_page: int = -1,
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.int64],
    list[tuple[int, int]],
    int,
]: ...

class Codec:
    def __init__(self, zstd: tuple[int, ...] | None = None) -> None: ...
    def __call__(self, buffer: Any, size: int) -> Any: ...

class Scratch:
    def trim(self, limit: int) -> None: ...

class PageReader:
    page_count: int
    @property
    def kept_page(self) -> int: ...
    rows_decoded: int
    def __init__(
        self,
        max_definition_level: int,
        physical_type: str = "",
        fixed_length: int | None = None,
    ) -> None: ...
    def set_pages(
        self,
        scratch: Scratch,
        decompress: Callable[..., Any] | None,
        buffer: Any,
        numbers: NDArray[np.int64],
        starts: NDArray[np.int64],
        first_rows: NDArray[np.int64],
        row_ends: NDArray[np.int64],
    ) -> None: ...
    def release(self) -> None: ...

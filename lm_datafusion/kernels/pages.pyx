# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Page headers, page indexes, and the pages of a column chunk, one after the other.

In: the bytes of pages and where each begins. Out: header fields as arrays; for the decoders of
`columns`, an open page: its values, and which of its rows have one. A page in a delta encoding or
in BYTE_STREAM_SPLIT is unpacked when it is opened: `columns` sees a PLAIN page of the same values.

Invariant: bytes are hostile until checked. A size, count or level that does not fit raises
`PageError`; an encoding that is not known here raises `UnsupportedPageError`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np
from pyarrow import allocate_buffer, foreign_buffer, py_buffer

cdef extern from "hybrid.h":
    int LM_OK, LM_SHORT, LM_BAD_RUN, LM_BAD_CODE, LM_BAD_LENGTH, LM_BAD_UTF8, LM_TOO_LONG
    ctypedef struct lm_hybrid:
        pass
    int lm_hybrid_open(lm_hybrid*, const uint8_t*, const uint8_t*, int) nogil
    int lm_hybrid_levels(lm_hybrid*, int64_t, unsigned int, uint8_t*, int64_t*) nogil

cdef extern from "snappy.h":
    int lm_snappy(const uint8_t*, int64_t, uint8_t*, int64_t) nogil
cdef extern from "lz4.h":
    int64_t lm_lz4_size(const uint8_t*, int64_t) nogil

cdef extern from "delta.h":
    int LM_SLACK
    int lm_delta_numbers(const uint8_t*, const uint8_t*, int64_t, int64_t, uint8_t*) nogil
    int lm_delta_lengths(const uint8_t**, const uint8_t*, int64_t, uint32_t*, int64_t*) nogil
    void lm_delta_texts(const uint8_t*, const uint8_t*, const uint32_t*, int64_t, uint8_t*) nogil
    int lm_delta_size(const uint32_t*, const uint32_t*, int64_t, int64_t, int64_t*) nogil
    void lm_delta_join(const uint8_t*, const uint8_t*, const uint32_t*, const uint32_t*, int64_t,
                       int64_t, uint8_t*) nogil
cdef extern from "streams.h":
    void lm_join_streams(const uint8_t*, int64_t, int64_t, int64_t, uint8_t*) nogil

cdef enum:
    DATA_V1 = 0
    INDEX = 1
    DICTIONARY = 2
    DATA_V2 = 3
    RLE = 3
    MAX_DEPTH = 32
    PLAIN = 0
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    RLE_DICTIONARY = 8
    BYTE_STREAM_SPLIT = 9
    # A few bytes can stand for very many values: no page is unpacked to more.
    LARGEST_UNPACKED = 1 << 28
    # Slots of a `Scratch` for lengths; nobody needs them while a page is being opened.
    SHARED = 5
    RESTS = 6


class PageError(ValueError):
    """Bytes that are no page of this column."""

    def __init__(self, message, page=None):
        super().__init__(message)
        self.page = page


class UnsupportedPageError(PageError):
    """A page that only PyArrow can decode."""


class TextError(PageError):
    """Text that is no valid UTF-8, which PyArrow would not notice."""


# ---- thrift ---------------------------------------------------------------------------------


cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end
    int status  # 0, -1: ends too soon, -2: no such structure


cdef inline uint64_t read_varint(Cursor* cursor) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if cursor.at >= cursor.end:
            cursor.status = -1
            return 0
        if shift > 63:
            cursor.status = -2
            return 0
        byte = cursor.at[0]
        cursor.at += 1
        value |= (<uint64_t>(byte & 0x7F)) << shift
        if not byte & 0x80:
            return value
        shift += 7


cdef inline int64_t read_int(Cursor* cursor) noexcept nogil:
    cdef uint64_t value = read_varint(cursor)
    return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)


cdef inline int32_t read_i32(Cursor* cursor) noexcept nogil:
    cdef int64_t value = read_int(cursor)
    if value > 0x7FFFFFFF or value < -0x7FFFFFFF - 1:
        cursor.status = -2
        return 0
    return <int32_t>value


cdef inline uint8_t read_byte(Cursor* cursor) noexcept nogil:
    if cursor.at >= cursor.end:
        cursor.status = -1
        return 0
    cdef uint8_t byte = cursor.at[0]
    cursor.at += 1
    return byte


cdef inline void skip_bytes(Cursor* cursor, uint64_t count) noexcept nogil:
    if count > <uint64_t>(cursor.end - cursor.at):
        cursor.status = -1
    else:
        cursor.at += count


cdef inline int next_field(Cursor* cursor, int* field) noexcept nogil:
    """The type of the next field, 0 at the end of the struct; adds to its id."""
    cdef uint8_t byte = read_byte(cursor)
    if cursor.status or not byte & 0x0F:
        return 0
    if byte >> 4:
        field[0] += byte >> 4
    else:
        field[0] = read_i32(cursor)
    if field[0] > 0x7FFF or field[0] < -0x8000:
        cursor.status = -2
        return 0
    return byte & 0x0F


cdef void skip_value(Cursor* cursor, int kind, int depth) noexcept nogil:
    cdef uint8_t header
    cdef uint64_t count
    cdef int field = 0
    cdef int inner
    if depth > MAX_DEPTH:
        cursor.status = -2
    if cursor.status:
        return
    if kind == 1 or kind == 2:  # a boolean is its type
        return
    elif kind == 3:
        skip_bytes(cursor, 1)
    elif kind <= 6:
        read_varint(cursor)
    elif kind == 7:
        skip_bytes(cursor, 8)
    elif kind == 8:
        count = read_varint(cursor)
        if not cursor.status:
            skip_bytes(cursor, count)
    elif kind == 9 or kind == 10:
        header = read_byte(cursor)
        count = header >> 4
        if count == 15:
            count = read_varint(cursor)
        inner = header & 0x0F
        if inner == 0 and count:
            cursor.status = -2
        while count and not cursor.status:
            if inner <= 2:
                skip_bytes(cursor, 1)  # a boolean in a list is a byte
            else:
                skip_value(cursor, inner, depth + 1)
            count -= 1
    elif kind == 12:
        while not cursor.status:
            inner = next_field(cursor, &field)
            if not inner:
                return
            skip_value(cursor, inner, depth + 1)
    else:
        cursor.status = -2


cdef void read_page_fields(Cursor* cursor, PageHeader* header, int level) noexcept nogil:
    """The fields of a data or dictionary page header; `level` is its field in PageHeader."""
    cdef int field = 0
    cdef int kind
    cdef int32_t num_nulls = -1
    if level == 8:
        header.definition_bytes = header.repetition_bytes = -1
    while not cursor.status:
        kind = next_field(cursor, &field)
        if not kind:
            break
        if field == 1 and kind == 5:
            header.num_values = read_i32(cursor)
        elif level == 8 and field == 2 and kind == 5:
            num_nulls = read_i32(cursor)
        elif level == 8 and field == 3 and kind == 5:
            header.num_rows = read_i32(cursor)
        elif field == (4 if level == 8 else 2) and kind == 5:
            header.encoding = read_i32(cursor)
        elif level == 5 and field == 3 and kind == 5:
            # How levels are written, kept where V2 has their length.
            header.definition_bytes = read_i32(cursor)
        elif level == 8 and field == 5 and kind == 5:
            header.definition_bytes = read_i32(cursor)
        elif level == 8 and field == 6 and kind == 5:
            header.repetition_bytes = read_i32(cursor)
        elif level == 8 and field == 7 and kind <= 2:
            header.is_compressed = kind == 1
        else:
            skip_value(cursor, kind, 0)
    if not cursor.status and level == 8 and (num_nulls < 0 or header.num_rows < 0):
        cursor.status = -2


cdef int read_page_header(const uint8_t* data, int64_t size, PageHeader* header) noexcept nogil:
    """0, -1 if the bytes end inside the header, -2 if they are no page header."""
    cdef Cursor cursor
    cdef int field = 0
    cdef int kind
    # Where the fields of a V1, a dictionary and a V2 page are; those of the header's kind count.
    cdef const uint8_t* pages[9]
    cdef int wanted
    pages[5] = pages[7] = pages[8] = NULL
    cursor.at = data
    cursor.end = data + size
    cursor.status = 0
    header.kind = header.encoding = header.compressed_size = header.uncompressed_size = -1
    header.num_values = header.num_rows = -1
    header.definition_bytes = header.repetition_bytes = 0
    header.is_compressed = True
    while not cursor.status:
        kind = next_field(&cursor, &field)
        if not kind:
            break
        if field == 1 and kind == 5:
            header.kind = read_i32(&cursor)
        elif field == 2 and kind == 5:
            header.uncompressed_size = read_i32(&cursor)
        elif field == 3 and kind == 5:
            header.compressed_size = read_i32(&cursor)
        elif (field == 5 or field == 7 or field == 8) and kind == 12:
            pages[field] = cursor.at
            skip_value(&cursor, kind, 0)
        else:
            skip_value(&cursor, kind, 0)
    if cursor.status:
        return cursor.status
    header.header_bytes = <int32_t>(cursor.at - data)
    if header.kind < DATA_V1 or header.kind > DATA_V2:
        return -2
    if header.compressed_size < 0 or header.uncompressed_size < 0:
        return -2
    if header.kind == INDEX:
        return 0
    wanted = 5 if header.kind == DATA_V1 else 7 if header.kind == DICTIONARY else 8
    if pages[wanted] == NULL:
        return -2
    cursor.at = pages[wanted]
    read_page_fields(&cursor, header, wanted)
    if cursor.status or header.num_values < 0 or header.encoding < 0:
        return -2
    if header.kind == DATA_V2:
        if header.definition_bytes < 0 or header.repetition_bytes < 0:
            return -2
        # Levels stand uncompressed before the values, and count in both sizes.
        if <int64_t>header.definition_bytes + header.repetition_bytes > min(
            header.compressed_size, header.uncompressed_size
        ):
            return -2
    return 0


cdef class _Bytes:
    """A view of any buffer's bytes, pyarrow's signed ones too."""

    cdef Py_buffer view
    cdef bint is_held

    def __cinit__(self, buffer):
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.is_held = True

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)


def walk_pages(buffer, int64_t start=0):
    """The headers of pages that follow one another.

    Args:
        buffer: Bytes of a column chunk; the last page may be cut off.
        start: Where the first header begins.

    Returns:
        An int64 array with a row per header that is whole, and the columns of `HEADER_FIELDS`.

    Raises:
        PageError: There is something else where a header should be.
    """
    cdef _Bytes held = _Bytes(buffer)
    cdef const uint8_t* data = <const uint8_t*>held.view.buf
    cdef int64_t size = held.view.len
    cdef int64_t at = start
    cdef PageHeader header
    cdef int status
    found = []
    while 0 <= at < size:
        status = read_page_header(data + at, size - at, &header)
        if status == -1:
            break
        if status:
            raise PageError(f"no page header at byte {at}")
        found.append((
            at, header.header_bytes, header.compressed_size, header.uncompressed_size,
            header.kind, header.num_values, header.num_rows, header.encoding,
        ))
        at += header.header_bytes + <int64_t>header.compressed_size
    return np.array(found, dtype=np.int64).reshape(-1, len(HEADER_FIELDS))


HEADER_FIELDS = (
    "offset", "header_bytes", "compressed_size", "uncompressed_size",
    "kind", "num_values", "num_rows", "encoding",
)


def parse_offset_index(buffer):
    """The page locations of an `OffsetIndex`.

    Returns:
        An int64 array of three rows: offsets, sizes, first rows.

    Raises:
        PageError: The bytes are no offset index.
    """
    cdef _Bytes held = _Bytes(buffer)
    cdef Cursor cursor
    cdef int field = 0
    cdef int kind
    cdef int64_t[:, ::1] out
    found = None
    cursor.at = <const uint8_t*>held.view.buf
    cursor.end = cursor.at + held.view.len
    cursor.status = 0
    while not cursor.status:
        kind = next_field(&cursor, &field)
        if not kind:
            break
        if field == 1 and kind == 9:
            count = _list_count(&cursor, 12)
            if count is None:
                break
            found = np.full((3, count), -1, dtype=np.int64)
            if count:
                out = found
                _read_locations(&cursor, out)
        else:
            skip_value(&cursor, kind, 0)
    if cursor.status or found is None:
        raise PageError("no offset index")
    return found


cdef _list_count(Cursor* cursor, int kind):
    """How many elements of a kind a list has; None (and a status) if it is another list."""
    cdef uint8_t header = read_byte(cursor)
    cdef uint64_t count = header >> 4
    if count == 15:
        count = read_varint(cursor)
    if cursor.status:
        return None
    if count and (header & 0x0F) != kind or count > <uint64_t>(cursor.end - cursor.at):
        cursor.status = -2
        return None
    return count


cdef void _read_locations(Cursor* cursor, int64_t[:, ::1] out) noexcept:
    cdef Py_ssize_t page
    cdef int field, kind
    for page in range(out.shape[1]):
        field = 0
        while not cursor.status:
            kind = next_field(cursor, &field)
            if not kind:
                break
            if field >= 1 and field <= 3 and (kind == 5 or kind == 6):
                out[field - 1, page] = read_int(cursor)
            else:
                skip_value(cursor, kind, 0)
        if cursor.status:
            return


def parse_column_index(buffer):
    """The bounds of a `ColumnIndex`.

    Returns:
        A dict by field id: booleans, byte strings and counts as lists, the boundary order as a
        number; fields that are not there are left out.

    Raises:
        PageError: The bytes are no column index.
    """
    cdef _Bytes held = _Bytes(buffer)
    cdef Cursor cursor
    cdef int field = 0
    cdef int kind
    fields = {}
    cursor.at = <const uint8_t*>held.view.buf
    cursor.end = cursor.at + held.view.len
    cursor.status = 0
    while not cursor.status:
        kind = next_field(&cursor, &field)
        if not kind:
            break
        if field == 1 and kind == 9:
            fields[field] = _read_list(&cursor, 1)
        elif (field == 2 or field == 3) and kind == 9:
            fields[field] = _read_list(&cursor, 8)
        elif field == 4 and kind == 5:
            fields[field] = read_i32(&cursor)
        elif (field == 5 or field == 8) and kind == 9:
            fields[field] = _read_list(&cursor, 6)
        else:
            skip_value(&cursor, kind, 0)
    if cursor.status:
        raise PageError("no column index")
    return fields


cdef list _read_list(Cursor* cursor, int kind):
    """Booleans (1), integers (6) or byte strings (8)."""
    cdef uint8_t header = read_byte(cursor)
    cdef uint64_t count = header >> 4, length
    cdef int inner = header & 0x0F
    found = []
    if count == 15:
        count = read_varint(cursor)
    # A list of booleans is headed by either of their two types.
    if count and not (inner == kind or (kind == 1 and inner == 2)):
        cursor.status = -2
    while count and not cursor.status:
        if kind == 1:
            found.append(read_byte(cursor) == 1)
        elif kind == 6:
            found.append(read_int(cursor))
        else:
            length = read_varint(cursor)
            if cursor.status:
                break
            if length > <uint64_t>(cursor.end - cursor.at):
                cursor.status = -1
                break
            found.append((<const char*>cursor.at)[:length])
            cursor.at += length
        count -= 1
    return found


cdef class Codec:
    """Decompresses pages in C: Snappy, or Zstandard where its library was found.

    A Zstandard context is kept from page to page, so a codec is for one thread at a time.

    Args:
        zstd: Addresses of `ZSTD_createDCtx`, `ZSTD_freeDCtx` and `ZSTD_decompressDCtx`; None for
            Snappy.
    """

    def __cinit__(self, zstd=None):
        cdef zstd_create create
        self._context = NULL
        self._zstd = NULL
        if zstd is not None:
            create = <zstd_create><size_t>zstd[0]
            self._free = <zstd_free><size_t>zstd[1]
            self._zstd = <zstd_decompress><size_t>zstd[2]
            self._context = create()
            if self._context == NULL:
                raise MemoryError

    def __dealloc__(self):
        if self._context != NULL:
            self._free(self._context)

    cdef int decompress(self, const uint8_t* packed, int64_t length, uint8_t* out,
                        int64_t size) noexcept nogil:
        """0 if the bytes came to exactly the size asked for."""
        if self._zstd == NULL:
            return lm_snappy(packed, length, out, size)
        # An error is a size that no page has.
        return self._zstd(self._context, out, <size_t>size, packed, <size_t>length) != <size_t>size

    def __call__(self, buffer, int64_t size):
        """A decompressed `pyarrow.Buffer`.

        Raises:
            PageError: The bytes do not come to so many.
        """
        cdef const uint8_t* data = <const uint8_t*><size_t>buffer.address
        cdef int64_t length = buffer.size
        cdef int status
        found = allocate_buffer(size)
        cdef uint8_t* out = <uint8_t*><size_t>found.address
        with nogil:
            status = self.decompress(data, length, out, size)
        if status:
            raise PageError(f"the page does not decompress to {size} bytes")
        return found


def measure_lz4(buffer):
    """How many bytes an LZ4 block holds; -1 if it is none."""
    cdef _Bytes held = _Bytes(buffer)
    cdef int64_t size
    with nogil:
        size = lm_lz4_size(<const uint8_t*>held.view.buf, held.view.len)
    return size


# ---- pages ----------------------------------------------------------------------------------


cdef class Scratch:
    """Memory that pages are worked on in; used again, so that it is fresh only once.

    For one thread at a time.
    """

    def __cinit__(self):
        cdef int i
        for i in range(SLOTS):
            self._memory[i] = NULL
            self._sizes[i] = 0

    def __dealloc__(self):
        cdef int i
        for i in range(SLOTS):
            free(self._memory[i])

    cdef void* room(self, int slot, int64_t size) except NULL nogil:
        """At least `size` bytes in a slot; what they held before is lost or not."""
        if self._sizes[slot] < size:
            size = size + size // 4 + 4096
            # Nothing is copied: what was there is not needed.
            free(self._memory[slot])
            self._sizes[slot] = 0
            self._memory[slot] = malloc(<size_t>size)
            if self._memory[slot] == NULL:
                with gil:
                    raise MemoryError
            self._sizes[slot] = size
        return self._memory[slot]

    cdef void give(self, int slot, void* memory, int64_t size) noexcept nogil:
        """Takes memory for a slot, or frees it if the slot has more."""
        if self._sizes[slot] >= size:
            free(memory)
            return
        free(self._memory[slot])
        self._memory[slot] = memory
        self._sizes[slot] = size

    def trim(self, int64_t limit):
        """Frees what is larger than a limit."""
        cdef int slot
        for slot in range(SLOTS):
            if self._sizes[slot] > limit:
                free(self._memory[slot])
                self._memory[slot] = NULL
                self._sizes[slot] = 0


cdef int64_t lay_out_pages(const int64_t* offsets, const int64_t* sizes, const int64_t* first_rows,
                           int64_t pages, int64_t row_count, const int32_t* rows, int64_t total,
                           int64_t start, int64_t stop, int64_t kept_page, int64_t lead,
                           int64_t* table, int64_t* ranges, int64_t* range_count) noexcept nogil:
    """Which pages hold rows, and how their bytes lie when they are fetched one behind the other.

    `plan_pages` says what goes in. `lead` bytes stand before the first page. `table` has room for
    four rows of `pages` numbers, `ranges` for `pages` pairs of offset and length, `range_count[1]`
    gets the bytes of all of them.

    How many pages there are; -1 for a page that is nowhere in the file.
    """
    cdef int64_t page, at = 0, end, low, high, middle, count = 0, length = lead, found = 0
    cdef int64_t range_stop = -1
    cdef bint is_touched
    for page in range(pages):
        end = first_rows[page + 1] if page + 1 < pages else row_count
        if rows == NULL:
            is_touched = max(first_rows[page], start) < min(end, stop)
        else:
            # The first of the rows that is not before the end of the page.
            low, high = at, total
            while low < high:
                middle = (low + high) // 2
                if rows[middle] < end:
                    low = middle + 1
                else:
                    high = middle
            is_touched = low > at
            at = low
        if not is_touched:
            continue
        if not 0 <= sizes[page] <= 0x7FFFFFFF or not 0 <= offsets[page] < <int64_t>1 << 62:
            return -1
        table[count] = page
        table[2 * pages + count] = first_rows[page]
        table[3 * pages + count] = end
        if count == 0 and page == kept_page:
            table[pages + count] = -1
        else:
            table[pages + count] = length
            length += sizes[page]
            if sizes[page]:
                if offsets[page] == range_stop:
                    ranges[2 * found - 1] += sizes[page]
                else:
                    ranges[2 * found] = offsets[page]
                    ranges[2 * found + 1] = sizes[page]
                    found += 1
                range_stop = offsets[page] + sizes[page]
        count += 1
    range_count[0] = found
    range_count[1] = length - lead
    return count


def plan_pages(const int64_t[::1] offsets, const int64_t[::1] sizes, const int64_t[::1] first_rows,
               int64_t row_count, rows, int64_t start, int64_t stop, *, int64_t kept_page=-1):
    """Which pages hold rows, and how their bytes lie when they are fetched one behind the other.

    Args:
        offsets: Where each page of the chunk begins in the file.
        sizes: Bytes of each page.
        first_rows: The first row of each page, ascending from 0.
        row_count: Rows of the chunk.
        rows: Ascending row numbers (int32) in [start, stop); None for all of the range.
        start: The first row of the range.
        stop: The row behind the last.
        kept_page: A page that need not be fetched, if it is the first of them; -1 for none.

    Returns:
        The numbers of the pages; where each begins among the fetched bytes, -1 for the kept page;
        their first rows; the rows behind their last; byte ranges (offset, length), neighbours
        merged; the bytes of all of them.
    """
    cdef int64_t pages = offsets.shape[0], count
    cdef const int32_t[::1] numbers
    cdef const int32_t* chosen = NULL
    cdef int64_t total = 0
    cdef int64_t range_count[2]
    cdef int64_t[:, ::1] table
    cdef int64_t[:, ::1] ranges
    found = np.empty((4, max(1, pages)), dtype=np.int64)
    found_ranges = np.empty((max(1, pages), 2), dtype=np.int64)
    table, ranges = found, found_ranges
    if rows is not None:
        numbers = rows
        total = numbers.shape[0]
        if not total:
            start = stop = 0
        else:
            chosen = &numbers[0]
    if not pages:
        return found[0, :0], found[1, :0], found[2, :0], found[3, :0], [], 0
    count = lay_out_pages(&offsets[0], &sizes[0], &first_rows[0], pages, row_count, chosen, total,
                          start, stop, kept_page, 0, &table[0, 0], &ranges[0, 0], range_count)
    if count < 0:
        raise PageError("a page that is nowhere in the file")
    return (
        found[0, :count], found[1, :count], found[2, :count], found[3, :count],
        [(a, b) for a, b in found_ranges[: range_count[0]].tolist()], range_count[1],
    )


# Bytes of a stored value, where all have as many.
_WIDTHS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}


cdef class PageReader:
    """The pages of a flat column, opened one at a time, without Python's lock.

    The page that was opened last stays decompressed: the rows asked for next often begin in it.

    Args:
        max_definition_level: 1 if the column may be null, else 0.
        physical_type: How values are stored; what it is not said of is not unpacked.
        fixed_length: The bytes of a FIXED_LEN_BYTE_ARRAY.
    """

    def __cinit__(self, int max_definition_level, str physical_type="", fixed_length=None):
        if max_definition_level not in (0, 1):
            raise UnsupportedPageError("nested columns have other levels")
        self._max_definition_level = max_definition_level
        self.page_count = 0
        self.rows_decoded = 0
        self._kept_page = -1
        self._kept_raw_data = NULL
        self._kept_memory = NULL
        self._is_unpacked = False
        self._is_integer = physical_type in ("INT32", "INT64")
        self._is_text = physical_type == "BYTE_ARRAY"
        if physical_type == "FIXED_LEN_BYTE_ARRAY":
            self._value_width = fixed_length or 0
            self._is_fixed = self._value_width > 0
        else:
            self._is_fixed = False
            self._value_width = _WIDTHS.get(physical_type, 0)

    def __dealloc__(self):
        free(self._kept_memory)

    def set_pages(self, Scratch scratch, decompress, buffer, numbers, starts, first_rows, row_ends):
        """Says which pages are at hand.

        Args:
            scratch: Memory of this thread to work in.
            decompress: A `Codec`, or what gives exactly so many bytes of a buffer or raises, as
                those of `formats.parquet.codecs`; None if pages are not compressed.
            buffer: A `pyarrow.Buffer` with the pages; it may be used again afterwards.
            numbers: The number of each page in its chunk, ascending.
            starts: Where the header of each page begins in the buffer; -1 for `kept_page`, if that
                is the first of them.
            first_rows: The first row of each page.
            row_ends: The row behind the last of each page.

        Raises:
            PageError: Pages that are not behind one another.
        """
        cdef Py_ssize_t count = len(numbers)
        if not count == len(starts) == len(first_rows) == len(row_ends):
            raise PageError("pages and rows do not fit")
        tables = np.ascontiguousarray([numbers, starts, first_rows, row_ends], dtype=np.int64)
        cdef int64_t[:, ::1] rows = tables
        self.hand_over(scratch, decompress, buffer, &rows[0, 0] if count else NULL, count, count)
        self._tables = tables

    cdef int hand_over(self, Scratch scratch, decompress, buffer, const int64_t* tables,
                       int64_t stride, Py_ssize_t count) except -1:
        """`set_pages`, with the four tables `stride` numbers apart."""
        cdef int64_t behind = 0
        cdef Py_ssize_t page
        self.scratch = scratch
        if self.kept() < 0:
            self._forget_kept()  # it was in pages that nobody released
        self._decompress = decompress
        self._is_packed = decompress is not None
        self._codec = decompress if isinstance(decompress, Codec) else None
        self._buffer = buffer
        self._data = <const uint8_t*><size_t>buffer.address
        self._size = buffer.size
        self._numbers = tables
        self._starts = tables + stride
        self._first_rows = tables + 2 * stride
        self._row_ends = tables + 3 * stride
        self.page_count = 0
        self.wants_owned = False
        for page in range(count):
            # Rows have 32 bits, and none is in two pages: there is room for each of them once.
            if not behind <= self._first_rows[page] <= self._row_ends[page] <= 0x7FFFFFFF:
                raise PageError("the rows of pages are in no order", page)
            behind = self._row_ends[page]
        self.page_count = count
        return 0

    @property
    def kept_page(self):
        """The number of a page that need not be fetched again; -1 if there is none."""
        return self.kept()

    cdef int64_t kept(self) noexcept nogil:
        if self._kept_page < 0 or self._is_in_scratch():
            return -1
        return self._kept_page if self._kept_raw_data != NULL or self._is_body_enough() else -1

    cdef bint _is_body_enough(self) noexcept nogil:
        """Whether what was decompressed of the page is all that is needed of it."""
        # The levels of a V2 page stand outside of it.
        return (
            self._kept_header.kind == DATA_V1 or not self._max_definition_level
        ) and not self.is_borrowed

    cdef void _forget_kept(self) noexcept nogil:
        """Lets go of the page that was opened last; its bytes as fetched go with the next."""
        self._kept_page = -1
        self._kept_raw_data = NULL
        if self._kept_memory != NULL:
            if self.scratch is None:
                free(self._kept_memory)
            else:
                self.scratch.give(BODY, self._kept_memory, self._kept_memory_size)
            self._kept_memory = NULL

    def release(self):
        """Lets go of the pages at hand; of the one opened last only if all its rows were read."""
        self.let_go()

    cdef int let_go(self) except -1:
        if self._kept_page >= 0:
            if self.next_row >= self.first_row + self.row_count:
                self._forget_kept()
            else:
                self._keep()
        if self._kept_raw_data == NULL:
            self._kept_raw = None
        if self._kept_page < 0 or not self.is_owned:
            self.body = None
        self._buffer = self._decompress = None
        self._codec = None
        self.scratch = None
        self._data = self._page_data = NULL
        self._size = 0
        self.page_count = 0
        self._tables = None
        return 0

    cdef int _keep(self) except -1:
        """Takes along what the scratch and the fetched bytes have of the page opened last."""
        if self._is_in_scratch():
            self._kept_memory = self.scratch._memory[BODY]
            self._kept_memory_size = self.scratch._sizes[BODY]
            self.scratch._memory[BODY] = NULL
            self.scratch._sizes[BODY] = 0
        if self._kept_raw_data == NULL and not self._is_body_enough():
            raw = self._buffer.slice(self._raw_start, self._raw_stop - self._raw_start)
            self._kept_raw = py_buffer(raw.to_pybytes())
            self._kept_raw_data = <const uint8_t*><size_t>self._kept_raw.address
            self._kept_raw_size = self._kept_raw.size
        return 0

    cdef bint _is_in_scratch(self) noexcept nogil:
        """Whether the body of the page opened last is in memory that is used again."""
        return not self.is_borrowed and not self.is_owned and self._kept_memory == NULL

    cdef int _fail(self, const char* message, Py_ssize_t page) except -1 with gil:
        raise PageError(message.decode(), page)

    cdef int open(self, Py_ssize_t page) except -1 nogil:
        """Decompresses a page and reads its levels."""
        cdef PageHeader header
        cdef int64_t start = self._starts[page], body_start = 0, levels = 0, rows
        cdef int64_t size = self._size
        cdef bint is_ready = False
        self._page_data = self._data
        # A page that was fetched again may have become another one.
        if self._kept_page != self._numbers[page] or start != -1:
            self._forget_kept()
        elif self._kept_raw_data != NULL:
            self._page_data = self._kept_raw_data
            size, start = self._kept_raw_size, 0
        if start == -1 and self._kept_page >= 0 and self._is_body_enough():
            header = self._kept_header
            is_ready = self._is_unpacked
        else:
            if start < 0 or start >= size:
                self._fail(b"the page lies outside the bytes at hand", page)
            if read_page_header(self._page_data + start, size - start, &header):
                self._fail(b"no page header", page)
            if header.kind != DATA_V1 and header.kind != DATA_V2:
                self._fail(b"not a data page", page)
            body_start = start + header.header_bytes
            if header.compressed_size > size - body_start:
                self._fail(b"the page ends outside the bytes at hand", page)
            self._raw_start, self._raw_stop = start, body_start + header.compressed_size
        rows = self._row_ends[page] - self._first_rows[page]
        if header.num_values != rows or rows < 0:
            with gil:
                raise PageError(f"the page has {header.num_values} values for {rows} rows", page)
        self.first_row = self._first_rows[page]
        self.row_count = rows
        self.encoding = header.encoding
        if header.kind == DATA_V2:
            if header.repetition_bytes:
                self._fail(b"a flat column has repetition levels", page)
            levels = header.definition_bytes
        if is_ready:
            self.values = self.body_data
            self.values_end = self.body_data + header.uncompressed_size
        else:
            self._open_body(page, body_start, &header, levels)
        self.has_nulls = False
        self.value_count = rows
        if self._max_definition_level:
            self._open_levels(page, body_start, &header)
        elif levels:
            self._fail(b"a required column has definition levels", page)
        if DELTA_BINARY_PACKED <= self.encoding <= BYTE_STREAM_SPLIT and (
            self.encoding != RLE_DICTIONARY
        ):
            self._unpack(page)
        self.rows_decoded += rows
        return 0

    cdef int _open_body(self, Py_ssize_t page, int64_t start, PageHeader* header,
                        int64_t levels) except -1 nogil:
        """Points `values` at what follows the levels of a V2 page, or at all of a V1 page."""
        cdef int64_t size = header.uncompressed_size - levels
        cdef int64_t packed_size = header.compressed_size - levels
        cdef const uint8_t* packed = self._page_data + start + levels
        cdef uint8_t* room
        if not self._is_packed or not header.is_compressed or (size == 0 and packed_size == 0):
            if packed_size != size:
                self._fail(b"the sizes of an uncompressed page differ", page)
            self.is_owned = False
            self.is_borrowed = True
            self._is_unpacked = False
            self.body_data = self._page_data
            self.values = packed
        elif self._kept_page < 0 or (
            self.is_borrowed or self._is_unpacked or self._kept_size != size
        ):
            self._kept_page = -1
            if self.wants_owned or self._codec is None:
                self._decompress_owned(page, packed, packed_size, size)
            else:
                room = <uint8_t*>self.scratch.room(BODY, size + 1)
                if self._codec.decompress(packed, packed_size, room, size):
                    self._fail(b"the page does not decompress to its size", page)
                self.body_data = room
                self.is_owned = False
            self.is_borrowed = self._is_unpacked = False
            self.values = self.body_data
        else:
            # Decompressed before.
            if self.wants_owned and not self.is_owned:
                self._own_body(size)
            self.values = self.body_data
        self._kept_page = self._numbers[page]
        self._kept_header = header[0]
        self._kept_size = size
        self.values_end = self.values + size
        return 0

    cdef int _decompress_owned(self, Py_ssize_t page, const uint8_t* packed, int64_t length,
                               int64_t size) except -1 with gil:
        """Decompresses into a buffer of its own."""
        cdef uint8_t* out
        cdef int status
        if self._codec is not None:
            found = allocate_buffer(size)
            out = <uint8_t*><size_t>found.address
            with nogil:
                status = self._codec.decompress(packed, length, out, size)
            if status:
                self._fail(b"the page does not decompress to its size", page)
        else:
            try:
                found = self._decompress(foreign_buffer(<size_t>packed, length), size)
            except (OSError, ValueError, MemoryError) as error:
                raise PageError(f"the page cannot be decompressed: {error}", page) from None
            if found.size != size:
                self._fail(b"the page does not decompress to its size", page)
        self.body = found
        self.body_data = <const uint8_t*><size_t>found.address
        self.is_owned = True
        return 0

    cdef int _own_body(self, int64_t size) except -1 with gil:
        """Copies the body to a buffer of its own."""
        found = allocate_buffer(size)
        memcpy(<uint8_t*><size_t>found.address, self.body_data, <size_t>size)
        self.body = found
        self.body_data = <const uint8_t*><size_t>found.address
        self.is_owned = True
        if self._kept_memory != NULL:
            self.scratch.give(BODY, self._kept_memory, self._kept_memory_size)
            self._kept_memory = NULL
        return 0

    cdef int _open_levels(self, Py_ssize_t page, int64_t start,
                          PageHeader* header) except -1 nogil:
        cdef lm_hybrid runs
        cdef const uint8_t* data
        cdef int32_t length
        cdef int64_t count = 0
        if header.kind == DATA_V2:
            data = self._page_data + start
            length = header.definition_bytes
        else:
            if header.definition_bytes != RLE:
                with gil:
                    raise UnsupportedPageError("levels are bit-packed", page)
            if self.values_end - self.values < 4:
                self._fail(b"the page is too short for its levels", page)
            memcpy(&length, self.values, 4)
            data = self.values + 4
            if length < 0 or length > self.values_end - data:
                self._fail(b"the levels are longer than the page", page)
            self.values = data + length
        self._levels, self._level_bytes = data, length
        self.valid = <uint8_t*>self.scratch.room(0, self.row_count + 8)
        lm_hybrid_open(&runs, data, data + length, 1)
        if lm_hybrid_levels(&runs, self.row_count, 1, self.valid, &count):
            self._fail(b"the definition levels do not add up", page)
        self.value_count = count
        self.has_nulls = count != self.row_count
        return 0

    cdef int _unpack(self, Py_ssize_t page) except -1 with gil:
        """Makes the page that is open a PLAIN page of the same values.

        The levels go before the values, as in a V1 page: nothing else is needed to open it again.
        """
        cdef int64_t n = self.value_count, size = 0, stride = 0, lead = 0, given
        cdef int64_t width = self._value_width
        cdef int32_t encoding = self.encoding, level_bytes
        cdef const uint8_t* data = self.values
        cdef const uint8_t* end = self.values_end
        cdef uint32_t* shared = NULL
        cdef uint32_t* rests = NULL
        cdef uint8_t* out
        cdef int status = LM_OK
        if encoding == DELTA_BINARY_PACKED:
            is_known = self._is_integer
        elif encoding == DELTA_LENGTH_BYTE_ARRAY:
            is_known = self._is_text
        elif encoding == DELTA_BYTE_ARRAY:
            is_known = self._is_text or self._is_fixed
        else:
            is_known = width > 0
        if not is_known:
            raise UnsupportedPageError("an encoding that is left to PyArrow", page)
        if n > LARGEST_UNPACKED // max(4, width):
            raise UnsupportedPageError("more values than are unpacked at once", page)
        if n == 0:
            size = 0  # whatever the page holds
        elif encoding == DELTA_BINARY_PACKED:
            size = n * width
        elif encoding == BYTE_STREAM_SPLIT:
            size = n * width
            stride = (end - data) // width
            if stride < n or stride * width != end - data:
                raise PageError("the streams of the page do not have its values", page)
        else:
            rests = <uint32_t*>self.scratch.room(RESTS, n * 4 + 64)
            if encoding == DELTA_BYTE_ARRAY:
                shared = <uint32_t*>self.scratch.room(SHARED, n * 4 + 64)
            with nogil:
                if shared != NULL:
                    status = lm_delta_lengths(&data, end, n, shared, &size)
                if not status:
                    status = lm_delta_lengths(&data, end, n, rests, &size)
                if not status and size > end - data:
                    status = LM_BAD_LENGTH
                if not status and shared != NULL:
                    status = lm_delta_size(shared, rests, n, width, &size)
            self._check_unpacked(status, page)
            if not width:
                size += n * 4
        if self._max_definition_level:
            lead = 4 + self._level_bytes
        given = lead + size
        if given > LARGEST_UNPACKED:
            raise UnsupportedPageError("more bytes than are unpacked at once", page)
        body = allocate_buffer(given + LM_SLACK)
        out = <uint8_t*><size_t>body.address
        if lead:
            level_bytes = <int32_t>self._level_bytes
            memcpy(out, &level_bytes, 4)
            memcpy(out + 4, self._levels, level_bytes)
        with nogil:
            if n == 0:
                pass
            elif encoding == DELTA_BINARY_PACKED:
                status = lm_delta_numbers(data, end, n, width, out + lead)
            elif encoding == BYTE_STREAM_SPLIT:
                lm_join_streams(data, stride, n, width, out + lead)
            elif shared == NULL:
                lm_delta_texts(data, end, rests, n, out + lead)
            else:
                lm_delta_join(data, end, shared, rests, n, width, out + lead)
        self._check_unpacked(status, page)
        self.body = body
        self.body_data = out
        self.values = out + lead
        self.values_end = out + given
        self.encoding = PLAIN
        self.is_owned = True
        self.is_borrowed = False
        self._is_unpacked = True
        self._kept_raw_data = NULL
        self._kept_header.kind = DATA_V1
        self._kept_header.encoding = PLAIN
        self._kept_header.definition_bytes = RLE
        self._kept_header.uncompressed_size = <int32_t>given
        return 0

    cdef int _check_unpacked(self, int status, Py_ssize_t page) except -1:
        if status == LM_TOO_LONG:
            raise UnsupportedPageError("the page has more values than rows", page)
        if status == LM_SHORT:
            raise PageError("the page ends before its values do", page)
        if status == LM_BAD_LENGTH:
            raise PageError("a value reaches over the end of the page", page)
        if status:
            raise PageError("a block of the page is malformed", page)
        return 0

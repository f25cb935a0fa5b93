# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Page headers, page indexes, and the pages of a column chunk, one after the other.

In: the bytes of pages and where each begins. Out: header fields as arrays; for the decoders of
`columns`, an open page: its values, and which of its rows have one. A page in a delta encoding or
in BYTE_STREAM_SPLIT is unpacked when it is opened: `columns` sees a PLAIN page of the same values.

Invariant: bytes are hostile until checked. A size, count or level that does not fit raises
`PageError`; an encoding that is not known here raises `UnsupportedPageError`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
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

cdef extern from "crc32.h":
    void lm_crc32_prepare()
    uint32_t lm_crc32(const uint8_t*, int64_t) nogil

cdef extern from "delta.h":
    int LM_SLACK
    int lm_delta_empty(const uint8_t*, const uint8_t*) nogil
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
        self.chunk = None  # whose dictionary it is about


class UnsupportedPageError(PageError):
    """A page that only PyArrow can decode."""


class TooLargeError(UnsupportedPageError):
    """More values at once than fit one array; fewer rows of the same pages may."""


class RefusedPageError(PageError):
    """A page that PyArrow must not decode either: it would not notice what is wrong."""


class TextError(RefusedPageError):
    """Text that is no valid UTF-8."""


lm_crc32_prepare()


include "thrift.pxi"
include "footer.pxi"
include "codec.pxi"


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


include "layout.pxi"


# Bytes of a stored value, where all have as many.
_WIDTHS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}


cdef class PageReader:
    """The pages of a flat column, opened one at a time, without Python's lock.

    The page that was opened last stays decompressed: the rows asked for next often begin in it.

    Args:
        max_definition_level: 1 if the column may be null, else 0.
        physical_type: How values are stored; without it they are not unpacked.
        fixed_length: The bytes of a FIXED_LEN_BYTE_ARRAY.
    """

    def __cinit__(self, int max_definition_level, str physical_type="", fixed_length=None):
        if max_definition_level not in (0, 1):
            raise UnsupportedPageError("nested columns have other levels")
        self._max_definition_level = max_definition_level
        self.verifies = False
        self.largest_page = 0x7FFFFFFF
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
            numbers: The number of each page in its column, ascending.
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
        # Pages may be as long as the buffer.
        sizes = np.full(count, 1 << 62)
        tables = np.ascontiguousarray(
            [numbers, starts, first_rows, row_ends, np.zeros(count), sizes], dtype=np.int64
        )
        cdef int64_t[:, ::1] rows = tables
        self.hand_over(scratch, decompress, buffer, &rows[0, 0] if count else NULL, count, count)
        self._tables = tables

    cdef int hand_over(self, Scratch scratch, decompress, buffer, const int64_t* tables,
                       int64_t stride, Py_ssize_t count) except -1:
        """`set_pages`, with the tables of a `Layout`."""
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
        self._parts = tables + 4 * stride
        self._page_bytes = tables + 5 * stride
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

    cdef int _refuse(self, const char* message, Py_ssize_t page) except -1 with gil:
        raise RefusedPageError(message.decode(), page)

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
            # What follows is not what follows it in the file.
            size = min(size, start + self._page_bytes[page])
            if read_page_header(self._page_data + start, size - start, &header):
                self._fail(b"no page header", page)
            if header.kind != DATA_V1 and header.kind != DATA_V2:
                self._fail(b"not a data page", page)
            body_start = start + header.header_bytes
            if header.compressed_size > size - body_start:
                self._fail(b"the page ends outside the bytes at hand", page)
            if header.uncompressed_size > self.largest_page:
                self._refuse(b"the page claims more bytes than the footer says of all pages", page)
            if self.verifies and not is_intact(self._page_data + body_start, &header):
                self._refuse(b"the page does not have the checksum that its header says", page)
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
            # Some writers leave the header out.
            if encoding != BYTE_STREAM_SPLIT and data < end and lm_delta_empty(data, end):
                raise UnsupportedPageError("no values, and more than the header of none", page)
        elif encoding == DELTA_BINARY_PACKED:
            size = n * width
        elif encoding == BYTE_STREAM_SPLIT:
            size = n * width
            stride = (end - data) // width
            # Streams of more values than there are: where each begins is anybody's guess.
            if stride * width != end - data or stride != n:
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

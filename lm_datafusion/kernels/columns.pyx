# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Values of a flat column for exactly the rows wanted, and conditions on values where they stand.

In: a `PageReader`, and ascending row numbers or a range of rows. Out: an Arrow array of those rows;
or the rows that pass a condition, and the values of those if they are needed later.

A dictionary page is a page of PLAIN values: a condition is tested on it once, and codes look the
answers up. Values behind codes are taken from a table that is laid out once per chunk.

Invariant: a page that holds no wanted row is not opened. Text that is handed out is valid UTF-8.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from lm_datafusion.kernels.pages cimport (
    RANGES,
    TABLE,
    PageHeader,
    PageReader,
    Scratch,
    lay_out_pages,
    read_page_header,
)

import numpy as np
import pyarrow as pa

from lm_datafusion.kernels.pages import PageError, TextError, UnsupportedPageError

cdef extern from "fixed.h":
    int LM_OK, LM_SHORT, LM_BAD_RUN, LM_BAD_CODE, LM_BAD_LENGTH, LM_BAD_UTF8, LM_TOO_LONG
    int LM_TEXT_LIKE, LM_TEXT_IN, LM_TEXT_LENGTH, LM_TEXT_ORDER
    ctypedef struct lm_hybrid:
        pass
    ctypedef struct lm_slice:
        const uint8_t* bytes
        int64_t length
    ctypedef struct lm_text_test:
        int kind
        int operator_
        int64_t length
        const lm_slice* slices
        int64_t slice_count
        int is_anchored_left
        int is_anchored_right
        uint8_t pass_ "pass"
    ctypedef struct lm_int_test:
        int type
        int operator_
        int64_t literal
        const int64_t* members
        int64_t member_count
        uint8_t pass_ "pass"
    ctypedef struct lm_view:
        pass
    const char* lm_choose_simd(int) nogil
    int lm_hybrid_open(lm_hybrid*, const uint8_t*, const uint8_t*, int) nogil
    int lm_hybrid_codes(lm_hybrid*, int64_t, uint32_t, uint32_t*) nogil
    int lm_hybrid_codes_at(lm_hybrid*, const int32_t*, int64_t, uint32_t, uint32_t*) nogil
    int lm_hybrid_lookup(lm_hybrid*, int64_t, const uint8_t*, uint32_t, uint8_t*) nogil
    int lm_hybrid_select(lm_hybrid*, int64_t, const uint8_t*, uint32_t, int32_t, int32_t*, uint32_t*,
                         int64_t*) nogil
    int lm_hybrid_levels(lm_hybrid*, int64_t, unsigned int, uint8_t*, int64_t*) nogil
    int lm_test_page(const lm_text_test*, const uint8_t*, const uint8_t*, int64_t, uint8_t*) nogil
    int lm_test_values(const lm_text_test*, const uint8_t*, const uint8_t*, int64_t, const int32_t*,
                       int64_t, uint8_t*) nogil
    void lm_test_ints(const lm_int_test*, const uint8_t*, const int32_t*, int64_t, uint8_t*) nogil
    int lm_locate(const uint8_t*, const uint8_t*, const int32_t*, int64_t, uint32_t*, uint32_t*,
                  int64_t*, int64_t*) nogil
    int lm_check_utf8(const uint8_t*, const uint32_t*, const uint32_t*, int64_t, int64_t*) nogil
    void lm_views_into(const uint8_t*, const uint32_t*, const uint32_t*, int64_t, uint32_t,
                       lm_view*) nogil
    void lm_views_copied(const uint8_t*, const uint32_t*, const uint32_t*, int64_t, uint32_t,
                         uint8_t*, uint32_t, lm_view*) nogil
    void lm_copy_values(const uint8_t*, const uint32_t*, const uint32_t*, int64_t, uint8_t*, int64_t,
                        int32_t*) nogil
    int lm_gather(const uint8_t*, const int32_t*, int64_t, int64_t, int64_t, void*) nogil
    void lm_take(const uint8_t*, const uint32_t*, int64_t, int64_t, uint8_t*) nogil

cdef extern from "source.h":
    int lm_fetch(int, const int64_t*, int64_t, uint8_t*) nogil

cdef extern from "rows.h":
    int64_t lm_compress_rows(const uint8_t*, int64_t, const int32_t*, int32_t, int32_t*) nogil
    int64_t lm_rank_rows(const uint8_t*, const int32_t*, int64_t, int32_t, int32_t*, uint8_t*) nogil
    void lm_spread_mask(uint8_t*, int64_t, const uint8_t*, int64_t, uint8_t) nogil
    void lm_spread(void*, int64_t, const uint8_t*, int64_t, int64_t) nogil
    void lm_set_bits(uint8_t*, int64_t, const uint8_t*, int64_t) nogil
    int64_t lm_count_mask(const uint8_t*, int64_t) nogil

cdef enum:
    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    RLE_DICTIONARY = 8
    DICTIONARY_PAGE = 2
    # Slots of a `Scratch`; 0 has the validity of an open page.
    POSITIONS = 1
    WANTED_VALID = 2
    MASK = 3
    CODES = 4
    STARTS = 5
    LENGTHS = 6
    ROWS = 7
    PASSED = 8
    # Below this share of a page its text is copied, so that a few values do not keep it alive.
    SMALLEST_SHARE = 2
    # A dictionary is laid out for taking unless it has so many times the values asked for.
    FEW_CODES = 4
    BLOCK_BYTES = 1 << 16
    LARGEST_BLOCK_BYTES = 1 << 22

_STATUS = {
    LM_SHORT: "the page ends before its values do",
    LM_BAD_RUN: "a run of the page is malformed",
    LM_BAD_CODE: "a code of the page is not in its dictionary",
    LM_BAD_LENGTH: "a value reaches over the end of the page",
    LM_BAD_UTF8: "encountered non UTF-8 data",
    LM_TOO_LONG: "there is no memory for the page",
}

TEXT_LIKE, TEXT_IN, TEXT_LENGTH, TEXT_ORDER = LM_TEXT_LIKE, LM_TEXT_IN, LM_TEXT_LENGTH, LM_TEXT_ORDER


cdef int fail(int status) except -1 with gil:
    """Raises what a status of the kernels stands for."""
    raise (TextError if status == LM_BAD_UTF8 else PageError)(_STATUS[status])


cdef int give_up(const char* message) except -1 with gil:
    """Raises: PyArrow has to decode the page."""
    raise UnsupportedPageError(message.decode())


cdef inline bint is_coded(int encoding) noexcept nogil:
    return encoding == RLE_DICTIONARY or encoding == PLAIN_DICTIONARY


def choose_simd(bint portable=False):
    """Chooses the vector instructions of this processor, or none; their name."""
    return lm_choose_simd(portable).decode()


SIMD = choose_simd()


# ---- conditions -----------------------------------------------------------------------------


cdef class ValueTest:
    """A condition on one stored value."""

    cdef int test(self, const uint8_t* values, const uint8_t* end, int64_t value_count,
                  const int32_t* positions, int64_t n, uint8_t* mask) noexcept nogil:
        """Answers for the values at positions, or (NULL) for the first n."""
        return LM_BAD_RUN


cdef class IntTest(ValueTest):
    """A comparison with a literal, or membership in a list, of integers.

    Args:
        integer_type: One of the numbers of `INTEGER_TYPES`.
        operator: One of the numbers of `OPERATORS`.
        literal: What values are compared with, its bits as a signed number.
        members: Values of a list, sorted; then there is no operator.
        is_negated: Whether values that match do not pass.
    """

    cdef lm_int_test _test
    cdef int64_t[::1] _members
    cdef int64_t _width

    def __cinit__(self, int integer_type, int operator, int64_t literal, members=None,
                  bint is_negated=False):
        self._test.type = integer_type
        self._test.operator_ = operator
        self._test.literal = literal
        self._test.pass_ = not is_negated
        self._test.members = NULL
        self._test.member_count = 0
        self._width = 8 if integer_type in (3, 7) else 4
        if members is not None:
            self._members = np.ascontiguousarray(members, dtype=np.int64)
            self._test.member_count = self._members.shape[0]
            if not self._test.member_count:
                raise ValueError("a list of no values")
            self._test.members = &self._members[0]

    cdef int test(self, const uint8_t* values, const uint8_t* end, int64_t value_count,
                  const int32_t* positions, int64_t n, uint8_t* mask) noexcept nogil:
        if end - values < value_count * self._width:
            return LM_SHORT
        lm_test_ints(&self._test, values, positions, n, mask)
        return LM_OK


cdef class TextTest(ValueTest):
    """A condition on the bytes of a value.

    Args:
        kind: `TEXT_LIKE`, `TEXT_IN`, `TEXT_LENGTH` or `TEXT_ORDER`.
        parts: LIKE: what stands between the % signs, in order; IN: the values; ORDER: the literal.
        operator: Of LENGTH and ORDER, one of the numbers of `OPERATORS`.
        length: Of LENGTH.
        is_anchored_left: LIKE: whether the first part begins the value.
        is_anchored_right: LIKE: whether the last part ends it.
        is_negated: Whether values that match do not pass.
    """

    cdef lm_text_test _test
    cdef object _parts
    cdef object _slices

    def __cinit__(self, int kind, parts=(), *, int operator=0, int64_t length=0,
                  bint is_anchored_left=False, bint is_anchored_right=False, bint is_negated=False):
        cdef lm_slice* slices
        cdef Py_ssize_t i
        cdef bytes part
        self._parts = [bytes(part) for part in parts]
        self._slices = bytearray(max(1, len(self._parts)) * sizeof(lm_slice))
        slices = <lm_slice*><char*>self._slices
        for i in range(len(self._parts)):
            part = self._parts[i]
            slices[i].bytes = <const uint8_t*><const char*>part
            slices[i].length = len(part)
        self._test.kind = kind
        self._test.operator_ = operator
        self._test.length = length
        self._test.slices = slices
        self._test.slice_count = len(self._parts)
        self._test.is_anchored_left = is_anchored_left
        self._test.is_anchored_right = is_anchored_right
        self._test.pass_ = not is_negated

    cdef int test(self, const uint8_t* values, const uint8_t* end, int64_t value_count,
                  const int32_t* positions, int64_t n, uint8_t* mask) noexcept nogil:
        if positions == NULL:
            return lm_test_page(&self._test, values, end, n, mask)
        return lm_test_values(&self._test, values, end, value_count, positions, n, mask)


cdef class AllTest(ValueTest):
    """Several conditions that a value has to meet together."""

    cdef ValueTest _first
    cdef ValueTest _rest

    def __cinit__(self, ValueTest first not None, ValueTest rest not None):
        self._first, self._rest = first, rest

    cdef int test(self, const uint8_t* values, const uint8_t* end, int64_t value_count,
                  const int32_t* positions, int64_t n, uint8_t* mask) noexcept nogil:
        cdef uint8_t* other = <uint8_t*>malloc(<size_t>n + 1)
        cdef int64_t i
        cdef int status
        if other == NULL:
            return LM_TOO_LONG
        status = self._first.test(values, end, value_count, positions, n, mask)
        if not status:
            status = self._rest.test(values, end, value_count, positions, n, other)
        if not status:
            for i in range(n):
                mask[i] &= other[i]
        free(other)
        return status


# ---- dictionaries ---------------------------------------------------------------------------


cdef class Dictionary:
    """The values of a dictionary page, as they stand in it. Several threads may use it.

    Args:
        buffer: A `pyarrow.Buffer` that has the page.
        start: Where its header begins.
        decompress: Gives exactly so many bytes of a buffer or raises; or None.

    Raises:
        PageError: There is no dictionary page.
    """

    cdef object body
    cdef const uint8_t* values
    cdef const uint8_t* end
    cdef readonly int64_t value_count
    cdef readonly int64_t size_bytes
    # What values are taken from by code, once somebody asked for it.
    # Never replaced: other threads may be reading it.
    cdef dict _tables
    cdef object _starts
    cdef object _lengths
    cdef object _views
    cdef bint _is_checked

    def __cinit__(self, buffer, int64_t start, decompress):
        cdef PageHeader header
        cdef const uint8_t[::1] data = np.frombuffer(buffer, dtype=np.uint8)
        cdef int64_t size = data.shape[0], body_start
        if not 0 <= start < size or read_page_header(&data[start], size - start, &header):
            raise PageError("no page header where the dictionary should be")
        body_start = start + header.header_bytes
        if header.kind != DICTIONARY_PAGE:
            raise PageError("the chunk does not begin with a dictionary page")
        if header.encoding != PLAIN and header.encoding != PLAIN_DICTIONARY:
            raise UnsupportedPageError("a dictionary that is not PLAIN")
        if header.compressed_size > size - body_start:
            raise PageError("the dictionary page ends outside the bytes at hand")
        page = buffer.slice(body_start, header.compressed_size)
        if header.uncompressed_size == 0:
            # Of no values; compressed, it has a byte or more.
            page = pa.py_buffer(b"")
        elif decompress is not None:
            try:
                page = decompress(page, header.uncompressed_size)
            except (OSError, ValueError, MemoryError) as error:
                raise PageError(f"the dictionary cannot be decompressed: {error}") from None
        else:
            # Kept longer than the bytes that were fetched.
            page = pa.py_buffer(page.to_pybytes())
        if page.size != header.uncompressed_size:
            raise PageError("the dictionary page does not have the size that its header says")
        self.body = page
        self.values = <const uint8_t*><size_t>page.address
        self.end = self.values + <int64_t>page.size
        self.value_count = header.num_values
        self.size_bytes = page.size
        self._tables = {}
        # Every value has a byte at least, but those of fixed width 0 and booleans, which have none.
        if self.value_count > page.size:
            raise PageError("the dictionary page is too short for its values")

    def test(self, ValueTest test):
        """Which values pass: one byte each."""
        cdef uint8_t[::1] mask
        cdef int status
        passes = np.zeros(self.value_count, dtype=np.uint8)
        if self.value_count:
            mask = passes
            with nogil:
                status = test.test(
                    self.values, self.end, self.value_count, NULL, self.value_count, &mask[0]
                )
            if status:
                raise PageError(f"dictionary: {_STATUS[status]}")
        return passes

    def to_array(self, Builder builder):
        """All values as an array, made by a builder of this dictionary."""
        builder.reserve(self.value_count)
        return builder.finish_dictionary(self)

    cdef const uint8_t* table(self, int64_t stored, int64_t given) except NULL:
        """All values in their width as handed out."""
        cdef uint8_t[::1] room
        cdef int status
        table = self._tables.get(given)
        if table is None:
            if self.value_count * stored > self.end - self.values:
                raise PageError("the dictionary page is too short for its values")
            table = np.empty(max(1, self.value_count * given), dtype=np.uint8)
            room = table
            with nogil:
                status = lm_gather(self.values, NULL, self.value_count, stored, given, &room[0])
            if status:
                raise UnsupportedPageError("no such width")
            table = self._tables.setdefault(given, table)
        room = table
        return &room[0]

    cdef int locate(self) except -1:
        """Finds where the values of text begin."""
        cdef uint32_t[::1] starts, lengths
        cdef int64_t total, total_long
        cdef int status
        if self._starts is not None:
            return 0
        found_starts = np.empty(max(1, self.value_count), dtype=np.uint32)
        found_lengths = np.empty(max(1, self.value_count), dtype=np.uint32)
        starts, lengths = found_starts, found_lengths
        with nogil:
            status = lm_locate(self.values, self.end, NULL, self.value_count, &starts[0],
                               &lengths[0], &total, &total_long)
        if status:
            raise PageError(f"dictionary: {_STATUS[status]}")
        # Somebody else may have been faster, and hold pointers into what was found.
        if self._starts is None:
            self._lengths = found_lengths
            self._starts = found_starts
        return 0

    cdef int check_text(self) except -1:
        cdef uint32_t[::1] starts, lengths
        cdef int64_t bad
        cdef int status
        if self._is_checked:
            return 0
        self.locate()
        starts, lengths = self._starts, self._lengths
        with nogil:
            status = lm_check_utf8(self.values, &starts[0], &lengths[0], self.value_count, &bad)
        if status:
            raise TextError(f"dictionary value {bad}: {_STATUS[status]}")
        self._is_checked = True
        return 0

    cdef const uint8_t* views(self) except NULL:
        """All values as views into the page, which is buffer 0."""
        cdef uint32_t[::1] starts, lengths
        cdef uint8_t[::1] room
        if self._views is None:
            self.locate()
            starts, lengths = self._starts, self._lengths
            views = np.empty(max(1, self.value_count) * 16, dtype=np.uint8)
            room = views
            with nogil:
                lm_views_into(self.values, &starts[0], &lengths[0], self.value_count, 0,
                              <lm_view*>&room[0])
            if self._views is None:
                self._views = views
        room = self._views
        return &room[0]


# ---- builders -------------------------------------------------------------------------------


cdef class Builder:
    """An Arrow array in the making, of as many rows as are wanted."""

    cdef readonly int64_t row_count
    cdef int64_t _room
    cdef object _data_type
    cdef object _validity
    cdef uint8_t* _validity_bits
    cdef int64_t _null_count
    cdef object _values
    cdef uint8_t* _data
    cdef int64_t _width
    cdef Dictionary _dictionary
    cdef int64_t _code_limit  # how many values the dictionary has; -1 without one

    def __cinit__(self, *_, **__):
        self.row_count = 0
        self._validity = None
        self._validity_bits = NULL
        self._null_count = 0
        self._data = NULL
        self._code_limit = -1

    cdef int reserve(self, int64_t more) except -1 nogil:
        """Makes room for more rows."""
        if self._data == NULL or self.row_count + more > self._room:
            self.grow(self.row_count + more)
        return 0

    cdef int grow(self, int64_t room) except -1 with gil:
        if self._values is None:
            self._values = pa.allocate_buffer(max(64, (room + 1) * self._width), resizable=True)
        else:
            room = max(room, 2 * self._room)
            self._values.resize((room + 1) * self._width)
        self._room = room
        self._data = <uint8_t*><size_t>self._values.address
        return 0

    cdef int append(self, PageReader reader, const int32_t* positions, int64_t n) except -1 nogil:
        """Adds the values at positions of the open page, or (NULL) its first n."""
        return give_up(b"no values of this kind")

    cdef int spread(self, int64_t dense, const uint8_t* valid, int64_t n) except -1 nogil:
        """Spreads the last `dense` values over n rows, nulls between them."""
        cdef int64_t at = self.row_count - dense
        lm_spread(self._data + at * self._width, dense, valid, n, self._width)
        self.note_validity(at, dense, valid, n)
        self.row_count = at + n
        return 0

    cdef int note_validity(self, int64_t at, int64_t dense, const uint8_t* valid,
                           int64_t n) except -1 nogil:
        if self._validity_bits == NULL:
            self.make_validity()
            set_ones(self._validity_bits, 0, at)
        lm_set_bits(self._validity_bits, at, valid, n)
        self._null_count += n - dense
        return 0

    cdef int make_validity(self) except -1 with gil:
        cdef int64_t size = (self._room + 7) // 8
        self._validity = pa.allocate_buffer(max(64, size))
        self._validity_bits = <uint8_t*><size_t>self._validity.address
        memset(self._validity_bits, 0, size)
        return 0

    cdef void note_all_valid(self, int64_t at, int64_t n) noexcept nogil:
        if self._validity_bits != NULL:
            set_ones(self._validity_bits, at, n)

    cdef int append_codes(self, Scratch scratch, const uint32_t* codes, int64_t n) except -1 nogil:
        """Adds the values that codes stand for; the codes were checked."""
        return give_up(b"no dictionary of these")

    def finish_dictionary(self, Dictionary dictionary):
        """The values of the dictionary, in its order."""
        cdef Scratch scratch = Scratch()
        cdef int64_t i, n = dictionary.value_count
        cdef uint32_t* codes = <uint32_t*>scratch.room(CODES, n * 4 + 64)
        for i in range(n):
            codes[i] = <uint32_t>i
        if n:
            with nogil:
                self.append_codes(scratch, codes, n)
        self.row_count += n
        return self.finish()

    def finish(self):
        """The array."""
        return pa.Array.from_buffers(
            self._data_type, self.row_count, self._buffers(), self._null_count
        )

    def _buffers(self):
        return [self._validity, self._values]

    cdef bint may_share(self) noexcept:
        """Whether values may point into pages."""
        return False

    cdef uint32_t* codes(self, PageReader reader, const int32_t* positions,
                         int64_t n) except NULL nogil:
        """The codes at positions of the open page, each inside the dictionary."""
        cdef lm_hybrid runs
        cdef uint32_t* codes = <uint32_t*>reader.scratch.room(CODES, n * 4 + 64)
        cdef int status
        if self._code_limit < 0:
            with gil:
                raise PageError("the page is dictionary-coded, and the chunk has no dictionary")
        if reader.values >= reader.values_end:
            if n:
                fail(LM_SHORT)
            return codes
        status = lm_hybrid_open(&runs, reader.values + 1, reader.values_end, reader.values[0])
        if not status and positions == NULL:
            status = lm_hybrid_codes(&runs, n, <uint32_t>self._code_limit, codes)
        elif not status:
            status = lm_hybrid_codes_at(&runs, positions, n, <uint32_t>self._code_limit, codes)
        if status:
            fail(status)
        return codes

    cdef void set_dictionary(self, Dictionary dictionary) noexcept:
        self._dictionary = dictionary
        self._code_limit = -1 if dictionary is None else dictionary.value_count


cdef void set_ones(uint8_t* bitmap, int64_t at, int64_t n) noexcept nogil:
    while n > 0 and at % 8:
        bitmap[at // 8] |= 1 << (at % 8)
        at += 1
        n -= 1
    memset(bitmap + at // 8, 0xFF, n // 8)
    at += n // 8 * 8
    n %= 8
    while n > 0:
        bitmap[at // 8] |= 1 << (at % 8)
        at += 1
        n -= 1


cdef class FixedBuilder(Builder):
    """Values of a fixed width.

    Args:
        data_type: The Arrow type.
        stored: Bytes of a value in the file.
        given: Bytes of a value in the array.
        dictionary: That of the chunk, if it has one.
    """

    cdef int64_t _stored
    cdef const uint8_t* _table

    def __cinit__(self, data_type, int64_t stored, int64_t given, Dictionary dictionary=None):
        self._data_type = data_type
        self._stored = stored
        self._width = given
        self._table = NULL
        self.set_dictionary(dictionary)

    cdef int append(self, PageReader reader, const int32_t* positions, int64_t n) except -1 nogil:
        cdef uint8_t* out = self._data + self.row_count * self._width
        if reader.encoding == PLAIN:
            if reader.values_end - reader.values < reader.value_count * self._stored:
                fail(LM_SHORT)
            if lm_gather(reader.values, positions, n, self._stored, self._width, out):
                give_up(b"no such width")
        elif is_coded(reader.encoding):
            self.append_codes(reader.scratch, self.codes(reader, positions, n), n)
        else:
            give_up(b"an encoding that is left to PyArrow")
        self.row_count += n
        return 0

    cdef int append_codes(self, Scratch scratch, const uint32_t* codes, int64_t n) except -1 nogil:
        if n == 0:
            return 0
        if self._table == NULL:
            with gil:
                self._table = self._dictionary.table(self._stored, self._width)
        lm_take(self._table, codes, n, self._width, self._data + self.row_count * self._width)
        return 0


cdef class BooleanBuilder(Builder):
    """Booleans: a byte each while they are gathered, a bit each in the end."""

    def __cinit__(self):
        self._data_type = pa.bool_()
        self._width = 1

    cdef int append(self, PageReader reader, const int32_t* positions, int64_t n) except -1 nogil:
        cdef uint8_t* out = self._data + self.row_count
        cdef uint8_t* every
        cdef const uint8_t* bits = reader.values
        cdef lm_hybrid runs
        cdef int64_t i, at, count
        cdef int32_t length
        cdef int status
        if reader.encoding == PLAIN:
            if (reader.values_end - bits) * 8 < reader.value_count:
                fail(LM_SHORT)
            for i in range(n):
                at = i if positions == NULL else positions[i]
                out[i] = bits[at >> 3] >> (at & 7) & 1
        elif reader.encoding == RLE:
            if reader.values_end - bits < 4:
                fail(LM_SHORT)
            memcpy(&length, bits, 4)
            if length < 0 or length > reader.values_end - bits - 4:
                fail(LM_SHORT)
            every = <uint8_t*>reader.scratch.room(CODES, reader.value_count + 8)
            lm_hybrid_open(&runs, bits + 4, bits + 4 + length, 1)
            status = lm_hybrid_levels(&runs, reader.value_count, 1, every, &count)
            if status:
                fail(status)
            for i in range(n):
                out[i] = every[i if positions == NULL else positions[i]]
        else:
            give_up(b"an encoding that is left to PyArrow")
        self.row_count += n
        return 0

    def _buffers(self):
        cdef int64_t size = (self.row_count + 7) // 8
        packed = pa.allocate_buffer(max(64, size))
        cdef uint8_t* bits = <uint8_t*><size_t>packed.address
        memset(bits, 0, size)
        with nogil:
            lm_set_bits(bits, 0, self._data, self.row_count)
        return [self._validity, packed]


cdef class TextBuilder(Builder):
    """Text or bytes of any length.

    Args:
        data_type: `string`, `binary`, `string_view` or `binary_view`.
        dictionary: That of the chunk, if it has one.
        is_text: Whether values have to be valid UTF-8.
        is_view: Whether the type is one of views.
    """

    cdef bint _is_text
    cdef bint _is_view
    cdef list _buffer_list
    cdef object _block
    cdef bint _is_block_last  # whether the block is the last buffer of the list
    cdef uint32_t _last_buffer
    # Of the dictionary, once they are needed.
    cdef const uint8_t* _views
    cdef const uint32_t* _starts
    cdef const uint32_t* _lengths
    cdef uint8_t* _block_data
    cdef int64_t _block_size
    cdef int64_t _block_used
    # Of plain text: all bytes in one buffer.
    cdef int64_t _byte_count

    def __cinit__(self, data_type, Dictionary dictionary=None, *, bint is_text, bint is_view):
        self._data_type = data_type
        self.set_dictionary(dictionary)
        self._views = NULL
        self._starts = self._lengths = NULL
        self._is_block_last = False
        self._is_text = is_text
        self._is_view = is_view
        self._width = 16 if is_view else 4
        self._buffer_list = [] if dictionary is None else [dictionary.body]
        self._block = None
        self._block_size = 0
        self._block_used = 0
        self._byte_count = 0

    cdef bint may_share(self) noexcept:
        return self._is_view

    cdef int grow(self, int64_t room) except -1 with gil:
        is_first = self._values is None
        Builder.grow(self, room)
        if is_first and not self._is_view:
            (<int32_t*>self._data)[0] = 0
            self._block = pa.allocate_buffer(BLOCK_BYTES, resizable=True)
            self._block_data = <uint8_t*><size_t>self._block.address
            self._block_size = BLOCK_BYTES
        return 0

    cdef int append(self, PageReader reader, const int32_t* positions, int64_t n) except -1 nogil:
        if reader.encoding == PLAIN:
            self.append_plain(reader, positions, n)
        elif is_coded(reader.encoding):
            self.append_codes(reader.scratch, self.codes(reader, positions, n), n)
        else:
            give_up(b"an encoding that is left to PyArrow")
        self.row_count += n
        return 0

    cdef int append_plain(self, PageReader reader, const int32_t* positions,
                          int64_t n) except -1 nogil:
        cdef uint32_t* starts = <uint32_t*>reader.scratch.room(STARTS, n * 4 + 64)
        cdef uint32_t* lengths = <uint32_t*>reader.scratch.room(LENGTHS, n * 4 + 64)
        cdef int64_t total = 0, total_long = 0, bad = 0
        cdef int status
        status = lm_locate(reader.values, reader.values_end, positions, n, starts, lengths, &total,
                           &total_long)
        if not status and self._is_text:
            status = lm_check_utf8(reader.values, starts, lengths, n, &bad)
        if status:
            fail(status)
        if not self._is_view:
            return self.append_bytes(reader.values, starts, lengths, n, total)
        return self.append_views(reader, starts, lengths, n, total_long)

    cdef int append_views(self, PageReader reader, uint32_t* starts, const uint32_t* lengths,
                          int64_t n, int64_t total_long) except -1 nogil:
        cdef lm_view* out = <lm_view*>(self._data + self.row_count * 16)
        cdef const uint8_t* page = reader.values
        cdef int64_t lead = reader.values - reader.body_data
        cdef int64_t i
        if total_long == 0:
            lm_views_into(page, starts, lengths, n, 0, out)
        elif (
            reader.is_owned
            and total_long * SMALLEST_SHARE >= reader.values_end - reader.values
            and reader.values_end - reader.body_data <= 0x7FFFFFFF
        ):
            self.share(reader)
            for i in range(n):
                starts[i] += <uint32_t>lead
            lm_views_into(reader.body_data, starts, lengths, n, self._last_buffer, out)
        else:
            if not self._is_block_last or self._block_size - self._block_used < total_long:
                self.make_block(total_long)
            lm_views_copied(page, starts, lengths, n, self._last_buffer, self._block_data,
                            <uint32_t>self._block_used, out)
            self._block_used += total_long
        return 0

    cdef int share(self, PageReader reader) except -1 with gil:
        """Lets views point into the open page."""
        self._last_buffer = len(self._buffer_list)
        self._buffer_list.append(reader.body)
        self._is_block_last = False
        return 0

    cdef int make_block(self, int64_t size) except -1 with gil:
        """Room for so many bytes in a new buffer of the list."""
        self._block_size = max(size, min(LARGEST_BLOCK_BYTES, max(BLOCK_BYTES, 2 * self._block_size)))
        if self._block_size > 0x7FFFFFFF:
            raise UnsupportedPageError("more text than a view can point to")
        self._block = pa.allocate_buffer(self._block_size)
        self._block_data = <uint8_t*><size_t>self._block.address
        self._block_used = 0
        self._last_buffer = len(self._buffer_list)
        self._buffer_list.append(self._block)
        self._is_block_last = True
        return 0

    cdef int append_bytes(self, const uint8_t* page, const uint32_t* starts, const uint32_t* lengths,
                          int64_t n, int64_t total) except -1 nogil:
        """Adds values to one buffer of bytes."""
        cdef int32_t* ends = <int32_t*>self._data + self.row_count + 1
        cdef int64_t size = self._byte_count + total
        if size > 0x7FFFFFFF:
            give_up(b"more text than 32-bit offsets can say")
        if size > self._block_size:
            self.grow_block(size)
        lm_copy_values(page, starts, lengths, n, self._block_data, self._byte_count, ends)
        self._byte_count = size
        return 0

    cdef int grow_block(self, int64_t size) except -1 with gil:
        self._block_size = min(0x7FFFFFFF, max(size, 2 * self._block_size))
        self._block.resize(self._block_size)
        self._block_data = <uint8_t*><size_t>self._block.address
        return 0

    cdef int locate(self) except -1 with gil:
        """Finds the values of the dictionary."""
        cdef const uint32_t[::1] starts, lengths
        self._dictionary.locate()
        starts, lengths = self._dictionary._starts, self._dictionary._lengths
        self._starts, self._lengths = &starts[0], &lengths[0]
        return 0

    cdef int append_codes(self, Scratch scratch, const uint32_t* codes, int64_t n) except -1 nogil:
        cdef bint is_few = n * FEW_CODES < self._code_limit
        cdef uint32_t* starts
        cdef uint32_t* lengths
        cdef int64_t i, total = 0, bad = 0
        if n == 0:
            return 0
        if self._is_text and not is_few and not self._dictionary._is_checked:
            with gil:
                self._dictionary.check_text()
        if self._is_view and not is_few:
            if self._views == NULL:
                with gil:
                    self._views = self._dictionary.views()
            lm_take(self._views, codes, n, 16, self._data + self.row_count * 16)
            return 0
        if self._starts == NULL:
            self.locate()
        starts = <uint32_t*>scratch.room(STARTS, n * 4 + 64)
        lengths = <uint32_t*>scratch.room(LENGTHS, n * 4 + 64)
        for i in range(n):
            starts[i] = self._starts[codes[i]]
            lengths[i] = self._lengths[codes[i]]
            total += lengths[i]
        # Of a few codes of a large dictionary, no more than their values is looked at.
        if self._is_text and not self._dictionary._is_checked:
            if lm_check_utf8(self._dictionary.values, starts, lengths, n, &bad):
                with gil:
                    raise TextError(f"dictionary value {codes[bad]}: {_STATUS[LM_BAD_UTF8]}")
        if not self._is_view:
            return self.append_bytes(self._dictionary.values, starts, lengths, n, total)
        lm_views_into(self._dictionary.values, starts, lengths, n, 0,
                      <lm_view*>(self._data + self.row_count * 16))
        return 0

    cdef int spread(self, int64_t dense, const uint8_t* valid, int64_t n) except -1 nogil:
        cdef int64_t at = self.row_count - dense
        cdef int64_t i, last = dense
        cdef int32_t* ends
        if self._is_view:
            return Builder.spread(self, dense, valid, n)
        # A null ends where the value before it does.
        ends = <int32_t*>self._data + at
        for i in range(n, 0, -1):
            ends[i] = ends[last]
            last -= valid[i - 1]
        self.note_validity(at, dense, valid, n)
        self.row_count = at + n
        return 0

    def _buffers(self):
        if self._is_view:
            return [self._validity, self._values, *self._buffer_list]
        self._block.resize(self._byte_count, shrink_to_fit=False)
        return [self._validity, self._values, self._block]


# ---- rows -----------------------------------------------------------------------------------


cdef class _Wanted:
    """The wanted rows of one page after the other."""

    cdef const int32_t* rows  # NULL: all of [start, stop)
    cdef const int32_t[::1] _held
    cdef int64_t count
    cdef int64_t at
    cdef int64_t start
    cdef int64_t stop

    def __cinit__(self, rows, int64_t start, int64_t stop):
        self.rows = NULL
        self.start, self.stop, self.at = start, stop, 0
        self.count = stop - start
        if rows is not None:
            self._held = rows
            self.count = self._held.shape[0]
            if not self.count:
                self.stop = start
            else:
                self.rows = &self._held[0]
                if self._held[0] < start or self._held[self.count - 1] >= stop:
                    raise ValueError("rows outside their range")

    cdef int64_t in_page(self, int64_t first, int64_t end, const int32_t** rows,
                         int64_t* low) noexcept nogil:
        """How many rows of a page are wanted; which, or (NULL) from which one on.

        -1 if there is a row before the page that no page has held.
        """
        cdef int64_t left, right, middle
        if self.rows != NULL and self.at < self.count and self.rows[self.at] < first:
            return -1
        if self.rows == NULL:
            rows[0] = NULL
            low[0] = max(first, self.start)
            return max(0, min(end, self.stop) - low[0])
        left, right = self.at, self.count
        # Rows ascend: the end of a page is found in steps that double.
        middle = 1
        while left + middle < right and self.rows[left + middle] < end:
            middle *= 2
        right = min(right, left + middle + 1)
        while left < right:
            middle = (left + right) // 2
            if self.rows[middle] < end:
                left = middle + 1
            else:
                right = middle
        rows[0] = self.rows + self.at
        low[0] = first
        middle = left - self.at
        self.at = left
        return middle

    cdef int64_t row_after(self, const int32_t* rows, int64_t low, int64_t n) noexcept nogil:
        """The row behind the last of the wanted rows of a page."""
        return low + n if rows == NULL else rows[n - 1] + 1


cdef int64_t find_positions(PageReader reader, const int32_t* rows, int64_t low, int64_t n,
                            const int32_t** positions) except -1 nogil:
    """Where the wanted rows of the open page are among its values; how many have one."""
    cdef int32_t* found
    cdef uint8_t* wanted_valid
    cdef int64_t i, dense = n
    cdef int32_t first = <int32_t>reader.first_row
    if not reader.has_nulls and n == reader.row_count:
        positions[0] = NULL
        return n
    found = <int32_t*>reader.scratch.room(POSITIONS, n * 4 + 64)
    positions[0] = found
    if not reader.has_nulls:
        for i in range(n):
            found[i] = <int32_t>(low + i if rows == NULL else rows[i]) - first
        return n
    wanted_valid = <uint8_t*>reader.scratch.room(WANTED_VALID, n + 8)
    if rows == NULL:
        return lm_rank_rows(reader.valid, NULL, n, <int32_t>(low - first), found, wanted_valid)
    return lm_rank_rows(reader.valid, rows, n, first, found, wanted_valid)


def read_rows(PageReader reader, Builder builder, rows, int64_t start, int64_t stop):
    """The values of rows.

    Args:
        reader: Has every page that holds one of them.
        builder: What they are put into.
        rows: Ascending row numbers (int32) in [start, stop); None for all of the range.
        start: The first row of the range.
        stop: The row behind the last.

    Returns:
        The array.
    """
    return read_wanted(reader, builder, _Wanted(rows, start, stop))


cdef object read_wanted(PageReader reader, Builder builder, _Wanted wanted):
    cdef const int32_t* chosen
    cdef const int32_t* positions
    cdef int64_t low, n, dense, at
    cdef Py_ssize_t page = -1
    cdef bint may_share = builder.may_share()
    try:
        with nogil:
            builder.reserve(wanted.count)
            for page in range(reader.page_count):
                n = wanted.in_page(reader._first_rows[page], reader._row_ends[page], &chosen, &low)
                if n < 0:
                    reader._fail(b"rows of a page that is not at hand", page)
                if not n:
                    continue
                # Of a page of which little is wanted, the values are copied.
                reader.wants_owned = may_share and (
                    n * SMALLEST_SHARE >= reader._row_ends[page] - reader._first_rows[page]
                )
                reader.open(page)
                reader.next_row = wanted.row_after(chosen, low, n)
                at = builder.row_count
                dense = find_positions(reader, chosen, low, n, &positions)
                builder.append(reader, positions, dense)
                if reader.has_nulls:
                    builder.spread(
                        dense, <uint8_t*>reader.scratch.room(WANTED_VALID, n + 8), n
                    )
                else:
                    builder.note_all_valid(at, n)
    except PageError as error:
        error.page = page
        raise
    if builder.row_count != wanted.count:
        raise PageError(f"pages hold {builder.row_count} of {wanted.count} rows")
    return builder.finish()


def filter_rows(PageReader reader, ValueTest test, passes, rows, int64_t start, int64_t stop, *,
                bint null_passes=False, Builder builder=None):
    """The rows that pass a condition.

    Args:
        reader: Has every page that holds one of the rows.
        test: The condition, for PLAIN pages; None if there are none.
        passes: Which of the dictionary's values pass, one byte each; None without a dictionary.
        rows: Ascending row numbers (int32) in [start, stop); None for all of the range.
        start: The first row of the range.
        stop: The row behind the last.
        null_passes: Whether null passes; not together with a builder.
        builder: Takes the values of the rows that pass; None if they are not needed.

    Returns:
        The rows that pass (int32), ascending, and their values or None.
    """
    return filter_wanted(
        reader, test, passes, _Wanted(rows, start, stop), null_passes, builder
    )


cdef object filter_wanted(PageReader reader, ValueTest test, passes, _Wanted wanted,
                          bint null_passes, Builder builder):
    cdef const uint8_t[::1] answers
    cdef const uint8_t* answer_data = NULL
    cdef uint32_t answer_count = 0
    cdef const int32_t* chosen
    cdef const int32_t* positions
    cdef uint8_t* mask
    cdef uint8_t* valid
    cdef int32_t* out
    cdef int32_t* kept
    cdef int64_t low, n, dense, found = 0, kept_count, seen = 0
    cdef Py_ssize_t page = -1
    cdef bint is_kept = builder is not None
    if passes is not None and len(passes):
        answers = passes
        answer_data = &answers[0]
        answer_count = answers.shape[0]
    if is_kept and null_passes:
        raise ValueError("null passes: read the rows afterwards")
    reader.wants_owned = False
    try:
        with nogil:
            if is_kept:
                builder.reserve(0)
            # In memory that is used again: what passes is copied in the end.
            out = <int32_t*>reader.scratch.room(PASSED, wanted.count * 4 + 64)
            for page in range(reader.page_count):
                n = wanted.in_page(reader._first_rows[page], reader._row_ends[page], &chosen, &low)
                if n < 0:
                    reader._fail(b"rows of a page that is not at hand", page)
                if not n:
                    continue
                seen += n
                reader.open(page)
                reader.next_row = wanted.row_after(chosen, low, n)
                if is_coded(reader.encoding) and not reader.has_nulls and n == reader.row_count:
                    found += select_codes(reader, answer_data, answer_count, out + found, builder)
                    continue
                dense = find_positions(reader, chosen, low, n, &positions)
                mask = <uint8_t*>reader.scratch.room(MASK, n + 8)
                match_page(reader, test, answer_data, answer_count, positions, dense, mask)
                if is_kept:
                    kept = <int32_t*>reader.scratch.room(ROWS, n * 4 + 64)
                    kept_count = lm_compress_rows(mask, dense, positions, 0, kept)
                    if kept_count:
                        builder.reserve(kept_count)
                        builder.append(reader, kept, kept_count)
                if reader.has_nulls:
                    valid = <uint8_t*>reader.scratch.room(WANTED_VALID, n + 8)
                    lm_spread_mask(mask, dense, valid, n, null_passes)
                found += lm_compress_rows(mask, n, chosen, <int32_t>low, out + found)
    except PageError as error:
        error.page = page
        raise
    if seen != wanted.count:
        raise PageError(f"pages hold {seen} of {wanted.count} rows")
    passed = np.empty(found, dtype=np.int32)
    cdef int32_t[::1] passed_rows = passed
    if found:
        memcpy(&passed_rows[0], out, found * 4)
    return passed, None if builder is None else builder.finish()


cdef int64_t select_codes(PageReader reader, const uint8_t* answers, uint32_t answer_count,
                          int32_t* rows, Builder builder) except -1 nogil:
    """The rows of an open page of codes that pass, all of its rows wanted and none null.

    Their values go to the builder, unless that is None.
    """
    cdef lm_hybrid runs
    cdef uint32_t* codes = NULL
    cdef int64_t found = 0
    cdef int status
    if reader.row_count == 0:
        return 0
    if answers == NULL or reader.values >= reader.values_end:
        fail(LM_SHORT)
    if builder is not None:
        if builder._code_limit != answer_count:
            fail(LM_BAD_CODE)
        codes = <uint32_t*>reader.scratch.room(CODES, reader.row_count * 4 + 64)
    status = lm_hybrid_open(&runs, reader.values + 1, reader.values_end, reader.values[0])
    if not status:
        status = lm_hybrid_select(&runs, reader.row_count, answers, answer_count,
                                  <int32_t>reader.first_row, rows, codes, &found)
    if status:
        fail(status)
    if builder is not None and found:
        builder.reserve(found)
        builder.append_codes(reader.scratch, codes, found)
        builder.row_count += found
    return found


cdef int match_page(PageReader reader, ValueTest test, const uint8_t* answers, uint32_t answer_count,
                    const int32_t* positions, int64_t n, uint8_t* mask) except -1 nogil:
    """Answers for the values at positions of the open page."""
    cdef lm_hybrid runs
    cdef uint32_t* codes
    cdef int64_t i
    cdef int status = LM_OK
    if is_coded(reader.encoding):
        if n == 0:
            return 0
        if answers == NULL or reader.values >= reader.values_end:
            fail(LM_SHORT)
        status = lm_hybrid_open(&runs, reader.values + 1, reader.values_end, reader.values[0])
        if not status and positions == NULL:
            status = lm_hybrid_lookup(&runs, n, answers, answer_count, mask)
        elif not status:
            codes = <uint32_t*>reader.scratch.room(CODES, n * 4 + 64)
            status = lm_hybrid_codes_at(&runs, positions, n, answer_count, codes)
            if not status:
                for i in range(n):
                    mask[i] = answers[codes[i]]
    elif reader.encoding == PLAIN:
        if test is None:
            give_up(b"a page that the condition cannot be tested on")
        status = test.test(reader.values, reader.values_end, reader.value_count, positions, n, mask)
    else:
        give_up(b"an encoding that is left to PyArrow")
    if status:
        fail(status)
    return 0


def take_views(array, const int32_t[::1] rows):
    """Some values of an array of views, which share its buffers; PyArrow cannot take them."""
    cdef int64_t n = rows.shape[0]
    cdef int64_t i, at, length = len(array), offset = array.offset, nulls = 0
    cdef const uint8_t* values
    cdef const uint8_t* valid = NULL
    cdef uint8_t* out
    cdef uint8_t* out_valid = NULL
    cdef bint is_inside = True
    buffers = array.buffers()
    taken = pa.allocate_buffer(max(64, n * 16))
    validity = None
    if array.null_count and n:
        valid = <const uint8_t*><size_t>buffers[0].address
        validity = pa.allocate_buffer(max(64, (n + 7) // 8))
        out_valid = <uint8_t*><size_t>validity.address
        memset(out_valid, 0, (n + 7) // 8)
    if n:
        values = <const uint8_t*><size_t>buffers[1].address
        out = <uint8_t*><size_t>taken.address
        with nogil:
            for i in range(n):
                if rows[i] < 0 or rows[i] >= length:
                    is_inside = False
                    break
                at = offset + rows[i]
                memcpy(out + i * 16, values + at * 16, 16)
                if valid != NULL:
                    if valid[at >> 3] >> (at & 7) & 1:
                        out_valid[i >> 3] |= 1 << (i & 7)
                    else:
                        nulls += 1
    if not is_inside:
        raise IndexError("no such row")
    return pa.Array.from_buffers(array.type, n, [validity, taken, *buffers[2:]], nulls)


def rows_of_mask(const uint8_t[::1] mask, int64_t start=0):
    """The places of a mask that are set, counted from `start`, as int32."""
    cdef int64_t n = mask.shape[0]
    cdef int64_t count = 0
    cdef int32_t[::1] out
    if n:
        with nogil:
            count = lm_count_mask(&mask[0], n)
    # Eight places at a time may be written before they are known to be too many.
    found = np.empty(count + 1, dtype=np.int32)
    if count:
        out = found
        with nogil:
            lm_compress_rows(&mask[0], n, NULL, <int32_t>start, &out[0])
    return found[:count]


def rows_of_ranges(const int64_t[::1] starts, const int64_t[::1] stops, int64_t count):
    """The rows of ranges that do not overlap, as int32; `count` is how many they are."""
    cdef int32_t[::1] out
    cdef int64_t i, row, at = 0
    found = np.empty(count, dtype=np.int32)
    out = found
    with nogil:
        for i in range(starts.shape[0]):
            for row in range(starts[i], stops[i]):
                if at == count:
                    break
                out[at] = <int32_t>row
                at += 1
    return found[:at]


include "chunk.pxi"

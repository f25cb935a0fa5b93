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
    Layout,
    PageHeader,
    PageReader,
    Scratch,
    add_range,
    find_pages,
    is_intact,
    place_pages,
    read_page_header,
)

import numpy as np
import pyarrow as pa

from lm_datafusion.kernels.pages import (
    PageError,
    RefusedPageError,
    TextError,
    TooLargeError,
    UnsupportedPageError,
)

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
    void lm_rebase_views(lm_view*, int64_t, uint32_t) nogil
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


include "conditions.pxi"
include "dictionary.pxi"
include "builders.pxi"
include "rows.pxi"
include "chunk.pxi"

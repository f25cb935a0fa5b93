from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef struct PageHeader:
    int32_t kind
    int32_t encoding
    int32_t compressed_size
    int32_t uncompressed_size
    int32_t num_values
    int32_t num_rows  # -1 where the header does not say
    int32_t definition_bytes
    int32_t repetition_bytes
    int32_t header_bytes
    bint is_compressed
    uint32_t crc
    bint has_crc

cdef int read_page_header(const uint8_t* data, int64_t size, PageHeader* header) noexcept nogil
cdef bint is_intact(const uint8_t* body, const PageHeader* header) noexcept nogil

cdef enum:
    SLOTS = 12
    # The slot of a decompressed page.
    BODY = 9
    # The slots of a page table and of byte ranges to fetch.
    TABLE = 10
    RANGES = 11

ctypedef size_t (*zstd_decompress)(void*, void*, size_t, const void*, size_t) noexcept nogil
ctypedef size_t (*zstd_free)(void*) noexcept nogil
ctypedef void* (*zstd_create)() noexcept nogil

cdef class Codec:
    cdef void* _context
    cdef zstd_decompress _zstd
    cdef zstd_free _free
    cdef int decompress(self, const uint8_t* packed, int64_t length, uint8_t* out,
                        int64_t size) noexcept nogil

cdef class Scratch:
    cdef void* _memory[SLOTS]
    cdef int64_t _sizes[SLOTS]
    cdef void* room(self, int slot, int64_t size) except NULL nogil
    cdef void give(self, int slot, void* memory, int64_t size) noexcept nogil

cdef struct Layout:
    # By page: its number, where it begins among the fetched bytes, its first row, the row behind its
    # last, the part of the column that it is in, and its bytes; `stride` numbers apart.
    int64_t* table
    int64_t stride
    int64_t count
    # Offsets and lengths of byte ranges, neighbours merged, and the bytes of all of them.
    int64_t* ranges
    int64_t range_count
    int64_t length
    # The size of the file: no range, and not all of them together, may have more.
    int64_t limit
    # How many of the wanted rows lie before the pages that come next.
    int64_t at

cdef int64_t find_pages(Layout* layout, const int64_t* first_rows, int64_t pages, int64_t row_count,
                        const int32_t* rows, int64_t total, int64_t start, int64_t stop,
                        int64_t base_row, int64_t base_page, int64_t part) noexcept nogil
cdef int place_pages(Layout* layout, int64_t first, const int64_t* offsets, const int64_t* sizes,
                     int64_t base_page, int64_t kept_page) noexcept nogil
cdef int add_range(Layout* layout, int64_t offset, int64_t length) noexcept nogil

cdef class PageReader:
    cdef object _buffer
    cdef object _decompress
    cdef Codec _codec
    cdef bint _is_packed
    cdef const uint8_t* _data
    cdef int64_t _size
    # The rows of a `Layout`'s table.
    cdef const int64_t* _numbers
    cdef const int64_t* _starts
    cdef const int64_t* _first_rows
    cdef const int64_t* _row_ends
    cdef const int64_t* _parts
    cdef const int64_t* _page_bytes
    cdef object _tables  # keeps those alive, unless a scratch does
    cdef int _max_definition_level
    cdef bint verifies  # whether pages are checked against their checksums
    cdef int64_t largest_page  # bytes that a page may decompress to
    cdef readonly Py_ssize_t page_count
    cdef readonly int64_t rows_decoded
    cdef Scratch scratch
    # The page that was opened last.
    cdef int64_t _kept_page
    cdef PageHeader _kept_header
    cdef int64_t _kept_size
    cdef object _kept_raw
    cdef const uint8_t* _kept_raw_data  # NULL without `_kept_raw`
    cdef int64_t _kept_raw_size
    cdef void* _kept_memory  # of its body, taken from a scratch
    cdef int64_t _kept_memory_size
    cdef int64_t _raw_start
    cdef int64_t _raw_stop
    cdef const uint8_t* _page_data
    cdef bint _is_body_enough(self) noexcept nogil
    cdef void _forget_kept(self) noexcept nogil
    cdef bint _is_in_scratch(self) noexcept nogil
    cdef int _keep(self) except -1
    cdef int _own_body(self, int64_t size) except -1 with gil
    cdef int _fail(self, const char* message, Py_ssize_t page) except -1 with gil
    cdef int _refuse(self, const char* message, Py_ssize_t page) except -1 with gil
    cdef const uint8_t* _levels
    cdef int64_t _level_bytes
    cdef int64_t _value_width  # 0 if values have no fixed one
    cdef bint _is_integer
    cdef bint _is_text
    cdef bint _is_fixed
    cdef bint _is_unpacked  # whether the body is a page that `_unpack` has made
    # The page that is open.
    cdef object body
    cdef bint wants_owned  # whether `body` is to be a buffer that values may point into
    cdef bint is_owned  # whether it is
    cdef bint is_borrowed  # whether the page is not compressed: its body is where it was fetched to
    cdef const uint8_t* body_data
    cdef const uint8_t* values
    cdef const uint8_t* values_end
    cdef uint8_t* valid
    cdef int32_t encoding
    cdef int64_t first_row
    cdef int64_t row_count
    cdef int64_t value_count
    cdef bint has_nulls
    cdef int64_t next_row  # behind the last row that was asked for

    cdef int hand_over(self, Scratch scratch, decompress, buffer, const int64_t* tables,
                       int64_t stride, Py_ssize_t count) except -1
    cdef int64_t kept(self) noexcept nogil
    cdef int let_go(self) except -1
    cdef int open(self, Py_ssize_t page) except -1 nogil
    cdef int _open_body(self, Py_ssize_t page, int64_t start, PageHeader* header,
                        int64_t levels) except -1 nogil
    cdef int _decompress_owned(self, Py_ssize_t page, const uint8_t* packed, int64_t length,
                               int64_t size) except -1 with gil
    cdef int _open_levels(self, Py_ssize_t page, int64_t start, PageHeader* header) except -1 nogil
    cdef int _unpack(self, Py_ssize_t page) except -1 with gil
    cdef int _check_unpacked(self, int status, Py_ssize_t page) except -1

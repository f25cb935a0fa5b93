# The dictionary page of a chunk: values as they stand in it, laid out for taking by code.


cdef class Dictionary:
    """The values of a dictionary page, as they stand in it. Several threads may use it.

    Args:
        buffer: A `pyarrow.Buffer` that has the page.
        start: Where its header begins.
        decompress: Gives exactly so many bytes of a buffer or raises; or None.
        verify: Whether the page is checked against its checksum.
        largest_page: Bytes that the page may decompress to.

    Raises:
        PageError: There is no dictionary page.
        RefusedPageError: Its checksum is wrong, or its size.
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
    cdef bint is_verified

    def __cinit__(self, buffer, int64_t start, decompress, bint verify=False,
                  int64_t largest_page=0x7FFFFFFF):
        cdef PageHeader header
        cdef const uint8_t* data = <const uint8_t*><size_t>buffer.address
        cdef int64_t size = buffer.size, body_start
        if not 0 <= start < size or read_page_header(data + start, size - start, &header):
            raise PageError("no page header where the dictionary should be")
        body_start = start + header.header_bytes
        if header.kind != DICTIONARY_PAGE:
            raise PageError("the chunk does not begin with a dictionary page")
        if header.encoding != PLAIN and header.encoding != PLAIN_DICTIONARY:
            raise UnsupportedPageError("a dictionary that is not PLAIN")
        if header.compressed_size > size - body_start:
            raise PageError("the dictionary page ends outside the bytes at hand")
        if header.uncompressed_size > largest_page:
            raise RefusedPageError("the dictionary claims more bytes than the footer says of all pages")
        if verify and header.compressed_size and not is_intact(&data[body_start], &header):
            raise RefusedPageError("the dictionary does not have the checksum that its header says")
        self.is_verified = verify
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
        """All values in their width as handed out: those of the page, if that is the same."""
        cdef uint8_t[::1] room
        cdef int status
        if self.value_count * stored > self.end - self.values:
            raise PageError("the dictionary page is too short for its values")
        if stored == given and self.value_count:
            return self.values
        table = self._tables.get(given)
        if table is None:
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

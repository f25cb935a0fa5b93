# Arrow arrays in the making.
#
# In: an open page, and positions of values in it. Out: an array of all that was added.
#
# Invariant: text that is handed out is valid UTF-8.


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

    cdef int expect(self, int64_t more, int64_t seen, int64_t total) except -1 nogil:
        """Makes room for more rows, and for those to come: so many of `total` rows were seen."""
        cdef int64_t needed = self.row_count + more
        if self._data == NULL or needed > self._room:
            self.grow(max(needed, min(total, <int64_t>(1.125 * needed * total / seen) + 64)))
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

    cdef int set_dictionary(self, Dictionary dictionary) except -1:
        """Says what the codes of the pages that come next stand for."""
        self._dictionary = dictionary
        self._code_limit = -1 if dictionary is None else dictionary.value_count
        return 0


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
        self.set_dictionary(dictionary)

    cdef int set_dictionary(self, Dictionary dictionary) except -1:
        self._table = NULL
        return Builder.set_dictionary(self, dictionary)

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
    cdef uint32_t _dictionary_buffer
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
        self._is_text = is_text
        self._is_view = is_view
        self._width = 16 if is_view else 4
        self._buffer_list = []
        self.set_dictionary(dictionary)
        self._block = None
        self._block_size = 0
        self._block_used = 0
        self._byte_count = 0

    cdef int set_dictionary(self, Dictionary dictionary) except -1:
        self._views = NULL
        self._starts = self._lengths = NULL
        if dictionary is not None:
            self._dictionary_buffer = len(self._buffer_list)
            self._buffer_list.append(dictionary.body)
            self._is_block_last = False
        return Builder.set_dictionary(self, dictionary)

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
            raise TooLargeError("more text than a view can point to")
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
            with gil:
                raise TooLargeError("more text than 32-bit offsets can say")
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
            if self._dictionary_buffer:
                lm_rebase_views(<lm_view*>(self._data + self.row_count * 16), n,
                                self._dictionary_buffer)
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
        lm_views_into(self._dictionary.values, starts, lengths, n, self._dictionary_buffer,
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

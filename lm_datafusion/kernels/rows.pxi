# The pages of a column, one after the other, for the rows wanted.
#
# In: a `PageReader`, and ascending row numbers or a range. Out: values, or the rows that pass.
#
# Invariant: a page that holds no wanted row is not opened.


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
    """Where the wanted rows of the open page are among its values; how many have one.

    NULL if they are all of its values, one after the other.
    """
    cdef int32_t* found
    cdef uint8_t* wanted_valid
    cdef int64_t i
    cdef int32_t first = <int32_t>reader.first_row
    if n == reader.row_count:
        positions[0] = NULL
        if not reader.has_nulls:
            return n
        wanted_valid = <uint8_t*>reader.scratch.room(WANTED_VALID, n + 8)
        memcpy(wanted_valid, reader.valid, <size_t>n)
        return reader.value_count
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
    return read_wanted(reader, builder, _Wanted(rows, start, stop), None)


cdef object read_wanted(PageReader reader, Builder builder, _Wanted wanted, list dictionaries):
    """`read_rows` of a column in parts; `dictionaries` are theirs, None if there is one part."""
    cdef const int32_t* chosen
    cdef const int32_t* positions
    cdef int64_t low, n, dense, at, part = 0
    cdef Py_ssize_t page = -1
    cdef bint may_share = builder.may_share()
    if dictionaries is not None and reader.page_count:
        part = reader._parts[0]
        builder.set_dictionary(<Dictionary>dictionaries[part])
    try:
        with nogil:
            builder.reserve(wanted.count)
            for page in range(reader.page_count):
                n = wanted.in_page(reader._first_rows[page], reader._row_ends[page], &chosen, &low)
                if n < 0:
                    reader._fail(b"rows of a page that is not at hand", page)
                if not n:
                    continue
                # If little of a page is wanted, the values are copied.
                reader.wants_owned = may_share and (
                    n * SMALLEST_SHARE >= reader._row_ends[page] - reader._first_rows[page]
                )
                if reader._parts[page] != part:
                    part = reader._parts[page]
                    with gil:
                        builder.set_dictionary(<Dictionary>dictionaries[part])
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
        reader, test, [passes], _Wanted(rows, start, stop), null_passes, builder, None
    )


cdef object filter_wanted(PageReader reader, ValueTest test, list passes, _Wanted wanted,
                          bint null_passes, Builder builder, list dictionaries):
    """`filter_rows` of a column in parts; `passes` and `dictionaries` are theirs."""
    cdef const uint8_t[::1] answers
    cdef const uint8_t* answer_data = NULL
    cdef uint32_t answer_count = 0
    cdef const int32_t* chosen
    cdef const int32_t* positions
    cdef uint8_t* mask
    cdef uint8_t* valid
    cdef int32_t* out
    cdef int32_t* kept
    cdef int64_t low, n, dense, found = 0, kept_count, seen = 0, part = -1
    cdef Py_ssize_t page = -1
    cdef bint is_kept = builder is not None
    if is_kept and null_passes:
        raise ValueError("null passes: read the rows afterwards")
    if reader.page_count:
        part = reader._parts[0]
        answers = answers_of(passes, part)
        answer_data, answer_count = &answers[0], answers.shape[0]
        if is_kept and dictionaries is not None:
            builder.set_dictionary(<Dictionary>dictionaries[part])
    reader.wants_owned = False
    try:
        with nogil:
            # In memory that is used again: what passes is copied in the end.
            out = <int32_t*>reader.scratch.room(PASSED, wanted.count * 4 + 64)
            for page in range(reader.page_count):
                n = wanted.in_page(reader._first_rows[page], reader._row_ends[page], &chosen, &low)
                if n < 0:
                    reader._fail(b"rows of a page that is not at hand", page)
                if not n:
                    continue
                seen += n
                if reader._parts[page] != part:
                    with gil:
                        part = reader._parts[page]
                        answers = answers_of(passes, part)
                        answer_data, answer_count = &answers[0], answers.shape[0]
                        if is_kept:
                            builder.set_dictionary(<Dictionary>dictionaries[part])
                reader.open(page)
                reader.next_row = wanted.row_after(chosen, low, n)
                if is_coded(reader.encoding) and not reader.has_nulls and n == reader.row_count:
                    found += select_codes(
                        reader, answer_data, answer_count, out + found, builder, seen, wanted.count
                    )
                    continue
                dense = find_positions(reader, chosen, low, n, &positions)
                mask = <uint8_t*>reader.scratch.room(MASK, n + 8)
                match_page(reader, test, answer_data, answer_count, positions, dense, mask)
                if is_kept:
                    kept = <int32_t*>reader.scratch.room(ROWS, n * 4 + 64)
                    kept_count = lm_compress_rows(mask, dense, positions, 0, kept)
                    if kept_count:
                        builder.expect(kept_count, seen, wanted.count)
                        builder.append(reader, kept, kept_count)
                if reader.has_nulls:
                    valid = <uint8_t*>reader.scratch.room(WANTED_VALID, n + 8)
                    lm_spread_mask(mask, dense, valid, n, null_passes)
                found += lm_compress_rows(mask, n, chosen, <int32_t>low, out + found)
            if is_kept:
                builder.reserve(0)  # an array of no rows has buffers, too
    except PageError as error:
        error.page = page
        raise
    if seen != wanted.count:
        raise PageError(f"pages hold {seen} of {wanted.count} rows")
    passed = np.empty(found, dtype=np.int32)
    cdef int32_t[::1] passed_rows = passed
    if found:
        with nogil:
            memcpy(&passed_rows[0], out, found * 4)
    return passed, None if builder is None else builder.finish()


_NO_ANSWERS = np.zeros(0, dtype=np.uint8)


cdef const uint8_t[::1] answers_of(list passes, int64_t part):
    """Which values of the dictionary of a part pass; none without a dictionary."""
    return _NO_ANSWERS if passes[part] is None else passes[part]


cdef int64_t select_codes(PageReader reader, const uint8_t* answers, uint32_t answer_count,
                          int32_t* rows, Builder builder, int64_t seen, int64_t total) except -1 nogil:
    """The rows of an open page of codes that pass, all of its rows wanted and none null.

    Their values go to the builder, unless that is None.
    """
    cdef lm_hybrid runs
    cdef uint32_t* codes = NULL
    cdef int64_t found = 0
    cdef int status
    if reader.row_count == 0:
        return 0
    if not answer_count or reader.values >= reader.values_end:
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
        builder.expect(found, seen, total)
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
        if not answer_count or reader.values >= reader.values_end:
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

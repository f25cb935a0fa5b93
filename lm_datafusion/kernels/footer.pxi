# What a footer says of column chunks that PyArrow does not survive.
#
# In: the bytes of a `FileMetaData`. Out: the chunks whose codec does not exist, or whose size statistics
# contradict the schema.

cdef enum:
    LAST_CODEC = 7


cdef struct ChunkClaims:
    int32_t codec
    # How many levels each histogram counts; -1 where there is none.
    int64_t repetition
    int64_t definition
    bint has_bytes


cdef int64_t skip_list(Cursor* cursor) noexcept nogil:
    """How many elements a list has; they are skipped."""
    cdef Cursor start = cursor[0]
    cdef uint64_t count
    count = read_byte(&start) >> 4
    if count == 15:
        count = read_varint(&start)
    skip_value(cursor, 9, 0)
    # A list that was skipped has no more elements than bytes.
    return 0 if cursor.status else <int64_t>count


cdef void read_size_statistics(Cursor* cursor, ChunkClaims* found) noexcept nogil:
    cdef int field = 0
    cdef int kind
    found.repetition = found.definition = -1
    found.has_bytes = False
    while not cursor.status:
        kind = next_field(cursor, &field)
        if not kind:
            return
        if field == 1 and kind == 6:
            found.has_bytes = True
            read_varint(cursor)
        elif (field == 2 or field == 3) and kind == 9:
            if field == 2:
                found.repetition = skip_list(cursor)
            else:
                found.definition = skip_list(cursor)
        else:
            skip_value(cursor, kind, 0)


cdef void read_claims(Cursor* cursor, ChunkClaims* found, int level) noexcept nogil:
    """Reads a `ColumnChunk` (level 0) or its `ColumnMetaData` (level 1)."""
    cdef int field = 0
    cdef int kind
    while not cursor.status:
        kind = next_field(cursor, &field)
        if not kind:
            return
        if level == 0 and field == 3 and kind == 12:
            read_claims(cursor, found, 1)
        elif level == 1 and field == 4 and kind == 5:
            found.codec = read_i32(cursor)
        elif level == 1 and field == 16 and kind == 12:
            read_size_statistics(cursor, found)
        else:
            skip_value(cursor, kind, 0)


cdef int64_t count_structs(Cursor* cursor) noexcept nogil:
    """How many elements the list of structs has that begins here; 0 (and a status) if it is none."""
    cdef uint8_t header = read_byte(cursor)
    cdef uint64_t count = header >> 4
    if count == 15:
        count = read_varint(cursor)
    if count and ((header & 0x0F) != 12 or count > <uint64_t>(cursor.end - cursor.at)):
        cursor.status = -2
    return 0 if cursor.status else <int64_t>count


cdef class _ChunkCheck:
    cdef const int64_t[:, ::1] expected
    cdef list unsound

    cdef int read_row_groups(self, Cursor* cursor) except -1:
        cdef int64_t count = count_structs(cursor), row_group
        cdef int field, kind
        for row_group in range(count):
            field = 0
            while not cursor.status:
                kind = next_field(cursor, &field)
                if not kind:
                    break
                if field == 1 and kind == 9:
                    self.read_chunks(cursor, row_group)
                else:
                    skip_value(cursor, kind, 0)
        return 0

    cdef int read_chunks(self, Cursor* cursor, int64_t row_group) except -1:
        cdef int64_t count = count_structs(cursor), leaf
        cdef ChunkClaims found
        for leaf in range(count):
            found.repetition = found.definition = -1
            found.has_bytes = False
            found.codec = 0
            read_claims(cursor, &found, 0)
            if cursor.status:
                break
            if leaf < self.expected.shape[0] and self.is_unsound(&found, leaf):
                self.unsound.append((row_group, leaf))
        return 0

    cdef bint is_unsound(self, ChunkClaims* found, int64_t leaf) noexcept:
        # An empty histogram is none.
        return (
            not 0 <= found.codec <= LAST_CODEC
            or (found.repetition > 0 and found.repetition != self.expected[leaf, 0])
            or (found.definition > 0 and found.definition != self.expected[leaf, 1])
            or (found.has_bytes and not self.expected[leaf, 2])
        )


def find_unsound_chunks(buffer, const int64_t[:, ::1] expected):
    """The chunks whose codec does not exist, or whose size statistics contradict the schema.

    Args:
        buffer: The bytes of `FileMetaData`.
        expected: By leaf: how many repetition levels there are, how many definition levels, and
            whether values are a BYTE_ARRAY.

    Returns:
        (row group, leaf) pairs.

    Raises:
        PageError: The bytes are no footer.
    """
    cdef _Bytes held = _Bytes(buffer)
    cdef Cursor cursor
    cdef int field = 0
    cdef int kind
    cdef _ChunkCheck check = _ChunkCheck()
    check.expected, check.unsound = expected, []
    cursor.at = <const uint8_t*>held.view.buf
    cursor.end = cursor.at + held.view.len
    cursor.status = 0
    while not cursor.status:
        kind = next_field(&cursor, &field)
        if not kind:
            break
        if field == 4 and kind == 9:
            check.read_row_groups(&cursor)
        else:
            skip_value(&cursor, kind, 0)
    if cursor.status:
        raise PageError("no footer")
    return check.unsound

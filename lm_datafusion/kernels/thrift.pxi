# Page headers, the offset index and the column index, in Thrift's compact protocol.
#
# Invariant: whatever the bytes say, none outside of them is read.


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
    cdef int32_t num_nulls = -1, repetition_encoding = -1
    if level == 5:
        header.definition_bytes = -1
    elif level == 8:
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
        elif level == 5 and field == 4 and kind == 5:
            repetition_encoding = read_i32(cursor)
        elif level == 8 and field == 5 and kind == 5:
            header.definition_bytes = read_i32(cursor)
        elif level == 8 and field == 6 and kind == 5:
            header.repetition_bytes = read_i32(cursor)
        elif level == 8 and field == 7 and kind <= 2:
            header.is_compressed = kind == 1
        else:
            skip_value(cursor, kind, 0)
    if not cursor.status and (
        (level == 8 and (num_nulls < 0 or header.num_rows < 0))
        or (level == 5 and (header.definition_bytes < 0 or repetition_encoding < 0))
    ):
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
    header.has_crc = False
    header.crc = 0
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
        elif field == 4 and kind == 5:
            header.crc = <uint32_t>read_i32(&cursor)
            header.has_crc = True
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


cdef bint is_intact(const uint8_t* body, const PageHeader* header) noexcept nogil:
    """Whether the body of a page has the checksum of its header, if that has one."""
    return not header.has_crc or lm_crc32(body, header.compressed_size) == header.crc


def crc32(buffer):
    """The checksum of bytes, as page headers have it."""
    cdef _Bytes held = _Bytes(buffer)
    cdef uint32_t found
    with nogil:
        found = lm_crc32(<const uint8_t*>held.view.buf, held.view.len)
    return found


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

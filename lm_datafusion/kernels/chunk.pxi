# One column chunk from its bytes in a file to values: plan, fetch and decode in one call.
#
# In: where the pages of a chunk lie, an open file, rows wanted. Out: values of exactly those rows, or
# the rows that pass a condition.
#
# Invariant: nothing that is handed out points into memory that is used again.

cdef enum:
    # A workspace keeps no more room than this of one kind.
    LARGEST_ROOM = 16 << 20
    # Dictionaries of so many bytes stay with their chunk: reading one costs more than it is long.
    SMALL_DICTIONARY = 2048


cdef class Workspace:
    """What a thread reads with for the time of a call: scratch memory, fetched bytes, codecs."""

    cdef Scratch scratch
    cdef object room
    cdef int64_t size
    cdef dict codecs

    def __cinit__(self):
        self.scratch = Scratch()
        self.size = 1 << 16
        self.room = pa.allocate_buffer(self.size)
        self.codecs = {}

    cdef object room_for(self, int64_t length):
        """A buffer of so many bytes at least, until the next call."""
        if self.size >= length:
            return self.room
        room = pa.allocate_buffer(length + length // 4)
        if length <= LARGEST_ROOM:
            self.room = room
            self.size = room.size
        return room

    cdef object decompressor(self, ChunkPages pages):
        """What decompresses the pages of a chunk; None if they are not compressed."""
        if pages.make_decompressor is None:
            return None
        found = self.codecs.get(pages.codec)
        if found is None:
            found = self.codecs[pages.codec] = pages.make_decompressor(pages.codec)
        return found


# Workspaces that nobody uses. Not thread-local: an engine's threads are new to Python each time it
# asks for a batch, and what is local to them would be fresh memory every time.
cdef list _WORKSPACES = []


cdef Workspace take_workspace():
    return <Workspace>_WORKSPACES.pop() if _WORKSPACES else Workspace()


cdef void give_workspace(Workspace workspace):
    workspace.scratch.trim(LARGEST_ROOM)
    _WORKSPACES.append(workspace)


cdef class ChunkPages:
    """Where the pages of a flat column chunk lie, and how they are stored. Threads share it.

    Args:
        offsets: Where each data page begins in the file.
        sizes: Bytes of each, with its header.
        first_rows: The first row of each, ascending from 0.
        row_count: Rows of the chunk.
        dictionary_offset: Where the dictionary page begins, if there is one.
        max_definition_level: 1 if the column may be null, else 0.
        physical_type: How values are stored.
        fixed_length: The bytes of a FIXED_LEN_BYTE_ARRAY.
        codec: The name of the codec.
        make_decompressor: Makes what decompresses its pages from its name; None if they are not
            compressed.
        is_all_coded: Whether every page is known to be dictionary-coded.
    """

    cdef const int64_t[::1] offsets
    cdef const int64_t[::1] sizes
    cdef const int64_t[::1] first_rows
    cdef readonly int64_t row_count
    cdef int64_t dictionary_offset
    cdef int64_t dictionary_bytes
    cdef int max_definition_level
    cdef str physical_type
    cdef object fixed_length
    cdef object codec
    cdef object make_decompressor
    cdef bint is_all_coded
    cdef Dictionary dictionary  # if it is small and somebody has read it

    def __init__(self, offsets, sizes, first_rows, int64_t row_count, *, int64_t dictionary_offset,
                 int max_definition_level, str physical_type, fixed_length, codec,
                 make_decompressor, bint is_all_coded):
        self.offsets, self.sizes, self.first_rows = offsets, sizes, first_rows
        if not self.offsets.shape[0] == self.sizes.shape[0] == self.first_rows.shape[0]:
            raise PageError("pages and rows do not fit")
        self.row_count = row_count
        self.dictionary_offset = dictionary_offset
        self.dictionary_bytes = 0
        if self.offsets.shape[0]:
            self.dictionary_bytes = max(0, self.offsets[0] - dictionary_offset)
        self.max_definition_level = max_definition_level
        self.physical_type = physical_type
        self.fixed_length = fixed_length
        self.codec = codec
        self.make_decompressor = make_decompressor
        self.is_all_coded = is_all_coded

    @property
    def dictionary_size(self):
        """Bytes of the dictionary that stays with the chunk; 0 without one."""
        return 0 if self.dictionary is None else self.dictionary.size_bytes


cdef class ValueKind:
    """What values become: a kind of builder, and its arguments without the dictionary.

    Args:
        builder: `FixedBuilder`, `BooleanBuilder` or `TextBuilder`.
        data_type: The Arrow type.
        stored: Bytes of a stored value of fixed width.
        given: Bytes of a value in the array.
        is_text: Whether values have to be valid UTF-8.
        is_view: Whether the type is one of views.
    """

    cdef object builder
    cdef readonly object data_type
    cdef int64_t stored
    cdef int64_t given
    cdef bint is_text
    cdef bint is_view

    def __init__(self, builder, data_type, *, int64_t stored=0, int64_t given=0,
                 bint is_text=False, bint is_view=False):
        self.builder = builder
        self.data_type = data_type
        self.stored, self.given = stored, given
        self.is_text, self.is_view = is_text, is_view

    def make(self, Dictionary dictionary=None):
        """A builder."""
        return self._make(dictionary)

    cdef Builder _make(self, Dictionary dictionary):
        if self.builder is FixedBuilder:
            return FixedBuilder(self.data_type, self.stored, self.given, dictionary)
        if self.builder is TextBuilder:
            return TextBuilder(self.data_type, dictionary, is_text=self.is_text,
                               is_view=self.is_view)
        return BooleanBuilder()


cdef class ChunkReader:
    """Reads values of one column chunk. For one thread at a time.

    Args:
        pages: The chunk.
        kind: What values become.
        source: The file. `fetch(ranges, target)` fetches a list of (offset, length) into a memoryview
            that they fill exactly, or raises; `descriptor()` is that of a local file, whose bytes
            are then read without Python, or -1; `size_bytes` is the size of the file.
    """

    cdef readonly ChunkPages pages
    cdef ValueKind _kind
    cdef object _source
    cdef PageReader _reader
    cdef Dictionary _dictionary
    cdef bint _is_dictionary_read
    cdef uint8_t* _is_fetched  # by page
    cdef readonly int64_t pages_fetched
    cdef readonly int64_t bytes_fetched

    def __cinit__(self, ChunkPages pages not None, ValueKind kind not None, source):
        self.pages = pages
        self._kind = kind
        self._source = source
        self._reader = PageReader(
            pages.max_definition_level, pages.physical_type, pages.fixed_length
        )
        self._dictionary = pages.dictionary
        self._is_dictionary_read = self._dictionary is not None
        self._is_fetched = <uint8_t*>calloc(<size_t>pages.offsets.shape[0] + 1, 1)
        if self._is_fetched == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._is_fetched)

    @property
    def rows_decoded(self):
        """Rows of all pages that were opened."""
        return self._reader.rows_decoded

    def join(self, ChunkReader other not None):
        """Takes over what another reader of the same chunk has read: dictionary and counts."""
        cdef Py_ssize_t page
        self.share_dictionary(other)
        for page in range(self.pages.offsets.shape[0]):
            self._note_page(page, other._is_fetched[page])
        self.bytes_fetched += other.bytes_fetched
        other.bytes_fetched = 0

    def share_dictionary(self, ChunkReader other not None):
        """Takes over the dictionary that another reader of the same chunk has read."""
        if self._dictionary is None and other._dictionary is not None:
            self._dictionary = other._dictionary
            self._is_dictionary_read = True

    def read(self, rows, int64_t start, int64_t stop):
        """Values of rows: ascending numbers (int32) in [start, stop), or None for all of them."""
        cdef _Wanted wanted = _Wanted(rows, start, stop)
        cdef Workspace workspace = take_workspace()
        try:
            self._load(workspace, wanted)
            return read_wanted(self._reader, self._kind._make(self._dictionary), wanted)
        except PageError as error:
            self._name_page(error)
            raise
        finally:
            self._reader.let_go()
            give_workspace(workspace)

    def filter(self, rows, int64_t start, int64_t stop, ValueTest test, passes, bint is_held):
        """The rows that pass a condition, and their values if they are to be held.

        Args:
            rows: Rows to test, as in `read`.
            start: The first row of the range.
            stop: The row behind the last.
            test: The condition; None if all pages are coded and `passes` is known.
            passes: Which values of the dictionary pass (booleans), and last whether null does; or
                None.
            is_held: Whether values are wanted. If null passes, they are read afterwards.
        """
        cdef _Wanted wanted = _Wanted(rows, start, stop)
        cdef Workspace workspace = take_workspace()
        cdef bint null_passes = passes is not None and bool(passes[len(passes) - 1])
        cdef Builder builder = None
        try:
            self._load(workspace, wanted)
            answers = None
            if self._dictionary is not None:
                if passes is not None and len(passes) == self._dictionary.value_count + 1:
                    answers = passes[:-1].view(np.uint8)
                elif test is None:
                    raise UnsupportedPageError("nobody knows which values of the dictionary pass")
                else:
                    null_passes = False
                    answers = self._dictionary.test(test)
            if is_held and not null_passes:
                builder = self._kind._make(self._dictionary)
            return filter_wanted(self._reader, test, answers, wanted, null_passes, builder)
        except PageError as error:
            self._name_page(error)
            raise
        finally:
            self._reader.let_go()
            give_workspace(workspace)

    def dictionary_values(self):
        """The values of the dictionary as an array; None if the chunk has none."""
        cdef Workspace workspace
        if not self._is_dictionary_read and self.pages.dictionary_bytes:
            workspace = take_workspace()
            try:
                self._read_dictionary(workspace)
            finally:
                give_workspace(workspace)
        if self._dictionary is None:
            return None
        return self._dictionary.to_array(self._kind._make(self._dictionary))

    cdef int _name_page(self, error) except -1:
        """Errors name a page by its number in the chunk."""
        if error.page is not None and 0 <= error.page < self._reader.page_count:
            error.page = self._reader._numbers[error.page]
        return 0

    cdef void _note_page(self, int64_t page, bint is_fetched) noexcept nogil:
        self.pages_fetched += is_fetched and not self._is_fetched[page]
        self._is_fetched[page] |= is_fetched

    cdef int _load(self, Workspace workspace, _Wanted wanted) except -1:
        """Makes the pages that hold rows, and the dictionary if they need it, ready."""
        cdef ChunkPages pages = self.pages
        cdef int64_t count = pages.offsets.shape[0], found, i, lead = 0
        cdef int64_t range_count[2]
        cdef int64_t* table = <int64_t*>workspace.scratch.room(TABLE, 4 * count * 8 + 64)
        cdef int64_t* ranges = <int64_t*>workspace.scratch.room(RANGES, 2 * count * 8 + 64)
        cdef bint is_lead_wanted = not self._is_dictionary_read and pages.dictionary_bytes > 0
        if not count:
            raise PageError("the chunk has no pages")
        # The page that was opened last is still there, until another is opened.
        found = lay_out_pages(
            &pages.offsets[0], &pages.sizes[0], &pages.first_rows[0], count, pages.row_count,
            wanted.rows, wanted.count, wanted.start, wanted.stop, self._reader.kept(), 0,
            table, ranges + 2, range_count,
        )
        if found < 0:
            raise PageError("a page that is nowhere in the file")
        if is_lead_wanted and (pages.is_all_coded or (found and table[0] == 0)):
            # With the dictionary page, which stands before the first data page.
            lead = pages.dictionary_bytes
            for i in range(found):
                if table[count + i] >= 0:
                    table[count + i] += lead
            if range_count[0] and ranges[2] == pages.offsets[0]:
                ranges[2] = pages.dictionary_offset
                ranges[3] += lead
                ranges += 2
            else:
                ranges[0] = pages.dictionary_offset
                ranges[1] = lead
                range_count[0] += 1
        else:
            ranges += 2
        buffer = self._fetch_ranges(workspace, ranges, range_count[0], range_count[1] + lead)
        for i in range(found):
            self._note_page(table[i], True)
        if lead:
            self._open_dictionary(workspace, buffer)
        self._reader.hand_over(
            workspace.scratch, workspace.decompressor(pages), buffer, table, count, found
        )
        if is_lead_wanted and not lead and self._has_coded_page(buffer, table + count, found):
            self._read_dictionary_kept(workspace)
        return 0

    cdef bint _has_coded_page(self, buffer, const int64_t* starts, int64_t count) except -1:
        """Whether one of the pages is dictionary-coded; of a page kept from before, perhaps."""
        cdef const uint8_t* data = <const uint8_t*><size_t>buffer.address
        cdef int64_t size = buffer.size, i
        cdef PageHeader header
        for i in range(count):
            if starts[i] < 0:
                return True
            # Whoever opens the page says what is wrong with it.
            if starts[i] < size and not read_page_header(
                data + starts[i], size - starts[i], &header
            ) and is_coded(header.encoding):
                return True
        return False

    cdef object _fetch_ranges(self, Workspace workspace, const int64_t* ranges, int64_t count,
                              int64_t length):
        """The bytes of ranges, one behind the other."""
        cdef int64_t i
        cdef int status = -1
        cdef uint8_t* out
        cdef int descriptor = self._source.descriptor()
        if length > self._source.size_bytes:
            raise PageError("the pages are larger than the file")
        room = workspace.room_for(length)
        out = <uint8_t*><size_t>room.address
        with nogil:
            status = lm_fetch(descriptor, ranges, count, out)
        if status:
            # The file is no local one, or does not hold the ranges, which `fetch` says in words.
            wanted = [(ranges[2 * i], ranges[2 * i + 1]) for i in range(count)]
            self._source.fetch(wanted, memoryview(room).cast("B")[:length])
        self.bytes_fetched += length
        return room.slice(0, length)

    cdef int _read_dictionary(self, Workspace workspace) except -1:
        cdef int64_t where[2]
        where[0], where[1] = self.pages.dictionary_offset, self.pages.dictionary_bytes
        return self._open_dictionary(workspace, self._fetch_ranges(workspace, where, 1, where[1]))

    cdef int _read_dictionary_kept(self, Workspace workspace) except -1:
        """Reads the dictionary page while the room of the workspace holds data pages."""
        cdef Workspace other = take_workspace()
        try:
            self._read_dictionary(other)
        finally:
            give_workspace(other)
        return 0

    cdef int _open_dictionary(self, Workspace workspace, buffer) except -1:
        cdef Dictionary found = Dictionary(buffer, 0, workspace.decompressor(self.pages))
        if found.size_bytes <= SMALL_DICTIONARY:
            self.pages.dictionary = found
        self._dictionary = found
        self._is_dictionary_read = True
        return 0

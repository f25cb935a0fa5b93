# A column of some row groups, from bytes in a file to values: plan, fetch and decode in one call.
#
# In: where the pages of its chunks lie, an open file, rows wanted. Out: values of exactly those rows,
# or the rows that pass a condition.
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
        if length > LARGEST_ROOM:
            return pa.allocate_buffer(length)
        self.size = min(LARGEST_ROOM, length + length // 4)
        self.room = pa.allocate_buffer(self.size)
        return self.room

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
    # A slot gets a quarter more than was asked for.
    workspace.scratch.trim(LARGEST_ROOM + LARGEST_ROOM // 2)
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
    cdef readonly object codec
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
    """Reads values of a column in some row groups of a file. For one thread at a time.

    Rows and pages are counted through: those of the second chunk follow those of the first.

    Args:
        chunks: The chunks of the column, in the order of their rows.
        kind: What values become.
        source: The file. `fetch(ranges, target)` fetches a list of (offset, length) into a memoryview
            that they fill exactly, or raises; `descriptor()` is that of a local file, whose bytes
            are then read without Python, or -1; `size_bytes` is the size of the file.
        verify: Whether pages are checked against their checksums.
        largest_page: Bytes that a page may decompress to.
    """

    cdef list _chunks
    cdef ValueKind _kind
    cdef object _source
    cdef PageReader _reader
    cdef list _dictionaries  # by chunk; None if there is none, or nobody has read it
    cdef list _is_dictionary_read
    cdef readonly Py_ssize_t page_count
    cdef uint8_t* _is_fetched  # by page
    cdef readonly int64_t pages_fetched
    cdef readonly int64_t bytes_fetched

    def __cinit__(self, chunks, ValueKind kind not None, source, *, bint verify=False,
                  int64_t largest_page=0x7FFFFFFF):
        cdef ChunkPages chunk
        self._chunks = list(chunks)
        if not self._chunks:
            raise ValueError("a column of no chunks")
        self._kind = kind
        self._source = source
        self._dictionaries = []
        self._is_dictionary_read = []
        for chunk in self._chunks:
            self.page_count += chunk.offsets.shape[0]
            kept = chunk.dictionary
            if kept is not None and verify and not (<Dictionary>kept).is_verified:
                kept = None
            self._dictionaries.append(kept)
            self._is_dictionary_read.append(kept is not None)
        chunk = self._chunks[0]
        self._reader = PageReader(
            chunk.max_definition_level, chunk.physical_type, chunk.fixed_length
        )
        self._reader.verifies = verify
        self._reader.largest_page = largest_page
        self._is_fetched = <uint8_t*>calloc(<size_t>self.page_count + 1, 1)
        if self._is_fetched == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._is_fetched)

    @property
    def rows_decoded(self):
        """Rows of all pages that were opened."""
        return self._reader.rows_decoded

    def join(self, ChunkReader other not None):
        """Takes over what another reader of the same chunks has read: dictionaries and counts."""
        cdef Py_ssize_t page
        self.share_dictionaries(other)
        for page in range(self.page_count):
            self._note_page(page, other._is_fetched[page])
        self.bytes_fetched += other.bytes_fetched
        other.bytes_fetched = 0

    def share_dictionaries(self, ChunkReader other not None):
        """Takes over the dictionaries that another reader of the same chunks has read."""
        cdef Py_ssize_t i
        if other.page_count != self.page_count or len(other._chunks) != len(self._chunks):
            raise ValueError("a reader of other chunks")
        for i in range(len(self._chunks)):
            if other._is_dictionary_read[i] and not self._is_dictionary_read[i]:
                self._dictionaries[i] = other._dictionaries[i]
                self._is_dictionary_read[i] = True

    def read(self, rows, int64_t start, int64_t stop):
        """Values of rows: ascending numbers (int32) in [start, stop), or None for all of them."""
        cdef _Wanted wanted = _Wanted(rows, start, stop)
        cdef Workspace workspace = take_workspace()
        try:
            self._load(workspace, wanted)
            return read_wanted(self._reader, self._kind._make(None), wanted, self._dictionaries)
        except PageError as error:
            self._name_page(error)
            raise
        except MemoryError:
            raise PageError("there is no memory for a page") from None
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
            passes: By chunk: which values of its dictionary pass (booleans), and last whether null
                does, or None. None if nothing is known of any.
            is_held: Whether values are wanted. If null passes, they are read afterwards.
        """
        cdef _Wanted wanted = _Wanted(rows, start, stop)
        cdef Workspace workspace = take_workspace()
        cdef Builder builder = None
        cdef bint null_passes = False
        try:
            self._load(workspace, wanted)
            answers = self._answers(test, passes, &null_passes)
            if is_held and not null_passes:
                builder = self._kind._make(None)
            return filter_wanted(
                self._reader, test, answers, wanted, null_passes, builder, self._dictionaries
            )
        except PageError as error:
            self._name_page(error)
            raise
        except MemoryError:
            raise PageError("there is no memory for a page") from None
        finally:
            self._reader.let_go()
            give_workspace(workspace)

    cdef list _answers(self, ValueTest test, passes, bint* null_passes):
        """By chunk: which values of its dictionary pass, one byte each; None without one."""
        cdef Dictionary dictionary
        cdef Py_ssize_t i
        cdef bint is_tested = False
        answers = []
        for i in range(len(self._chunks)):
            dictionary = self._dictionaries[i]
            known = None if passes is None else passes[i]
            if known is not None and known[len(known) - 1]:
                null_passes[0] = True
            if dictionary is None:
                answers.append(None)
            elif known is not None and len(known) == dictionary.value_count + 1:
                answers.append(known[: len(known) - 1].view(np.uint8))
            elif test is not None:
                is_tested = True
                answers.append(dictionary.test(test))
            else:
                raise UnsupportedPageError("nobody knows which values of the dictionary pass")
        if null_passes[0] and is_tested:
            raise UnsupportedPageError("a test that null passes")  # no test does
        return answers

    def dictionary_values(self, Py_ssize_t chunk):
        """The values of the dictionary of a chunk as an array; None if it has none."""
        cdef Workspace workspace
        cdef Dictionary dictionary
        if not 0 <= chunk < len(self._chunks):
            raise IndexError("no such chunk")
        if not self._is_dictionary_read[chunk] and (
            <ChunkPages>self._chunks[chunk]
        ).dictionary_bytes:
            workspace = take_workspace()
            try:
                self._read_dictionary(workspace, chunk)
            except MemoryError:
                raise PageError("there is no memory for a dictionary") from None
            finally:
                give_workspace(workspace)
        dictionary = self._dictionaries[chunk]
        if dictionary is None:
            return None
        return dictionary.to_array(self._kind._make(dictionary))

    cdef int _name_page(self, error) except -1:
        """Errors name a page by its number in the column."""
        if error.page is not None and 0 <= error.page < self._reader.page_count:
            error.page = self._reader._numbers[error.page]
        return 0

    cdef void _note_page(self, int64_t page, bint is_fetched) noexcept nogil:
        self.pages_fetched += is_fetched and not self._is_fetched[page]
        self._is_fetched[page] |= is_fetched

    cdef int _load(self, Workspace workspace, _Wanted wanted) except -1:
        """Makes the pages that hold rows, and the dictionaries that they need, ready."""
        cdef Layout layout
        cdef ChunkPages chunk
        cdef int64_t i, first, pages, base_row = 0, base_page = 0
        cdef Scratch scratch = workspace.scratch
        layout.stride = self.page_count
        layout.table = <int64_t*>scratch.room(TABLE, 6 * layout.stride * 8 + 64)
        # A range per page at the most, and one per dictionary.
        layout.ranges = <int64_t*>scratch.room(
            RANGES, 2 * (layout.stride + <int64_t>len(self._chunks)) * 8 + 64
        )
        layout.count = layout.range_count = layout.length = layout.at = 0
        layout.limit = self._source.size_bytes
        leads = []
        for i in range(len(self._chunks)):
            chunk = self._chunks[i]
            pages, first = chunk.offsets.shape[0], layout.count
            if not pages:
                raise PageError("the chunk has no pages")
            if find_pages(
                &layout, &chunk.first_rows[0], pages, chunk.row_count, wanted.rows, wanted.count,
                wanted.start, wanted.stop, base_row, base_page, i,
            ):
                # The dictionary page stands before the first data page.
                if chunk.dictionary_bytes and not self._is_dictionary_read[i] and (
                    chunk.is_all_coded or layout.table[first] == base_page
                ):
                    leads.append((i, layout.length))
                    if add_range(&layout, chunk.dictionary_offset, chunk.dictionary_bytes):
                        raise PageError("a dictionary page that is nowhere in the file")
                # The page that was opened last is still there, until another is opened.
                if place_pages(
                    &layout, first, &chunk.offsets[0], &chunk.sizes[0], base_page,
                    self._reader.kept(),
                ):
                    raise PageError("a page that is nowhere in the file")
            base_row += chunk.row_count
            base_page += pages
        buffer = self._fetch_ranges(workspace, layout.ranges, layout.range_count, layout.length)
        for i in range(layout.count):
            self._note_page(layout.table[i], True)
        for number, start in leads:
            self._open_dictionary(workspace, number, buffer, start)
        chunk = self._chunks[0]
        self._reader.hand_over(
            scratch, workspace.decompressor(chunk), buffer, layout.table, layout.stride,
            layout.count,
        )
        return self._read_missing_dictionaries(buffer, &layout)

    cdef int _read_missing_dictionaries(self, buffer, Layout* layout) except -1:
        """Reads the dictionaries of coded pages, where they did not come with the pages."""
        cdef const uint8_t* data = <const uint8_t*><size_t>buffer.address
        cdef int64_t size = buffer.size, i, start
        cdef PageHeader header
        cdef Workspace other
        for i in range(layout.count):
            part = layout.table[4 * layout.stride + i]
            if self._is_dictionary_read[part] or not (
                <ChunkPages>self._chunks[part]
            ).dictionary_bytes:
                continue
            start = layout.table[layout.stride + i]
            if start < 0:
                header = self._reader._kept_header
            elif start >= size or read_page_header(data + start, size - start, &header):
                continue  # whoever opens the page says what is wrong with it
            if is_coded(header.encoding):
                # The room of the workspace holds data pages.
                other = take_workspace()
                try:
                    self._read_dictionary(other, part)
                finally:
                    give_workspace(other)
        return 0

    cdef object _fetch_ranges(self, Workspace workspace, const int64_t* ranges, int64_t count,
                              int64_t length):
        """The bytes of ranges, one behind the other."""
        cdef int64_t i
        cdef int status = -1
        cdef uint8_t* out
        cdef int descriptor = self._source.descriptor()
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

    cdef int _read_dictionary(self, Workspace workspace, Py_ssize_t number) except -1:
        cdef ChunkPages chunk = self._chunks[number]
        cdef int64_t where[2]
        where[0], where[1] = chunk.dictionary_offset, chunk.dictionary_bytes
        if where[0] < 0 or where[1] > self._source.size_bytes - where[0]:
            raise PageError("a dictionary page that is nowhere in the file")
        buffer = self._fetch_ranges(workspace, where, 1, where[1])
        return self._open_dictionary(workspace, number, buffer, 0)

    cdef int _open_dictionary(self, Workspace workspace, Py_ssize_t number, buffer,
                              int64_t start) except -1:
        cdef ChunkPages chunk = self._chunks[number]
        cdef Dictionary found
        try:
            found = Dictionary(
                buffer.slice(start, chunk.dictionary_bytes), 0, workspace.decompressor(chunk),
                self._reader.verifies, self._reader.largest_page,
            )
        except PageError as error:
            error.chunk = number
            raise
        if found.size_bytes <= SMALL_DICTIONARY:
            chunk.dictionary = found
        self._dictionaries[number] = found
        self._is_dictionary_read[number] = True
        return 0

# Which pages hold wanted rows, and how their bytes lie when they are fetched.


cdef int64_t find_pages(Layout* layout, const int64_t* first_rows, int64_t pages, int64_t row_count,
                        const int32_t* rows, int64_t total, int64_t start, int64_t stop,
                        int64_t base_row, int64_t base_page, int64_t part) noexcept nogil:
    """Adds the pages of one part of a column that hold wanted rows; how many those are.

    Args:
        layout: What was found before; pages come in the order of their rows.
        first_rows: The first row of each page of the part, ascending from 0.
        pages: How many pages the part has.
        row_count: How many rows it has.
        rows: Ascending row numbers, or NULL for all of [start, stop).
        total: How many those are.
        start: The first row of the range.
        stop: The row behind the last.
        base_row: Rows of the parts before.
        base_page: Pages of the parts before.
        part: The number of the part.
    """
    cdef int64_t page, first, end, low, high, middle, at = layout.count
    cdef bint is_touched
    for page in range(pages):
        first = base_row + first_rows[page]
        end = base_row + (first_rows[page + 1] if page + 1 < pages else row_count)
        if rows == NULL:
            is_touched = max(first, start) < min(end, stop)
        else:
            # The first of the rows that is not before the end of the page.
            low, high = layout.at, total
            while low < high:
                middle = (low + high) // 2
                if rows[middle] < end:
                    low = middle + 1
                else:
                    high = middle
            is_touched = low > layout.at
            layout.at = low
        if is_touched:
            layout.table[at] = base_page + page
            layout.table[2 * layout.stride + at] = first
            layout.table[3 * layout.stride + at] = end
            layout.table[4 * layout.stride + at] = part
            at += 1
    low = at - layout.count
    layout.count = at
    return low


cdef int place_pages(Layout* layout, int64_t first, const int64_t* offsets, const int64_t* sizes,
                     int64_t base_page, int64_t kept_page) noexcept nogil:
    """Says where the pages from the `first` of the layout on begin among the fetched bytes.

    A page that is kept is not fetched, if it is the first of all. -1 for a page that is nowhere in
    the file.
    """
    cdef int64_t i, page
    for i in range(first, layout.count):
        page = layout.table[i] - base_page
        if sizes[page] > 0x7FFFFFFF:
            return -1
        layout.table[5 * layout.stride + i] = sizes[page]
        if i == 0 and layout.table[i] == kept_page:
            layout.table[layout.stride + i] = -1
        else:
            layout.table[layout.stride + i] = layout.length
            if add_range(layout, offsets[page], sizes[page]):
                return -1
    return 0


cdef int add_range(Layout* layout, int64_t offset, int64_t length) noexcept nogil:
    """Adds bytes to fetch; -1 if they lie outside the file, or are more than it has by now."""
    cdef int64_t* last = layout.ranges + 2 * (layout.range_count - 1)
    if offset < 0 or length < 0 or length > layout.limit - layout.length:
        return -1
    if offset > layout.limit - length:
        return -1
    if not length:
        return 0
    layout.length += length
    if layout.range_count and last[0] + last[1] == offset:
        last[1] += length
    else:
        last[2], last[3] = offset, length
        layout.range_count += 1
    return 0


def plan_pages(const int64_t[::1] offsets, const int64_t[::1] sizes, const int64_t[::1] first_rows,
               int64_t row_count, rows, int64_t start, int64_t stop, *, int64_t kept_page=-1):
    """Which pages hold rows, and how their bytes lie when they are fetched one behind the other.

    Args:
        offsets: Where each page of the chunk begins in the file.
        sizes: Bytes of each page.
        first_rows: The first row of each page, ascending from 0.
        row_count: Rows of the chunk.
        rows: Ascending row numbers (int32) in [start, stop); None for all of the range.
        start: The first row of the range.
        stop: The row behind the last.
        kept_page: A page that need not be fetched, if it is the first of them; -1 for none.

    Returns:
        The numbers of the pages; where each begins among the fetched bytes, -1 for the kept page;
        their first rows; the rows behind their last; byte ranges (offset, length), neighbours
        merged; the bytes of all of them.
    """
    cdef int64_t pages = offsets.shape[0]
    cdef const int32_t[::1] numbers
    cdef const int32_t* chosen = NULL
    cdef int64_t total = 0
    cdef int64_t[:, ::1] table
    cdef int64_t[:, ::1] ranges
    cdef Layout layout
    found = np.empty((6, max(1, pages)), dtype=np.int64)
    found_ranges = np.empty((max(1, pages), 2), dtype=np.int64)
    table, ranges = found, found_ranges
    layout.table, layout.stride, layout.ranges = &table[0, 0], max(1, pages), &ranges[0, 0]
    layout.count = layout.range_count = layout.length = layout.at = 0
    layout.limit = <int64_t>1 << 62
    if rows is not None:
        numbers = rows
        total = numbers.shape[0]
        if not total:
            start = stop = 0
        else:
            chosen = &numbers[0]
    if pages:
        find_pages(&layout, &first_rows[0], pages, row_count, chosen, total, start, stop, 0, 0, 0)
        if place_pages(&layout, 0, &offsets[0], &sizes[0], 0, kept_page):
            raise PageError("a page that is nowhere in the file")
    return (
        *found[:4, : layout.count],
        [(a, b) for a, b in found_ranges[: layout.range_count].tolist()],
        layout.length,
    )

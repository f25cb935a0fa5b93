"""`plan_pages` beside the same in numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lm_datafusion.kernels.pages import PageError, plan_pages


def in_numpy(offsets, sizes, first_rows, row_count, rows, kept_page):
    ends = np.append(first_rows[1:], row_count)
    numbers = [
        page
        for page, (first, end) in enumerate(zip(first_rows, ends, strict=True))
        if any(first <= row < end for row in rows)
    ]
    starts, at, bytes_wanted = [], 0, []
    for index, page in enumerate(numbers):
        if index == 0 and page == kept_page:
            starts.append(-1)
        else:
            starts.append(at)
            at += int(sizes[page])
            bytes_wanted += range(offsets[page], offsets[page] + sizes[page])
    return numbers, starts, first_rows[numbers], ends[numbers], bytes_wanted, at


@pytest.mark.parametrize("seed", range(40))
def test_is_what_numpy_says(seed):
    rng = np.random.default_rng(seed)
    pages = int(rng.integers(1, 9))
    first_rows = np.concatenate([[0], np.sort(rng.integers(0, 50, pages - 1))]).astype(np.int64)
    sizes = rng.integers(1, 30, pages)
    gaps = rng.integers(0, 2, pages) * 5
    offsets = 100 + np.cumsum(sizes + gaps) - sizes
    rows = np.flatnonzero(rng.random(60) < rng.choice([0.02, 0.1, 0.7])).astype(np.int32)
    start, stop = sorted(rng.integers(0, 61, 2).tolist())
    kept_page = int(rng.integers(-1, pages))
    for wanted, low, high in ((rows, 0, 60), (None, start, stop), (None, 0, 60)):
        found = plan_pages(offsets, sizes, first_rows, 60, wanted, low, high, kept_page=kept_page)
        every = range(low, high) if wanted is None else wanted.tolist()
        expected = in_numpy(offsets, sizes, first_rows, 60, every, kept_page)
        for mine, theirs in zip(found[:4], expected[:4], strict=True):
            assert mine.tolist() == list(theirs)
        ranges = found[4]
        assert [b for offset, length in ranges for b in range(offset, offset + length)] == (
            expected[4]
        )
        assert all(a[0] + a[1] != b[0] for a, b in itertools.pairwise(ranges))
        assert found[5] == expected[5]


@pytest.mark.parametrize(("offset", "size"), [(-1, 5), (5, -1), (5, 1 << 31), (1 << 62, 5)])
def test_pages_that_are_nowhere(offset, size):
    arrays = [np.array([value], dtype=np.int64) for value in (offset, size, 0)]
    with pytest.raises(PageError):
        plan_pages(*arrays, 6, None, 0, 6)

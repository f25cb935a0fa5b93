"""Which error a failed run raises, and which errors it leaves to other threads."""

from __future__ import annotations

from collections import deque

import pytest

from lm_datafusion.engine.recovery import attempt
from lm_datafusion.errors import CorruptFileError


def test_errors_of_other_threads_are_left_to_them():
    mine = CorruptFileError("a page is damaged", path="mine.orc")
    theirs = CorruptFileError("a page is damaged", path="theirs.orc")
    errors = deque([theirs, mine])

    def fail(_):
        raise ValueError(f"External error: {mine}")

    with pytest.raises(CorruptFileError) as info:
        attempt(fail, None, errors, None)
    assert info.value is mine
    assert list(errors) == [theirs]

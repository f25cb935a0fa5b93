from __future__ import annotations

import os

import pytest

from lm_datafusion.errors import FileChangedError
from lm_datafusion.storage import ByteRange, LazyFile, LocalStorage


@pytest.fixture
def lazy(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    storage = LocalStorage()
    return LazyFile(storage, storage.load_version(str(path)))


def test_is_opened_by_the_first_read(lazy):
    with lazy:
        lazy.check_unchanged()
        assert not lazy.is_opened
        assert lazy.fetch_ranges([ByteRange(2, 3)]) == [b"234"]
        assert lazy.is_opened
        target = bytearray(2)
        lazy.fetch_into([ByteRange(0, 2)], memoryview(target))
        assert target == b"01"


def test_a_file_that_nobody_needed_is_closed_all_the_same(lazy):
    lazy.close()
    lazy.close()
    assert not lazy.is_opened


@pytest.mark.parametrize("is_opened", [True, False])
def test_a_change_comes_to_light_opened_or_not(lazy, is_opened):
    if is_opened:
        lazy.fetch_ranges([ByteRange(0, 1)])
    os.utime(lazy.version.path, ns=(1, 1))
    with lazy, pytest.raises(FileChangedError):
        lazy.check_unchanged()
    if not is_opened:
        with pytest.raises(FileChangedError):
            lazy.fetch_ranges([ByteRange(0, 1)])

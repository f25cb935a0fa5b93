from __future__ import annotations

import os

import pytest

from lm_datafusion.errors import FileChangedError, StorageError
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
    with lazy:
        with pytest.raises(FileChangedError):
            lazy.check_unchanged()
        if not is_opened:
            with pytest.raises(FileChangedError):
                lazy.fetch_ranges([ByteRange(0, 1)])


def test_is_not_opened_once_it_is_closed(lazy):
    lazy.close()
    with pytest.raises(StorageError, match="has ended"):
        lazy.fetch_ranges([ByteRange(0, 1)])
    assert not lazy.is_opened


class Failing(LocalStorage):
    """Opens files that give what a test says."""

    def __init__(self, outcome):
        self.outcome = outcome

    def open(self, version):
        outcome = self.outcome

        class File:
            def fetch_ranges(self, ranges):
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome

        return File()


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (OSError(5, "Input/output error"), "Input/output error"),
        (TimeoutError("no answer"), "no answer"),
        ([b"01"], "fewer bytes"),
    ],
)
def test_what_a_storage_raises_names_the_file(lazy, outcome, message):
    file = LazyFile(Failing(outcome), lazy.version)
    with pytest.raises(StorageError, match=message) as caught:
        file.fetch_ranges([ByteRange(0, 3)])
    assert lazy.version.path in str(caught.value)


def test_an_error_of_a_file_that_changed_is_the_change(lazy):
    with pytest.raises(ValueError, match="bad value"), lazy.blamed():
        raise ValueError("bad value")
    lazy.fetch_ranges([ByteRange(0, 1)])
    with pytest.raises(ValueError, match="bad value"), lazy.blamed():
        raise ValueError("bad value")
    os.truncate(lazy.version.path, 3)
    with pytest.raises(FileChangedError) as caught, lazy.blamed():
        raise ValueError("bad value")
    assert isinstance(caught.value.__cause__, ValueError)
    lazy.close()
    # Nobody can say any more.
    with pytest.raises(ValueError, match="bad value"), lazy.blamed():
        raise ValueError("bad value")


def test_what_was_read_is_checked_only_if_something_was(lazy):
    os.utime(lazy.version.path, ns=(1, 1))
    lazy.check_read()
    assert not lazy.is_opened

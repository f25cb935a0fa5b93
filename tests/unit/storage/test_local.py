from __future__ import annotations

import os
import pickle
import threading
import time

import pytest

from lm_datafusion.errors import FileChangedError, FileMissingError, StorageError
from lm_datafusion.storage import ByteRange, LocalStorage, MeteredFile
from tests.dataset_files import open_descriptors

DATA = bytes(range(256)) * 4


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def storage():
    return LocalStorage()


@pytest.fixture
def file(storage, path):
    with storage.open(storage.load_version(str(path))) as file:
        yield file


def rewrite(path):
    """Writes other bytes into the file, and puts its modification time back."""
    times = path.stat()
    # The clock of file times ticks every few milliseconds.
    time.sleep(0.05)
    with open(path, "r+b") as file:
        file.write(DATA[::-1])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


class TestLocalStorage:
    def test_versions(self, storage, path):
        version = storage.load_version(str(path))
        assert version.size_bytes == len(DATA)
        assert version == storage.load_version(str(path))
        os.utime(path, ns=(1, 1))
        assert version != storage.load_version(str(path))

    def test_a_file_of_the_same_size_and_time_is_another_version(self, storage, path):
        version = storage.load_version(str(path))
        times = path.stat()
        other = path.with_name("other")
        other.write_bytes(DATA[::-1])
        os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
        os.replace(other, path)
        assert version != storage.load_version(str(path))

    def test_a_file_rewritten_in_place_is_another_version(self, storage, path):
        """Of the same size, its time put back: only the change time tells."""
        version = storage.load_version(str(path))
        times = path.stat()
        rewrite(path)
        assert path.stat().st_mtime_ns == times.st_mtime_ns
        assert path.stat().st_ino == times.st_ino
        assert version != storage.load_version(str(path))
        with pytest.raises(FileChangedError):
            storage.open(version)

    @pytest.mark.parametrize("event", ["deleted", "replaced", "linked"])
    def test_an_open_file_outlives_its_links(self, storage, path, event):
        with storage.open(storage.load_version(str(path))) as file:
            if event == "deleted":
                path.unlink()
            elif event == "replaced":
                other = path.with_name("other")
                other.write_bytes(DATA[::-1])
                os.replace(other, path)
            else:
                os.link(path, path.with_name("other"))
            for _ in range(2):
                file.check_unchanged()
                assert file.fetch_ranges([ByteRange(0, len(DATA))]) == [DATA]

    @pytest.mark.parametrize("is_deleted", [True, False])
    def test_an_open_file_that_is_rewritten_has_changed(self, storage, path, is_deleted):
        with storage.open(storage.load_version(str(path))) as file, open(path, "r+b") as writer:
            if is_deleted:
                path.unlink()
            writer.write(DATA[::-1])
            writer.flush()
            os.utime(writer.fileno(), ns=(1, 1))
            with pytest.raises(FileChangedError):
                file.check_unchanged()

    def test_an_open_file_rewritten_with_its_time_put_back_has_changed(self, storage, path):
        with storage.open(storage.load_version(str(path))) as file:
            rewrite(path)
            with pytest.raises(FileChangedError):
                file.check_unchanged()

    def test_reading_does_not_make_another_version(self, storage, path):
        version = storage.load_version(str(path))
        path.read_bytes()
        assert version == storage.load_version(str(path))

    def test_no_file(self, storage, tmp_path):
        with pytest.raises(FileMissingError, match="nothing"):
            storage.load_version(str(tmp_path / "nothing"))

    def test_not_a_folder_on_the_way(self, storage, path):
        with pytest.raises(StorageError):
            storage.load_version(str(path / "more"))

    def test_open_is_for_one_version_only(self, storage, path):
        version = storage.load_version(str(path))
        path.write_bytes(DATA + b"more")
        with pytest.raises(FileChangedError, match=r"data\.bin"):
            storage.open(version)
        assert open_descriptors(path) == 0

    def test_open_of_a_file_that_is_gone(self, storage, path):
        version = storage.load_version(str(path))
        path.unlink()
        with pytest.raises(FileNotFoundError):
            storage.open(version)

    def test_listing_and_globs(self, storage, tmp_path, path):
        for name in ("b/y", "a/x", ".hidden", "_private", "_folder/z", "a/.x"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("")
        listed = [os.path.relpath(p, tmp_path) for p in storage.load_listing(str(tmp_path))]
        assert listed == ["a/x", "b/y", "data.bin"]
        assert storage.expand_glob(f"{tmp_path}/[ab]") == []
        assert storage.expand_glob(f"{tmp_path}/*.bin") == [str(path)]
        assert storage.is_folder(str(tmp_path))
        assert not storage.is_folder(str(path))

    def test_a_folder_that_may_not_be_read_is_an_error(self, storage, tmp_path, monkeypatch):
        for name in ("open/x", "shut/y"):
            (tmp_path / name).parent.mkdir()
            (tmp_path / name).write_text("")
        scandir = os.scandir

        def guarded(path="."):
            if os.path.basename(os.fspath(path)) == "shut":
                raise PermissionError(13, "Permission denied", os.fspath(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", guarded)
        for look in (
            lambda: storage.load_listing(str(tmp_path)),
            lambda: storage.load_listing(str(tmp_path / "shut")),
            lambda: storage.expand_glob(f"{tmp_path}/*/*"),
            lambda: storage.expand_glob(f"{tmp_path}/**/x"),
            lambda: storage.expand_glob(f"{tmp_path}/*/y"),
        ):
            with pytest.raises(StorageError, match=r"shut.*Permission denied"):
                look()
        assert storage.expand_glob(f"{tmp_path}/o*/*") == [str(tmp_path / "open" / "x")]

    def test_a_glob_below_nothing_finds_nothing(self, storage, tmp_path, path):
        assert storage.expand_glob(f"{tmp_path}/nothing/*") == []
        assert storage.expand_glob(f"{path}/*") == []

    def test_equal_and_picklable(self, storage):
        assert pickle.loads(pickle.dumps(storage)) == storage
        assert hash(storage) == hash(LocalStorage())


class TestLocalFile:
    def test_ranges(self, file):
        found = file.fetch_ranges([ByteRange(0, 3), ByteRange(1020, 4), ByteRange(5, 0)])
        assert found == [b"\x00\x01\x02", b"\xfc\xfd\xfe\xff", b""]
        assert file.fetch_ranges([]) == []
        assert file.fetch_ranges([ByteRange(0, 1024)]) == [DATA]

    @pytest.mark.parametrize(
        "wanted",
        [
            [],
            [(3, 5)],
            [(0, 4), (4, 4)],
            [(0, 4), (100, 4), (104, 8), (50, 2)],
            [(8, 0), (8, 4), (0, 0)],
            [(0, 1024)],
        ],
        ids=str,
    )
    def test_ranges_into_memory(self, file, wanted):
        ranges = [ByteRange(*pair) for pair in wanted]
        target = bytearray(sum(r.length for r in ranges))
        file.fetch_into(ranges, memoryview(target))
        assert bytes(target) == b"".join(DATA[r.offset : r.stop] for r in ranges)

    @pytest.mark.parametrize(
        "wanted",
        [
            ByteRange(1020, 5),
            ByteRange(5000, 1),
            ByteRange(-1, 1),
            ByteRange(0, -1),
            ByteRange(0, 1 << 60),
            ByteRange(1 << 70, 1),
        ],
    )
    def test_ranges_outside_the_file(self, file, wanted):
        with pytest.raises(StorageError, match=r"data\.bin.*outside"):
            file.fetch_ranges([wanted])
        with pytest.raises(StorageError, match=r"data\.bin.*outside"):
            file.fetch_into([wanted], memoryview(bytearray(8)))

    def test_a_file_that_is_cut_short(self, file, path):
        os.truncate(path, 10)
        with pytest.raises(FileChangedError):
            file.check_unchanged()
        with pytest.raises(FileChangedError):
            file.fetch_ranges([ByteRange(0, 100)])
        with pytest.raises(FileChangedError):
            file.fetch_into([ByteRange(0, 100)], memoryview(bytearray(100)))

    def test_closed_twice(self, storage, path):
        file = storage.open(storage.load_version(str(path)))
        assert open_descriptors(path) == 1
        file.close()
        file.close()
        assert open_descriptors(path) == 0

    def test_reads_after_close(self, storage, path):
        file = storage.open(storage.load_version(str(path)))
        file.close()
        for call in (lambda: file.fetch_ranges([ByteRange(0, 1)]), file.check_unchanged):
            with pytest.raises(StorageError):
                call()

    def test_from_many_threads(self, file):
        wrong = []

        def read(start):
            for offset in range(start, 1000, 7):
                (found,) = file.fetch_ranges([ByteRange(offset, 24)])
                if found != DATA[offset : offset + 24]:
                    wrong.append(offset)

        threads = [threading.Thread(target=read, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_a_file_for_pyarrow(self, file, path):
        with file.arrow_file() as source:
            assert source.read(4) == DATA[:4]
            assert source.size() == len(DATA)
        assert open_descriptors(path) == 1
        assert file.fetch_ranges([ByteRange(0, 2)]) == [DATA[:2]]

    def test_a_file_for_pyarrow_is_the_planned_one(self, file, path):
        other = path.with_name("other")
        other.write_bytes(DATA)
        os.replace(other, path)
        with pytest.raises(FileChangedError):
            file.arrow_file()


def test_closing_a_descriptor_that_is_closed_hides_no_other_error(storage, path):
    file = storage.open(storage.load_version(str(path)))
    os.close(file.descriptor())
    file.close()
    file.close()
    assert file.descriptor() == -1


class TestMeteredFile:
    def test_bytes_are_counted(self, file):
        counts = []
        metered = MeteredFile(file, counts.append)
        assert metered.fetch_ranges([ByteRange(0, 3), ByteRange(9, 4)]) == [DATA[:3], DATA[9:13]]
        metered.fetch_into([ByteRange(0, 5)], memoryview(bytearray(5)))
        assert sum(counts) == 12

    def test_failed_reads_are_not_counted(self, file):
        counts = []
        with pytest.raises(StorageError):
            MeteredFile(file, counts.append).fetch_ranges([ByteRange(0, 9999)])
        assert sum(counts) == 0

    def test_the_rest_is_passed_on(self, storage, path):
        file = storage.open(storage.load_version(str(path)))
        with MeteredFile(file, lambda _: None) as metered:
            assert metered.version is file.version
            metered.check_unchanged()
            with metered.arrow_file() as source:
                assert source.read(1) == b"\0"
        assert open_descriptors(path) == 0

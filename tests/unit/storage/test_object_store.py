from __future__ import annotations

import datetime as dt
import os
import pickle
import subprocess
import sys
import threading

import pytest

from lm_datafusion.errors import FileChangedError, FileMissingError, OptionError, StorageError
from lm_datafusion.storage import ByteRange, Traffic, find_storage
from lm_datafusion.storage.kept_tails import TAILS, tail_bytes

obstore = pytest.importorskip("obstore", reason="the extra object-store is not installed")
from obstore.store import AzureStore, LocalStore, MemoryStore, S3Store  # noqa: E402

from lm_datafusion.storage.object_store import ObjectStorage  # noqa: E402

BODY = bytes(range(256)) * 4000


@pytest.fixture
def store():
    made = MemoryStore()
    for key in ("a/x.parquet", "a/b/y.parquet", "a/_hidden/z.parquet", "a/.part", "c/x.parquet"):
        obstore.put(made, key, BODY)
    return made


@pytest.fixture
def storage(store):
    return ObjectStorage.of_store(store)


def opened(storage, path="memory://a/x.parquet"):
    return storage.open(storage.load_version(path))


def test_a_version_has_the_size_and_the_tag_of_the_object(storage, store):
    version = storage.load_version("memory://a/x.parquet")
    assert version.size_bytes == len(BODY)
    obstore.put(store, "a/x.parquet", BODY)
    storage.forget()
    assert storage.load_version("memory://a/x.parquet") != version


def test_a_version_is_taken_as_current_for_a_moment(storage, store):
    version = storage.load_version("memory://a/x.parquet")
    obstore.put(store, "a/x.parquet", BODY)
    traffic = Traffic()
    assert storage.load_version("memory://a/x.parquet", traffic) == version
    assert traffic.requests == 0


def test_equal_objects_of_two_stores_are_two_versions(store, storage):
    other = MemoryStore()
    obstore.put(other, "a/x.parquet", BODY)
    path = "memory://a/x.parquet"
    assert ObjectStorage.of_store(other).load_version(path) != storage.load_version(path)
    assert ObjectStorage.of_store(store) == storage


def test_listings(storage):
    assert storage.load_listing("memory://a") == ["memory://a/b/y.parquet", "memory://a/x.parquet"]
    assert storage.is_folder("memory://a")
    assert not storage.is_folder("memory://a/x.parquet")
    assert not storage.is_folder("memory://nothing")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a/*.parquet", ["a/x.parquet"]),
        ("a/**/*.parquet", ["a/_hidden/z.parquet", "a/b/y.parquet", "a/x.parquet"]),
        ("*/x.parquet", ["a/x.parquet", "c/x.parquet"]),
        ("[ab]/x.parquet", ["a/x.parquet"]),
        ("a/?.parquet", ["a/x.parquet"]),
        ("a/*", ["a/x.parquet"]),
        ("z/*.parquet", []),
    ],
)
def test_globs(storage, pattern, found):
    assert storage.expand_glob("memory://" + pattern) == ["memory://" + key for key in found]


def test_many_versions_take_one_listing(storage, store):
    paths = ["memory://a/x.parquet", "memory://a/b/y.parquet", "memory://a/_hidden/z.parquet"]
    storage.forget()
    traffic = Traffic()
    assert [v.path for v in storage.load_versions(paths, traffic)] == paths
    assert traffic.requests == 1
    obstore.delete(store, "a/b/y.parquet")
    storage.forget()
    with pytest.raises(FileMissingError, match=r"y\.parquet"):
        storage.load_versions(paths)


def test_reads_are_of_the_version_or_an_error(storage, store):
    with opened(storage) as file:
        assert file.fetch_ranges([ByteRange(5, 10), ByteRange(0, 3)]) == [BODY[5:15], BODY[:3]]
        obstore.put(store, "a/x.parquet", BODY)
        with pytest.raises(FileChangedError, match="changed after it was planned for"):
            file.fetch_ranges([ByteRange(900, 10)])
        obstore.delete(store, "a/x.parquet")
        with pytest.raises(FileMissingError):
            file.fetch_ranges([ByteRange(7000, 10)])


@pytest.mark.parametrize("wanted", [(-1, 5), (0, len(BODY) + 1), (len(BODY), 1)])
def test_ranges_outside_the_object_are_refused(storage, wanted):
    with opened(storage) as file, pytest.raises(StorageError, match="outside"):
        file.fetch_ranges([ByteRange(*wanted)])


def test_a_round_coalesces_and_serves_reads(storage):
    TAILS.clear()
    with opened(storage) as file:
        TAILS.clear()
    with storage.open(file.version) as file:
        ranges = [ByteRange(100, 50), ByteRange(5000, 20), ByteRange(150, 50)]
        found = file.fetch_ahead(ranges)
        found.wait()
        assert file.traffic.requests == 1
        assert found.size_bytes == 4920
        assert file.fetch_ranges(ranges) == [BODY[r.offset : r.stop] for r in ranges]
        # One range out of two spans.
        more = file.fetch_ahead([ByteRange(5020, 80)])
        target = bytearray(100)
        file.fetch_into([ByteRange(5000, 100)], memoryview(target))
        assert target == BODY[5000:5100]
        assert file.traffic.requests == 2
        found.release()
        more.release()
        assert file.fetch_ranges([ByteRange(100, 50)]) == [BODY[100:150]]
        assert file.traffic.requests == 3


def test_spans_that_overlap_are_joined_right(storage):
    TAILS.clear()
    with opened(storage) as file:
        first = file.fetch_ahead([ByteRange(1000, 100)])
        second = file.fetch_ahead([ByteRange(1050, 200)])
        first.wait()
        second.wait()
        assert file.fetch_ranges([ByteRange(1010, 200)]) == [BODY[1010:1210]]


def test_the_tail_is_read_once(storage):
    TAILS.clear()
    version = storage.load_version("memory://a/x.parquet")
    with storage.open(version) as file:
        assert file.fetch_ranges([ByteRange(len(BODY) - 8, 8)]) == [BODY[-8:]]
        assert file.traffic.requests == 0


def test_tails_grow_with_files():
    assert tail_bytes(1000) == 1000
    assert tail_bytes(1 << 20) == 64 << 10
    assert tail_bytes(16 << 20) == 256 << 10
    assert tail_bytes(1 << 40) == 512 << 10


def test_closing_cancels_and_ends_the_thread(storage):
    file = opened(storage)
    found = file.fetch_ahead([ByteRange(0, 100)])
    file.close()
    file.close()
    found.wait()
    assert "lm-io" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(StorageError, match="ended"):
        file.fetch_ahead([ByteRange(0, 100)])


def test_an_object_is_a_file_for_pyarrow(storage):
    with opened(storage) as file, file.arrow_file() as source:
        source.seek(1000)
        assert source.read(10) == BODY[1000:1010]
        assert source.size() == len(BODY)


def test_a_description_has_no_secret():
    store = S3Store(
        "bucket",
        prefix="some/prefix",
        config={
            "access_key_id": "topsecret1",
            "secret_access_key": "topsecret2",
            "session_token": "topsecret3",
            "region": "us-east-1",
            "endpoint": "http://127.0.0.1:9",
        },
        client_options={"default_headers": {"authorization": "topsecret4"}, "allow_http": True},
    )
    storage = ObjectStorage.of_store(store)
    assert b"topsecret" not in pickle.dumps(storage)
    assert "topsecret" not in repr(storage)
    assert storage.root == "s3://bucket/some/prefix"
    again = pickle.loads(pickle.dumps(storage))
    assert again == storage
    assert again.store is store
    azure = AzureStore("box", account_name="me", account_key="dG9wc2VjcmV0")
    assert ObjectStorage.of_store(azure).root == "az://box"
    assert b"dG9wc2VjcmV0" not in pickle.dumps(ObjectStorage.of_store(azure))


def test_paths_find_their_storage(store, tmp_path):
    local, paths = find_storage([f"file://{tmp_path}/a%20b.parquet", "c.parquet"])
    assert not local.is_remote
    assert paths == [f"{tmp_path}/a b.parquet", "c.parquet"]
    remote, paths = find_storage(["a/x.parquet", "memory://c/x.parquet"], store)
    assert remote.is_remote
    assert paths == ["memory://a/x.parquet", "memory://c/x.parquet"]
    found, paths = find_storage(["s3a://bucket/k"])
    assert (found.root, paths) == ("s3://bucket", ["s3://bucket/k"])
    with pytest.raises(OptionError, match="one store"):
        find_storage(["s3://bucket/k", "s3://other/k"])
    with pytest.raises(OptionError, match="storage="):
        find_storage(["memory://k"])
    with pytest.raises(OptionError, match="obstore store"):
        find_storage(["k"], object())


def test_a_folder_as_a_store(tmp_path):
    (tmp_path / "x.bin").write_bytes(BODY)
    storage = ObjectStorage.of_store(LocalStore(str(tmp_path)))
    path = storage.full_path("x.bin")
    with storage.open(storage.load_version(path)) as file:
        assert file.fetch_ranges([ByteRange(3, 4)]) == [BODY[3:7]]
        (tmp_path / "x.bin").write_bytes(BODY[::-1])
        with pytest.raises(FileChangedError):
            file.fetch_ranges([ByteRange(9, 4)])


def test_objects_that_are_all_gone_are_missing(storage, store):
    paths = ["memory://a/x.parquet", "memory://a/b/y.parquet", "memory://c/x.parquet"]
    storage.load_versions(paths)
    for path in paths:
        obstore.delete(store, path.removeprefix("memory://"))
    storage._runtime.seen.update({p: (0.0, v) for p, (_, v) in storage._runtime.seen.items()})
    with pytest.raises(FileMissingError, match=r"a/x\.parquet"):
        storage.load_versions(paths)


def test_a_folder_that_was_empty_is_looked_at_again(storage, store):
    assert not storage.is_folder("memory://new")
    obstore.put(store, "new/x.parquet", BODY)
    assert storage.is_folder("memory://new")
    assert storage.load_listing("memory://new") == ["memory://new/x.parquet"]


def test_an_object_that_changed_is_looked_at_again(storage, store):
    file = opened(storage)
    obstore.put(store, "a/x.parquet", BODY[::-1])
    with file, pytest.raises(FileChangedError):
        file.fetch_ranges([ByteRange(0, 10)])
    with opened(storage) as changed:
        assert bytes(changed.fetch_ranges([ByteRange(0, 10)])[0]) == BODY[::-1][:10]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("l/2024?1.parquet", ["l/2024-1.parquet", "l/2024_1.parquet"]),
        ("l/2024[!_]1.parquet", ["l/2024-1.parquet"]),
        ("l/2024[-_]1.parquet", ["l/2024-1.parquet", "l/2024_1.parquet"]),
        ("l/**/1.parquet", ["l/2024/1.parquet"]),
        ("l/**", ["l/2024-1.parquet", "l/2024/1.parquet", "l/2024_1.parquet"]),
    ],
)
def test_wildcards_match_no_slash_and_nothing_hidden(pattern, found):
    store = MemoryStore()
    keys = ("l/2024-1.parquet", "l/2024_1.parquet", "l/2024/1.parquet", "l/.tmp/1.parquet")
    for key in keys:
        obstore.put(store, key, b"x")
    paths = ObjectStorage.of_store(store).expand_glob(f"memory://{pattern}")
    assert paths == [f"memory://{key}" for key in found]


def test_local_paths_beside_urls_are_refused(tmp_path):
    with pytest.raises(OptionError, match="one store"):
        find_storage(["s3://bucket/x.parquet", str(tmp_path / "y.parquet")])


def test_passwords_are_refused_without_being_repeated():
    stores = [
        lambda: find_storage(["https://me:hidden@host/x.parquet"]),
        lambda: ObjectStorage.of_store(S3Store("b", endpoint="http://me:hidden@host")),
        lambda: find_storage(["x.parquet"], {"secret_access_key": "hidden"}),
    ]
    for make in stores:
        with pytest.raises(OptionError) as info:
            make()
        assert "hidden" not in str(info.value)


def test_a_server_that_tells_no_versions_is_refused(storage):
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    with pytest.raises(StorageError, match="neither an ETag"):
        storage._note({"path": "x", "size": 1, "e_tag": None, "last_modified": epoch})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_gets_an_error():
    script = """
import os, sys
from obstore.store import MemoryStore
from lm_datafusion.errors import StorageError
from lm_datafusion.storage.object_store import ObjectStorage
store = MemoryStore()
store.put("a/x.parquet", b"x")
storage = ObjectStorage.of_store(store)
storage.load_version("memory://a/x.parquet")
child = os.fork()
if not child:
    failed = 0
    for ask in (lambda: storage.load_listing("memory://a"), lambda: storage.load_version("memory://b")):
        try:
            ask()
        except StorageError as error:
            failed += "forked" in str(error)
    os._exit(failed)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.strip() == "2", ended.stderr

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.errors import CorruptFileError
from lm_datafusion.formats.cache import FactsCache
from lm_datafusion.storage import LocalStorage

PLENTY = 1 << 30
STORAGE = LocalStorage()


@pytest.fixture
def cache():
    return FactsCache()


def write(path, rows=3, columns=4):
    pq.write_table(pa.table({f"c{n}": range(rows) for n in range(columns)}), path)
    return str(path)


def load(cache, path, limit_bytes=PLENTY):
    version = STORAGE.load_version(path)
    with STORAGE.open(version) as file:
        return cache.load(file, limit_bytes=limit_bytes)


def test_facts_are_loaded_once(cache, tmp_path):
    path = write(tmp_path / "a")
    version = STORAGE.load_version(path)
    assert cache.get(version) is None
    facts = load(cache, path)
    assert facts.version == version
    assert load(cache, path) is facts
    assert cache.get(version) is facts
    assert len(cache) == 1


def test_another_version_is_another_file(cache, tmp_path):
    path = write(tmp_path / "a", rows=3)
    old = STORAGE.load_version(path)
    load(cache, path)
    write(tmp_path / "b", rows=5)
    (tmp_path / "b").replace(tmp_path / "a")
    assert cache.get(STORAGE.load_version(path)) is None
    assert load(cache, path).metadata.num_rows == 5
    assert cache.get(old) is None
    assert len(cache) == 1


def test_memory_is_bounded(cache, tmp_path):
    paths = [write(tmp_path / f"{n}", columns=20) for n in range(40)]
    size = load(FactsCache(), paths[0]).memory_bytes()
    for path in paths:
        load(cache, path, limit_bytes=5 * size)
        assert cache.memory_bytes() <= 6 * size
    assert 1 <= len(cache) <= 6


def test_the_least_recently_used_go_first(cache, tmp_path):
    paths = [write(tmp_path / f"{n}", columns=20) for n in range(6)]
    size = load(FactsCache(), paths[0]).memory_bytes()
    first = STORAGE.load_version(paths[0])
    for path in paths:
        load(cache, path, limit_bytes=int(3.5 * size))
        assert cache.get(first) is not None  # and so it was used just now
    assert cache.get(STORAGE.load_version(paths[1])) is None


def test_a_file_over_the_limit_is_not_kept(cache, tmp_path):
    path = write(tmp_path / "a", columns=50)
    load(cache, path, limit_bytes=1)
    assert len(cache) == 0


def test_facts_that_grew_are_trimmed(cache, tmp_path):
    path = write(tmp_path / "a", columns=50)
    facts = load(cache, path)
    limit = facts.memory_bytes()
    cache.trim([facts.version], limit_bytes=limit)
    assert len(cache) == 1
    facts.chunk(0, 0)
    assert facts.memory_bytes() > limit
    cache.trim([facts.version], limit_bytes=limit)
    assert len(cache) == 0
    assert cache.memory_bytes() == 0


def test_what_cannot_be_read_is_not_kept(cache, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(CorruptFileError):
        load(cache, str(path))
    assert len(cache) == 0


def test_clear(cache, tmp_path):
    load(cache, write(tmp_path / "a"))
    assert cache.memory_bytes() > 0
    cache.clear()
    assert len(cache) == 0
    assert cache.memory_bytes() == 0


def test_from_many_threads(cache, tmp_path):
    paths = [write(tmp_path / f"{n}", rows=n + 1) for n in range(12)]
    wrong = []

    def work(start):
        for turn in range(60):
            number = (start + turn * 5) % len(paths)
            facts = load(cache, paths[number], limit_bytes=20_000)
            if facts.metadata.num_rows != number + 1:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.memory_bytes() <= 40_000

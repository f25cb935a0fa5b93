from __future__ import annotations

from lm_datafusion.formats.orc.cache import OrcFactsCache
from lm_datafusion.storage import LocalStorage
from tests.orc_files import write

STORAGE = LocalStorage()


def load(cache, path, limit_bytes=1 << 20):
    with STORAGE.open(STORAGE.load_version(path)) as file:
        return cache.load(file, limit_bytes=limit_bytes)


def test_a_version_is_read_once(tmp_path):
    path = write(tmp_path / "f.orc", {"a": [1]})
    cache = OrcFactsCache()
    assert load(cache, path) is load(cache, path)
    assert cache.memory_bytes() > 0
    cache.clear()
    assert len(cache) == 0


def test_a_file_that_changed_is_read_again(tmp_path):
    path = write(tmp_path / "f.orc", {"a": [1]})
    cache = OrcFactsCache()
    before = load(cache, path)
    write(path, {"a": [1, 2]})
    after = load(cache, path)
    assert (before.tail.footer.row_count, after.tail.footer.row_count) == (1, 2)
    assert len(cache) == 1


def test_the_oldest_facts_are_evicted(tmp_path):
    paths = [write(tmp_path / f"{n}.orc", {"a": [n]}) for n in range(4)]
    cache = OrcFactsCache()
    facts = [load(cache, path) for path in paths]
    load(cache, paths[0])
    cache.shrink(2 * facts[0].memory_bytes())
    assert len(cache) == 2
    assert load(cache, paths[0]) is facts[0]
    assert load(cache, paths[1]) is not facts[1]

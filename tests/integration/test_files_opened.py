"""How many files a lookup opens: as many as could hold the value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.storage import LocalStorage

FILES = 12
ROWS = 500


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(2)
    tokens = rng.permutation(FILES * ROWS * 10)[: FILES * ROWS].reshape(FILES, ROWS)
    for number in range(FILES):
        table = pa.table(
            {
                "key": np.arange(number * ROWS, (number + 1) * ROWS),
                "token": tokens[number],
                "value": rng.random(ROWS),
            }
        )
        pq.write_table(
            table,
            tmp_path / f"{number:02}.parquet",
            bloom_filter_options={"token": {"ndv": ROWS, "fpp": 1e-6}},
            use_dictionary=False,
        )
    return tmp_path, tokens


@pytest.fixture
def opened(monkeypatch):
    paths = []
    opening = LocalStorage.open

    def counted(storage, version):
        paths.append(version.path)
        return opening(storage, version)

    monkeypatch.setattr(LocalStorage, "open", counted)
    return paths


@pytest.mark.parametrize("threads", [1, 2])
def test_only_those_that_could_match(folder, opened, threads):
    path, tokens = folder
    options = lm.ScanOptions(threads=threads, condition_cache_bytes=0)
    dataset = lm.dataset(path, options=options)
    by_key, by_token = f"key = {5 * ROWS + 3}", f"token = {tokens[7][1]}"
    opened.clear()
    assert dataset.to_table(filter=by_key).num_rows == 1
    assert [name[-10:] for name in opened] == ["05.parquet"]
    # Bloom filters have to be read once.
    assert dataset.to_table(filter=by_token).num_rows == 1
    opened.clear()
    assert dataset.to_table(filter=by_token).num_rows == 1
    assert [name[-10:] for name in opened] == ["07.parquet"]
    opened.clear()
    wanted = f"token IN ({tokens[7][1]}, {tokens[2][9]}, -5)"
    assert dataset.to_table(filter=wanted).num_rows == 2
    assert sorted(name[-10:] for name in opened) == ["02.parquet", "07.parquet"]
    assert dataset.scan_reports()[-1].row_groups_pruned_bloom_filter == FILES - 2


def test_none_where_the_condition_cache_knows(folder, opened):
    path, _ = folder
    dataset = lm.dataset(path)
    wanted = "value > 0.5 AND key % 7 = 3"
    count = dataset.count_rows(filter=wanted)
    opened.clear()
    assert dataset.count_rows(filter=wanted) == count > 0
    assert opened == []

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from clickbench import generate as command
from clickbench.generate import FileTask, generate, make_file, plan_files
from clickbench.manifest import ManifestError, file_checksum
from clickbench.model.hits import generate_table

ROWS = 200_000


@pytest.fixture
def without_spark(monkeypatch):
    """Runs tasks here, one after the other; the list of files made."""
    made = []

    def run(function, tasks, cores):
        for task in tasks:
            made.append(task.name)
            yield function(task)

    monkeypatch.setattr(command, "run_tasks", run)
    return made


@pytest.fixture(scope="module")
def expected():
    return generate_table(ROWS)


def test_files_and_layout_do_not_change_the_data(tmp_path, without_spark, expected):
    manifests = [
        generate(ROWS, str(tmp_path / name), layout=layout, files=files)
        for name, layout, files in (
            ("a", "clickbench", 1),
            ("b", "clickbench", 3),
            ("c", "tuned", 4),
        )
    ]
    assert len({manifest["checksum"] for manifest in manifests}) == 1
    assert [len(manifest["files"]) for manifest in manifests] == [1, 3, 4]
    for name in "abc":
        assert pq.read_table(tmp_path / name).equals(expected)


def test_the_seed_changes_the_checksum(tmp_path, without_spark):
    first = generate(20_000, str(tmp_path / "a"), seed=0)
    second = generate(20_000, str(tmp_path / "b"), seed=1)
    assert first["checksum"] != second["checksum"]


def test_the_manifest_says_what_is_there(tmp_path, without_spark):
    generate(ROWS, str(tmp_path), files=3)
    manifest = json.loads((tmp_path / "_manifest.json").read_text())
    assert manifest["rows"] == ROWS
    row = 0
    for entry in manifest["files"]:
        path = tmp_path / entry["name"]
        assert entry["first_row"] == row
        assert entry["rows"] == pq.read_metadata(path).num_rows
        assert entry["bytes"] == path.stat().st_size
        assert entry["checksum"] == file_checksum(str(path))
        row += entry["rows"]
    assert row == ROWS
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "_manifest.json", *(entry["name"] for entry in manifest["files"])
    ]  # fmt: skip


def test_an_interrupted_job_is_taken_up_again(tmp_path, monkeypatch, without_spark):
    whole = generate(ROWS, str(tmp_path / "whole"), files=4)
    without_spark.clear()

    real = make_file

    def stops_in_the_third(task: FileTask):
        if task.name == "hits_002.parquet":
            (tmp_path / "half" / f"{task.name}.writing").write_bytes(b"PAR1 half")
            raise KeyboardInterrupt
        return real(task)

    monkeypatch.setattr(command, "make_file", stops_in_the_third)
    with pytest.raises(KeyboardInterrupt):
        generate(ROWS, str(tmp_path / "half"), files=4)
    assert without_spark == ["hits_000.parquet", "hits_001.parquet", "hits_002.parquet"]
    monkeypatch.setattr(command, "make_file", real)
    without_spark.clear()
    (tmp_path / "half" / "hits_001.parquet").write_bytes(b"cut short")  # its entry does not fit
    resumed = generate(ROWS, str(tmp_path / "half"), files=4)
    assert without_spark == ["hits_001.parquet", "hits_002.parquet", "hits_003.parquet"]
    assert resumed == whole
    assert not list((tmp_path / "half").glob("*.writing"))


def test_a_finished_job_is_not_done_again(tmp_path, without_spark):
    first = generate(20_000, str(tmp_path))
    without_spark.clear()
    assert generate(20_000, str(tmp_path)) == first
    assert without_spark == []


@pytest.mark.parametrize("change", [{"seed": 5}, {"layout": "tuned"}, {"rows": 30_000}])
def test_a_folder_of_other_data_is_refused(tmp_path, without_spark, change):
    generate(20_000, str(tmp_path))
    with pytest.raises(ManifestError, match="other parameters"):
        generate(**({"rows": 20_000, "folder": str(tmp_path)} | change))


def test_a_folder_of_unknown_files_is_refused(tmp_path, without_spark):
    (tmp_path / "precious.parquet").write_bytes(b"")
    with pytest.raises(ManifestError, match="no manifest"):
        generate(20_000, str(tmp_path))
    assert (tmp_path / "precious.parquet").exists()


def test_files_are_never_more_than_blocks():
    tasks = plan_files(100_000, "x", layout="tuned", seed=0, files=50)
    assert [(task.first_block, task.last_block) for task in tasks] == [(0, 1), (1, 2)]


@pytest.mark.parametrize(("text", "rows"), [("1m", 10**6), ("50k", 50_000), ("1_000", 1_000)])
def test_numbers_of_rows_may_be_short(text, rows):
    assert command._count(text) == rows


def test_on_spark_with_several_tasks(tmp_path, expected):
    manifest = generate(ROWS, str(tmp_path), files=4, cores=2)
    assert len(manifest["files"]) == 4
    assert pq.read_table(tmp_path).equals(expected)

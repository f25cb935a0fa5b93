"""What fails in DataFusion when a frame runs fails in our session too, with the same words."""

from __future__ import annotations

import pytest

from lm_datafusion.errors import CorruptFileError
from tests.side_by_side import (
    PATHS,
    assert_same,
    new_session,
    outcome,
    two_sessions,
    write_tables,
)

# Conditions; one of them fails on some row. In one partition, so that DataFusion names the same
# value each time.
CAN_FAIL = [
    "grp <> 0 AND 10 / grp > 2",
    "10 / grp > 4 AND id = 3 AND grp <> 0",
    "id = 3 AND 100 / (id - 4) < 0",
    "id = 3 AND CAST(name AS INT) > 2",
    "name = 'ann' AND CAST(concat('1', id) AS SMALLINT) > 12",
    "id % grp = 1 AND x > 0",
    "substr(name, 1, grp - 2) = 'a' AND x > 0",
    "CASE WHEN grp > 0 THEN 10 / grp > 2 ELSE false END AND id = 3",
    "to_timestamp(name) > '2020-01-01' AND id = 3",
    "arrow_cast(id, 'Int8') * grp > 3 AND x > 0",
    "id / 0 > 3 AND x > 0",
    "name ~ concat('(', name) AND x > 0",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_condition_that_fails_on_a_value_fails_where_it_does_in_datafusion(path, tmp_path):
    write_tables(tmp_path)
    sessions = [new_session(which, tmp_path) for which in (None, path)]
    for session in sessions:
        session.sql("SET datafusion.execution.target_partitions = 1")
    for condition in CAN_FAIL:
        query = f"SELECT id, x FROM a WHERE {condition}"
        expected, found = (outcome(query, session, tmp_path) for session in sessions)
        assert found == expected, condition


@pytest.mark.parametrize("path", PATHS)
def test_a_file_deleted_before_the_frame_runs(path):
    def step(session, folder):
        frame = session.sql("SELECT id FROM a WHERE x > 5")
        (folder / "a.parquet").unlink()
        return frame

    assert_same(path, step, "SELECT id FROM b WHERE x > 5")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kept", [0, 3, 1000])
def test_a_file_cut_short(path, kept):
    def step(session, folder):
        frame = session.sql("SELECT id FROM a WHERE x > 5")
        whole = (folder / "a.parquet").read_bytes()
        (folder / "a.parquet").write_bytes(whole[:kept])
        return frame

    assert_same(path, step)


@pytest.mark.parametrize("path", PATHS)
def test_a_corrupt_page_is_an_error(path):
    def step(session, folder):
        whole = bytearray((folder / "a.parquet").read_bytes())
        whole[4:2000] = b"\xff" * 1996
        (folder / "a.parquet").write_bytes(bytes(whole))
        return session.sql("SELECT id FROM a WHERE x > 5")

    with two_sessions(path) as (plain, ours):
        expected, found = outcome(step, *plain), outcome(step, *ours)
    assert isinstance(expected, tuple)
    assert found[0] is (CorruptFileError if path == "late" else expected[0])
    assert path in ("late", "native_pushdown") or found == expected

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lm_datafusion.cli.advice import advise
from lm_datafusion.cli.file_profile import load_profile


def advice_of(tmp_path, values, **options):
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"a": values}), path, row_group_size=10, **options)
    (column,) = load_profile(path).columns
    return advise(column)


def joined(sentences):
    return " | ".join(sentences)


def test_a_good_column(tmp_path):
    advice = advice_of(tmp_path, list(range(40)), write_page_index=True)
    assert advice.can == (
        "row groups by statistics",
        "row groups by dictionary, for any condition on this column alone",
        "pages by page index",
    )
    assert advice.cannot == advice.hints == ()


def test_all_null(tmp_path):
    advice = advice_of(tmp_path, pa.array([None] * 20, pa.int64()), write_page_index=True)
    assert "all values are null" in joined(advice.cannot)


def test_some_nulls_are_no_reason(tmp_path):
    advice = advice_of(tmp_path, pa.array([None, 1] * 10), write_page_index=True)
    assert "row groups by statistics" in advice.can
    assert "pages by page index" in advice.can


def test_all_nan(tmp_path):
    advice = advice_of(tmp_path, [float("nan")] * 20, write_page_index=True)
    assert "NaN" in joined(advice.cannot)
    assert "pages by page index" not in advice.can


def test_int96(tmp_path):
    moments = pa.array([dt.datetime(2024, 1, 1)] * 20, pa.timestamp("ns"))  # noqa: DTZ001
    advice = advice_of(tmp_path, moments, use_deprecated_int96_timestamps=True)
    assert "INT96" in joined(advice.cannot)


def test_row_groups_of_which_some_have_bounds(tmp_path):
    advice = advice_of(tmp_path, pa.array([None] * 10 + list(range(20))))
    assert "row groups by statistics (2 of 3 have them)" in advice.can


@pytest.mark.parametrize(
    ("values", "is_advised"),
    [(["a", "z"] * 20, True), ([1, 99] * 20, True), ([0.5, 1.5] * 20, False)],
    ids=["text", "numbers", "floats"],
)
def test_bloom_filters_are_advised_where_they_help(tmp_path, values, is_advised):
    advice = advice_of(tmp_path, values, use_dictionary=False)
    assert ("bloom" in joined(advice.hints)) == is_advised
    assert "overlap" in joined(advice.cannot)


def test_no_row_groups(tmp_path):
    path = str(tmp_path / "f.parquet")
    with pq.ParquetWriter(path, pa.schema([("a", pa.int64())])):
        pass
    (column,) = load_profile(path).columns
    assert "nothing to skip" in joined(advise(column).cannot)


def test_lists(tmp_path):
    advice = advice_of(tmp_path, [[1, 2]] * 20)
    assert advice.can == ()
    assert "lists" in joined(advice.cannot)

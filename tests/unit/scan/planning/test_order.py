from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.errors import ColumnNotFoundError
from lm_datafusion.plan import ClaimedOrder


def dataset_of(folder, *columns, row_group_size=20, page_rows=5, **options):
    paths = []
    for number, values in enumerate(columns):
        paths.append(str(folder / f"{number}.parquet"))
        array = values if isinstance(values, pa.Array) else pa.array(values)
        pq.write_table(
            pa.table({"k": array}),
            paths[-1],
            row_group_size=row_group_size,
            max_rows_per_page=page_rows,
            write_batch_size=1,
            **({"write_page_index": True} | options),
        )
    return lm.dataset(paths)


UP = list(range(100))
DOWN = UP[::-1]


@pytest.mark.parametrize(("values", "descending"), [(UP, False), (DOWN, True)])
def test_pages_prove_a_direction(tmp_path, values, descending):
    order = dataset_of(tmp_path, values).find_order("k")
    assert order.is_proven
    assert order.descending is descending
    assert (order.level, order.nulls, order.claim) == ("pages", "none", "")
    assert order.reason.endswith("no nulls: proven by the bounds of 20 pages")


def test_row_groups_prove_it_where_pages_have_no_bounds(tmp_path):
    order = dataset_of(tmp_path, UP, write_page_index=False).find_order("k")
    assert (order.descending, order.level) == (False, "row groups")


def test_footers_alone_prove_less(tmp_path):
    data = dataset_of(tmp_path, UP)
    assert data.find_order("k", with_pages=False).level == "row groups"
    one = dataset_of(tmp_path, UP, row_group_size=100)
    assert one.find_order("k").level == "pages"
    assert one.find_order("k", with_pages=False).reason.endswith("there is one row group")


def test_row_groups_prove_it_where_pages_overlap_within_them(tmp_path):
    shuffled = [start + (row * 7) % 20 for start in range(0, 100, 20) for row in range(20)]
    order = dataset_of(tmp_path, shuffled).find_order("k")
    assert (order.descending, order.level) == (False, "row groups")


def test_ties_across_pages_are_in_order(tmp_path):
    order = dataset_of(tmp_path, [row // 8 for row in range(100)]).find_order("k")
    assert (order.descending, order.level) == (False, "pages")


def test_one_row_out_of_place_is_no_order(tmp_path):
    values = [*UP[:50], 3, *UP[51:]]
    order = dataset_of(tmp_path, values).find_order("k")
    assert not order.is_proven
    assert order.reason == "k: no order, the bounds of row groups overlap"


def test_files_are_put_one_after_the_other(tmp_path):
    order = dataset_of(tmp_path, UP, [row + 100 for row in UP]).find_order("k")
    assert (order.descending, order.level) == (False, "pages")
    other = tmp_path / "other"
    other.mkdir()
    assert not dataset_of(other, [row + 100 for row in UP], UP).find_order("k").is_proven


@pytest.mark.parametrize(
    ("values", "nulls"),
    [
        ([None] * 7 + UP[7:], "first"),
        (UP[:93] + [None] * 7, "last"),
        ([*UP[:50], None, *UP[51:]], "between"),
        ([None, *UP[1:99], None], "between"),
    ],
)
def test_where_nulls_are(tmp_path, values, nulls):
    order = dataset_of(tmp_path, values).find_order("k")
    assert (order.descending, order.nulls) == (False, nulls)


def test_without_statistics_nothing_is_proven(tmp_path):
    data = dataset_of(tmp_path, UP, write_statistics=False, write_page_index=False)
    order = data.find_order("k", declared=ClaimedOrder())
    assert not order.is_proven
    assert order.claim == "declared"
    assert not order.is_contradicted
    assert "5 of 5 row groups have no bounds" in order.reason


def test_floats_prove_nothing_for_bounds_leave_nan_out(tmp_path):
    values = [float(row) for row in UP]
    values[3] = math.nan
    assert not dataset_of(tmp_path, values).find_order("k").is_proven


def test_text_with_bounds_cut_short_is_not_taken_for_ordered(tmp_path):
    # Alike in more bytes than a bound keeps, and the other way round.
    values = ["x" * 200 + f"{row:03}" for row in DOWN]
    order = dataset_of(tmp_path, values).find_order("k", declared=ClaimedOrder())
    assert order.descending is not False
    assert not order.is_contradicted or order.descending


def test_a_footer_that_says_so_is_told(tmp_path):
    claim = [pq.SortingColumn(0, descending=False, nulls_first=True)]
    order = dataset_of(tmp_path, UP, sorting_columns=claim).find_order("k")
    assert order.claim == "footer"
    assert order.reason.endswith("; ascending by its footer")


def test_a_footer_that_is_wrong_is_not_trusted(tmp_path):
    claim = [pq.SortingColumn(0, descending=False)]
    order = dataset_of(tmp_path, DOWN, sorting_columns=claim).find_order("k")
    assert (order.descending, order.claim, order.is_contradicted) == (True, "", True)
    assert order.reason.endswith("contradict: not trusted")


def test_a_footer_speaks_of_row_groups_not_of_the_file(tmp_path):
    values = [*range(50, 75), *range(25), *range(75, 100), *range(25, 50)]
    claim = [pq.SortingColumn(0, descending=False)]
    order = dataset_of(tmp_path, values, row_group_size=25, sorting_columns=claim).find_order("k")
    assert (order.is_proven, order.claim, order.is_contradicted) == (False, "footer", False)
    declared = dataset_of(tmp_path, values, row_group_size=25)
    assert declared.find_order("k", declared=ClaimedOrder()).is_contradicted


def test_a_declared_order_that_is_wrong_is_not_trusted(tmp_path):
    order = dataset_of(tmp_path, UP).find_order("k", declared=ClaimedOrder(descending=True))
    assert (order.descending, order.claim, order.is_contradicted) == (False, "", True)
    assert "row group 4, row 10" in order.reason


def test_a_column_that_is_not_there(tmp_path):
    with pytest.raises(ColumnNotFoundError):
        dataset_of(tmp_path, UP).find_order("x")

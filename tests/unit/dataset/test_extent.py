from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.dataset.extent import Extent
from lm_datafusion.errors import ColumnNotFoundError, OptionError, UnsupportedFeatureError

ROWS = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extent")
    table = pa.table(
        {
            "id": range(ROWS),
            "k": [None if row % 7 == 0 else row * 11 % 30 for row in range(ROWS)],
            "l": [[row] for row in range(ROWS)],
        }
    )
    for number, start in enumerate(range(0, ROWS, 30)):
        pq.write_table(table.slice(start, 30), folder / f"{number}.parquet", row_group_size=10)
    return lm.dataset(str(folder))


BACKWARDS = list(range(ROWS - 1, -1, -1))


def ids(table):
    return table["id"].to_pylist()


def test_every_verb_takes_them(data):
    wanted = {"reverse": True, "limit": 5}
    assert ids(data.to_table(**wanted)) == BACKWARDS[:5]
    assert [row for batch in data.to_batches(**wanted) for row in ids(batch)] == BACKWARDS[:5]
    assert ids(data.head(3, **wanted)) == BACKWARDS[:3]
    assert ids(data.head(9, **wanted)) == BACKWARDS[:5]
    assert data.count_rows(**wanted) == 5
    assert data.count_rows(reverse=True) == ROWS
    assert data.count_rows("id >= 58", limit=5) == 2
    assert ids(data.take([1, 0, 4], **wanted)) == [58, 59, 55]
    assert ids(data.take([1, 0], filter="id < 50", reverse=True)) == [48, 49]
    assert ids(data.scanner(**wanted).to_reader().read_all()) == BACKWARDS[:5]
    with pytest.raises(OptionError, match="no row 5"):
        data.take([5], **wanted)


def test_a_fragment_takes_them(data):
    fragments = list(data.with_options(threads=2).get_fragments())
    found = [ids(fragment.to_table(reverse=True, limit=2)) for fragment in fragments]
    assert found == [[29, 28], [59, 58]]
    assert ids(fragments[0].head(2, order_by=[("id", "descending")], limit=9)) == [29, 28]


@pytest.mark.parametrize("condition", [None, "id >= 5"])
def test_fragments_of_rows_in_reverse(data, condition):
    late = data.with_options(threads=3).with_extent(Extent(is_reverse=True))
    fragments = list((late if condition is None else late.filter(condition)).get_fragments())
    assert len(fragments) == 3
    found = [row for fragment in fragments for row in ids(fragment.to_table(["id"]))]
    assert found == (BACKWARDS if condition is None else BACKWARDS[:-5])


def test_columns_can_be_expressions(data):
    columns = {"twice": pc.field("id") * 2}
    assert data.to_table(columns, reverse=True, limit=2)["twice"].to_pylist() == [118, 116]
    table = data.to_table(columns, order_by=[("id", "descending")], limit=2)
    assert table["twice"].to_pylist() == [118, 116]


def test_order_by_sorts_by_every_key_and_ties_keep_the_order_of_the_table(data):
    rows = data.to_table().to_pylist()
    valued = sorted((r for r in rows if r["k"] is not None), key=lambda r: -r["k"])
    table = data.to_table(["id"], order_by=[("k", "descending")], limit=20)
    assert ids(table) == [r["id"] for r in valued][:20]
    twice = sorted(valued, key=lambda r: (r["k"], -r["id"]))
    table = data.to_table(["id"], order_by=["k", ("id", "descending")], limit=20)
    assert ids(table) == [r["id"] for r in twice][:20]
    table = data.to_table(["id"], order_by="k", null_placement="at_start", limit=3)
    assert ids(table) == [0, 7, 14]
    assert table.column_names == ["id"]


def test_order_by_of_text_views(data):
    views = data.replace_schema(pa.schema([("id", pa.int64()), ("k", pa.string_view())]))
    table = views.to_table(order_by=[("k", "descending")], limit=2)
    assert table["k"].to_pylist() == ["9", "9"]


def test_without_columns_rows_are_counted(data):
    assert data.to_table([], reverse=True, limit=7).num_rows == 7
    assert data.to_table([], order_by="k", limit=7).num_rows == 7
    assert sum(batch.num_rows for batch in data.to_batches([], limit=7)) == 7


@pytest.mark.parametrize("limit", [0, ROWS, ROWS + 1, 10**12])
def test_limits_at_the_edges(data, limit):
    assert ids(data.to_table(reverse=True, limit=limit)) == BACKWARDS[:limit]
    assert ids(data.to_table(order_by=[("id", "descending")], limit=limit)) == BACKWARDS[:limit]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"limit": -1}, "limit must be 0 or more, not -1"),
        ({"limit": 1.5}, "limit must be a number of rows, not 1.5"),
        ({"order_by": "k"}, "order_by needs a limit"),
        ({"order_by": [("k", "up")], "limit": 1}, "an order is one of"),
        ({"order_by": "k", "limit": 1, "reverse": True}, "not both"),
        ({"order_by": "k", "limit": 1, "null_placement": "x"}, "null_placement must be one of"),
    ],
)
def test_what_makes_no_sense_is_an_error(data, wanted, message):
    with pytest.raises(OptionError, match=message):
        data.scanner(**wanted)


def test_columns_that_cannot_be_sorted_by(data):
    with pytest.raises(ColumnNotFoundError):
        data.scanner(order_by="x", limit=1)
    with pytest.raises(UnsupportedFeatureError, match="no order of list"):
        data.scanner(order_by="l", limit=1)

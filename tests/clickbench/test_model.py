from __future__ import annotations

import itertools

import numpy as np
import pyarrow.compute as pc
import pytest

from clickbench import published
from clickbench.model import events
from clickbench.model.hits import block_checksum, generate_block, generate_table
from clickbench.model.plan import BLOCK_ROWS, make_plan
from clickbench.model.visits import make_rows, make_visits
from clickbench.schema import SCHEMA


def numbers(table, name):
    return table[name].to_numpy()


def rows_where(table, condition):
    return table.filter(condition).num_rows


def test_all_columns_in_order_without_nulls(hits):
    assert hits.schema == SCHEMA
    assert len(SCHEMA) == 105
    assert not any(field.nullable for field in SCHEMA)
    assert sum(column.null_count for column in hits.columns) == 0
    hits.validate(full=True)  # text is UTF-8


def test_a_block_made_alone_is_the_block_made_in_turn(hits):
    make_plan.cache_clear()
    second = generate_block(make_plan(100_000), 1)
    assert second.equals(hits.slice(BLOCK_ROWS))


def test_another_seed_gives_other_rows(hits):
    other = generate_table(100_000, seed=1)
    assert not np.array_equal(numbers(other, "UserID"), numbers(hits, "UserID"))
    assert not np.array_equal(numbers(other, "WatchID"), numbers(hits, "WatchID"))


def test_a_checksum_is_of_values_not_of_buffers(hits):
    block = hits.slice(1_000, 5_000)
    assert block_checksum(block.combine_chunks()) == block_checksum(
        block.take(np.arange(5_000)).combine_chunks()
    )
    changed = block.set_column(
        0, SCHEMA.field(0), pc.add(block["WatchID"], 1).cast("int64")
    ).combine_chunks()
    assert block_checksum(changed) != block_checksum(block.combine_chunks())


@pytest.mark.parametrize("rows", [1_000, 65_536, 65_537, 1_000_000, published.ROWS])
def test_pieces_cover_every_row_once(rows):
    plan = make_plan(rows)
    assert plan.starts[0] == 0
    assert plan.starts[-1] == rows
    assert (plan.pieces.rows > 0).all()
    total = sum(int(plan.block_pieces(block).rows.sum()) for block in range(0, plan.blocks, 97))
    wanted = sum(np.diff(plan.block_range(block))[0] for block in range(0, plan.blocks, 97))
    assert total == wanted


def test_published_counters_have_their_rows():
    plan = make_plan(published.ROWS)
    rows = dict(zip(plan.counters.ids.tolist(), plan.counters.rows.tolist(), strict=True))
    assert {key: rows[key] for key in published.COUNTER_FACTS} == {
        key: rows for key, (rows, _) in published.COUNTER_FACTS.items()
    }
    assert len(rows) == published.COUNTERS
    assert sum(count > 100_000 for count in rows.values()) == 100
    assert sum(rows.values()) == published.ROWS


def test_counter_62_is_in_three_row_groups_and_on_one_date(hits):
    plan = make_plan(published.ROWS)
    index = int(np.flatnonzero(plan.counters.ids == 62)[0])
    here = plan.pieces.counter == index
    starts, ends = plan.starts[:-1][here], plan.starts[1:][here]
    groups = {
        g for s, e in zip(starts, ends, strict=True) for g in range(s // 442_368, -(-e // 442_368))
    }
    assert len(groups) == 3
    dates = numbers(hits, "EventDate")[numbers(hits, "CounterID") == 62]
    assert set(dates.tolist()) == {published.DAY_62}


def test_rows_are_in_order_but_for_a_few_displaced_segments(hits):
    keys = list(
        zip(*(numbers(hits, n).tolist() for n in ("CounterID", "EventDate", "UserID", "EventTime")),
            strict=True)
    )  # fmt: skip
    falls = sum(b < a for a, b in itertools.pairwise(keys))
    assert 1 <= falls <= 20


def test_times_are_inside_their_date(hits):
    shifted = numbers(hits, "EventTime") + published.DAY_STARTS_BEFORE_MIDNIGHT_S
    assert (shifted // 86_400 == numbers(hits, "EventDate")).all()


def test_rows_of_predicates_are_as_published(hits):
    share = hits.num_rows / published.ROWS
    kept = {
        "AdvEngineID": (pc.field("AdvEngineID") != 0, 630_500, 0.03),
        "phrase": (pc.field("SearchPhrase") != "", published.SEARCH_ROWS, 0.08),
        "mobile": (pc.field("MobilePhoneModel") != "", published.MOBILE_ROWS, 0.12),
        "referer": (pc.field("Referer") == "", published.EMPTY_REFERER_ROWS, 0.03),
        "title": (pc.field("Title") == "", published.EMPTY_TITLE_ROWS, 0.05),
        "original": (pc.field("OriginalURL") == "", published.EMPTY_ORIGINAL_URL_ROWS, 0.03),
        "62": (pc.field("CounterID") == 62, published.ROWS_62, 0.01),
        "counted": (
            (pc.field("CounterID") == 62)
            & (pc.field("IsRefresh") == 0)
            & (pc.field("DontCountHits") == 0),
            published.ROWS_62_COUNTED,
            0.02,
        ),
    }
    for name, (condition, rows, tolerance) in kept.items():
        assert rows_where(hits, condition) == pytest.approx(rows * share, rel=tolerance), name


def test_needle_google_and_tops(hits):
    assert rows_where(hits, pc.field("UserID") == published.NEEDLE_USER) == 4
    google = pc.match_substring(hits["URL"], "google")
    assert pc.sum(google).as_py() == 13
    assert hits.filter(google).filter(pc.field("SearchPhrase") != "").num_rows >= 2
    assert pc.sum(pc.match_substring(hits["Title"], "Google")).as_py() >= 30
    top = hits.group_by("URL").aggregate([("URL", "count")]).sort_by([("URL_count", "descending")])
    assert top["URL"][0].as_py() == next(iter(published.TOP_URLS))
    hashes = hits.filter(pc.field("URLHash") == published.HASH_OF_URL_62)
    assert set(hashes["URL"].to_pylist()) == {next(iter(published.TOP_URLS_62))}


def test_small_data_sets_have_a_row_for_the_rare_predicates():
    small = generate_table(10_000)
    assert rows_where(small, pc.field("UserID") == published.NEEDLE_USER) == 4
    for condition in (
        (pc.field("CounterID") == 62) & (pc.field("RefererHash") == published.HASH_OF_REFERER_62),
        (pc.field("CounterID") == 62) & (pc.field("URLHash") == published.HASH_OF_URL_62),
        (pc.field("CounterID") == 62) & (pc.field("IsLink") != 0),
        pc.field("AdvEngineID") != 0,
        pc.match_substring(pc.field("URL"), "google") & (pc.field("SearchPhrase") != ""),
        pc.match_substring(pc.field("Title"), "Google") & (pc.field("SearchPhrase") != ""),
    ):
        assert rows_where(small, condition) >= 2, str(condition)


def test_a_user_keeps_attributes_over_visits():
    plan = make_plan(1_000_000)
    visits = make_visits(plan, 2)
    rows = make_rows(plan, 2, visits)
    assert rows.is_first.sum() == len(visits.rows)
    assert (np.diff(rows.time)[~rows.is_first[1:]] >= 0).all()
    block = generate_block(plan, 2)
    users, index = np.unique(numbers(block, "UserID"), return_inverse=True)
    for name in ("OS", "ClientIP", "ResolutionWidth", "FUniqID"):
        values = numbers(block, name).astype(np.int64)
        lowest, highest = np.full(len(users), 2**62), np.full(len(users), -(2**62))
        np.minimum.at(lowest, index, values % 2**61)
        np.maximum.at(highest, index, values % 2**61)
        assert (lowest == highest).all(), name


def test_an_engine_exactly_where_there_is_a_phrase(hits):
    empty = pc.equal(hits["SearchPhrase"], "").to_numpy()
    assert ((numbers(hits, "SearchEngineID") == 0) == empty).all()
    assert (
        (numbers(hits, "IsMobile") == 0) == pc.equal(hits["MobilePhoneModel"], "").to_numpy()
    ).all()


def test_watch_ids_never_repeat(hits):
    assert len(np.unique(numbers(hits, "WatchID"))) == hits.num_rows


def test_events_are_exact_whatever_the_seed():
    for seed in (0, 7):
        plan = make_plan(1_000_000, seed)
        found = [events.find(events.GOOGLE_URL, plan, block).rows for block in range(plan.blocks)]
        assert sum(map(len, found)) == pytest.approx(159, abs=2)


@pytest.mark.parametrize("rows", [0, 999, 2_000_000_000])
def test_rows_out_of_bounds_are_refused(rows):
    with pytest.raises(ValueError, match="rows must be"):
        make_plan(rows)

"""Which offer wins, and when there is only one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lm_datafusion as lm
from lm_datafusion.engine import choose as module
from lm_datafusion.engine import query as query_module
from lm_datafusion.engine.choose import choose
from lm_datafusion.engine.offer import Declined, Offer, TableAccess
from lm_datafusion.engine.query import Query, TableUse
from lm_datafusion.engine.shape import QueryShape


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    rng = np.random.default_rng(3)
    path = str(tmp_path_factory.mktemp("choices") / "t.parquet")
    pq.write_table(pa.table({"a": np.arange(1000), "x": rng.random(1000)}), path)
    made = lm.SessionContext()
    made.register_parquet("t", path)
    return made


@pytest.fixture
def choice_of(session, monkeypatch):
    """The choice among made-up offers: (name, seconds, native seconds, is it a guess)."""

    def make(query, *offers, path="auto", is_new=False):
        catalog = session._catalog
        frame = session.sql(query).native
        shape = QueryShape.of(frame)
        uses = [
            TableUse(
                table=catalog.parquet_table(name),
                alias="t",
                filters=tuple(shape.filters_of(name)),
                columns=shape.columns_of(name),
                options=lm.ScanOptions(path=path),
            )
            for name in shape.scans
        ]

        def offered(name, seconds, native_s, is_guess):
            access = TableAccess(uses[0], name, late=object())
            return Offer(
                name=name,
                seconds=seconds,
                native_s=native_s,
                reason=name,
                tables=(access,),
                is_guess=is_guess,
            )

        made = {o[0]: lambda _, o=o: offered(*o) for o in offers}
        declining = {"other": lambda _: Declined("other", "it cannot", is_guess=True)}
        monkeypatch.setattr(module, "_PATHS", made | declining)
        monkeypatch.setattr(query_module, "SMALL_BYTES", 0)
        return choose(Query(shape, tuple(uses), is_new=is_new), catalog)

    return make


SIMPLE = "SELECT x FROM t WHERE a > 5"


def names(choice):
    return [offer.name for offer in choice.offers]


def test_the_cheapest_offer_wins(choice_of):
    choice = choice_of(SIMPLE, ("b", 2.0, 9.0, False), ("a", 1.0, 9.0, False))
    assert names(choice) == ["a", "b", "native"]
    assert [declined.name for declined in choice.declined] == ["other"]


def test_an_estimate_that_hardly_pays_stays_with_datafusion(choice_of):
    assert names(choice_of(SIMPLE, ("a", 0.9, 1.0, False))) == ["native", "a"]


def test_a_path_that_is_asked_for_wins_whatever_it_costs(choice_of):
    assert names(choice_of(SIMPLE, ("a", 5.0, 1.0, False), path="late")) == ["a", "native"]


def test_without_an_offer_datafusion_runs_for_the_reason_of_the_first_path(choice_of):
    choice = choice_of(SIMPLE)
    assert names(choice) == ["native"]
    assert choice.best.reason == "it cannot"


@pytest.mark.parametrize(("is_new", "is_guess"), [(True, True), (False, False)])
def test_what_is_guessed_the_first_time_is_chosen_again(choice_of, is_new, is_guess):
    assert choice_of(SIMPLE, is_new=is_new).best.is_guess is is_guess


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x FROM t WHERE 10 / a > 5",
        "SELECT x, now() FROM t WHERE a > 5",
        "SELECT a FROM t WHERE x = 0 ORDER BY x, a",
    ],
)
def test_only_datafusion_may_serve_some_queries(choice_of, query):
    choice = choice_of(query, ("a", 0.1, 9.0, False), path="late")
    assert names(choice) == ["native"]

"""Sixteen threads share one session and run a thousand statements of every kind."""

from __future__ import annotations

import collections
import concurrent.futures
import gc
import os
import random
import threading
import time

import datafusion
import pyarrow as pa
import pytest

import lm_datafusion as lm
from tests.side_by_side import make_table, new_session, rows_of, write_table, write_tables

THREADS = 16
STATEMENTS = 1_000
PATHS = ("auto", "native", "late")
QUERIES = [
    "SELECT count(*) AS n FROM a WHERE id > 10",
    "SELECT name, x FROM a WHERE id > 10 AND name LIKE '%o%'",
    "SELECT a.id, b.x FROM a JOIN b ON a.id = b.id WHERE a.name = 'ann' AND b.x > 0",
    "SELECT a.id, b.x FROM a LEFT JOIN b ON a.id = b.id AND b.x > 0 WHERE a.grp = 1",
    "SELECT s.id FROM a s JOIN a t ON s.id = t.grp WHERE s.name = 'eve' AND t.name <> 'eve'",
    (
        "WITH w AS (SELECT * FROM a WHERE x > 0) SELECT p.id FROM w p JOIN w q ON p.id = q.grp"
        " WHERE p.name = 'bob' AND q.name LIKE 'a%'"
    ),
    "SELECT id FROM a WHERE id IN (SELECT id FROM b WHERE name = 'ann')",
    "SELECT name, count(*) AS n, max(x) FROM a WHERE id BETWEEN 5 AND 25 GROUP BY name",
    "SELECT id, x FROM a WHERE x > 0 ORDER BY x DESC, id LIMIT 7",
    "SELECT a.id, m.tag FROM a JOIN m ON a.id = m.id WHERE a.x > 0",
    "SELECT id, y FROM v WHERE y > 3 AND id > 10",
    "SELECT id FROM a WHERE x > 0 EXCEPT SELECT id FROM b WHERE name LIKE '%b'",
]
WRONG = ["SELECT nothing FROM a WHERE x > 0", "SELECT * FROM nowhere", "SELEC 1"]
FAILING = "SELECT id FROM a WHERE x > 0 AND 10 / (grp - grp) > 2"
VIEW = "CREATE VIEW v AS SELECT id, x * 2 AS y FROM a WHERE grp < 4"


class Worker:
    """What one thread does: statements drawn at random, each checked."""

    def __init__(self, session, wanted, folder, number):
        self.session = session
        self.wanted = wanted
        self.folder = folder
        self.number = number
        self.rng = random.Random(number)
        self.done = collections.Counter()

    def run(self, statements):
        kinds = [
            (self.query, 8),
            (self.frame, 2),
            (self.own_table, 3),
            (self.abandoned, 2),
            (self.wrong, 1),
            (self.failing, 1),
            (self.twice, 1),
        ]
        for _ in range(statements):
            (kind,) = self.rng.choices([k for k, _ in kinds], [weight for _, weight in kinds])
            kind()
            self.done[kind.__name__] += 1
        return self.done

    def options(self):
        return lm.ScanOptions(path=self.rng.choice(PATHS))

    def query(self):
        query = self.rng.choice(QUERIES)
        found = self.session.sql(query, self.options()).to_arrow_table()
        assert rows_of(found) == self.wanted[query], query
        reports = self.session.scan_reports()
        assert {report.table for report in reports} <= set("abmpqstvw"), reports

    def frame(self):
        frame = self.session.table("a").filter(datafusion.col("x") > datafusion.lit(0.0))
        query = "SELECT id, x FROM a WHERE x > 0"
        assert rows_of(frame.select("id", "x").to_arrow_table()) == self.wanted[query]

    def twice(self):
        query = self.rng.choice(QUERIES)
        frame = self.session.sql(query, self.options())
        for _ in range(2):
            assert rows_of(frame.to_arrow_table()) == self.wanted[query], query

    def own_table(self):
        """Tables of this thread's own come and go; their reports are this thread's."""
        name, rows = f"own_{self.number}", 40 + self.number
        path = self.folder / f"{name}_{self.rng.randrange(3)}.parquet"
        if not path.exists():
            write_table(make_table(path.name, rows), path)
        self.session.sql(f"CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}'")
        query = f"SELECT id, grp FROM {name} WHERE grp >= 0 AND id > 20"
        early = self.session.sql(query, lm.ScanOptions(path="late"))
        found = self.session.sql(query, lm.ScanOptions(path="late")).to_arrow_table()
        (report,) = self.session.scan_reports()
        assert report.table == name
        # Tables that other threads make or drop meanwhile leave the query to DataFusion.
        assert report.rows_total == rows or report.path == "native"
        self.done[f"own table {report.path}"] += 1
        self.session.sql(f"DROP TABLE {name}")
        self.session.from_pydict({"id": [77], "grp": [self.number]}, name=name)
        table = make_table(path.name, rows).select(["id", "grp"])
        kept = table.filter(pa.compute.greater(table["id"], 20))
        assert rows_of(found) == rows_of(kept) == rows_of(early.to_arrow_table())
        again = self.session.sql(query, self.options()).to_pydict()
        assert again == {"id": [77], "grp": [self.number]}
        self.session.deregister_table(name)

    def abandoned(self):
        """A stream that is read up to the first batch, or not at all."""
        query = self.rng.choice(QUERIES)
        stream = self.session.sql(query, self.options()).execute_stream()
        if self.rng.random() < 0.7:
            next(stream, None)

    def wrong(self):
        with pytest.raises(Exception, match=r"nothing|nowhere|SELEC"):
            self.session.sql(self.rng.choice(WRONG), self.options())

    def failing(self):
        with pytest.raises(Exception, match=r"Divide by zero|DivideByZero"):
            self.session.sql(FAILING, self.options()).collect()


def wanted_rows(folder):
    """Each query's rows, as plain DataFusion gives them."""
    plain = new_session(None, folder)
    plain.sql(VIEW)
    queries = [*QUERIES, "SELECT id, x FROM a WHERE x > 0"]
    return {query: rows_of(plain.sql(query).to_arrow_table()) for query in queries}


def open_files(folder):
    """Files of a folder that this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # closed since it was listed
            continue
        if target.startswith(str(folder)):
            found.append(target)
    return found


def table_names(session):
    """By SQL: a session that has given its catalog away trusts no name any more."""
    return sorted(
        session.sql("SELECT table_name FROM information_schema.tables").to_pydict()["table_name"]
    )


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def wait_until(is_so):
    """Streams that were dropped end in their own time."""
    deadline = time.monotonic() + 20
    while not is_so() and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.02)
    return is_so()


def test_a_thousand_statements_in_sixteen_threads(tmp_path):
    write_tables(tmp_path)
    wanted = wanted_rows(tmp_path)
    session = new_session("late", tmp_path)
    session.sql(VIEW)
    # DataFusion starts its threads once and keeps them. With no other thread that changes the
    # catalog, every table of this worker's own is read late.
    alone = Worker(session, wanted, tmp_path, 99).run(20)
    assert alone["own table late"] == alone["own_table"] > 0
    assert wait_until(lambda: not open_files(tmp_path))
    names = table_names(session)
    threads, files = {t.name for t in threading.enumerate()}, descriptors()
    workers = [Worker(session, wanted, tmp_path, number) for number in range(THREADS)]
    share = [STATEMENTS // THREADS + (n < STATEMENTS % THREADS) for n in range(THREADS)]
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        done = sum(pool.map(Worker.run, workers, share), collections.Counter())
    of_kinds = {name: count for name, count in done.items() if " " not in name}
    assert sum(of_kinds.values()) == STATEMENTS
    assert len(of_kinds) == 7
    assert table_names(session) == names
    assert wait_until(lambda: not open_files(tmp_path))
    assert wait_until(lambda: {t.name for t in threading.enumerate()} <= threads)
    assert wait_until(lambda: descriptors() <= files), (descriptors(), files)


def test_reports_are_those_of_the_threads_own_query(tmp_path):
    for number in range(8):
        write_table(make_table(number, 50 + number), tmp_path / f"t{number}.parquet")
    session = lm.SessionContext(options=lm.ScanOptions(path="late", condition_cache_bytes=0))
    for number in range(8):
        session.register_parquet(f"t{number}", str(tmp_path / f"t{number}.parquet"))

    def run(number):
        for _ in range(10):
            session.sql(f"SELECT x FROM t{number} WHERE id > {number}").collect()
            (report,) = session.scan_reports()
            assert (report.table, report.path) == (f"t{number}", "late")
            assert report.rows_total == 50 + number
            assert [step.predicate for step in report.steps] == [f'("id" > ({number}))']

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(8)))
    assert session.scan_reports() == []

"""The threads that ask, and what they met.

In: tables that change, a shared session. Out: counts of what was asked and what came of it; a text
per wrong answer or error.

Ways of asking: SQL on the paths `late` and `auto` of one session, with the condition cache on; a
dataset opened for one scan; a dataset that is kept; a stream or iterator that is dropped early.

What may fail, and when: a file that changes while a query runs may be an error that says so, or,
in a file that is half written, that it is no Parquet file. Without a change nothing may fail.

Where DataFusion's own reader answers (`auto`), files of `swapped` and `rewritten` are not judged:
it opens a path several times in one query, and mixes versions. Such answers are counted.

Invariant: every answer is judged, or counted as one that cannot be.
"""

from __future__ import annotations

import collections
import itertools
import random
import time
import traceback
from typing import TYPE_CHECKING

import pyarrow as pa

import lm_datafusion as lm
from lm_datafusion.errors import CorruptFileError, FileChangedError, FileMissingError
from tests.soak.ledger import ABSENT
from tests.soak.questions import (
    LIMIT,
    AllRows,
    Counted,
    FirstRows,
    Grouped,
    SomeRows,
    any_question,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from tests.soak.ledger import Span
    from tests.soak.questions import Question
    from tests.soak.writer import SoakTable

OURS = frozenset({"late", "row_fetch"})


def new_session(tables: Sequence[SoakTable]) -> lm.SessionContext:
    """A session that looks into folders for each query; by default DataFusion remembers them."""
    session = lm.SessionContext(options=lm.ScanOptions(path="late"))
    session.sql("SET datafusion.runtime.list_files_cache_limit = '0K'")
    for table in tables:
        session.register_parquet(table.name, str(table.folder))
    return session


class Reader:
    """What one thread does until it is over."""

    def __init__(
        self, number: int, seed: int, session: lm.SessionContext, tables: Sequence[SoakTable]
    ) -> None:
        self._rng = random.Random(f"{seed} {number}")
        self._session = session
        self._tables = tables
        self._kept: dict[str, lm.LateDataset] = {}
        self.counts: collections.Counter[str] = collections.Counter()
        self.failures: list[str] = []
        self.busy: tuple[float, str] | None = None

    def run(self, is_over: threading.Event) -> None:
        """Asks until it is over, or something is wrong."""
        try:
            while not is_over.is_set():
                self.ask()
        except BaseException:  # noqa: BLE001 the run says so, and ends
            self.failures.append(f"a reader is lost\n{traceback.format_exc()}")

    def ask(self) -> None:
        """One question."""
        table, question = self._rng.choice(self._tables), any_question(self._rng)
        ways: list[Callable[[SoakTable, Question], tuple[pa.Table | None, bool]]] = [
            self._late,
            self._auto,
            self._dataset,
            self._kept_dataset,
            self._dropped_stream,
            self._dropped_batches,
        ]
        (way,) = self._rng.choices(ways, [4, 3, 3, 2, 1, 1])
        name = way.__name__.strip("_")
        statement = f"{name}: {question.sql(table.name)}"
        self.busy = (time.monotonic(), statement)
        self.counts["statements"] += 1
        self.counts[f"asked by {name}"] += 1
        answer, is_ours, error = None, True, None
        with table.ledger.span() as spans:
            try:
                answer, is_ours = way(table, question)
            except BaseException as caught:  # noqa: BLE001 judged below; a panic is no Exception
                error = caught
        (span,) = spans
        if error is not None:
            self._judge_error(error, table, span, statement)
        elif answer is not None:
            self._judge(answer, question, table, span, statement=statement, is_ours=is_ours)
        self.busy = None

    # ---- ways of asking --------------------------------------------------------------------

    def _late(self, table: SoakTable, question: Question) -> tuple[pa.Table, bool]:
        return self._sql(table, question, "late")

    def _auto(self, table: SoakTable, question: Question) -> tuple[pa.Table, bool]:
        return self._sql(table, question, "auto")

    def _sql(self, table: SoakTable, question: Question, path: str) -> tuple[pa.Table, bool]:
        frame = self._session.sql(question.sql(table.name), lm.ScanOptions(path=path))
        answer = frame.to_arrow_table()
        paths = {report.path for report in self._session.scan_reports()}
        for met in paths:
            self.counts[f"read by {met}"] += 1
        return answer, bool(paths) and paths <= OURS

    def _dataset(self, table: SoakTable, question: Question) -> tuple[pa.Table, bool]:
        return self._scan(lm.dataset(table.folder), question), True

    def _kept_dataset(self, table: SoakTable, question: Question) -> tuple[pa.Table, bool]:
        """A dataset knows its files from the beginning, so only where they stay the same."""
        if table.name == "added":
            return self._dataset(table, question)
        if table.name not in self._kept:
            self._kept[table.name] = lm.dataset(table.folder)
        return self._scan(self._kept[table.name], question), True

    def _scan(self, data: lm.LateDataset, question: Question) -> pa.Table:
        threads = self._rng.choice([1, 2, 3])
        data, wanted = data.with_options(threads=threads), question.condition.sql
        if isinstance(question, FirstRows):
            columns = ["file", "version", "id", "key"]
            order = [("key", "descending")]
            return data.to_table(columns, wanted, order_by=order, limit=LIMIT)
        if isinstance(question, SomeRows):
            return data.to_table(["file", "version", "id"], wanted, limit=LIMIT)
        if isinstance(question, Counted):
            return counted(data.count_rows(wanted))
        if isinstance(question, Grouped):
            return question.grouped(data.to_table(["file", "version", "grp", "id"], wanted))
        assert isinstance(question, AllRows)
        return data.to_table(["file", "version", "id", "text", "x"], wanted)

    def _dropped_stream(self, table: SoakTable, question: Question) -> tuple[None, bool]:
        frame = self._session.sql(question.sql(table.name), lm.ScanOptions(path="late"))
        next(frame.execute_stream(), None)
        return None, True

    def _dropped_batches(self, table: SoakTable, question: Question) -> tuple[None, bool]:
        data = lm.dataset(table.folder, options=lm.ScanOptions(batch_rows=20, threads=2))
        batches = data.to_batches(filter=question.condition.sql)
        for _ in itertools.islice(batches, self._rng.randrange(4)):
            pass
        if self._rng.random() < 0.5:
            batches.close()
        return None, True

    # ---- what came of it -------------------------------------------------------------------

    def _judge(
        self,
        answer: pa.Table,
        question: Question,
        table: SoakTable,
        span: Span,
        *,
        statement: str,
        is_ours: bool,
    ) -> None:
        candidates = table.ledger.candidates(span)
        wrong = question.judge(answer, candidates, table.contents)
        if wrong is None:
            self.counts["right"] += 1
            self.counts["right while files changed"] += table.ledger.has_change(span)
        elif not is_ours and table.name != "added":
            self.counts["mixed by DataFusion's reader"] += 1
        else:
            self.counts["wrong"] += 1
            self.failures.append(f"{statement}\n  {wrong}\n  candidates {candidates}")

    def _judge_error(
        self, error: BaseException, table: SoakTable, span: Span, statement: str
    ) -> None:
        kind = self._kind(error, table, span)
        if kind is not None:
            self.counts[kind] += 1
            return
        self.counts["unexpected errors"] += 1
        text = "".join(traceback.format_exception(error))
        self.failures.append(f"{statement}\n  in {span.end_s - span.begin_s:.3f} s\n{text}")

    def _kind(self, error: BaseException, table: SoakTable, span: Span) -> str | None:
        """How an error is counted; None for one that must not be."""
        met = {version for own in table.ledger.candidates(span).values() for version in own}
        is_cut = table.name == "rewritten" and ABSENT in met
        if isinstance(error, CorruptFileError) and is_cut:
            return "cut to nothing"
        if not table.ledger.has_change(span):
            return None
        if isinstance(error, FileChangedError):
            return "file changed"
        if isinstance(error, FileMissingError):
            return "file missing"
        if isinstance(error, CorruptFileError) and table.name == "rewritten":
            return "half written"
        if type(error) is Exception and str(error).startswith("DataFusion error"):
            return "error of DataFusion's"
        if type(error).__name__ == "PanicException" and table.name != "added":
            return "panic of DataFusion's reader"
        return None


def counted(count: int) -> pa.Table:
    """A count, as SQL gives it."""
    return pa.table({"n": [count]})

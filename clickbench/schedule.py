"""Which engine runs which query when.

In: queries, contenders, a results file. Out: the results file, complete.

For each query, for each repeat, each engine runs once; the order rotates, so that what disturbs
the machine for a while disturbs all alike, and nobody always runs first; every other repeat it is
turned around, so that nobody always runs after the same engine. Before the first repeat each
engine runs some times untimed, in turns, too (the first run of a new process is kept, apart from
the others); cold runs instead begin with an engine that was
opened again and files the system has forgotten. After the last repeat each engine tells what it
pruned, for which some run the query in another way, and the answers of all runs are judged.

Invariant: a run that is in the file is not made again, and the file has every run that ended.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clickbench import page_cache
from clickbench.contender import CapError, ContenderError

if TYPE_CHECKING:
    from collections.abc import Callable

    from clickbench.contender import Contender
    from clickbench.queries import Query
    from clickbench.referee import Referee
    from clickbench.results import Results


_FIRST = ("wall_s", "cpu_s", "peak_bytes", "start_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How each query is run.

    Attributes:
        repeats: Timed runs of each engine.
        warm_ups: Runs before those, if hot: engines that learn need some.
        cold_files: What is dropped from the page cache for cold runs; None for hot runs.
        restarts: Whether each query begins with new processes, in which no earlier query has left
            memory.
    """

    repeats: int
    warm_ups: int
    cold_files: tuple[str, ...] | None = None
    restarts: bool = False


class Schedule:
    """All runs of a benchmark.

    Args:
        results: Has the runs made so far.
        contenders: Engines by their words.
        referee: Judges answers.
        manner: How each query is run.
        say: Takes lines about progress.
        guard: Called before and after each query; raises if runs cannot be compared any more.
    """

    def __init__(
        self,
        *,
        results: Results,
        contenders: list[Contender],
        referee: Referee,
        manner: Manner,
        say: Callable[[str], None],
        guard: Callable[[], None],
    ) -> None:
        self._results = results
        self._contenders = contenders
        self._referee = referee
        self._manner = manner
        self._say = say
        self._guard = guard

    def run(self, queries: tuple[Query, ...]) -> None:
        """Makes the runs that are missing, query by query."""
        started = time.monotonic()
        made = 0
        for index, query in enumerate(queries):
            head = f"[{index + 1}/{len(queries)}] {query.name}"
            missing = self._missing(query, index)
            self._guard()
            if missing:
                self._restart()
                self._measure(query, missing)
                self._guard()
                made += 1
            if missing or self._is_unjudged(query):
                self._judge(query)
                left_s = (time.monotonic() - started) / max(made, 1) * (len(queries) - index - 1)
                self._say(f"{head}  {self._summary(query)}  (about {_duration(left_s)} left)")
            else:
                self._say(f"{head}  was there already")

    def _missing(self, query: Query, index: int) -> list[tuple[int, Contender]]:
        """Runs to make, in their order."""
        missing = []
        for repeat in range(self._manner.repeats):
            shift = (repeat + index) % len(self._contenders)
            order = self._contenders[shift:] + self._contenders[:shift]
            for contender in reversed(order) if repeat % 2 else order:
                part = self._results.engine(query, contender.word)
                if part["state"] == "ok" and len(part["runs"]) <= repeat:
                    missing.append((repeat, contender))
        return missing

    def _measure(self, query: Query, missing: list[tuple[int, Contender]]) -> None:
        contenders = list(dict.fromkeys(contender for _, contender in missing))
        out = set()
        # In turns, as the timed runs: memory that an idle process gives back would favour those
        # that wait longer.
        warm_ups = [] if self._manner.cold_files else contenders * self._manner.warm_ups
        turns = [(contender, self._warm_up) for contender in warm_ups]
        turns += [(contender, self._timed) for _, contender in missing]
        for contender, action in turns:
            if contender.word not in out and not self._attempt(query, contender, action):
                out.add(contender.word)
        for contender in contenders:
            if contender.word not in out:
                self._note_pruned(query, contender)

    def _restart(self) -> None:
        if self._manner.restarts:
            for contender in self._contenders:
                contender.close()

    def _attempt(
        self, query: Query, contender: Contender, action: Callable[[Query, Contender], None]
    ) -> bool:
        """Whether an action went well; if not, the engine is out for this query."""
        try:
            action(query, contender)
        except CapError as error:
            self._results.end_engine(query, contender.word, "capped", str(error))
            return False
        except ContenderError as error:
            self._results.end_engine(query, contender.word, "failed", str(error))
            return False
        return True

    def _warm_up(self, query: Query, contender: Contender) -> None:
        reply = contender.run(query.sql)
        if self._manner.restarts:
            # The first of a new process: what it took, nothing before it has paid for.
            first = {name: reply[name] for name in _FIRST}
            self._results.engine(query, contender.word).setdefault("first", first)

    def _note_pruned(self, query: Query, contender: Contender) -> None:
        # What was pruned is an extra: an engine that cannot tell stays in the race.
        with contextlib.suppress(CapError, ContenderError):
            self._results.engine(query, contender.word)["pruned"] = contender.pruned(query.sql)

    def _timed(self, query: Query, contender: Contender) -> None:
        if self._manner.cold_files is not None:
            contender.reopen()
            page_cache.drop(self._manner.cold_files)
        reply = contender.run(query.sql)
        run = {name: reply[name] for name in ("wall_s", "cpu_s", "peak_bytes", "digest")}
        self._results.add_run(query, contender.word, run, reply["rows"])

    def _is_unjudged(self, query: Query) -> bool:
        part = self._results.query(query)
        return set(part["faults"]) != set(part["answers"])

    def _judge(self, query: Query) -> None:
        part = self._results.query(query)
        if part["answers"]:
            part["faults"] = self._referee.judge(query.sql, part["answers"])
        self._results.save()

    def _summary(self, query: Query) -> str:
        part = self._results.query(query)
        times = "  ".join(
            f"{word} {_time(part['engines'][word])}"
            for word in (contender.word for contender in self._contenders)
        )
        wrong = wrong_engines(part)
        if wrong:
            return f"{times}  WRONG: {', '.join(wrong)}"
        return f"{times}  {'answers equal' if part['answers'] else 'no answers'}"


def wrong_engines(part: dict[str, Any]) -> dict[str, str]:
    """Engines of a query with an answer that is not right, and what is wrong with it."""
    return {
        word: part["faults"][run["digest"]]
        for word, engine in part["engines"].items()
        for run in engine["runs"]
        if part["faults"].get(run["digest"]) is not None
    }


def _time(engine: dict[str, Any]) -> str:
    if engine["state"] != "ok":
        return str(engine["state"])
    return f"{statistics.median(run['wall_s'] for run in engine['runs']) * 1e3:.0f} ms"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"

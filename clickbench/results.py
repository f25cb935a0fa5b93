"""The results file: every run, every answer, and what is known about the machine.

In: settings, then one run after the other. Out: JSON that `report` reads and `run` continues.

    settings       what has to be equal for runs to belong together, and its hash
    machine        facts about the machine and the data
    queries        per query: `sql`; `engines`; `answers` by digest; `faults` by digest
      engines      per engine: `runs`, `state`, `error`, `pruned`

`state` is `ok`, `capped` or `failed`. `faults` has null for an answer that is right.

Invariant: whenever the process is killed, the file is whole: it is written beside and renamed.
It is not synced each time, which would disturb what is measured.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clickbench.answers import Row
    from clickbench.queries import Query

FORMAT = 1


class ResultsError(ValueError):
    """A results file that cannot be used."""


class Results:
    """A results file, kept up to date on disk."""

    def __init__(self, path: str, data: dict[str, Any]) -> None:
        self.path = path
        self.data = data

    @classmethod
    def begin(cls, path: str, settings: dict[str, Any], machine: dict[str, Any]) -> Results:
        """A new file, without runs."""
        data = {
            "format": FORMAT,
            "settings": settings,
            "settings_hash": settings_hash(settings),
            "machine": machine,
            "queries": {},
        }
        results = cls(path, data)
        results.save()
        return results

    @classmethod
    def resume(cls, path: str, settings: dict[str, Any]) -> Results:
        """An earlier run's file.

        Raises:
            ResultsError: It was made with other settings.
        """
        results = cls(path, load_results(path))
        if results.data["settings_hash"] != settings_hash(settings):
            differing = _differing(results.data["settings"], settings)
            raise ResultsError(
                f"{path} has runs with other settings ({differing}), which cannot be mixed with"
                " these: add --fresh to replace them, or name another file with --out"
            )
        return results

    def save(self) -> None:
        """Writes the file as a whole."""
        beside = f"{self.path}.part"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(self.data, file, ensure_ascii=False, indent=1)
        os.replace(beside, self.path)

    def query(self, query: Query) -> dict[str, Any]:
        """The part of a query."""
        empty: dict[str, Any] = {"sql": query.sql, "engines": {}, "answers": {}, "faults": {}}
        return dict_of(self.data["queries"], query.name, empty)

    def engine(self, query: Query, word: str) -> dict[str, Any]:
        """The part of an engine in a query."""
        return dict_of(self.query(query)["engines"], word, {"state": "ok", "runs": []})

    def add_run(self, query: Query, word: str, run: dict[str, Any], rows: list[Row]) -> None:
        """Adds one run; its answer is kept once."""
        self.engine(query, word)["runs"].append(run)
        self.query(query)["answers"].setdefault(run["digest"], rows)
        self.save()

    def end_engine(self, query: Query, word: str, state: str, error: str) -> None:
        """Notes that an engine will not be asked this query any more."""
        self.engine(query, word).update(state=state, error=error)
        self.save()


def load_results(path: str) -> dict[str, Any]:
    """The contents of a results file.

    Raises:
        ResultsError: It is not there, or is none.
    """
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except FileNotFoundError as error:
        raise ResultsError(f"{path} is not there; `python -m clickbench run` writes it") from error
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} cannot be read: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ResultsError(f"{path} is not a results file of this version")
    return data


def settings_hash(settings: dict[str, Any]) -> str:
    """A short name for settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def dict_of(parent: dict[str, Any], name: str, empty: dict[str, Any]) -> dict[str, Any]:
    """A part of a part, made where it is missing."""
    child: dict[str, Any] = parent.setdefault(name, empty)
    return child


def _differing(old: dict[str, Any], new: dict[str, Any]) -> str:
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(sorted(names)) or "unknown"

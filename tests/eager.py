"""`auto` that takes no table for small, so that small test tables are read late."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Constants of the cost model, by module.
EAGER = {
    "lm_datafusion.engine.cost": {"STATEMENT_S": 0.0, "ROW_GROUP_S": 0.0, "SHORT_S": 0.0},
    "lm_datafusion.engine.paths.late": {"DYNAMIC_FILTERS": 1.0, "SHORT_S": 0.0},
    "lm_datafusion.engine.query": {"SMALL_BYTES": 0},
}


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Lets fixed costs count for nothing while a block lasts."""
    import importlib

    modules = {name: importlib.import_module(name) for name in EAGER}
    before = {name: {word: getattr(modules[name], word) for word in EAGER[name]} for name in EAGER}
    try:
        _set(modules, EAGER)
        yield
    finally:
        _set(modules, before)


def _set(modules, values) -> None:
    for name, constants in values.items():
        for word, value in constants.items():
            setattr(modules[name], word, value)

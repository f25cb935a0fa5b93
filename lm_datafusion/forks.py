"""Locks of the process, and `os.fork`.

In: a lock that lives as long as the process. Out: a lock that is free in every child.

Why: a child has only the thread that forked. A lock that another thread held at the time stays
locked in the child for ever, and what it guards may be half changed. So whoever forks takes all
these locks first; nobody holds one for long, and nobody forks while holding one.

`cached_property` takes no lock. Python 3.11's has one per class and holds it while a value is
computed: threads wait for each other, and a child waits for ever.

Invariant: what such a lock guards is whole in the child.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

Value = TypeVar("Value")


def hold_over_forks(lock: threading.Lock) -> None:
    """Takes a lock before each fork, and frees it in both processes afterwards."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )


class cached_property(Generic[Value]):  # noqa: N801 the name of functools
    """A property that is computed once per object; by two threads at once, perhaps twice."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...

    def __get__(self, owner: object | None, kind: type) -> Self | Value:
        if owner is None:
            return self
        value = self._compute(owner)
        # Attributes of an object are found before a descriptor without `__set__`.
        owner.__dict__[self._name] = value
        return value

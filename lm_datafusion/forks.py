"""Locks of the process, and `os.fork`.

In: a lock that lives as long as the process. Out: a lock that is free in every child.

Why: a child has only the thread that forked. A lock that another thread held at the time stays
locked in the child for ever, and what it guards may be half changed. So whoever forks takes all
these locks first; nobody holds one for long, and nobody forks while holding one.

Invariant: what such a lock guards is whole in the child.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading


def hold_over_forks(lock: threading.Lock) -> None:
    """Takes a lock before each fork, and frees it in both processes afterwards."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )

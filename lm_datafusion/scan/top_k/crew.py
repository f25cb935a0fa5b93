"""Runs one function on several threads until all work is done.

In: a function that returns when no work is left. Out: nothing, once every thread has returned.

Invariant: no thread outlives `run_crew`, which raises the first error of a thread.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lm_datafusion.predicate.evaluator import may_call_here

if TYPE_CHECKING:
    from collections.abc import Callable


def run_crew(work: Callable[[], None], stop: Callable[[], None], *, workers: int) -> None:
    """Runs `work` on some threads and waits for them.

    Args:
        work: Called once per thread.
        stop: Makes every `work` return soon; called when one fails or the wait is interrupted.
        workers: The number of threads.
    """
    errors: list[BaseException] = []

    def guarded() -> None:
        may_call_here()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 raised again by the caller
            errors.append(error)
            stop()

    threads = [
        threading.Thread(target=guarded, name=f"lm-scan-{n}", daemon=True) for n in range(workers)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    if errors:
        raise errors[0]

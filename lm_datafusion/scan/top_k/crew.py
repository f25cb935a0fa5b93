"""A few threads that share one job until it is done.

In: a function that works until there is nothing left to do. Out: nothing, once all have returned.

Invariant: no thread outlives `run_crew`; the first error of a thread is raised here.
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
        stop: Makes every `work` return soon; called when one fails, or when waiting is cut short.
        workers: How many threads.
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

from __future__ import annotations

import os
import signal
import threading

import pytest

from lm_datafusion.forks import cached_property

LONGEST_S = 20


class Slow:
    """An object whose value can be held up while it is computed."""

    def __init__(self, gate=None):
        self.gate = gate
        self.begun = threading.Event()
        self.computed = 0

    @cached_property
    def value(self):
        """The value."""
        self.begun.set()
        if self.gate is not None:
            self.gate.wait(LONGEST_S)
        self.computed += 1
        return self.computed


@pytest.fixture
def computing():
    """An object whose value another thread is computing."""
    gate = threading.Event()
    held_up = Slow(gate)
    thread = threading.Thread(target=lambda: held_up.value)
    thread.start()
    assert held_up.begun.wait(LONGEST_S)
    yield held_up
    gate.set()
    thread.join()


def test_a_value_is_computed_once():
    slow = Slow()
    assert [slow.value, slow.value, slow.computed] == [1, 1, 1]
    assert Slow.value.__doc__ == "The value."


def test_threads_do_not_wait_for_values_of_other_objects(computing):
    found = []
    thread = threading.Thread(target=lambda: found.append(Slow().value), daemon=True)
    thread.start()
    thread.join(2)
    assert found == [1]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_computes_values_that_a_thread_of_its_parent_was_computing(computing):
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)
        computing.gate = None
        os._exit(computing.value)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1

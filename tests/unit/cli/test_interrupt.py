from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from lm_datafusion.cli import interrupt
from lm_datafusion.cli.interrupt import Interruptible

# Ctrl-C is ignored by Python, as it is while a library does not look up.
DEAF = """
import signal, sys, time
from lm_datafusion.cli import interrupt
signal.signal(signal.SIGINT, lambda *_: None)
interrupt.GRACE_S = 0.1
interrupt.DRAFTS.add(sys.argv[1])
with interrupt.Interruptible():
    print("ready", flush=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(1)
"""


def test_a_process_that_does_not_listen_is_ended(tmp_path):
    draft = tmp_path / "draft"
    draft.write_text("half")
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF, draft],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "stopped\n"
    assert not draft.exists()


def interrupt_myself():
    with Interruptible():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)


@pytest.mark.usefixtures("listening")
def test_one_that_listens_gets_its_exception():
    with pytest.raises(KeyboardInterrupt):
        interrupt_myself()


def test_other_signals_mean_nothing(monkeypatch):
    monkeypatch.setattr(interrupt, "GRACE_S", 0.0)
    monkeypatch.setattr(interrupt, "_end", lambda: pytest.fail("ended"))
    previous = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with Interruptible():
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.05)
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_everything_is_as_before_afterwards():
    before = set(threading.enumerate())  # threads of other tests may end at any time
    with Interruptible():
        assert set(threading.enumerate()) - before
    assert set(threading.enumerate()) <= before
    assert signal.set_wakeup_fd(-1) == -1


def test_outside_of_the_main_thread_nothing_is_watched():
    done = []
    thread = threading.Thread(target=lambda: done.append(Interruptible().__enter__()._thread))
    thread.start()
    thread.join()
    assert done == [None]

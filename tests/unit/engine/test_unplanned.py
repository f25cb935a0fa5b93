"""Frames that wait to be planned, while other threads change the catalog."""

from __future__ import annotations

import sys
import threading
import time

import datafusion
import pytest

from lm_datafusion.engine.catalog import SessionCatalog


class _Frame:
    df = None


@pytest.fixture
def quick_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_switches")
def test_frames_may_come_while_the_catalog_changes():
    catalog = SessionCatalog(datafusion.SessionContext())
    until, errors = time.monotonic() + 0.5, []

    def add():
        kept = []
        while time.monotonic() < until:
            kept.append(_Frame())
            catalog.plan_before_changes(kept[-1])

    def change():
        try:
            while time.monotonic() < until:
                with catalog.changing():
                    pass
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for run in (add, add, change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []

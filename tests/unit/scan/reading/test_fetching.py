from __future__ import annotations

from lm_datafusion.scan.reading.fetching import FetchBudget


def budget(limit_bytes: int = 100) -> FetchBudget:
    return FetchBudget(limit_bytes, lambda: 10, 4)


def test_units_share_the_room():
    held = budget()
    assert held.has_room(100)
    held.hold(1, 60)
    assert held.has_room(40)
    assert not held.has_room(41)
    held.hold(1, 20)
    assert held.has_room(80)
    held.hold(2, 80)
    held.hold(1, 0)
    assert not held.has_room(21)
    held.hold(2, 0)
    assert held.has_room(100)


def test_more_room_is_announced():
    held, calls = budget(), []
    held.on_change = lambda: calls.append(1)
    held.hold(1, 50)
    held.hold(1, 70)
    assert calls == []
    held.hold(1, 10)
    held.hold(1, 0)
    assert len(calls) == 2


def test_shares_are_learned():
    held = budget()
    assert held.needed_share is None
    held.note_share(1.0)
    assert held.needed_share == 1.0
    held.note_share(0.0)
    assert held.needed_share == 0.5

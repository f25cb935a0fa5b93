from __future__ import annotations

from lm_datafusion.storage.reach import MOST_GAP_BYTES, MOST_ROUND_BYTES, Reach, Traffic


def test_latency_follows_the_fast_answers():
    reach = Reach()
    for latency_s in (0.04, 0.2, 0.04, 0.5):
        reach.begin_body(latency_s)
        reach.end_body(100)
    assert 0.04 <= reach.latency_s < 0.08


def test_a_far_and_slow_store_reads_smaller_gaps_than_a_fast_one(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def measured(bytes_per_s: float) -> Reach:
        reach = Reach()
        for _ in range(20):
            reach.begin_body(0.01)
            now[0] += (1 << 20) / bytes_per_s
            reach.end_body(1 << 20)
        return reach

    slow, fast = measured(1e6), measured(1e9)
    assert slow.gap_bytes == slow.round_bytes
    assert 9_000 < slow.gap_bytes < 20_000
    assert fast.gap_bytes == MOST_GAP_BYTES
    assert fast.round_bytes == MOST_ROUND_BYTES


def test_bodies_at_once_share_the_bandwidth(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    reach = Reach()
    for _ in range(20):
        for _ in range(4):
            reach.begin_body(0.001)
        now[0] += 1.0
        for _ in range(4):
            reach.end_body(1 << 20)
    assert 3e3 < reach.round_bytes < 6e3


def test_traffic_adds_up():
    traffic = Traffic(requests=1, bytes_fetched=10)
    with traffic.waiting():
        pass
    traffic.add(Traffic(requests=2, bytes_fetched=5, round_trips=1, wait_s=0.5))
    counts = traffic.counts()
    assert (counts["requests"], counts["bytes_fetched"], counts["round_trips"]) == (3, 15, 2)
    assert counts["wait_us"] >= 500_000

"""The noise band: equal pairs are called equal, real differences are found."""

from __future__ import annotations

import numpy as np
import pytest

from clickbench.noise import compare


def runs(random, count, noise, factor=1.0, spikes=0.0):
    times = factor * np.exp(random.normal(0, noise, count))
    times *= 1 + (random.random(count) < spikes) * random.exponential(0.5, count)
    return list(times)


@pytest.mark.parametrize("count", [3, 5, 9])
@pytest.mark.parametrize("noise", [0.01, 0.03, 0.2])
@pytest.mark.parametrize("spikes", [0.0, 0.15])
def test_equal_pairs_are_no_change(count, noise, spikes):
    random = np.random.default_rng(11)
    pairs = [
        (runs(random, count, noise, spikes=spikes), runs(random, count, noise, spikes=spikes))
        for _ in range(150)
    ]
    called_equal = np.mean([compare(*pair).verdict == "no change" for pair in pairs])
    assert called_equal >= 0.95


@pytest.mark.parametrize("count", [3, 5, 9])
@pytest.mark.parametrize(("factor", "verdict"), [(1 / 1.2, "faster"), (1.2, "slower")])
def test_a_fifth_is_found_in_noise_of_three_percent(count, factor, verdict):
    random = np.random.default_rng(12)
    found = [
        compare(runs(random, count, 0.03), runs(random, count, 0.03, factor)).verdict == verdict
        for _ in range(200)
    ]
    assert np.mean(found) >= 0.97


def test_a_fifth_is_not_claimed_in_noise_of_thirty_percent():
    random = np.random.default_rng(13)
    found = [compare(runs(random, 5, 0.3), runs(random, 5, 0.3, 1.2)).verdict for _ in range(200)]
    assert found.count("no change") > 150


def test_the_band_shrinks_with_more_runs():
    random = np.random.default_rng(14)
    few = compare(runs(random, 5, 0.1), runs(random, 5, 0.1))
    many = compare(runs(random, 100, 0.1), runs(random, 100, 0.1))
    assert np.log(many.high / many.low) < np.log(few.high / few.low) / 2
    assert few.low < few.ratio < few.high


def test_one_verdict_for_the_same_runs_whatever_their_unit():
    base, cont = [1.0, 1.1, 0.9], [2.0, 2.1, 2.2]
    first = compare(base, cont)
    assert first == compare(base, cont)
    milli = compare([t / 1000 for t in base], [t / 1000 for t in cont])
    assert milli.high == pytest.approx(first.high)
    back = compare(cont, base)
    assert (first.verdict, back.verdict) == ("slower", "faster")
    assert back.ratio == pytest.approx(1 / first.ratio)


def test_two_runs_tell_nothing():
    assert compare([1.0, 1.0], [9.0, 9.0]).verdict == "too few runs"

"""Whether two contenders differ, or only their runs do.

In: the times of all runs of both. Out: the ratio of their medians, a band around it, a verdict.

Steps, all on logarithms of times, so that twice as fast and half as fast weigh the same:

1. Both sets of runs are drawn from again and again, with replacement (bootstrap; the seed is
   fixed, so a report is repeatable). The middle 95 % of the ratios of their medians are the band.
2. The band is widened on both sides by the standard error of the difference, which is the spread
   from run to run over the root of the number of runs.
3. "No change" is the verdict if 1 lies inside the band.

Why: no fixed number of percent fits both a query of 1 ms and one of 10 s, on a quiet machine and
on a busy one. Medians because single runs are disturbed now and then, upwards only. Step 2 because
a bootstrap of five runs knows nothing outside these five: alone, it called 11 % of equal pairs of
three runs different, with it 3 %, and a pair that differs by 20 % under noise of 3 % is still found
(`tests/clickbench/test_report_noise.py` has both).

Not seen is what differs between two processes from start to end, as where memory came to lie.
Runs of one process do not show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

MIN_RUNS = 3
_DRAWS = 2000
_SEED = 43
_MIDDLE = (0.025, 0.975)

Verdict = Literal["faster", "slower", "no change", "too few runs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A contender against a baseline.

    Attributes:
        ratio: Median time of the contender over that of the baseline: below 1 is faster.
        low: Lower end of the band around the ratio.
        high: Upper end.
        verdict: What that says.
    """

    ratio: float
    low: float
    high: float
    verdict: Verdict


def compare(baseline: list[float], contender: list[float]) -> Difference:
    """Compares the times of all runs of two contenders."""
    base = np.log(np.maximum(baseline, 1e-9))
    cont = np.log(np.maximum(contender, 1e-9))
    ratio = float(np.exp(np.median(cont) - np.median(base)))
    if min(len(base), len(cont)) < MIN_RUNS:
        return Difference(ratio=ratio, low=0.0, high=float("inf"), verdict="too few runs")
    random = np.random.default_rng(_SEED)
    draws = _medians(cont, random) - _medians(base, random)
    low, high = np.quantile(draws, _MIDDLE)
    error = np.hypot(_standard_error(base), _standard_error(cont))
    low, high = float(np.exp(low - error)), float(np.exp(high + error))
    verdict: Verdict = "no change"
    if high < 1.0:
        verdict = "faster"
    elif low > 1.0:
        verdict = "slower"
    return Difference(ratio=ratio, low=low, high=high, verdict=verdict)


def _medians(
    times: npt.NDArray[np.float64], random: np.random.Generator
) -> npt.NDArray[np.float64]:
    picked = random.integers(0, len(times), size=(_DRAWS, len(times)))
    medians: npt.NDArray[np.float64] = np.median(times[picked], axis=1)
    return medians


def _standard_error(times: npt.NDArray[np.float64]) -> float:
    return float(np.std(times, ddof=1) / np.sqrt(len(times)))

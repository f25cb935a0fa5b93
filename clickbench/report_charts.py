"""Charts of a report: inline SVG, one small picture per line.

In: numbers. Out: HTML text.

Positions along a line are percentages and sizes across it are pixels, so a chart fills whatever
width a phone or a desk gives it and its letters keep their size. Every mark has a `<title>`, which
browsers show when it is pointed at.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BAR_HEIGHT = 18


@dataclass(frozen=True, slots=True)
class LogScale:
    """Places positive numbers on 0 to 100 %, equal ratios at equal distances."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """The position of a value, in percent; what lies outside is put at the edge."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return 100 * min(max(share, 0.0), 1.0)

    @classmethod
    def of_ratios(cls, ratios: Iterable[float]) -> LogScale:
        """1 in the middle, and room for the largest change."""
        widest = max([abs(math.log2(ratio)) for ratio in ratios] or [1.0])
        reach = 2.0 ** min(max(math.ceil(widest), 1), 10)
        return cls(1 / reach, reach)

    @classmethod
    def of_times(cls, seconds: Iterable[float]) -> LogScale:
        """Whole powers of ten around all values."""
        found = list(seconds) or [1.0]
        low = 10.0 ** math.floor(math.log10(min(found)))
        high = 10.0 ** math.ceil(math.log10(max(found)))
        return cls(low, max(high, low * 10))


def picture(marks: Iterable[str]) -> str:
    """An SVG as wide as the element around it."""
    return f'<svg height="{_BAR_HEIGHT}" role="img">{"".join(marks)}</svg>'


def grid(scale: LogScale, values: Sequence[float], strong: float | None = None) -> list[str]:
    """Lines from top to bottom; one may be stronger."""
    return [
        f'<line class="{"one" if value == strong else "grid"}" x1="{scale.at(value):.2f}%"'
        f' x2="{scale.at(value):.2f}%" y1="0" y2="{_BAR_HEIGHT}"/>'
        for value in values
    ]


def axis(scale: LogScale, labels: Sequence[tuple[float, str]]) -> str:
    """The numbers under a grid; the outermost ones stay inside the picture."""
    marks = []
    for value, text in labels:
        position = scale.at(value)
        anchor = "start" if position < 4 else "end" if position > 96 else "middle"
        marks.append(
            f'<text x="{position:.2f}%" y="12" text-anchor="{anchor}">{html.escape(text)}</text>'
        )
    return picture(marks)


def ratio_ticks(scale: LogScale) -> list[tuple[float, str]]:
    """At most five marks, which a phone has room for: powers of two, evenly chosen around 1."""
    reach = round(math.log2(scale.high))
    step = math.ceil(reach / 2)
    powers = sorted({sign * power for power in range(0, reach + 1, step) for sign in (-1, 1)})
    return [(2.0**power, _ratio_text(power)) for power in powers]


def time_ticks(scale: LogScale) -> list[tuple[float, str]]:
    """Powers of ten, at most six, which a phone has room for."""
    first, last = round(math.log10(scale.low)), round(math.log10(scale.high))
    step = math.ceil((last - first) / 5)
    return [(10.0**power, _time_text(power)) for power in range(first, last + 1, step)]


def ratio_bar(scale: LogScale, ratio: float, low: float, high: float, kind: str, title: str) -> str:
    """A bar from 1 to a ratio, and the band around it as a thin line."""
    places = sorted((scale.at(1.0), scale.at(ratio)))
    width = max(places[1] - places[0], 0.4)
    marks = grid(scale, [value for value, _ in ratio_ticks(scale)], strong=1.0)
    tip = f"<title>{html.escape(title)}</title>"
    marks.append(_rect(places[0], width, kind, title))
    if math.isfinite(high) and low > 0:
        start, end = scale.at(low), scale.at(high)
        marks.append(
            f'<line class="band" x1="{start:.2f}%" x2="{end:.2f}%" y1="9" y2="9">{tip}</line>'
        )
    return picture(marks)


def dots(scale: LogScale, points: Iterable[tuple[int, float, str]]) -> str:
    """One dot per engine, coloured by its number."""
    marks = grid(scale, [value for value, _ in time_ticks(scale)])
    marks += [
        f'<circle class="e{number % 8}" cx="{scale.at(value):.2f}%" cy="9" r="5">'
        f"<title>{html.escape(title)}</title></circle>"
        for number, value, title in points
    ]
    return picture(marks)


def bar(share: float, kind: str, title: str) -> str:
    """A bar from the left edge over a share of the width."""
    return picture([_rect(0, max(100 * share, 0.3), kind, title)])


def stacked(shares: Iterable[tuple[float, str, str]]) -> str:
    """Parts of a whole side by side: share, kind and title of each."""
    marks = []
    start = 0.0
    for share, kind, title in shares:
        if share > 0:
            marks.append(_rect(start, 100 * share, kind, title))
            start += 100 * share
    return picture(marks)


def _rect(start: float, width: float, kind: str, title: str) -> str:
    return (
        f'<rect class="{kind}" x="{start:.2f}%" width="{width:.2f}%" y="3" height="12">'
        f"<title>{html.escape(title)}</title></rect>"
    )


def _ratio_text(power: int) -> str:
    if power == 0:
        return "same"
    return f"{2 ** abs(power)}x {'slower' if power > 0 else 'faster'}"


def _time_text(power: int) -> str:
    return f"{10**power} s" if power >= 0 else f"{10.0 ** (power + 3):g} ms"

"""Line charts as inline SVG. Colours come from the page's style sheet, so they follow light and dark."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from hocket.core import sums

WIDTH, HEIGHT = 380.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 10.0, 24.0

Point = tuple[float, float]


@dataclass(frozen=True)
class ChartLine:
    """One curve: points with rising x, and where known an interval (low, high) per point."""

    name: str
    points: Sequence[Point]
    band: Sequence[tuple[float, float, float]] = ()
    marks: bool = False

    def to_json(self) -> dict[str, Any]:
        """The line as the page's script reads it, with five digits per value."""
        line = {"name": self.name, "points": [[x, _short(y)] for x, y in self.points]}
        return line | ({"band": [[x, _short(low), _short(high)] for x, low, high in self.band]} if self.band else {})


@dataclass(frozen=True)
class Chart:
    """A titled chart. `share` fixes the axis to 0 .. 1 and shows percent; `unit` stands beside the title.

    `zero` begins the axis at 0. The axis spans `least` at least, so that rounding errors do not look like events.
    `across` names what the horizontal axis counts. A line's colour is its number's among `lines`, those without points
    counted, so that it is one run's in all charts of a page.
    """

    title: str
    lines: Sequence[ChartLine]
    unit: str = ""
    share: bool = False
    zero: bool = False
    note: str = ""
    least: float = 0.0
    across: str = "step"

    def svg(self) -> str:
        """The chart as an SVG element, sized by its container."""
        numbered = {number: thinned(line) for number, line in enumerate(self.lines) if line.points}
        shown = list(numbered.values())
        if not shown:
            return ""
        frame = ChartFrame.around(shown, share=self.share, zero=self.zero, least=self.least)
        parts = [*frame.axes(self.share)]
        for number, line in numbered.items():
            parts += _drawn(line, frame, number)
        data = {
            "left": frame.x0, "right": frame.x1, "share": self.share, "across": self.across,
            "lines": [line.to_json() for line in shown],
        }  # fmt: skip
        label = escape(f"{self.title}; the arrow keys show its values")
        return (
            f'<svg class="chart" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" tabindex="0" aria-label="{label}" '
            f"data-chart='{escape(json.dumps(data), quote=True)}'>{''.join(parts)}</svg>"
        )


@dataclass(frozen=True)
class ChartFrame:
    """The ranges of a chart's axes.

    Attributes:
        x0, x1: of the horizontal axis. y0, y1: of the vertical one.
    """

    x0: float
    x1: float
    y0: float
    y1: float

    @staticmethod
    def around(lines: Sequence[ChartLine], *, share: bool, zero: bool, least: float) -> ChartFrame:
        """Ranges that hold all points and intervals, with some room."""
        xs = [x for line in lines for x, _ in line.points]
        ys = [y for line in lines for _, y in line.points] + [
            end for line in lines for _, low, high in line.band for end in (low, high)
        ]
        low, high = min(ys), max(ys)
        high = max(high, low + least)
        if share and low >= 0 and high <= 1:
            low, high = 0.0, 1.0
        elif zero and low >= 0:
            low, high = 0.0, high * 1.05 or 1.0
        else:
            room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
            low, high = low - room, high + room
        left, right = min(xs), max(xs)
        return ChartFrame(left, right if right > left else left + 1.0, low, high)

    def x(self, value: float) -> float:
        """The place of a step, in units of the drawing."""
        return LEFT + (value - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """The place of a value, in units of the drawing."""
        return HEIGHT - BOTTOM - (value - self.y0) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)

    def axes(self, share: bool) -> list[str]:
        """Lines and labels of both axes as SVG."""
        parts = []
        for tick in ticks(self.y0, self.y1, 5):
            y = self.y(tick)
            text = f"{tick * 100:g}%" if share else tidy(tick)
            parts.append(f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 6:g}" y="{y + 3.5:.1f}" text-anchor="end">{text}</text>')
        for tick in ticks(self.x0, self.x1, 6):
            if tick == round(tick):
                x = self.x(tick)
                anchor = "end" if x > WIDTH - RIGHT - 8 else "middle"
                parts.append(
                    f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 7:g}" text-anchor="{anchor}">{tidy(tick)}</text>'
                )
        return parts


def _drawn(line: ChartLine, frame: ChartFrame, number: int) -> list[str]:
    """A curve: its band, the measured values, and for long curves their running mean on top."""
    parts = []
    colour = f"c{number % 6}"
    if line.band:
        upper = [f"{frame.x(x):.1f},{frame.y(high):.1f}" for x, _, high in line.band]
        lower = [f"{frame.x(x):.1f},{frame.y(low):.1f}" for x, low, _ in reversed(line.band)]
        parts.append(f'<polygon class="band {colour}" points="{" ".join(upper + lower)}"/>')
    smooth = len(line.points) > 40 and not line.marks
    path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in line.points)
    parts.append(f'<polyline class="line {colour}{" faint" if smooth else ""}" points="{path}"/>')
    if smooth:
        mean = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in running_mean(line.points))
        parts.append(f'<polyline class="line {colour}" points="{mean}"/>')
    if line.marks or len(line.points) == 1:
        parts += [
            f'<circle class="mark {colour}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="2.6"/>'
            for x, y in line.points
        ]
    return parts


def running_mean(points: Sequence[Point]) -> list[Point]:
    """Each value averaged with its neighbours, about a twentieth of the curve; the window shrinks at the ends."""
    reach = max(1, len(points) // 40)
    smooth = []
    for place, (x, _) in enumerate(points):
        half = min(reach, place, len(points) - 1 - place)
        near = [y for _, y in points[place - half : place + half + 1]]
        smooth.append((x, sums.mean(near)))
    return smooth


def ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` round numbers in low .. high."""
    span = high - low
    if span <= 0 or not math.isfinite(span):
        return [low]
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999), default=10 * power)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]


def tidy(value: float) -> str:
    """A number as short as a label should be."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:g}M"
    if size >= 1e4:
        return f"{value / 1e3:g}k"
    if size < 1e-2:
        digits, power = f"{value:.1e}".split("e")  # 7.5e-4: as long as the margin is wide
        return f"{float(digits):g}e{int(power)}"
    return f"{value:g}"


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def thinned(line: ChartLine, most: int = 500) -> ChartLine:
    """At most `most` points, each the mean of its stretch."""
    if len(line.points) <= most:
        return line
    size = math.ceil(len(line.points) / most)
    parts = [line.points[start : start + size] for start in range(0, len(line.points), size)]
    points = [(part[-1][0], sums.mean([y for _, y in part])) for part in parts]
    return ChartLine(line.name, points, line.band, line.marks)


BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """The values as `width` blocks at most, each the mean of its stretch, scaled between least and largest."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    size = max(1, math.ceil(len(finite) / width))
    points = [sum(finite[i : i + size]) / len(finite[i : i + size]) for i in range(0, len(finite), size)]
    low, high = min(points), max(points)
    span = high - low or 1.0
    return "".join(BLOCKS[1 + round((point - low) / span * 7)] for point in points)

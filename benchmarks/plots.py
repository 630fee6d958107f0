"""Line charts side by side in one SVG file that follows light and dark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from hocket.apps.report.chart import ticks, tidy

WIDTH, HEIGHT = 250.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 18.0, 24.0, 36.0

STYLE = """
text { font: 10.5px system-ui, sans-serif; fill: #5c6878 } .name { font-weight: 600 }
.grid { stroke: #dfe4ea } .line { fill: none; stroke-width: 2; stroke-linejoin: round } .c3 { stroke-dasharray: 4 3 }
.c0 { stroke: #2563b8 } .c1 { stroke: #c2560c } .c2 { stroke: #0b7a6a } .c3 { stroke: #8a96a6 }
circle { fill: #fff; stroke-width: 1.6 }
@media (prefers-color-scheme: dark) {
  text { fill: #98a4b3 } .grid { stroke: #2e3743 } circle { fill: #12161c }
  .c0 { stroke: #6ea8f5 } .c1 { stroke: #f0954d } .c2 { stroke: #4cc2ad } .c3 { stroke: #6d7887 }
}
"""


@dataclass(frozen=True)
class Panel:
    """One chart: lines by name, x doubling from mark to mark, y from 0 in `unit`."""

    label: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    unit: str

    def svg(self, left: float, top: float) -> str:
        """The chart with its upper left corner at a place."""
        xs = sorted({x for line in self.lines.values() for x, _ in line})
        high = 1.08 * max(y for line in self.lines.values() for _, y in line)
        low, span = math.log(xs[0]), (math.log(xs[-1]) - math.log(xs[0])) or 1.0

        def across(x: float) -> float:
            return LEFT + (math.log(x) - low) / span * (WIDTH - LEFT - RIGHT)

        def down(y: float) -> float:
            return HEIGHT - BOTTOM - y / high * (HEIGHT - TOP - BOTTOM)

        parts = [f'<g transform="translate({left:g} {top:g})">', f'<text class="name" x="4" y="12">{self.unit}</text>']
        for tick in ticks(0.0, high, 4):
            y = down(tick)
            parts.append(f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{LEFT - 5:g}" y="{y + 3.5:.1f}" text-anchor="end">{tidy(tick)}</text>')
        for x in xs:
            parts.append(f'<text x="{across(x):.1f}" y="{HEIGHT - 21:g}" text-anchor="middle">{tidy(x)}</text>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text class="name" x="{middle:g}" y="{HEIGHT - 6:g}" text-anchor="middle">{escape(self.label)}</text>'
        )
        for number, line in enumerate(self.lines.values()):
            places = [(across(x), down(y)) for x, y in line]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline class="line c{number}" points="{path}"/>')
            if number < 3:
                parts += [f'<circle class="c{number}" cx="{x:.1f}" cy="{y:.1f}" r="2.4"/>' for x, y in places]
        return "".join([*parts, "</g>"])


def drawn(rows: Sequence[Sequence[Panel]]) -> str:
    """An SVG file of panels in rows, with a legend of the first panel's lines."""
    width, height = WIDTH * max(map(len, rows)), 26 + HEIGHT * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
        f"<style>{STYLE}</style>",
    ]
    for number, name in enumerate(rows[0][0].lines):
        x = LEFT + 90 * number
        parts.append(f'<line class="line c{number}" x1="{x:g}" x2="{x + 18:g}" y1="12" y2="12"/>')
        parts.append(f'<text x="{x + 23:g}" y="15.5">{escape(name)}</text>')
    for down, row in enumerate(rows):
        parts += [panel.svg(WIDTH * across, 26 + HEIGHT * down) for across, panel in enumerate(row)]
    return "\n".join([*parts, "</svg>"]) + "\n"

"""A chart as a picture of its own: an SVG file with title, legend and colours, which needs no page around it."""

from __future__ import annotations

import functools
import re
from base64 import b64encode
from html import escape

from hocket.apps.report.chart import HEIGHT, LEFT, RIGHT, WIDTH, Chart
from hocket.apps.report.page import asset

HEAD = 26.0
"""Height of the line with title and legend."""

RULE = re.compile(r"@media \(prefers-color-scheme: dark\) \{.*?\n\}|[^{}]+\{[^{}]*\}", re.DOTALL)
DRAWN = re.compile(r"\s*(?::root|@media \(prefers-color-scheme|svg |\.(?:c\d|band|mark)\b)")


def picture(chart: Chart) -> str:
    """The chart as a standalone SVG document, light or dark as the viewer prefers; empty without points."""
    drawing = chart.svg()
    if not drawing:
        return ""
    inner = drawing.partition(">")[2].removesuffix("</svg>")
    unit = f'<tspan class="legend">  {escape(chart.unit)}</tspan>' if chart.unit else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT + HEAD:g}" width="{WIDTH:g}" '
        f'height="{HEIGHT + HEAD:g}" role="img" aria-label="{escape(chart.title)}"><style>{_style()}</style>'
        f'<rect class="card" width="100%" height="100%" rx="8"/>'
        f'<text class="title" x="{LEFT - 34:g}" y="18">{escape(chart.title)}{unit}</text>{_legend(chart)}'
        f'<svg class="chart" y="{HEAD:g}" width="{WIDTH:g}" height="{HEIGHT:g}">{inner}</svg></svg>'
    )


def image(chart: Chart) -> str:
    """The picture as an HTML image, which looks the same wherever it is shown; empty without points."""
    drawing = picture(chart)
    return svg_image(drawing, chart.title, f"{WIDTH:g}") if drawing else ""


def svg_image(drawing: str, title: str, width: str) -> str:
    """An SVG document as an HTML image: its styles do not reach the page around it."""
    source = f'src="data:image/svg+xml;base64,{b64encode(drawing.encode()).decode()}"'
    return f'<img {source} alt="{escape(title)}" width="{width}">'


def _legend(chart: Chart) -> str:
    """The names of several lines, from the right edge, each in its line's colour."""
    names = [(number, line.name) for number, line in enumerate(chart.lines) if line.points]
    if len(names) < 2:
        return ""
    spans = "".join(
        f'<tspan style="fill: var(--c{number % 6})">{"  " * bool(place)}{escape(name)}</tspan>'
        for place, (number, name) in enumerate(names)
    )
    return f'<text class="legend" x="{WIDTH - RIGHT:g}" y="18" text-anchor="end" xml:space="preserve">{spans}</text>'


@functools.cache
def _style() -> str:
    """The rules of the page's style sheet that charts use, and those of the frame."""
    rules = [rule.strip() for rule in RULE.findall(re.sub(r"/\*.*?\*/", "", str(asset("page.css")), flags=re.DOTALL))]
    font = 'text { font-family: system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }'
    frame = ".card { fill: var(--card); stroke: var(--rule); } .title { font-size: 13px; font-weight: 600; }"
    words = ".title { fill: var(--ink); } .legend { font-size: 11px; font-weight: 400; fill: var(--soft); }"
    return "\n".join([*filter(DRAWN.match, rules), font, frame, words])

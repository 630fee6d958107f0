"""The curves of a run as one SVG that needs no style sheet."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from hocket.apps.report.chart import HEIGHT, WIDTH, Chart, ChartLine
from hocket.apps.report.curves import curves, is_number
from hocket.apps.report.page import asset
from hocket.apps.report.reading import RunRecord
from hocket.core.errors import ConfigurationError, nearest

COLUMNS, HEAD, GAP = 3, 40.0, 18.0
"""Charts beside each other; room above a chart for its title and legend; room between charts."""

SCOPE = "hocket-figure"
"""The class of the figure, so that its styles leave a notebook as it is."""

STYLE = """text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: var(--ink); }
.title { font-weight: 600; }
.legend { font-size: 11.5px; fill: var(--soft); }
.unit { fill: var(--soft); }
.back { fill: var(--card); }
.key { stroke-width: 3; }"""


@dataclass(frozen=True)
class RunFigure:
    """Charts of a run. Notebooks show it; in the dark its colours follow the page.

    Attributes:
        title: of the run. charts: in order.
    """

    title: str
    charts: tuple[Chart, ...]

    @classmethod
    def of(cls, run: RunRecord, metrics: Sequence[str] = ()) -> RunFigure:
        """The curves of the report, or one chart for each of these metrics.

        Raises:
            ConfigurationError: for a metric that was never measured, with the nearest.
        """
        if not metrics:
            return cls(run.name, tuple(curves(run)))
        known = {name for row in run.rows for name, value in row.items() if is_number(value)}
        for name in metrics:
            if name not in known:
                raise ConfigurationError(f"{run.name} has no metric {name!r}{nearest(name, sorted(known))}")
        return cls(run.name, tuple(_chart(run, name) for name in metrics))

    def svg(self) -> str:
        """The whole figure as SVG, with its own styles for light and dark."""
        count = len(self.charts)
        columns = max(1, min(COLUMNS, count))
        wide, high = WIDTH + GAP, HEIGHT + HEAD + GAP
        width, height = columns * wide + GAP, math.ceil(count / columns) * high + HEAD
        parts = [f'<rect class="back" width="{width:g}" height="{height:g}"/>']
        parts.append(f'<text class="title" x="{GAP:g}" y="24">{escape(self.title)}</text>')
        for number, chart in enumerate(self.charts):
            x, y = GAP + (number % columns) * wide, HEAD + (number // columns) * high
            parts.append(f'<g transform="translate({x:g} {y:g})">{_drawn(chart)}</g>')
        size = f'width="{width:g}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(self.title)}"'
        inside = f"<style>{_style()}</style>{''.join(parts)}"
        return f'<svg class="{SCOPE}" xmlns="http://www.w3.org/2000/svg" {size}>{inside}</svg>'

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, file: str | Path) -> Path:
        """Writes the figure into an SVG file and returns its path."""
        path = Path(file)
        if path.suffix.lower() != ".svg":
            raise ConfigurationError(f"{path}: a figure is written as SVG; name a file that ends in .svg")
        path.write_text(self.svg(), encoding="utf-8")
        return path


def _chart(run: RunRecord, name: str) -> Chart:
    points = [(float(row["step"]), float(row[name])) for row in run.rows if is_number(row.get(name))]
    return Chart(name, (ChartLine(name, points, marks=name.startswith("eval/")),))


def _drawn(chart: Chart) -> str:
    """A chart with its title, and a legend where it has several lines."""
    inner = chart.svg().replace("<svg ", f'<svg y="{HEAD:g}" width="{WIDTH:g}" height="{HEIGHT:g}" ', 1)
    unit = f' <tspan class="unit">{escape(chart.unit)}</tspan>' if chart.unit else ""
    parts = [f'<text class="title" y="12">{escape(chart.title)}{unit}</text>']
    x = 0.0
    for number, line in enumerate(chart.lines if len(chart.lines) > 1 else ()):
        if line.points:
            parts.append(f'<line class="key c{number % 6}" x1="{x:g}" x2="{x + 14:g}" y1="26" y2="26"/>')
            parts.append(f'<text class="legend" x="{x + 19:g}" y="30">{escape(line.name)}</text>')
            x += 34 + 6.6 * len(line.name)
    return "".join(parts) + inner


def _style() -> str:
    """The page's colours, and its rules for charts."""
    css = str(asset("page.css"))
    colours = css[: css.index("* {")].replace(":root", f".{SCOPE}")
    drawn = [line.removeprefix("svg ") for line in re.findall(r"^(?:svg \.|\.c\d|\.band\.).*$", css, re.MULTILINE)]
    rules = (rule for line in (*drawn, *STYLE.splitlines()) for rule in re.findall(r"[^{}]+\{[^}]*\}", line))
    scoped = (
        re.sub(r"(^|,)\s*", rf"\1.{SCOPE} ", rule.partition("{")[0]) + "{" + rule.partition("{")[2] for rule in rules
    )
    return colours + "\n".join(scoped)

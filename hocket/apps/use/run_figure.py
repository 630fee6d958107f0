"""The curves of a run as one picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from hocket.apps.report.chart import HEIGHT, WIDTH, Chart, ChartLine
from hocket.apps.report.curves import curves, is_number
from hocket.apps.report.picture import HEAD, picture, svg_image
from hocket.apps.report.reading import RunRecord
from hocket.core.errors import ConfigurationError, nearest

COLUMNS, TITLE, GAP = 3, 40.0, 18.0
"""Charts beside each other; room for the run's name; room between charts."""


@dataclass(frozen=True)
class RunFigure:
    """Charts of a run. Notebooks show it; its colours are light or dark as the viewer prefers.

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
        """The whole figure as a standalone SVG document."""
        pictures = [drawing for chart in self.charts if (drawing := picture(chart))]
        columns = max(1, min(COLUMNS, len(pictures)))
        wide, high = WIDTH + GAP, HEIGHT + HEAD + GAP
        width, height = columns * wide + GAP, math.ceil(len(pictures) / columns) * high + TITLE
        parts = [f'<text class="title" x="{GAP:g}" y="24">{escape(self.title)}</text>']
        for number, drawing in enumerate(pictures):
            x, y = GAP + (number % columns) * wide, TITLE + (number // columns) * high
            parts.append(drawing.replace("<svg ", f'<svg x="{x:g}" y="{y:g}" ', 1))
        size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.title)}">'
        return f"{head}{''.join(parts)}</svg>"

    def _repr_html_(self) -> str:
        return svg_image(self.svg(), self.title, "100%")

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

"""Learning curves of agents and teams as SVG files that follow light and dark, in docs/evidence.

Run `python benchmarks/agents_curves.py`; a picture is drawn from its CSV file where that is there.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

from hocket.apps.report.chart import HEIGHT, LEFT, WIDTH, Chart, ChartLine, Point
from hocket.core.intervals import mean_interval

FOLDER = Path("docs/evidence")
STYLE = """
svg { --c0: #2563b8; --c1: #c2560c; --c2: #0b7a6a; --c3: #8a4bb0; --soft: #5c6878; --rule: #dfe4ea }
@media (prefers-color-scheme: dark) {
  svg { --c0: #6ea8f5; --c1: #f0954d; --c2: #4cc2ad; --c3: #c38fe6; --soft: #98a4b3; --rule: #2e3743 }
}
text { font: 10.5px system-ui, sans-serif; fill: var(--soft) } .name { font-weight: 600 } .grid { stroke: var(--rule) }
.line { fill: none; stroke-width: 2; stroke-linejoin: round } .band { stroke: none; opacity: 0.16 }
.c0 { stroke: var(--c0) } .c1 { stroke: var(--c1) } .c2 { stroke: var(--c2) } .c3 { stroke: var(--c3) }
.band.c0, .mark.c0 { fill: var(--c0) } .band.c1, .mark.c1 { fill: var(--c1) }
.band.c2, .mark.c2 { fill: var(--c2) } .band.c3, .mark.c3 { fill: var(--c3) }
"""
TOP, GAP = 34.0, 16.0


def drawn(charts: Sequence[Chart]) -> str:
    """An SVG file of charts side by side, each with its title, what it counts and the names of its lines."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {(WIDTH + GAP) * len(charts):g} {HEIGHT + TOP + 14:g}" '
        f'role="img"><style>{STYLE}</style>'
    ]
    for number, chart in enumerate(charts):
        x = (WIDTH + GAP) * number
        parts.append(f'<text class="name" x="{x + 8:g}" y="12">{escape(chart.title)}</text>')
        for place, line in enumerate(chart.lines):
            left = x + LEFT + 105 * place
            parts.append(f'<line class="line c{place}" x1="{left:g}" x2="{left + 16:g}" y1="25" y2="25"/>')
            parts.append(f'<text x="{left + 20:g}" y="28.5">{escape(line.name)}</text>')
        place = f'x="{x:g}" y="{TOP:g}" width="{WIDTH:g}" height="{HEIGHT:g}"'
        parts.append(chart.svg().replace("<svg ", f"<svg {place} ", 1))
        parts.append(
            f'<text x="{x + WIDTH / 2:g}" y="{TOP + HEIGHT + 8:g}" text-anchor="middle">{escape(chart.across)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def mean_line(name: str, curves: Sequence[Mapping[float, float]]) -> ChartLine:
    """The mean over seeds at the steps that all have, with Student's 95 % interval where there are several."""
    steps = sorted(set.intersection(*(set(curve) for curve in curves)))
    points: list[Point] = [(step, sum(curve[step] for curve in curves) / len(curves)) for step in steps]
    band = []
    if len(curves) > 1:
        band = [(step, *mean_interval([curve[step] for curve in curves])) for step in steps]
    return ChartLine(name, points, band, marks=True)


def read(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open() as file:
        return list(csv.DictReader(file))


def curves(rows: Sequence[Mapping[str, str]], column: str) -> list[dict[float, float]]:
    """By seed what `column` is at the steps where it was measured."""
    found: dict[str, dict[float, float]] = {}
    for row in rows:
        if row[column] not in ("nan", ""):
            found.setdefault(row["seed"], {})[float(row["step"])] = float(row[column])
    return list(found.values())


def seeds(rows: Sequence[Mapping[str, str]], column: str) -> list[ChartLine]:
    """A line per seed."""
    return [ChartLine(f"seed {n}", list(curve.items()), marks=True) for n, curve in enumerate(curves(rows, column))]


def poker() -> str:
    rows = read("poker.csv")
    return drawn(
        [
            Chart("NashConv of Kuhn poker, exact", seeds(rows, "nash_conv"), zero=True, across="self-play step"),
            Chart("Share of illegal moves met", seeds(rows, "illegal"), zero=True, across="self-play step"),
        ]
    )


def by(rows: Sequence[Mapping[str, str]], kind: str, column: str) -> list[ChartLine]:
    """A line per kind: the mean over seeds."""
    kinds = list(dict.fromkeys(row[kind] for row in rows))
    return [mean_line(name, curves([row for row in rows if row[kind] == name], column)) for name in kinds]


def horizon() -> str:
    rows = read("horizon.csv")
    return drawn(
        [
            Chart("Chance of arriving, unseen mazes, exact", by(rows, "method", "arrive"), zero=True, across="step"),
            Chart("Training walks that arrived", by(rows, "method", "walked"), zero=True, across="step"),
        ]
    )


def pairs() -> str:
    lines = by(read("pairs.csv"), "variant", "accuracy")
    return drawn([Chart("Accuracy on 400 unseen questions", lines, zero=True, across="step")])


def tool() -> str:
    rows = read("tool.csv")
    return drawn(
        [
            Chart("Accuracy, greedy", seeds(rows, "accuracy"), zero=True, across="step"),
            Chart("Calls per sampled episode", seeds(rows, "calls"), zero=True, across="step"),
        ]
    )


PICTURES: Mapping[str, Callable[[], str]] = {"poker": poker, "horizon": horizon, "pairs": pairs, "tool": tool}


def main() -> None:
    """Draws what there is."""
    for name, draw in PICTURES.items():
        if (FOLDER / f"{name}.csv").is_file():
            (FOLDER / f"{name}.svg").write_text(draw())
            print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()

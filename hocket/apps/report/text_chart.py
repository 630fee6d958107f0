"""Line charts in a terminal, drawn with braille characters: two by four dots each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rich.text import Text

from hocket.apps.report.chart import Chart, ChartFrame, Point, thinned, tidy

STYLES = ("cyan", "yellow", "green", "magenta", "blue", "red")
"""Of a chart's lines, in order."""

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of a dot in the Unicode block of braille, by its row and column."""

_BRAILLE = 0x2800


def text_chart(chart: Chart, width: int, height: int) -> Text:
    """A chart as `height` lines of `width` characters: title and latest values, curves, first and last step.

    Where a line crosses another one, the later one is drawn.
    """
    lines = [(number, thinned(line, 4 * width)) for number, line in enumerate(chart.lines) if line.points]
    # A few lines of characters show no change on an axis from 0 to 100 %.
    frame = ChartFrame.around([line for _, line in lines], share=False, zero=chart.zero, least=chart.least)
    if chart.share:
        frame = replace(frame, y0=max(0.0, frame.y0), y1=min(1.0, frame.y1))
    ends = [_value(frame.y1, chart.share), _value(frame.y0, chart.share)]
    margin = max(map(len, ends)) + 1
    across, down = max(1, width - margin), max(1, height - 2)
    dots: dict[tuple[int, int], int] = {}
    colours: dict[tuple[int, int], str] = {}
    for number, line in lines:
        places = [_place(point, frame, 2 * across, 4 * down) for point in line.points]
        for x, y in _path(places):
            cell = (y // 4, x // 2)
            dots[cell] = dots.get(cell, 0) | _DOTS[y % 4][x % 2]
            colours[cell] = STYLES[number % len(STYLES)]
    rows = [_title(chart, width)]
    for row in range(down):
        label = ends[0] if row == 0 else ends[1] if row == down - 1 else ""
        text = Text(f"{label:>{margin - 1}} ", style="dim")
        for column in range(across):
            cell = (row, column)
            text.append(chr(_BRAILLE + dots.get(cell, 0)), style=colours.get(cell, ""))
        rows.append(text)
    first, last = tidy(round(frame.x0)), tidy(round(max(x for _, line in lines for x, _ in line.points)))
    rows.append(Text(" " * margin + first + last.rjust(max(0, across - len(first))), style="dim"))
    for row_text in rows:
        row_text.truncate(width, pad=True)
    return Text("\n", end="").join(rows)


def _title(chart: Chart, width: int) -> Text:
    """The title, and of every line that fits its name and latest value."""
    title = Text(chart.title, style="bold")
    for number, line in enumerate(chart.lines):
        if line.points:
            name = f"{line.name} " if len(chart.lines) > 1 else ""
            part = Text(f"  {name}{_value(line.points[-1][1], chart.share)}", style=STYLES[number % len(STYLES)])
            if title.cell_len + part.cell_len > width:
                break
            title.append_text(part)
    return title


def _value(value: float, share: bool) -> str:
    return f"{100 * value:.0f}%" if share else tidy(float(f"{value:.3g}"))


def _place(point: Point, frame: ChartFrame, across: int, down: int) -> tuple[int, int]:
    """The dot of a point, from the top left."""
    x = (point[0] - frame.x0) / (frame.x1 - frame.x0)
    y = (frame.y1 - point[1]) / (frame.y1 - frame.y0)
    return round(x * (across - 1)), min(down - 1, max(0, round(y * (down - 1))))


def _path(places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The dots of a line through the places."""
    yield places[0]
    for (x0, y0), (x1, y1) in pairwise(places):
        steps = max(abs(x1 - x0), abs(y1 - y0))
        for step in range(1, steps + 1):
            yield round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps)

"""The display of a run in a notebook: one output per run, whose curves move."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from rich.text import Text

from hocket.apps.cli.display import clock, opening
from hocket.apps.report.curves import curves
from hocket.apps.report.picture import image
from hocket.apps.report.reading import RunRecord, read_run
from hocket.apps.report.results import results_html
from hocket.train.tracking import read_metrics
from hocket.train.trainer import Trainer

CHARTS = 4
"""Charts shown; the report has them all."""

MESSAGES = 8
"""Messages shown, the latest."""

PAUSE = 0.5
"""Seconds between two updates at least."""

BAR = "height: 6px; border-radius: 3px; background: #8883; margin: 6px 0; max-width: 770px"
SOFT = "opacity: .7; font-size: 90%"


class NotebookDisplay:
    """Shows a run as HTML that is updated in place; a front end without HTML shows a line of text."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._opening, self._messages = list[str](), list[str]()
        self._rows: list[dict[str, Any]] = []
        self._measure = ""
        self._step, self._first, self._steps = 0, 0, 0
        self._updated, self._began = 0.0, 0.0

    # ------------------------------------------------------------ observer

    def started(self, trainer: Trainer) -> None:
        self._opening = [Text.from_markup(line).plain for line in opening(trainer)]
        self._rows, self._measure = read_metrics(trainer.folder.metrics), trainer.measure.name
        self._step = self._first = trainer.progress.step
        self._steps, self._began = trainer.total_steps, time.monotonic()
        self._handle = None
        self._show(self._progress())

    def stepped(self, trainer: Trainer, row: dict[str, Any]) -> None:
        self._rows.append(row)
        self._step, self._measure = row["step"], trainer.measure.name
        if self._step == self._first:
            self._began = time.monotonic()
        if time.monotonic() - self._updated > PAUSE:
            self._show(self._progress())

    def said(self, message: str) -> None:
        # Shown with the next step: a message may come from a thread that belongs to no cell.
        self._messages.append(message)

    def close(self) -> None:
        if self._handle is not None:
            self._show(self._progress())

    def end(self, trainer: Trainer, *, resume: str) -> None:
        """Shows what came of a run; `resume` continues it."""
        record = read_run(trainer.folder.path)
        onward = f'<div style="{SOFT}">continue: <code>{escape(resume)}</code></div>'
        self._show(results_html(record) + onward, record)
        self._messages = []

    # ------------------------------------------------------------ what is shown

    def _show(self, body: str, record: RunRecord | None = None) -> None:
        from IPython.display import display  # Only notebooks have it.

        first, *others = self._opening
        head = f"<div>{escape(first)}</div>" + _lines(others)
        html = f"<div>{head}{body}{_lines(self._messages[-MESSAGES:], '! ')}{self._charts(record)}</div>"
        data = {"text/html": html, "text/plain": f"{first}; step {self._step} of {self._steps}"}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
        self._updated = time.monotonic()

    def _progress(self) -> str:
        """The step, the time left and a bar."""
        done = self._step - self._first
        left = (time.monotonic() - self._began) / max(1, done) * (self._steps - self._step)
        words = f"step {self._step} of {self._steps}" if self._rows else "evaluation before training"
        words += f", {clock(left)} left" if done > 1 and self._step < self._steps else ""
        share = 100 * self._step / max(1, self._steps)
        bar = f'<div style="width: {share:.1f}%; height: 6px; border-radius: 3px; background: #2563b8"></div>'
        return f'<div style="{BAR}">{bar}</div><div>{words}</div>'

    def _charts(self, record: RunRecord | None) -> str:
        """The first curves of the report."""
        summary: Mapping[str, Any] = {"measure": self._measure} if record is None else record.summary
        known = RunRecord(Path(), self._rows, summary, {}, "", {}, (), ())
        return f"<div>{' '.join(image(chart) for chart in curves(known)[:CHARTS])}</div>"


def _lines(lines: Iterable[str], before: str = "") -> str:
    return "".join(f'<div style="{SOFT}">{before}{escape(line)}</div>' for line in lines)

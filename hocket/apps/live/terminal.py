"""A run as a page of a terminal: progress, curves, warnings and the latest answers, as much as fits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hocket.apps.cli.display import clock, number, role_lines
from hocket.apps.live.following import FollowedRun, seconds_per_step, seconds_since, steps_of
from hocket.apps.report.chart import Chart
from hocket.apps.report.page import diagnosis_of
from hocket.apps.report.text_chart import text_chart
from hocket.train.answers import SampledAnswer, sampled_answers
from hocket.train.kinds.words import units_of

NARROWEST, CHART_HEIGHT = 36, 9
"""Characters of a chart in width, at least, and in height."""

ANSWERS, WARNINGS = 8, 3
"""Shown at most: answers where there is room without end, and warnings."""


def watch(run: FollowedRun, console: Console, every: float) -> None:
    """Draws a run on a terminal until it ends, `every` seconds; then leaves it as it ended."""
    if not run.ended:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not run.ended:
                began = time.monotonic()
                run.poll()
                live.update(run_page(run, console.width, console.height), refresh=True)
                # A long run takes a while to read and draw: at most a sixth of the time goes into it.
                time.sleep(max(every, 5 * (time.monotonic() - began)))
            run.poll()
    console.print(run_page(run, console.width, console.height - 1))


def run_page(run: FollowedRun, width: int, height: int | None = None) -> Group:
    """The run on `width` characters and `height` lines; None is as many as it takes."""
    head = [_heading(run), *_progress(run, width)]
    notes = [_cut(f"! {line}", width, "yellow") for line in _warnings(run)]
    facts = [_cut(line, width) for line in _facts(run)]
    # What has not moved says the least.
    charts = sorted(run.charts, key=lambda chart: all(len({y for _, y in line.points}) < 2 for line in chart.lines))
    used = len(head) + len(notes) + len(facts) + 1
    room = math.inf if height is None else height - used
    across = max(1, min(3, width // NARROWEST))
    # Answers get four lines before a second row of charts is drawn.
    rows = 0 if room < CHART_HEIGHT + 1 else 2 if room >= 2 * (CHART_HEIGHT + 1) + 5 else 1
    grid = _grid(charts[: rows * across], width, across)
    left = room - sum(CHART_HEIGHT + 1 for _ in grid)
    answers = _answers(run, width, int(min(left - 2, ANSWERS if height is None else left - 2)))
    end = "Ctrl-C ends this view; the run goes on" if run.training else ""
    return Group(*head, *grid, *facts, *notes, *answers, *([_cut(end, width, "dim")] if end else []))


def _heading(run: FollowedRun) -> Text:
    record = run.record
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(record.name, style="bold")
    text.append(f"  {run.state}", style="green" if run.training or run.state == "finished" else "yellow")
    about = [f"{name} {record.summary[name]}" for name in ("recipe", "task", "model") if record.summary.get(name)]
    return text.append(_plain("   " + "  ".join(about)), style="dim")


def _progress(run: FollowedRun, width: int) -> Iterator[RenderableType]:
    record = run.record
    step, steps = steps_of(record)
    pace = seconds_per_step(record.rows)
    words = [f"step {step}" + (f" of {steps}" if steps else "")]
    if pace is not None and run.training:
        words += [f"{clock(pace * (steps - step))} left"] if steps and step < steps else []
    if pace is not None:
        words.append(f"{pace:.2g} s a step")
    last = record.rows[-1] if record.rows else {}
    if last.get("throughput/tokens") is not None:
        words.append(f"{number(last['throughput/tokens'], ',.0f')} {units_of(record.measure).decisions}/s")
    since = seconds_since(record)
    if run.training:
        # A step that takes long is seen here first.
        words.append("no step yet" if since is None else f"last step {clock(since)} ago")
    elif isinstance(last.get("time/total"), (int, float)):
        words.append(f"{clock(last['time/total'])} in all")
    yield _cut(" · ".join(words), width)
    if steps:
        yield ProgressBar(total=steps, completed=min(step, steps), width=width)


def _facts(run: FollowedRun) -> Iterator[str]:
    rows = run.record.trained
    if not rows:
        return
    row, units = rows[-1], units_of(run.record.measure)
    words = [f"entropy {number(row.get('entropy'), '.2f')}", f"length {number(row.get('length/mean'), '.1f')}"]
    if row.get("groups/total"):
        words.append(f"groups with signal {row.get('groups/with_signal') or 0:.0f}/{row['groups/total']:.0f}")
    if row.get("truncated/share"):
        words.append(f"{row['truncated/share']:.0%} of {units.samples} cut off")
    yield " · ".join(words)
    for name, reward, rest in role_lines(row):
        yield Text.from_markup(f"{name}  {reward}  {rest}").plain


def _warnings(run: FollowedRun) -> list[str]:
    """What keeps the run from learning, then its latest messages."""
    record = run.record
    known = diagnosis_of(record, run.answers()) if record.trained else []
    return [*known[:2], *reversed(record.messages[-WARNINGS:])][:WARNINGS]


def _grid(charts: Sequence[Chart], width: int, across: int) -> list[RenderableType]:
    """Rows of charts, an empty line before each."""
    rows: list[RenderableType] = []
    each = (width - 2 * (across - 1)) // across
    for start in range(0, len(charts), across):
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_row(*(text_chart(chart, each, CHART_HEIGHT) for chart in charts[start : start + across]))
        rows.append(Group(Text(""), table))
    return rows


def _answers(run: FollowedRun, width: int, room: int) -> list[RenderableType]:
    """The latest answers with their rewards, `room` of them."""
    answers = sampled_answers(run.answers())
    if not answers or room < 1:
        return []
    units = units_of(run.record.measure)
    title = Text(f"{len(answers)} {units.samples} of step {run.record.steps[-1]}", style="bold")
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0), show_header=False, width=width)
    table.add_column(justify="right", no_wrap=True, min_width=6)
    table.add_column(ratio=2, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=3, no_wrap=True, overflow="ellipsis")
    known = [answer.reward for answer in answers if answer.reward is not None]
    for answer in contrasting(answers, room):
        style = "" if answer.reward is None else "green" if answer.reward >= max(known) else "yellow"
        reward = "failed" if answer.failure else number(answer.reward, ".3g")
        words = answer.failure or answer.answer or "(nothing)"
        table.add_row(Text(reward, style="red" if answer.failure else style), Text(_plain(answer.prompt), style="dim"),
                      Text(_plain(words)))  # fmt: skip
    return [Text(""), title, table]


def contrasting(answers: Sequence[SampledAnswer], count: int) -> list[SampledAnswer]:
    """The best and the worst answer of each group, groups whose rewards differ first."""
    groups: dict[int, list[SampledAnswer]] = {}
    for answer in answers:
        groups.setdefault(answer.group, []).append(answer)
    worth = {id(answer): -math.inf if answer.reward is None else answer.reward for answer in answers}
    ordered = [sorted(group, key=lambda answer: -worth[id(answer)]) for group in groups.values()]
    ordered.sort(key=lambda group: group[0].reward == group[-1].reward)
    pairs = [answer for group in ordered for answer in ((group[0], group[-1]) if len(group) > 1 else group)]
    return pairs[:count]


def _plain(text: str) -> str:
    """A text of others on one line, without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _cut(text: str, width: int, style: str = "") -> Text:
    line = Text(_plain(text), style=style, no_wrap=True)
    line.truncate(width, overflow="ellipsis")
    return line

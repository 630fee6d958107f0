"""What a person sees while training: a live line with the reward moving, and the closing summary."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from hocket.apps.report.chart import sparkline
from hocket.apps.report.page import diagnosis_of
from hocket.apps.report.reading import read_run
from hocket.core.casting import Shared
from hocket.core.components import is_component
from hocket.core.examples import Example
from hocket.core.waits import in_words, long_waits
from hocket.recipe import Recipe
from hocket.train import adapters
from hocket.train.examples import replayed
from hocket.train.kinds import ACCURACY, MEASURES, is_share, kind_of
from hocket.train.kinds.ways import GREEDY, SAMPLED, SAMPLED_KEYS, as_greedy, leads_of, ways_shown
from hocket.train.kinds.words import (
    EPISODES,
    RESPONSES,
    WORDS,
    UnitNames,
    interval_of,
    is_recorded,
    recorded_rows,
    units_of,
)
from hocket.train.settings import Config
from hocket.train.suggestions import changed
from hocket.train.trainer import Trainer


def recent_mean(values: list[float]) -> float:
    """Of the last ten; not a number where there are none."""
    recent = values[-10:]
    return sum(recent) / len(recent) if recent else math.nan


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    total = max(0, round(seconds))
    hours, rest = divmod(total, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def number(value: float | None, form: str = ".3f") -> str:
    """A number, or a dash when there is none."""
    return "–" if value is None or not math.isfinite(value) else format(value, form)


class LiveDisplay:
    """Watches a run on a terminal; falls back to a line now and then where there is none."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.rewards: list[float] = []
        self.shaped: list[float] = []
        self.evaluations: list[tuple[int, float]] = []
        self.last: dict[str, Any] = {}
        self.measure, self.recorded = ACCURACY, ""
        self.units = RESPONSES
        self.progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
            TextColumn("{task.fields[left]}"),
            console=console,
            expand=True,
        )
        self.bar: TaskID | None = None
        # Made anew at each refresh: a wait goes on without any news.
        self.live = Live(get_renderable=self._page, console=console, refresh_per_second=4, transient=False)
        self.began = time.monotonic()
        self.first_step = 0
        self.steps: int = 0

    # ------------------------------------------------------------ observer

    def started(self, trainer: Trainer) -> None:
        config = trainer.config
        self.first_step = trainer.progress.step
        self.steps = trainer.total_steps
        self.measure = trainer.measure
        self.units = run_units(trainer)
        self.bar = self.progress.add_task(
            f"{config.method} on {config.task}", total=self.steps, completed=self.first_step, left=""
        )
        for number, line in enumerate(opening(trainer)):
            self.console.print(line, style="dim" if number else None, soft_wrap=not self.console.is_terminal)
        if self.console.is_terminal:
            self.live.start()

    def stepped(self, trainer: Trainer, row: dict[str, Any]) -> None:
        self.last = row
        if row["step"] == 0:
            self.began = time.monotonic()
        if "reward/mean" in row and _sampled(row):
            self.rewards.append(row["reward/mean"])
        if "reward/shaped" in row:
            self.shaped.append(row["reward/shaped"])
        measured = row.get(f"eval/{trainer.measure.name}")
        if leads_of(trainer.task) == SAMPLED:
            measured = row.get(f"eval/{SAMPLED}", measured)
        if measured is not None:
            self.evaluations.append((row["step"], measured))
            self.recorded = _recorded(row)
        if self.bar is not None:
            self.progress.update(self.bar, completed=row["step"], left=self._left(row["step"]))
        if self.console.is_terminal:
            self.live.refresh()
        elif measured is not None:
            self.console.print(self._line(row, measured))

    def said(self, message: str) -> None:
        # Not broken into lines where nobody looks at a terminal, so that logs can be searched.
        self.console.print(f"[yellow]![/] {escape(message)}", soft_wrap=not self.console.is_terminal)

    def close(self) -> None:
        """Stops the live part; what was shown stays."""
        if self.live.is_started:
            self.live.stop()

    def end(self, trainer: Trainer, *, resume: str) -> None:
        """Prints the closing summary; `resume` continues the run."""
        self.console.print(closing(outcome(trainer), trainer.folder.path, resume=resume))

    # ------------------------------------------------------------ what is drawn

    def _left(self, step: int) -> str:
        done = step - self.first_step
        if done < 2:
            return ""
        return f"{clock((time.monotonic() - self.began) / done * (self.steps - step))} left"

    def _line(self, row: Mapping[str, Any], measured: float) -> str:
        # Where nothing else is measured, the metrics of recorded responses have it.
        words = _recorded(row) if not self.measure.answers else f"{self.measure.name} {measured:.3f}  {_recorded(row)}"
        sampled = (
            f"reward {number(row.get('reward/mean'))}  {self.units.decisions}/s "
            f"{number(row.get('throughput/tokens'), ',.0f')}  "
            if _sampled(row) and row["step"]
            else ""
        )
        return f"step {row['step']:4d}/{self.steps}  {words}{sampled}{self._left(row['step'])}"

    def _page(self) -> Group:
        row = self.last
        table = Table.grid(padding=(0, 3))
        mean = recent_mean(self.rewards)
        trend = Text(sparkline(self.rewards), style="green")
        if self.shaped:
            trend.append(f"  {number(recent_mean(self.shaped))} after shaping", style="dim")
        if _sampled(row):
            table.add_row("reward", f"[bold green]{number(mean)}[/]", trend)
        shown = [value for _, value in self.evaluations]
        latest = f"{shown[-1]:.3f}" if shown else "–"
        first = f"from {shown[0]:.3f} before" if len(shown) > 1 else "before training"
        signal, groups = row.get("groups/with_signal"), row.get("groups/total")
        # Where values are learnt, every episode has signal by itself, and groups are no matter.
        counts = (
            ""
            if self.units is EPISODES and signal == groups
            else f"groups with signal {signal or 0:.0f}/{groups or 0:.0f}"
        )
        trend = Text(sparkline(shown) + f"  {first}", style="cyan")
        table.add_row(self.measure.each, f"[bold cyan]{latest}[/]", trend)
        table.add_row(
            f"{self.units.decisions}/s",
            number(row.get("throughput/tokens"), ",.0f"),
            f"entropy {number(row.get('entropy'), '.2f')}   length {number(row.get('length/mean'), '.1f')}   {counts}",
        )
        if self.recorded:
            table.add_row("unseen responses", "", f"[dim]{escape(self.recorded)}[/]")
        for line in role_lines(row):
            table.add_row(*line)
        idle = sorted({key.rpartition("idle/")[2] for key in row if "idle/" in key})
        if idle:
            table.add_row("without effect", "", f"[dim]{escape(', '.join(idle))}[/] in this step")
        for what, (seconds, count) in long_waits().items():
            table.add_row("waiting for", "", escape(in_words(what, seconds, count)))
        return Group(self.progress, table) if self.bar is not None else Group(table)


def _recorded(row: Mapping[str, Any]) -> str:
    """The metrics of an evaluation on recorded responses, in brief."""
    words = {"pairs/accuracy": "pairs", "pairs/margin": "margin", "labels/accuracy": "labels"}
    words |= {"lists/accuracy": "lists", "scores/explained": "explained", "loss": "unseen loss"}
    words_and_values = [f"{word} {row[f'eval/{name}']:.3f}  " for name, word in words.items() if f"eval/{name}" in row]
    return "".join(words_and_values)


def run_units(trainer: Trainer) -> UnitNames:
    """What the samples of a run are called."""
    return EPISODES if kind_of(trainer.task).measure.name == "return" else RESPONSES


def opening(trainer: Trainer) -> list[str]:
    """What a run is, in rich's markup: what trains on what and where; then its batches and settings, a line each."""
    config, step = trainer.config, trainer.progress.step
    who = kind_of(trainer.task, config).describe(config)
    onward = f", continuing from step {step}" if step else ""
    budget = getattr(getattr(trainer.machine, "memory", None), "token_budget", None)
    return [
        f"[bold]hocket[/] training [cyan]{who}[/] on [cyan]{config.task}[/]{played(config)} with "
        f"[cyan]{config.method}[/], seed {config.seed}, {trainer.machine.briefly} "
        f"→ {trainer.folder.path}{onward}",
        *effective_batches(config, run_units(trainer), budget),
        *adapters.lines(trainer.parts.learners),
        *changes(config),
    ]


def effective_batches(config: Config, units: UnitNames, token_budget: float | None = None) -> list[str]:
    """Per recipe of the run the effective batch of an optimiser step, in the words of other libraries.

    Args:
        config: of the run.
        units: what its samples are called.
        token_budget: tokens per forward and backward pass, over which gradients are accumulated; None where there are
            no tokens.
    """
    return [
        ("" if len(config.phases) == 1 else f"{recipe.name}: ") + _effective_batch(recipe, units, token_budget)
        for recipe, _ in config.phases
    ]


def _effective_batch(recipe: Recipe, units: UnitNames, token_budget: float | None) -> str:
    prompts, samples = recipe.curriculum.prompts, recipe.rollout.samples
    pairs = samples is None and replayed(recipe) is Example.PAIR
    what = "pairs" if pairs else "prompts" if samples is None else units.samples
    size = prompts * (samples or 1)
    begun = "prompts" if units is RESPONSES else "starts"
    made = f"{prompts} {begun} x {samples} samples = " if samples is not None and samples > 1 else ""
    parts, passes = int(getattr(recipe.update, "minibatches", 1)), int(getattr(recipe.update, "epochs", 1))
    words = f"effective batch = {made}{size} {what} per step"
    if parts > 1 or passes > 1:
        # Those of a small network consist of steps, of which nobody knows how many there will be.
        each = f" of {max(1, size // parts)}" if units is RESPONSES else ""
        words += f", in {parts} mini-batches{each}" if parts > 1 else ""
        words += f", {passes} times" if passes > 1 else ""
        words += f" ({parts * passes} optimiser steps)"
    if token_budget is not None and math.isfinite(token_budget):
        words += f"; gradients accumulate over micro-batches of at most {token_budget:,.0f} tokens"
    return words


def changes(config: Config) -> list[str]:
    """Per recipe of the run, what differs from it as the library has it: what the task suggests, and flags."""
    lines = []
    for recipe, _ in config.phases:
        settings = [f"{path} = {_setting(new)} (not {_setting(old)})" for path, (old, new) in changed(recipe).items()]
        if settings:
            lines.append(escape(f"{recipe.name} here: {', '.join(settings)}"))
    return lines


def _setting(value: Any) -> str:
    return type(value).__name__ if is_component(value) else str(value)


def played(config: Config) -> str:
    """What the run or its recipe prescribes: the workflow, and the cast where roles do not share one policy."""
    recipe = config.phases[0][0]
    flow, cast = config.workflow or recipe.workflow, type(recipe.cast)
    words = f" played as [cyan]{escape(flow)}[/]" if flow else ""
    return words + (f" with the cast [cyan]{cast.__name__}[/]," if cast is not Shared else "")


ROLES_SHOWN = 6
"""Lines for roles at most."""


def role_lines(row: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """A line per learner of a team: its name, its reward where it is told apart, entropy, divergence and signal."""
    names = [key.removesuffix("/entropy") for key in row if key.endswith("/entropy") and key.count("/") == 1]
    lines = []
    for name in names[:ROLES_SHOWN]:
        reward = next((row[key] for key in (f"{name}/reward", f"reward/agent/{name}") if key in row), None)
        kl, signal = row.get(f"{name}/kl/reference"), row.get(f"{name}/groups/with_signal")
        figures = [f"entropy {number(row.get(f'{name}/entropy'), '.2f')}"]
        figures += [f"kl {number(kl)}"] if kl is not None else []
        figures += (
            [f"signal {number(signal, '.0f')}/{number(row.get('groups/total'), '.0f')}"] if signal is not None else []
        )
        lines.append(
            (escape(name), f"[bold green]{number(reward)}[/]" if reward is not None else "", "   ".join(figures))
        )
    if len(names) > ROLES_SHOWN:
        lines.append(("", "", f"[dim]and {len(names) - ROLES_SHOWN} more roles[/]"))
    return lines


def _sampled(row: Mapping[str, Any]) -> bool:
    """Whether a step sampled anything: where all responses were recorded no reward moves and no token is drawn."""
    return row.get("tokens/generated") != 0


# ---------------------------------------------------------------- the closing summary


def outcome(trainer: Trainer) -> dict[str, Any]:
    """The summary of a run that has ended, with its diagnosis and messages."""
    record = read_run(trainer.folder.path)
    sentences = {"diagnosis": diagnosis_of(record), "messages": list(record.messages)}
    return {**trainer.summary(trainer.ended), **sentences}


def closing(summary: Mapping[str, Any], folder: Path, *, resume: str) -> Panel:
    """What was gained, what changed in the answers, where things are and what to try next."""
    before, after, measure = summary["before"], summary["after"], summary["measure"]
    share, what = is_share(measure), MEASURES.get(measure, ACCURACY)
    digits = 1 if what.answers else 3
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1))
    for heading in ("", "before", "after", "change"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    ways = ways_shown(before, after, measure, summary.get("leads", GREEDY))
    for place, way in enumerate(ways):
        old, new = as_greedy(before, measure, way), as_greedy(after, measure, way)
        bold = ("bold", "bold green") if not place else ("dim", "dim")
        table.add_row(
            WORDS.get(measure, measure) + (f", {way}" if ways != (GREEDY,) else ""),
            _value(old.get(measure), share=share, digits=digits),
            f"[{bold[0]}]{_value(new.get(measure), share=share, digits=digits)}[/]",
            f"[{bold[1]}]{_change(old, new, measure, share=share, digits=digits)}[/]",
        )
        table.add_row("[dim]95 % interval", _interval(old, share=share), _interval(new, share=share), "")
    table.add_row(f"[dim]{what.each}", f"[dim]{before.get('n', 0)}", f"[dim]{after.get('n', 0)}", "")
    apart = (measure, "n", "low", "high", "step", *SAMPLED_KEYS)
    both = [name for name in after if name not in apart and name in before]
    for name in [name for name in both if not is_recorded(name)]:
        fraction = name != "length" and not name.startswith("reward/")
        label = f"with {name}" if fraction else f"mean {name.replace('/', ' of ')}"
        if units_of(measure) is EPISODES:
            label = {"length": "steps per episode", "truncated": "episodes truncated"}.get(name, label)
        change = _change(before, after, name, share=fraction)
        table.add_row(label, _value(before[name], share=fraction), _value(after[name], share=fraction), change)
    for name, label, fraction in recorded_rows(before, after, apart=measure):
        values = [_value(measured[name], share=fraction, digits=3) for measured in (before, after)]
        change = _change(before, after, name, share=fraction, digits=3)
        table.add_row(label, values[0], values[1], change)
        ends = [interval_of(measured, name) for measured in (before, after)] if fraction else ()
        if any(ends):
            shown = [
                _interval(dict(zip(("low", "high"), measured or (), strict=False)), share=True) for measured in ends
            ]
            table.add_row("[dim]95 % interval", *shown, "")
    changed = [sample for sample in summary["samples"] if sample["right_after"] and not sample["right_before"]]
    rest = Table.grid(padding=(0, 3))
    rest.add_column(style="dim")
    rest.add_column(overflow="fold")
    why = summary.get("diagnosis", ())[:2]
    for name, text in (
        ("", ""),
        *((("note" if not number else "", sentence) for number, sentence in enumerate(why))),
        *((("", ""),) if why else ()),
        *(_example(changed[0]) if changed else ()),
        ("run", str(folder)),
        ("report", str(folder / "report.html")),
        ("time", f"{clock(summary['seconds'])} for {summary['steps']} steps"),
        ("", ""),
        ("train on", resume),
        ("measure", f"{program()} eval {folder}" + (" --samples 8" if measure == ACCURACY.name else "")),
        ("compare", f"{program()} recipes lists other methods, one --recipe away"),
    ):
        rest.add_row(name, escape(text))
    return Panel(
        Group(table, rest), title=f"[bold]{summary['name']}[/] {summary['reason']}", expand=False, padding=(1, 2)
    )


def program() -> str:
    """How this command is called here: by its name where a shell would find it."""
    script = Path(sys.argv[0])
    return (
        "hocket"
        if shutil.which("hocket") or script.name != "hocket"
        else min(str(script), os.path.relpath(script), key=len)
    )


def _example(sample: Mapping[str, Any]) -> list[tuple[str, str]]:
    """One problem that became right."""
    return [
        ("for example", sample["prompt"]),
        ("before", f"{sample['before']} ✗"),
        ("after", f"{sample['after']} ✓"),
        ("", ""),
    ]


def _interval(ends: Mapping[str, Any], *, share: bool) -> str:
    if not math.isfinite(ends.get("low", math.nan)):
        return "–"
    return f"[dim]{_value(ends['low'], share=share)} – {_value(ends['high'], share=share)}[/]"


def _value(value: float | None, *, share: bool, digits: int = 1) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return f"{100 * value:.1f} %" if share else f"{value:.{digits}f}"


def _change(before: Mapping[str, Any], after: Mapping[str, Any], name: str, *, share: bool, digits: int = 1) -> str:
    if name not in before or name not in after:
        return "–"
    change = after[name] - before[name]
    if not math.isfinite(change):
        return "–"
    return f"{100 * change:+.1f} points" if share else f"{change:+.{digits}f}"

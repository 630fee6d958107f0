"""`hocket eval`, `report`, `status`, `replay` and `compare`."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from hocket.apps.cli.output import Pairs, emit, err, out
from hocket.core.errors import ConfigurationError
from hocket.train.runfolder import find_run, find_source


def eval(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket eval`."""
    from hocket.apps.report.evaluation import evaluate_run

    source = find_source(options.run, options.runs)
    if options.blind and (options.search or options.against):
        raise ConfigurationError("--blind measures a run by itself; drop --search and --against")
    if options.search is not None:
        return _searched(source, options, pairs)
    if options.against is not None:
        return _against(source, options, pairs)
    if options.beside is not None:
        return _beside(source, options, pairs)
    if options.out is not None and options.format is None:
        raise ConfigurationError("--out is where --format lm-eval writes; add that, or drop it")
    stray = next((flag for flag in ("judge", "temperature") if getattr(options, flag) is not None), None)
    if stray is not None:
        raise ConfigurationError(f"--{stray} is for comparing answers: add --against RUN2, or drop it")
    print(f"{_effort(source, options)}; a smaller --n is faster", file=sys.stderr)
    evaluation = evaluate_run(
        source,
        pairs,
        n=options.n,
        samples=options.samples,
        task=options.task,
        which=options.checkpoint,
        answers=Path(options.answers) if options.answers else None,
        trust=options.trust,
        blind=options.blind,
        results=None if options.format is None else Path(options.out or "lm-eval"),
    )
    if options.format is not None:
        print(f"results in the form of lm-evaluation-harness: {evaluation['results']}", file=sys.stderr)
    return _measured(evaluation, as_json=options.json)


def _effort(source: Path, options: argparse.Namespace) -> str:
    """What is about to be measured, in the words of the run's kind."""
    from hocket.apps.report.reading import read_run
    from hocket.train.kinds.words import EPISODES, units_of

    if (source / "config.yaml").is_file() and units_of(read_run(source).measure) is EPISODES:
        return f"playing {options.n} unseen episodes greedily"
    tries = f"one greedy and {options.samples} sampled answers" if options.samples else "one greedy answer"
    return f"measuring {tries} to each of {options.n} unseen problems"


def _searched(source: Path, options: argparse.Namespace, pairs: Pairs) -> int:
    """Answers that the run's own value chose."""
    from hocket.apps.report.evaluation import search_run

    others = ("against", "beside", "judge", "temperature", "samples", "answers", "format")
    if stray := next((flag for flag in others if getattr(options, flag)), None):
        raise ConfigurationError(f"--{stray} and --search are two measurements; choose one")
    print(f"searching for answers to {options.n} unseen problems; a smaller --n is faster", file=sys.stderr)
    how: dict[str, Any] = {"n": options.n, "task": options.task, "which": options.checkpoint, "trust": options.trust}
    evaluation = search_run(source, pairs, options.search, **how)
    for title, reasons in evaluation["failures"].items():
        print(f"{title}: {len(reasons)} failed: {reasons[0]}", file=sys.stderr)
    return _measured(evaluation, as_json=options.json)


def _measured(evaluation: Mapping[str, Any], *, as_json: bool) -> int:
    """Shows what was measured."""
    if as_json:
        emit(evaluation)
        return 0
    table = Table(box=None, header_style="dim")
    for heading in ("", "value", "95 % interval", "n"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, value, low, high in evaluation["rows"]:
        ends = f"{low:.4f} – {high:.4f}" if math.isfinite(low) else ""
        table.add_row(escape(name), f"{value:.4f}", ends, str(evaluation["n"]))
    for name, value in evaluation["traits"].items():
        table.add_row(escape(name), f"{value:.3f}", "", str(evaluation["n"]))
    console = out()
    console.print(f"[bold]{escape(evaluation['source'])}[/] on [cyan]{escape(evaluation['task'])}[/]")
    console.print(table)
    return 0


def _beside(source: Path, options: argparse.Namespace, pairs: Pairs) -> int:
    """What a run loses, on a task that it was not trained on, to one that was."""
    from hocket.apps.report.shift import shift_drop

    if stray := next((flag for flag in ("samples", "judge", "temperature", "format") if getattr(options, flag)), None):
        raise ConfigurationError(f"--{stray} and --beside are two measurements; choose one")
    other = find_source(options.beside, options.runs)
    print(f"measuring both on the same {options.n} unseen scenarios; a smaller --n is faster", file=sys.stderr)
    how: dict[str, Any] = {"n": options.n, "task": options.task, "which": options.checkpoint, "trust": options.trust}
    return _measured(shift_drop(source, other, pairs, **how), as_json=options.json)


def _against(source: Path, options: argparse.Namespace, pairs: Pairs) -> int:
    """Win rates over another run or model."""
    from hocket.apps.report.answer_comparison import compare_answers

    if stray := next((flag for flag in ("samples", "answers", "beside", "format") if getattr(options, flag)), None):
        raise ConfigurationError(f"--{stray} and --against are two measurements; choose one")
    other = find_source(options.against, options.runs)
    judged = f"by {options.judge}" if options.judge else "by the task"
    print(
        f"comparing two answers to each of {options.n} unseen problems, {judged}; a smaller --n is faster",
        file=sys.stderr,
    )
    comparison = compare_answers(
        source,
        other,
        pairs,
        n=options.n,
        judge=options.judge,
        task=options.task,
        which=options.checkpoint,
        temperature=options.temperature or 0.0,
        trust=options.trust,
    )
    if options.json:
        emit(comparison)
        return 0
    console = out()
    names = {name: escape(comparison[name]) for name in ("source", "against", "task")}
    console.print("[bold]{source}[/] against [bold]{against}[/] on [cyan]{task}[/]".format(**names))
    table = Table(box=None, header_style="dim")
    for heading in ("", "value", "95 % interval", "n"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, key in (("win rate", "win_rate"), ("win rate, length controlled", "length_controlled")):
        rate = comparison[key]
        known = math.isfinite(rate["value"])
        interval = f"{rate['low']:.4f} – {rate['high']:.4f}" if known else "length decides all"
        table.add_row(name, f"{rate['value']:.4f}" if known else "–", interval, str(comparison["n"]))
    for name in ("wins", "ties", "losses", "unanswered"):
        table.add_row(name, str(comparison[name]), "", "")
    for name, key in (("mean characters", "source"), ("mean characters of the other", "against")):
        table.add_row(name, f"{comparison['characters'][key]:.1f}", "", "")
    console.print(table)
    for example in comparison["examples"]:
        console.print(f"\n[dim]{escape(example['verdict'])}[/]  {escape(example['prompt'])}")
        console.print(f"  [dim]this[/]   {escape(example['source'] or '(nothing)')}")
        console.print(f"  [dim]other[/]  {escape(example['against'] or '(nothing)')}")
    return 0


def report(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket report`."""
    if options.live:
        from hocket.apps.live.page import serve_page

        serve_page(options.run, options.runs, options.port or 0)
        return 0
    if options.port is not None:
        raise ConfigurationError("--port goes with --live; drop it")
    from hocket.apps.report.page import write_report
    from hocket.apps.report.plan import write_plan_report
    from hocket.train.pipeline import find_pipeline

    plan = find_pipeline(options.run, options.runs)
    print(write_report(find_run(options.run, options.runs)) if plan is None else write_plan_report(plan))
    return 0


def status(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket status`."""
    from hocket.apps.report.status import lag_words, learner_table, sampler_table, status_of

    state = status_of(find_run(options.run, options.runs))
    if options.json:
        emit(state)
        return 0
    console = out()
    steps = f" of {state['steps']}" if state["steps"] else ""
    age = "" if state["age"] is None or state["finished"] else f", the last one {state['age']:.0f} s ago"
    done = ", finished" if state["finished"] else ""
    console.print(f"[bold]{escape(state['run'])}[/]  step {state['step']}{steps}{done}{age}")
    if state.get("learners"):
        console.print(learner_table(state))
    if state.get("samplers"):
        console.print(sampler_table(state))
    if lags := lag_words(state):
        console.print(escape(lags))
    for line in state["faults"]:
        console.print(f"  {escape(line)}")
    return 0


def replay(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket replay`."""
    from hocket.apps.cli.display import LiveDisplay
    from hocket.train.replay import replay as replayed

    display = None if options.quiet or options.json else LiveDisplay(err())
    try:
        repetition = replayed(find_run(options.run, options.runs), display, trust=options.trust)
    finally:
        if display is not None:
            display.close()
    if options.json:
        emit({"steps": repetition.steps, "equal": repetition.difference is None, "difference": repetition.difference})
    elif repetition.difference is None:
        out().print(
            f"{options.run}: {repetition.steps} steps repeated in one process; all weights and metrics are equal"
        )
    else:
        out().print(
            f"{options.run}: after {repetition.steps} steps repeated in one process, {escape(repetition.difference)}"
        )
    return int(repetition.difference is not None)


def compare(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket compare`."""
    from hocket.apps.report.compare import compare_page, compare_rows, compare_table

    runs = [find_run(run, options.runs) for run in options.run]
    if options.json:
        emit(compare_rows(runs))
    else:
        out().print(compare_table(runs))
    if options.html:
        Path(options.html).write_text(compare_page(runs))
        print(options.html, file=sys.stderr)
    return 0

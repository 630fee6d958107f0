"""`hocket train`."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hocket.apps.cli.output import Pairs, emit, err
from hocket.core.ending import stopping
from hocket.core.errors import INTERRUPTED, ConfigurationError
from hocket.train.runfolder import find_run

if TYPE_CHECKING:
    from hocket.apps.cli.display import LiveDisplay
    from hocket.train.pipeline import PlanPipeline
    from hocket.train.settings import Config
    from hocket.train.trainer import Trainer


def train(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket train`."""
    from hocket.apps.cli.display import LiveDisplay
    from hocket.train.pipeline import PlanPipeline
    from hocket.train.trainer import NullObserver

    if options.list_flags:
        return _list_flags(options, pairs)
    display = None if options.quiet else LiveDisplay(err())
    observer = display or NullObserver()
    begun = _begun(options, pairs, observer)
    if isinstance(begun, PlanPipeline):
        return _run_phases(begun, display, observer, options, pairs)
    summary, code = _run(begun, display, options)
    if options.json:
        emit(summary)
    return code


def _run_phases(
    pipeline: PlanPipeline, display: LiveDisplay | None, observer: Any, options: argparse.Namespace, pairs: Pairs
) -> int:
    """Drives the runs of a plan one after the other."""
    from hocket.apps.report.plan import write_plan_report
    from hocket.run import write_report

    code, console = 0, err()
    summaries = [pipeline.summary(run) for run in pipeline.runs if pipeline.finished(run)]
    track = _words(dict(pairs).get("track", ())) if options.resume else ()
    found_trainers = pipeline.trainers(
        steps=options.steps, track=track, start_over=options.start_over, observer=observer, report=write_report
    )
    with closing(found_trainers) as trainers:
        for trainer in trainers:
            if display:
                console.print(f"[bold]phase {trainer.folder.name}[/] of {len(pipeline.runs)}: {trainer.config.method}")
            summary, code = _run(trainer, display, options, plan=pipeline)
            summaries.append(summary)
            write_plan_report(pipeline.folder)
            if code:
                break
    if not options.quiet:
        console.print(f"all phases: {pipeline.folder / 'report.html'}")
    if options.json:
        emit({"path": str(pipeline.folder), "phases": summaries})
    return code


def _run(
    trainer: Trainer, display: LiveDisplay | None, options: argparse.Namespace, *, plan: PlanPipeline | None = None
) -> tuple[dict[str, Any], int]:
    """Drives one run, of a `plan` or alone, to its end or until it is stopped; what came of it, and the exit status."""
    from hocket.apps.cli.display import closing as closing_panel
    from hocket.apps.cli.display import outcome, program
    from hocket.train.trainer import FAILED, UNSAVED

    with stopping() as stop:
        try:
            reason = trainer.drive(lambda: "interrupted" if stop else None)
        finally:
            if display:
                display.close()
        interrupted = bool(stop) and not trainer.done
    results = outcome(trainer)
    if options.quiet and reason == FAILED:
        print(f"hocket: {results['messages'][-1]}", file=sys.stderr)
    last = plan is None or plan.runs[-1].name == trainer.folder.name
    if not options.quiet:
        resume = f"{program()} train --resume {trainer.folder.path if plan is None else plan.folder}"
        ended = not interrupted and trainer.saved
        more = f" --steps {trainer.total_steps * 2}" if last and ended else ""
        err().print(closing_panel(results, trainer.folder.path, resume=resume + more))
    # Who stops a plan in the last step of a phase does not want the next.
    stopped = interrupted or (bool(stop) and not last)
    code = 1 if reason == FAILED or not trainer.saved else INTERRUPTED if stopped else 0
    if not trainer.saved:
        print(f"hocket: {UNSAVED}", file=sys.stderr)
    return {**results, "path": str(trainer.folder.path)}, code


def _begun(options: argparse.Namespace, pairs: Pairs, observer: Any) -> PlanPipeline | Trainer:
    """What is asked for, begun now or earlier: a run, or a plan whose phases are runs of their own."""
    from hocket import tasks
    from hocket.run import Trainer
    from hocket.train.config import configure, task_of
    from hocket.train.lessons import with_lessons
    from hocket.train.pipeline import PlanPipeline, phase_runs

    flags = _flag_pairs(options) + pairs
    if options.resume:
        return _resumed(options, pairs, flags, observer)
    if options.start_over:
        raise ConfigurationError("--start-over goes with --resume RUN; a new run begins at step 0 anyway")
    settings = _settings(options, flags)
    named = task_of(settings)
    task = tasks.find(named)
    settings = list(with_lessons(settings, named, task))
    runs = phase_runs(settings)
    if runs:
        return PlanPipeline.begin(runs, settings)
    # As it was named: a task's own name may leave settings out.
    return Trainer(configure([("task", named), *settings], task), task=task, observer=observer)


def _settings(options: argparse.Namespace, flags: Pairs) -> Pairs:
    """The settings of a file and of flags, by the library's own keys."""
    from hocket.train.known_names import resolved
    from hocket.train.task_settings import with_task_settings
    from hocket.train.trust import file_pairs

    file = options.config
    if file and "=" in file and not Path(file).exists():
        key, _, value = file.partition("=")
        raise ConfigurationError(f"there is no configuration file {file}; a setting is written --{key} {value}")
    written = file_pairs(Path(file), trust=options.trust) if file else []
    return with_task_settings(resolved([*written, *flags], prefix="--"))


def check_settings(options: argparse.Namespace, pairs: Pairs) -> None:
    """Refuses settings with which no run could begin; begins none.

    Raises:
        ConfigurationError: naming the setting.
    """
    from hocket.train.pipeline import phase_runs

    if not phase_runs(_settings(options, _flag_pairs(options) + pairs)):
        _settled(options, pairs)


def _settled(options: argparse.Namespace, pairs: Pairs) -> Config:
    """The configuration of the run that would begin."""
    from hocket import tasks
    from hocket.train.config import configure, settled, task_of
    from hocket.train.lessons import SETTING

    settings = [pair for pair in _settings(options, _flag_pairs(options) + pairs) if pair[0] != SETTING]
    named = task_of(settings)
    task = tasks.find(named)
    return settled(configure([("task", named), *settings], task), task)


def _list_flags(options: argparse.Namespace, pairs: Pairs) -> int:
    """Prints every setting of the run that would begin, with its value."""
    from hocket.train.known_names import as_text, settings_of

    config = _settled(options, pairs)
    recipes = [recipe for recipe, _ in config.phases]
    values = {path: as_text(value) for path, value in settings_of(config, *recipes).items()}
    if options.json:
        emit(values)
    else:
        print(f"# recipe {config.method}", *(f"--{path} {value}" for path, value in values.items()), sep="\n")
    return 0


def _resumed(options: argparse.Namespace, pairs: Pairs, flags: Pairs, observer: Any) -> PlanPipeline | Trainer:
    from hocket.run import write_report
    from hocket.train.pipeline import PlanPipeline, find_pipeline
    from hocket.train.trainer import resumed

    _refuse_changes(options, flags)
    plan = find_pipeline(options.resume, options.runs or "runs")
    if plan is not None:
        return PlanPipeline.at(plan, trust=options.trust)
    run, track = find_run(options.resume, options.runs or "runs"), dict(pairs).get("track", ())
    how = {"steps": options.steps, "track": _words(track), "trust": options.trust, "start_over": options.start_over}
    return resumed(run, observer=observer, report=write_report, **how)


def _refuse_changes(options: argparse.Namespace, flags: Pairs) -> None:
    forbidden = [key for key, _ in flags if key not in ("steps", "runs", "track")]
    forbidden += ["CONFIG.yaml"] if options.config else []
    if forbidden:
        from hocket.train.known_names import meaning

        raise ConfigurationError(
            f"a resumed run keeps its settings: {forbidden[0]} cannot change (only steps, runs and track can)"
            f"{meaning(forbidden[0])}"
        )


def _words(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _flag_pairs(options: argparse.Namespace) -> Pairs:
    names = (
        *("task", "eval_task", "recipe", "model", "workflow", "tools", "judge", "teacher", "embedder"),
        *("run", "runs", "steps", "seed", "lessons"),
    )
    pairs = [(name, getattr(options, name)) for name in names if getattr(options, name) is not None]
    return pairs + ([("reward", tuple(options.reward))] if options.reward else [])

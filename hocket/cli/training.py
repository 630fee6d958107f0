"""`hocket train`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hocket.cli.output import INTERRUPTED, Pairs, emit, err, find_run
from hocket.core.errors import ConfigurationError


def train(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket train`."""
    from hocket.cli.display import LiveDisplay, closing, program
    from hocket.report.page import diagnosis_of
    from hocket.report.reading import read_run
    from hocket.train.trainer import NullObserver

    console = err()
    display = None if options.quiet else LiveDisplay(console)
    trainer = _trainer(options, pairs, display or NullObserver())
    with _stopping() as stop:
        if display:
            display.started(trainer)
        try:
            while not trainer.done and not stop:
                row = trainer.step()
                if display:
                    display.stepped(trainer, row)
        finally:
            if display:
                display.close()
    interrupted = bool(stop) and not trainer.done
    if interrupted:
        trainer.save()
    trainer.finish("interrupted" if interrupted else "finished")
    summary = trainer.summary("interrupted" if interrupted else "finished")
    found = read_run(trainer.folder.path)
    told = {"diagnosis": diagnosis_of(found), "messages": list(found.messages)}
    if not options.quiet:
        resume = f"{program()} train --resume {trainer.folder.path}"
        more = "" if interrupted else f" --steps {trainer.total_steps * 2}"
        console.print(closing({**summary, **told}, trainer.folder.path, resume=resume + more))
    if options.json:
        emit({**summary, **told, "path": str(trainer.folder.path)})
    return INTERRUPTED if interrupted else 0


def _trainer(options: argparse.Namespace, pairs: Pairs, observer: Any) -> Any:
    from hocket import tasks
    from hocket.run import Trainer, write_report
    from hocket.train.config import configure, read_pairs, task_of
    from hocket.train.trainer import resumed

    flags = _flag_pairs(options) + pairs
    if options.resume:
        forbidden = [key for key, _ in flags if key not in ("steps", "runs", "track")] + (
            ["CONFIG.yaml"] if options.config else []
        )
        if forbidden:
            raise ConfigurationError(
                f"a resumed run keeps its settings: {forbidden[0]} cannot change (only steps, runs and track can)"
            )
        track = dict(pairs).get("track", ())
        run = find_run(options.resume, options.runs or "runs")
        return resumed(run, steps=options.steps, track=_words(track), observer=observer, report=write_report)
    settings = (read_pairs(Path(options.config)) if options.config else []) + flags
    task = tasks.find(task_of(settings))
    return Trainer(configure(settings, task), task=task, observer=observer)


def _words(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _flag_pairs(options: argparse.Namespace) -> Pairs:
    names = ("task", "recipe", "model", "workflow", "run", "runs", "steps", "seed")
    pairs = [(name, getattr(options, name)) for name in names if getattr(options, name) is not None]
    return pairs + ([("reward", tuple(options.reward))] if options.reward else [])


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """The first Ctrl-C lets the step end and a checkpoint be written; the second stops at once."""
    stop: list[int] = []

    def handler(number: int, frame: object) -> None:
        if stop:
            raise KeyboardInterrupt
        stop.append(number)
        print("\nstopping after this step with a checkpoint; press Ctrl-C again to stop at once", file=sys.stderr)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, old in before.items():
            signal.signal(number, old)

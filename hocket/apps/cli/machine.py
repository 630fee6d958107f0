"""`hocket pretrain` and `doctor`."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from hocket.apps.cli.output import Pairs, emit, err, out


def pretrain(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket pretrain`."""
    if options.what != "words":
        return _pretrain_senses(options)
    from hocket.nano.pretrain import Pretraining
    from hocket.nano.pretrain import pretrain as make

    settings = Pretraining() if options.seed is None else dataclasses.replace(Pretraining(), seed=options.seed)
    console = err()

    def show(progress: dict[str, Any]) -> None:
        console.print(f"step {progress['step']:5d}  loss {progress['loss']:.3f}  accuracy {progress['accuracy']:.3f}")

    emit(make(settings, Path(options.out), progress=show))
    console.print(f"the base is in {options.out}; train it with `hocket train --model {options.out}`")
    return 0


def _pretrain_senses(options: argparse.Namespace) -> int:
    from hocket.nano.hearing import SoundPretraining, pretrain_hearing
    from hocket.nano.sight import SightPretraining, pretrain_sight

    sees, seed, console = options.what == "vlm", {} if options.seed is None else {"seed": options.seed}, err()

    def show(progress: dict[str, Any]) -> None:
        console.print(f"{progress['stage']} step {progress['step']:5d}  loss {progress['loss']:.3f}")

    out, task = Path(options.out), "digits" if sees else "tones"
    if sees:
        emit(pretrain_sight(SightPretraining(**seed), out, progress=show))
    else:
        emit(pretrain_hearing(SoundPretraining(**seed), out, progress=show))
    console.print(f"the base is in {out}; train it with `hocket train --task {task} --model {out}`")
    return 0


def doctor(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket doctor`."""
    from hocket.core.errors import ConfigurationError

    model = next((str(value) for key, value in reversed(pairs) if key == "model"), None)
    if model is not None:
        return _doctor_of_model(options, model, [pair for pair in pairs if pair[0] != "model"])
    if pairs or options.context or options.memory:
        stray = f"--{pairs[0][0]}" if pairs else "--context" if options.context else "--memory"
        raise ConfigurationError(f"{stray} is about a model; name one: hocket doctor --model NAME_OR_FOLDER")
    from hocket.apps.cli.doctor import examine

    findings = examine()
    if options.json:
        emit([dataclasses.asdict(finding) for finding in findings])
    else:
        table = Table(box=None, show_header=False)
        for finding in findings:
            mark = "[green]ok[/]" if finding.fine else "[yellow]--[/]" if finding.optional else "[red]bad[/]"
            table.add_row(mark, finding.name, escape(finding.found), f"[dim]{escape(finding.advice)}[/]")
        out().print(table)
    return 0 if all(finding.fine or finding.optional for finding in findings) else 1


def _doctor_of_model(options: argparse.Namespace, model: str, pairs: Pairs) -> int:
    """Shows what a model takes; the exit code is 1 where nothing fits."""
    from hocket.apps.cli.model_memory import examine_model, show_model

    report = examine_model(model, pairs, context=options.context, memory=options.memory)
    emit(dataclasses.asdict(report)) if options.json else show_model(report)
    return 0 if any(way.fits for way in report.ways) else 1

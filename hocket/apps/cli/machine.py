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
    from hocket.nano.pretrain import Pretraining
    from hocket.nano.pretrain import pretrain as make

    settings = Pretraining() if options.seed is None else dataclasses.replace(Pretraining(), seed=options.seed)
    console = err()

    def show(found: dict[str, Any]) -> None:
        console.print(f"step {found['step']:5d}  loss {found['loss']:.3f}  accuracy {found['accuracy']:.3f}")

    emit(make(settings, Path(options.out), progress=show))
    console.print(f"the base is in {options.out}; train it with `hocket train --model {options.out}`")
    return 0


def doctor(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket doctor`."""
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

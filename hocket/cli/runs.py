"""`hocket eval`, `report` and `compare`."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from rich.table import Table

from hocket.cli.output import Pairs, emit, find_run, out


def eval(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket eval`."""
    from hocket.report.evaluation import evaluate_run

    source = _eval_target(options)
    tries = f" and {options.samples} sampled" if options.samples else ""
    print(
        f"measuring one greedy{tries} answer(s) to each of {options.n} unseen problems; --n asks fewer", file=sys.stderr
    )
    found = evaluate_run(
        source, pairs, n=options.n, samples=options.samples, task=options.task, which=options.checkpoint
    )
    if options.json:
        emit(found)
        return 0
    table = Table(box=None, header_style="dim")
    for heading in ("", "value", "95 % interval", "n"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, value, low, high in found["rows"]:
        ends = f"{low:.4f} – {high:.4f}" if math.isfinite(low) else ""
        table.add_row(name, f"{value:.4f}", ends, str(found["n"]))
    for name, value in found["traits"].items():
        table.add_row(name, f"{value:.3f}", "", str(found["n"]))
    console = out()
    console.print(f"[bold]{found['source']}[/] on [cyan]{found['task']}[/]")
    console.print(table)
    return 0


def _eval_target(options: argparse.Namespace) -> Path:
    if (Path(options.run) / "config.json").is_file() or options.run == "nano":
        return Path(options.run)
    return find_run(options.run, options.runs)


def report(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket report`."""
    from hocket.report.page import write_report

    print(write_report(find_run(options.run, options.runs)))
    return 0


def compare(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket compare`."""
    from hocket.report.compare import compare_page, compare_rows, compare_table

    runs = [find_run(run, options.runs) for run in options.run]
    if options.json:
        emit(compare_rows(runs))
    else:
        out().print(compare_table(runs))
    if options.html:
        Path(options.html).write_text(compare_page(runs))
        print(options.html, file=sys.stderr)
    return 0

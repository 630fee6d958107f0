"""`hocket swarm`."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rich.table import Table

from hocket.apps.cli.output import Pairs, emit, err
from hocket.core.ending import stopping
from hocket.core.errors import INTERRUPTED, ConfigurationError

if TYPE_CHECKING:
    from hocket.stages import Metrics


def swarm(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket swarm`."""
    from hocket.distributed.swarm.command import SwarmRun, SwarmSettings
    from hocket.distributed.swarm.lines import places
    from hocket.distributed.swarm.process import NodeProcess
    from hocket.run import write_report

    if options.listen is None and (options.join or options.publish or options.adopt or options.number is not None):
        raise ConfigurationError(
            "--join, --number, --publish and --adopt are for a node in its own process: add --listen 127.0.0.1"
        )
    named = {
        field.name: value for field in fields(SwarmSettings) if (value := getattr(options, field.name)) is not None
    }
    flags = [(name, value) for name in ("model", "judge", "steps") if (value := getattr(options, name)) is not None]
    everything, console = [*flags, *pairs], err()
    run: SwarmRun | NodeProcess
    if options.listen is None:
        run = SwarmRun(SwarmSettings(**named), everything, report=write_report)
    else:
        run = NodeProcess(
            SwarmSettings(**named),
            options.number or 0,
            listen=options.listen,
            join=places(options.join or ""),
            key_variable=options.key_variable,
            publish=options.publish or 0,
            adopt=options.adopt,
            pairs=everything,
            report=write_report,
        )
        console.print(f"{run.name} listens at {run.mesh.where}; others join with --join {run.mesh.where}")
    with stopping() as stop:
        run.begin()
        while run.rounds < run.total_steps and not stop:
            row = run.round()
            if not options.quiet:
                console.print(f"round {run.rounds} of {run.total_steps}: {_described(row)}")
        interrupted = run.rounds < run.total_steps
        outcome = run.finish("interrupted" if interrupted else "finished")
    if options.json:
        emit(outcome)
    else:
        console.print(_table(outcome))
        console.print(f"a folder per node, with its report: {outcome['path']}")
    return INTERRUPTED if interrupted else 0


def _described(row: Metrics) -> str:
    return ", ".join(
        f"{name.replace('/', ' ')} {value:,.0f}"
        if value.is_integer() and value
        else f"{name.replace('/', ' ')} {value:.3f}"
        for name, value in row.items()
    )


def _table(outcome: dict[str, Any]) -> Table:
    table = Table(box=None, header_style="dim")
    headings = (
        "",
        "recipe",
        "before",
        "after",
        "reward, summed",
        "groups of others",
        "off-policy ratio",
        "emitted",
        "",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("", "recipe") else "right")
    for name, node in outcome["nodes"].items():
        ends = node["emitted"]
        figures = (node["before"], node["after"], node["cumulative_reward"], node["shared_groups"])
        cells = [*map(_number, figures), _number(node["off_policy_ratio"])]
        emitted = f"{ends[0]:.3f} → {ends[1]:.3f}" if ends else ""
        table.add_row(name, node["recipe"], *cells, emitted, node["fault"] or "")
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"

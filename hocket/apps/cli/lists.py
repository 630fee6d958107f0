"""`hocket tasks` and `workflows`."""

from __future__ import annotations

import argparse
import inspect
import json
from typing import Any

from rich.markup import escape
from rich.table import Table

from hocket.apps.cli.output import Pairs, emit, out


def tasks(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket tasks`."""
    from hocket import tasks as sources

    if options.name:
        return _sampled(sources.find(options.name), options.n, as_json=options.json)
    found = sources.catalogue(reasoning_gym=options.all)
    if options.json:
        emit([{"name": entry.name, "description": entry.description} for entry in found])
        return 0
    table = Table(box=None, header_style="dim")
    table.add_column("task")
    table.add_column("what it is")
    for entry in found:
        table.add_row(f"[bold]{entry.name}[/]", escape(entry.description))
    out().print(table)
    return 0


def _sampled(task: Any, n: int, *, as_json: bool) -> int:
    from hocket.train.kinds import kind_of

    size = task.size("train")
    scenarios = [task.scenario("train", number) for number in range(n if size is None else min(n, size))]
    if as_json:
        rows = [{"id": s.id, "prompt": s.prompt, "answer": s.answer, "seed": s.seed} for s in scenarios]
        emit({"name": task.name, "kind": kind_of(task).name, "train": size, "eval": task.size("eval"), "samples": rows})
        return 0
    console = out()
    amount = "endless" if size is None else f"{size} scenarios"
    console.print(f"[bold]{task.name}[/]  {kind_of(task).name}, {amount} to train on")
    for scenario in scenarios:
        prompt = "\n  ".join(str(message["content"]) for message in scenario.messages) or f"seed {scenario.seed}"
        console.print(f"\n  {prompt}", markup=False)
        if scenario.answer is not None:
            console.print(f"  [dim]answer[/] {escape(str(scenario.answer))}")
    return 0


def workflows(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket workflows`."""
    from hocket.agents.workflows.library import library, settings_of

    if options.name:
        return _workflow(options.name, as_json=options.json)
    known = library()
    found = {name: settings_of(one.load()) for name, one in known.items()}
    if options.json:
        rows = [{"name": name, "description": known[name].description, "settings": found[name]} for name in found]
        emit(rows)
        return 0
    table = Table(box=None, header_style="dim")
    table.add_column("workflow", no_wrap=True)
    table.add_column("what is played, and its settings")
    for name, settings in found.items():
        table.add_row(f"[bold]{name}[/]", f"{escape(known[name].description)}\n[dim]{escape(_brief(settings))}[/]")
    out().print(table)
    return 0


def _workflow(name: str, *, as_json: bool) -> int:
    from hocket.agents.workflows.library import find, settings_of

    found = find(name)
    settings, said = settings_of(type(found)), inspect.getdoc(type(found)) or ""
    if as_json:
        emit({"name": name, "roles": list(found.roles), "settings": settings, "description": said})
        return 0
    console = out()
    console.print(f"[bold]{escape(name)}[/]  roles {escape(', '.join(found.roles))}\n\n{escape(said)}")
    if settings:
        console.print(f"\n[dim]settings[/] {escape(_brief(settings))}")
    return 0


def _brief(settings: dict[str, Any], longest: int = 24) -> str:
    """Settings with their defaults as they are written in a workflow's name; long texts are cut."""
    told = {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}
    cut = {name: text if len(text) <= longest else f"{text[:longest]}.." for name, text in told.items()}
    return "  ".join(f"{name}={text}" for name, text in cut.items())

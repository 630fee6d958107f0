"""`hocket recipes`, `tasks` and `workflows` without a name, and one task or workflow."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from hocket.apps.cli.output import Pairs, emit, out, print_lines
from hocket.core.media import words_of
from hocket.core.names import TASKS, WORKFLOWS

if TYPE_CHECKING:
    from hocket.apps.report.lists import ListEntry


def chosen(options: argparse.Namespace, kind: str, heading: str, entries: Sequence[ListEntry]) -> Sequence[ListEntry]:
    """What of a list is to be printed; the first page is printed right here, and nothing is left.

    Args:
        options: `name` may be a family. kind: what the list is of. heading: of the first part of the first page.
    """
    from hocket.apps.report import lists

    listed: Sequence[ListEntry] = lists.of_family(entries, options.name) if options.name else entries
    if options.search:
        return lists.search(listed, options.search, kind)
    if options.name or options.all or options.json:
        return listed
    print_lines(lists.first_page(kind, heading, entries))
    return []


def tasks(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket tasks`."""
    from hocket.apps.report import lists

    entries = lists.all_tasks(datasets=options.all)
    if options.name and (options.name in TASKS or not lists.of_family(entries, options.name)):
        from hocket.tasks import find

        return _sampled(find(options.name), options.n, as_json=options.json)
    listed = chosen(options, "task", "to begin with, and for your own data, code and environments", entries)
    if options.json:
        emit([{"name": entry.name, "description": entry.about} for entry in listed])
    elif listed:
        out().print(_task_table(listed))
    return 0


def _task_table(listed: Iterable[ListEntry]) -> Table:
    table = Table(box=None, header_style="dim")
    for heading in ("task", "what it is", "paper"):
        table.add_column(heading, no_wrap=heading == "task")
    for entry in listed:
        table.add_row(f"[bold]{entry.name}[/]", escape(entry.about), f"[dim]{entry.paper}[/]")
    return table


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
        prompt = "\n  ".join(words_of(message["content"]) for message in scenario.messages) or f"seed {scenario.seed}"
        console.print(f"\n  {prompt}", markup=False)
        if scenario.answer is not None:
            console.print(f"  [dim]answer[/] {escape(str(scenario.answer))}")
    return 0


def workflows(options: argparse.Namespace, pairs: Pairs) -> int:
    """`hocket workflows`."""
    from hocket.apps.report import lists

    entries = lists.workflows()
    if options.name and (options.name in WORKFLOWS or not lists.of_family(entries, options.name)):
        return _workflow(options.name, as_json=options.json)
    listed = chosen(options, "workflow", "for any task", entries)
    if options.json:
        emit([{"name": entry.name, "description": entry.about, "settings": _settings(entry.name)} for entry in listed])
    elif listed:
        out().print(_workflow_table(listed))
    return 0


def _workflow_table(listed: Iterable[ListEntry]) -> Table:
    table = Table(box=None, header_style="dim")
    for heading in ("workflow", "what is played, and its settings", "paper"):
        table.add_column(heading, no_wrap=heading == "workflow")
    for entry in listed:
        about = f"{escape(entry.about)}\n[dim]{escape(_brief(_settings(entry.name)))}[/]"
        table.add_row(f"[bold]{entry.name}[/]", about, f"[dim]{entry.paper}[/]")
    return table


def _settings(name: str) -> dict[str, Any]:
    """What a workflow's name can set."""
    from hocket.agents.workflows.library import settings_of

    return settings_of(WORKFLOWS.load(name))


def _workflow(name: str, *, as_json: bool) -> int:
    from hocket.agents.workflows.library import find, settings_of

    workflow = find(name)
    settings, description = settings_of(type(workflow)), inspect.getdoc(type(workflow)) or ""
    if as_json:
        emit({"name": name, "roles": list(workflow.roles), "settings": settings, "description": description})
        return 0
    console = out()
    console.print(f"[bold]{escape(name)}[/]  roles {escape(', '.join(workflow.roles))}\n\n{escape(description)}")
    if settings:
        console.print(f"\n[dim]settings[/] {escape(_brief(settings))}")
    return 0


def _brief(settings: dict[str, Any], longest: int = 24) -> str:
    """Settings with their defaults as they are written in a workflow's name; long texts are cut."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}
    cut = {name: text if len(text) <= longest else f"{text[:longest]}.." for name, text in texts.items()}
    return "  ".join(f"{name}={text}" for name, text in cut.items())

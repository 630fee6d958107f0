"""The page of a plan whose phases are runs of their own: what each gained, and where its own page is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hocket import __version__
from hocket.apps.report.page import Hero, asset, duration, hero, plain, template
from hocket.apps.report.reading import read_run
from hocket.train.disk import write_atomic
from hocket.train.pipeline import plan_phases
from hocket.train.runfolder import PLAN, read_json


@dataclass(frozen=True)
class PhaseCard:
    """What the page says of a phase; `hero` is None before its first evaluation, `page` before it has begun."""

    name: str
    chips: list[tuple[str, Any]]
    state: str
    hero: Hero | None
    page: str | None


def write_plan_report(folder: Path) -> Path:
    """Writes `report.html` into the folder of a plan and returns its path; the pages of the runs lie in theirs.

    The plan is read as data: no task or recipe that it names is looked up.

    Raises:
        ConfigurationError: when the plan cannot be read.
    """
    target = folder / "report.html"
    text = template("plan.html").render(
        title=folder.name,
        css=asset("page.css"),
        phases=[_card(folder, phase) for phase in plan_phases(folder)],
        plan=(folder / PLAN).read_text(),
        footer=f"hocket {__version__} · {folder.name}",
    )
    write_atomic(target, text.encode(errors="replace").decode())
    return target


def _card(folder: Path, phase: Mapping[str, Any]) -> PhaseCard:
    place = folder / str(phase["name"])
    summary = read_json(place / "summary.json") if (place / "summary.json").is_file() else {}
    if "search" in phase:
        return _search_card(place, dict(phase["search"]), summary)
    config = dict(phase["config"])
    recipe, reward = config.get("recipe"), ", ".join(map(str, config.get("reward") or ()))
    settings = [("recipe", recipe.get("name") if isinstance(recipe, Mapping) else recipe)]
    settings += [(name, config.get(name)) for name in ("task", "model")] + ([("reward", reward)] if reward else [])
    total = sum(int(part["steps"]) for part in config.get("plan") or ()) or config.get("steps") or 0
    if not (place / "config.yaml").is_file():
        return PhaseCard(place.name, settings, f"{total} steps, not begun", None, None)
    state = f"{summary.get('reason', 'going on')}, {plain(summary.get('steps'))} of {total} steps"
    state += f", {duration(summary.get('seconds'))}" if summary else ""
    return PhaseCard(place.name, settings, state, hero(read_run(place)), f"{place.name}/report.html")


def _search_card(place: Path, search: Mapping[str, Any], summary: Mapping[str, Any]) -> PhaseCard:
    settings = [(name, search.get(name)) for name in ("searcher", "task", "model")]
    if not summary:
        state = "going on" if place.is_dir() else "not begun"
        return PhaseCard(place.name, settings, f"{search.get('budget')} calls, {state}", None, None)
    split = summary["development"]
    state = f"{summary['calls']} calls, {split['start']:.3f} to {split['best']:.3f} on development"
    return PhaseCard(place.name, settings, state, None, None)

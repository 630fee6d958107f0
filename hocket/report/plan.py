"""The page of a plan whose phases are runs of their own: what each gained, and where its own page is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hocket import __version__
from hocket.report.page import Hero, asset, duration, hero, plain, template
from hocket.report.reading import read_run
from hocket.train.disk import write_atomic
from hocket.train.pipeline import AnyPhase, Pipeline
from hocket.train.runfolder import PLAN
from hocket.train.search_phase import SearchPhase


@dataclass(frozen=True)
class PhaseCard:
    """What the page says of a phase; `hero` is None before its first evaluation, `page` before it has begun."""

    name: str
    chips: list[tuple[str, str]]
    state: str
    hero: Hero | None
    page: str | None


def write_plan_report(pipeline: Pipeline) -> Path:
    """Writes `report.html` into the folder of a plan and returns its path; the pages of the runs lie in theirs."""
    folder = pipeline.folder
    target = folder / "report.html"
    text = template("plan.html").render(
        title=folder.name,
        css=asset("page.css"),
        phases=[_card(pipeline, run) for run in pipeline.runs],
        plan=(folder / PLAN).read_text(),
        footer=f"hocket {__version__} · {folder.name}",
    )
    write_atomic(target, text.encode(errors="replace").decode())
    return target


def _card(pipeline: Pipeline, run: AnyPhase) -> PhaseCard:
    if isinstance(run, SearchPhase):
        return _search_card(pipeline, run)
    config, summary = run.config, pipeline.summary(run)
    reward = ", ".join(config.reward)
    told: list[tuple[str, Any]] = [("recipe", config.recipe.name), ("task", config.task), ("model", config.model)]
    told += [("reward", reward)] if reward else []
    if not pipeline.begun(run):
        return PhaseCard(run.name, told, f"{config.total_steps} steps, not begun", None, None)
    state = f"{summary.get('reason', 'going on')}, {plain(summary.get('steps'))} of {config.total_steps} steps"
    state += f", {duration(summary.get('seconds'))}" if summary else ""
    return PhaseCard(run.name, told, state, hero(read_run(pipeline.folder / run.name)), f"{run.name}/report.html")


def _search_card(pipeline: Pipeline, run: SearchPhase) -> PhaseCard:
    asked, summary = run.settings, pipeline.summary(run)
    told: list[tuple[str, Any]] = [("searcher", asked.searcher), ("task", asked.task), ("model", asked.model)]
    if not summary:
        state = "going on" if pipeline.begun(run) else "not begun"
        return PhaseCard(run.name, told, f"{asked.budget} calls, {state}", None, None)
    split = summary["development"]
    state = f"{summary['calls']} calls, {split['start']:.3f} to {split['best']:.3f} on development"
    return PhaseCard(run.name, told, state, None, None)

"""Which runs the atlas consists of, and those that are lacking: recipes as shipped, beside their parents."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hocket.apps.report.cards import Card, card, cards
from hocket.apps.report.lists import of_family, recipes
from hocket.apps.studies.conduct import StudyRunner
from hocket.apps.studies.folder import StudyFolder
from hocket.apps.studies.planning import Planner, StudyRun
from hocket.apps.studies.pool import Workers
from hocket.apps.studies.study import Study, StudyMeasure, StudyMethod
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.names import RECIPES, unknown_recipe
from hocket.lab.claims import atlas as data
from hocket.lab.claims.atlas import (
    COMMON,
    CONTROL,
    PAIRS,
    TEAM,
    TOOLS,
    TURNS,
    WORDS,
    AtlasRun,
    CurvePoint,
    Figure,
    code_of,
    thinned,
)
from hocket.recipes import find
from hocket.tasks.text import STEPS as USUAL
from hocket.train.config import default_model
from hocket.train.kinds import kind_of
from hocket.train.settings import Config

STEPS = 40
"""Of a run on another task of words, and on a user's; of words whose task suggests more than is usual, as many."""

LONGEST = 60
"""Of a run on another task of control, where the task suggests more."""

LIMIT = 180.0
"""Processor seconds after which a run of the library's atlas ends."""

MEASURE = StudyMeasure(n=200, between=60, points=8, problems=200, samples=2)

RECORDED = ("Preferences", "ScoredPreferences", "Labelled", "Ranked", "Demonstrations")
"""Rollouts of recorded answers."""

REQUIRED = {
    "several turns": TURNS,
    "rewards at turns": TURNS,
    "states that several turns start from": TURNS,
    "calls of tools": TOOLS,
    "demonstrations beside the samples": "",
    "several scores of an answer": "",
}
"""The kind whose common task provides what a recipe requires; empty where only its own task does."""

SCORERS = "reward-model"
"""The family of recipes that train no policy."""


@dataclass(frozen=True)
class AtlasPlan:
    """The runs of an atlas.

    Attributes:
        folder: where unfinished work and full results are. file: where the runs of a recipe are kept.
        tasks: what each recipe runs on, by its name, with the steps there. seeds: of every run.
        settings: of every run, as flags of `hocket train`. model: as there.
        limit: processor seconds after which a run ends. timed: it is the budget of every run, not a guard.
        left_out: why a recipe, on a task, has no run.
    """

    folder: Path
    file: Callable[[str], Path]
    tasks: Mapping[str, Mapping[str, int]]
    seeds: int = 3
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: str = "nano"
    limit: float = 0.0
    timed: bool = False
    left_out: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def study(self) -> Study:
        """What all its runs have in common."""
        return Study(
            name="atlas",
            model=self.model,
            settings=self.settings,
            measure=MEASURE,
            equal_batches=0,
            shipped=True,
            limit=self.limit,
            timed=self.timed,
        )

    @property
    def flags(self) -> dict[str, Any]:
        """What every run has beside what its line says, as flags of `hocket train`."""
        return {**({} if self.model == "nano" else {"model": self.model}), **self.settings}

    def runs(self, planner: Planner) -> Iterator[tuple[StudyRun, AtlasRun | None]]:
        """Every run with what is kept of it, seed by seed, parents before their children."""
        for seed in range(self.seeds):
            planned: set[tuple[str, str]] = set()
            for name, places in self.tasks.items():
                for task, steps in places.items():
                    for recipe in (rival_of(name, task), name):
                        if recipe is None or (recipe, task) in planned:
                            continue
                        planned.add((recipe, task))
                        run = self._run(planner, recipe, task, steps, seed)
                        if run is not None:
                            yield run, self.kept(run)

    def _run(self, planner: Planner, name: str, task: str, steps: int, seed: int) -> StudyRun | None:
        try:
            return planner.run(StudyMethod(name, name, {"steps": steps}), task, seed)
        except HocketError as error:
            self.left_out[name, task] = str(error)
            return None

    def kept(self, run: StudyRun) -> AtlasRun | None:
        """What is kept of a run as it would be made now."""
        return next((line for line in data.read(self.file(run.label), run.label) if line.key == run.key), None)


def rival_of(name: str, task: str) -> str | None:
    """The recipe that another is compared with on a task: the nearest ancestor that learns from the same experience.

    Where all its ancestors learn from another, it is PPO for controllers and GRPO for words. A recipe without a parent
    is compared with none.
    """
    recipe, known = card(name), cards()
    if recipe["parent"] is None:
        return None
    experience = _experience(recipe)
    usual = None if experience else "ppo" if _control(task) else "grpo"
    while (parent := recipe["parent"]) is not None and parent in known:
        recipe = known[parent]
        if _experience(recipe) == experience:
            return str(parent)
    return usual if usual != name else None


def _recorded(recipe: Card) -> bool:
    """Whether it learns from recorded answers alone."""
    return _experience(recipe) == "recorded"


def _experience(recipe: Card) -> str:
    """What it learns from, where that is not what most recipes do: recorded answers, or samples of another kind."""
    rollout = str(recipe["composition"]["rollout"]["type"]).replace(":", ".").rpartition(".")[2]
    return "recorded" if rollout in RECORDED else str(getattr(find(recipe["name"]).rollout, "plays", ""))


# ---------------------------------------------------------------- the library's


def library_plan(names: Iterable[str], seeds: int) -> AtlasPlan:
    """The atlas of the library, or that of some of its recipes."""
    places = {name: tasks_of(card(name)) for name in names}
    return AtlasPlan(Path("runs") / "atlas" / "library", _library_file, places, seeds, limit=LIMIT)


def _library_file(recipe: str) -> Path:
    file = data.file_of(recipe)
    if file is None:
        raise ConfigurationError(f"{recipe} is no recipe of the library; name a --task for an atlas of your own")
    return file


def tasks_of(recipe: Card) -> dict[str, int]:
    """The tasks of a recipe with the steps there: the one its kind has in common first, then its own."""
    if recipe["family"] == SCORERS:
        return {}
    places = dict(COMMON[kind] for kind in _kinds(recipe))
    task = recipe["task"] or "sums"
    if task != "sums" and task not in places:
        places[task] = _steps(task)
    return places or {task: STEPS}


def _is_own(recipe: Card, task: str) -> bool:
    """Whether a recipe names this task, or names none and has none in common with its kind, and this is the default."""
    return recipe["task"] == task or (not recipe["task"] and not _kinds(recipe) and list(tasks_of(recipe)) == [task])


def library_tasks(name: str) -> dict[str, int]:
    """`tasks_of` a recipe of the library; none of a user's."""
    return tasks_of(card(name)) if name in cards() else {}


def _kinds(recipe: Card) -> list[str]:
    """The kinds whose common task a recipe is for."""
    required, task = set(recipe["requires"]), recipe["task"] or "sums"
    if task.startswith("mpe:") and not required & {"agents that decide one after the other within a step"}:
        return [TEAM]
    if _control(task):
        plain = _kind(task) == "control" and not any("agents" in need for need in required)
        return [CONTROL] if plain else []
    if any(need not in REQUIRED for need in required) or _model(recipe["name"], task) != Config.model:
        return []
    if required:
        return [kind for kind in dict.fromkeys(REQUIRED[need] for need in sorted(required)) if kind]
    if _recorded(recipe):
        return [PAIRS] if task.startswith("graded-sums") else []
    # A paper's method is for words unless it names a task; the standard ones are for both.
    standard = recipe["name"] in RECIPES.own and RECIPES.own[recipe["name"]].module.startswith("hocket.methods.base.")
    both = standard and recipe["family"] in ("actor-critic", "policy-gradient") and not recipe["task"]
    return [WORDS, CONTROL] if both else [WORDS]


def _control(task: str) -> bool:
    """Whether others than language models decide."""
    return _kind(task) not in ("", "text")


@functools.cache
def _kind(task: str) -> str:
    """What decides: `text` for language models; empty where what the task needs is not installed."""
    from hocket import tasks

    try:
        kind = kind_of(tasks.find(task))
    except HocketError:
        return ""
    return "text" if kind.textual else kind.name


@functools.cache
def _model(recipe: str, task: str) -> str:
    """The model of a run that names none."""
    from hocket import tasks

    try:
        return default_model(find(recipe), tasks.find(task))
    except HocketError:
        return Config.model


def _steps(task: str) -> int:
    from hocket import tasks

    suggested = int(tasks.find(task).suggest(find("ppo")).get("steps", STEPS)) if _kind(task) else STEPS
    return min(LONGEST, suggested) if _control(task) else suggested if suggested > USUAL else STEPS


# ---------------------------------------------------------------- a user's


def own_plan(
    names: Iterable[str], task: str, steps: int, seeds: int, settings: Mapping[str, Any], folder: Path
) -> AtlasPlan:
    """An atlas of recipes on a task of the user's, in a folder of its own."""
    places = {name: {task: steps} for name in names}
    settings = dict(settings)
    model = str(settings.pop("model", "nano"))
    return AtlasPlan(folder, lambda recipe: folder / "atlas.jsonl", places, seeds, settings, model)


def named(words: str | None) -> list[str]:
    """The recipes that a list of names and families means; all that train a policy without one.

    Raises:
        ConfigurationError: for a word that is neither.
    """
    entries = recipes()
    if words is None:
        return [name for name, recipe in cards().items() if recipe["family"] != SCORERS]
    chosen: list[str] = []
    for word in (word.strip() for word in words.split(",")):
        family = [entry.name for entry in of_family(entries, word)]
        if word in RECIPES or ".py:" in word:
            chosen.append(word)
        elif family:
            chosen += family
        else:
            raise unknown_recipe(word)
    return list(dict.fromkeys(chosen))


# ---------------------------------------------------------------- running


def fill(plan: AtlasPlan, pool: Workers, say: Callable[[str], None], *, again: bool = False) -> int:
    """Makes the runs that are lacking and keeps each as it ends; returns how many failed.

    Args:
        again: also those that failed or ended early before.
    """
    planner, failed = Planner(plan.study), 0
    folder = StudyFolder.open(plan.folder, plan.study)

    def heard(run: StudyRun) -> None:
        nonlocal failed
        rival = run.task not in plan.tasks.get(run.label, library_tasks(run.label))
        line = replace(line_of(run, folder), settings=plan.flags, rival=rival)
        failed += bool(line.failure)
        data.keep(plan.file(run.label), line)

    try:
        wanted = []
        for run, line in plan.runs(planner):
            repeated = line is not None and again and bool(line.failure or (line.ended and not plan.timed))
            if repeated:
                (folder.path / "runs" / f"{run.key}.json").unlink(missing_ok=True)
            elif line is None and folder.result(run.key) is not None:  # It ended after the process that asked for it.
                heard(run)
            if repeated or line is None:
                wanted.append(run)
        StudyRunner(planner, [], folder, pool, say).carry_out(wanted, "atlas", heard)
    finally:
        pool.close()
        folder.close()
    return failed


def line_of(run: StudyRun, folder: StudyFolder) -> AtlasRun:
    """A run as the atlas keeps it."""
    steps = int(dict(run.pairs)["steps"])
    result, code, beside = folder.result(run.key), code_of(run.label), rival_of(run.label, run.task) or ""
    declared = run.label in cards() and _is_own(card(run.label), run.task)
    if result is None:
        failure = (folder.failure(run.key) or "it did not end").splitlines()[0][:300]
        return AtlasRun(run.label, run.task, run.seed, steps, run.key, code, beside, declared, failure=failure)
    rows: Sequence[Mapping[str, Any]] = result["rows"]
    first, last = rows[0], rows[-1]
    points = [
        CurvePoint(row["step"], row["answers"], row["tokens"], round(row["seconds"], 2), _short(row["value"]))
        for row in rows
        if row["value"] is not None
    ]
    rewards = [(row["step"], _short(row["reward"])) for row in rows if row["step"] and row["reward"] is not None]
    return thinned(
        AtlasRun(
            *(run.label, run.task, run.seed, steps, run.key, code, beside, declared, run.lessons),
            measure=result["measure"],
            share=result["share"],
            n=int(run.measure["n"]),
            before=_figure(first),
            final=_figure(last),
            sampled=None if result["sampled"] is None else _pair(*result["sampled"]),
            curve=tuple(points),
            reward=tuple(rewards),
            gradient=None if result["gradient"] is None else _short(result["gradient"]),
            diverged=result["diverged"],
            metrics={name: (pair[0], pair[1]) for name, pair in result["metrics"].items()},
            answers=last["answers"],
            tokens=last["tokens"],
            seconds=round(last["seconds"], 1),
            ended=result["ended"],
        )
    )


def _figure(row: Mapping[str, Any]) -> tuple[float, float, float]:
    value = row["value"]
    ends = (value if row[name] is None else row[name] for name in ("low", "high"))
    return _shortened(value, *ends)


def _pair(before: Figure, final: Figure) -> tuple[Figure, Figure]:
    return _shortened(*before), _shortened(*final)


def _shortened(value: float, low: float, high: float) -> tuple[float, float, float]:
    return _short(value), _short(low), _short(high)


def _short(value: float) -> float:
    return float(f"{value:.4g}") if math.isfinite(value) else value

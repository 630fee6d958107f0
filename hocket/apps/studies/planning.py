"""From a study to its runs: each with all its settings, an equal budget, and a key that names it by content."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

from hocket import __version__, tasks
from hocket.apps.studies.study import Study, StudyMethod, rival
from hocket.core.components import has_path, is_component, to_plain, type_name
from hocket.core.errors import ConfigurationError
from hocket.lab.claims.atlas import code_of
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.rollout.baseline import WithGreedyBaseline
from hocket.rollout.demonstrations import Demonstrations, Preferences
from hocket.rollout.independent import Independent
from hocket.rollout.nucleus import DelayedNucleus
from hocket.stages import Task
from hocket.tasks.lessons import lessons_of
from hocket.train.config import configure, default_model
from hocket.train.kinds import kind_of
from hocket.train.lessons import with_lessons
from hocket.train.settings import SLOTS, Config

Pairs = list[tuple[str, Any]]

DESCRIPTIVE = (
    *("name", "title", "source", "family", "catalogue_ids", "axes", "parent", "formula", "conventions", "note"),
)
"""What a recipe says of itself changes nothing in a run."""


@dataclass(frozen=True)
class StudyRun:
    """One run of a study.

    Attributes:
        label, task, seed: what it is. pairs: all settings, as `hocket.train.config.configure` takes them.
        budget: of sampled answers or tokens, its `unit`, after which it ends. metered: how much a step samples is not
            known before, so the number of steps follows from a measurement. measure: see `Measure`.
        lessons: supervised steps on the task's lessons, after which it begins. limit: of processor seconds, 0 for none.
        key: a hash of everything its result depends on.
    """

    label: str
    task: str
    seed: int
    pairs: tuple[tuple[str, Any], ...]
    budget: int
    metered: bool
    measure: Mapping[str, int]
    unit: str = "answers"
    lessons: int = 0
    limit: float = 0.0
    key: str = ""

    @property
    def shipped(self) -> bool:
        """Whether it is of a study of recipes as shipped."""
        return self.unit == "steps"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "pairs": [list(pair) for pair in self.pairs]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> StudyRun:
        return StudyRun(**{**data, "pairs": tuple((key, value) for key, value in data["pairs"])})


class Planner:
    """Makes the runs of a study; tasks and recipes are looked up once.

    `refused` tells by label which of the study's settings a recipe does not have or cannot take.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self.refused: dict[str, tuple[str, ...]] = {}
        self._tasks: dict[str, Task] = {}
        self._made: dict[tuple[str, str, str], tuple[StudyRun, Config]] = {}

    def task(self, name: str) -> Task:
        if name not in self._tasks:
            self._tasks[name] = tasks.find(name)
        return self._tasks[name]

    def run(self, entry: StudyMethod, task: str, seed: int, settings: Mapping[str, Any] | None = None) -> StudyRun:
        """The run of a method on a task, with tuned `settings` on top of its own.

        Raises:
            ConfigurationError: when the recipe, the task or a setting is unknown or does not fit.
        """
        run, _ = self._planned(entry, task, settings or {})
        seeded = replace(run, seed=seed, pairs=(*run.pairs, ("seed", seed)))
        return replace(seeded, key=_digest({"run": run.key, "seed": seed}))

    def recipe(self, entry: StudyMethod, task: str, settings: Mapping[str, Any] | None = None) -> Recipe:
        """The recipe that such a run trains with, its settings included."""
        return self._planned(entry, task, settings or {})[1].recipe

    def has(self, entry: StudyMethod, key: str) -> bool:
        """Whether a method's recipe has a setting."""
        return key.split(".")[0] not in SLOTS or has_path(find(entry.recipe), key)

    def _planned(self, entry: StudyMethod, task: str, settings: Mapping[str, Any]) -> tuple[StudyRun, Config]:
        place = (entry.label, task, json.dumps(settings, sort_keys=True, default=str))
        if place not in self._made:
            try:
                self._made[place] = self._make(entry, task, settings)
            except ConfigurationError as error:
                raise ConfigurationError(f"{entry.label} on {task}: {error}") from error
        return self._made[place]

    def _make(self, entry: StudyMethod, task: str, settings: Mapping[str, Any]) -> tuple[StudyRun, Config]:
        if self.study.shipped:
            return self._make_shipped(entry, task, {**settings, **entry.settings})
        study, source = self.study, self.task(task)
        # What a method sets itself stays, also where its family was tuned.
        fitting = {**{key: value for key, value in settings.items() if self.has(entry, key)}, **entry.settings}
        shares, metered = equal_budget(find(entry.recipe), study, fitting)
        measure = study.measure
        pairs: Pairs = [
            *(("task", task), ("recipe", entry.recipe), ("threads", 1), ("steps", study.steps)),
            *(("evaluation.n", measure.n), ("evaluation.between", min(measure.between, measure.n))),
            ("evaluation.every", max(1, study.steps // measure.points)),
            *self._model(entry, source),
            *shares.items(),
        ]
        pairs = self._with_fitting(entry, source, pairs, fitting)
        config = configure([*pairs, *fitting.items()], source)
        run = StudyRun(
            label=entry.label,
            task=task,
            seed=0,
            pairs=(*pairs, *fitting.items()),
            budget=study.budget,
            unit=study.unit,
            metered=metered,
            measure=asdict(measure),
            lessons=study.lessons.get(task, 0),
            limit=study.limit,
        )
        if run.lessons and lessons_of(source) is None:
            raise ConfigurationError(f"it has no lessons; leave lessons.{task} out")
        content = {**_content(config), "measure": run.measure, "budget": run.budget, "metered": metered}
        content |= {"unit": run.unit} if study.tokens else {}
        content |= {"lessons": run.lessons} if run.lessons else {}
        return replace(run, key=_digest(content)), config

    def _make_shipped(self, entry: StudyMethod, task: str, settings: Mapping[str, Any]) -> tuple[StudyRun, Config]:
        """A recipe as `hocket train --recipe NAME --task TASK` runs it, its lessons shared by all that begin alike."""
        study, source = self.study, self.task(task)
        steps, measure = int(settings.get("steps", study.steps)), study.measure
        model = self._model(entry, source)
        typed = {**dict(model), **study.settings, **settings, "task": task, "recipe": entry.recipe, "steps": steps}
        plan = dict(with_lessons(list(typed.items()), task, source)).get("plan", ({"steps": 0}, typed))
        first, then = plan if "plan" not in typed else ({"steps": 0}, typed)
        pairs: Pairs = [
            *(("task", task), ("recipe", entry.recipe), ("threads", 1), ("steps", steps), *model),
            *(("evaluation.n", measure.n), ("evaluation.between", min(measure.between, measure.n))),
            ("evaluation.every", max(1, steps // measure.points)),
            *((key, plain(value)) for key, value in then.items() if key not in (*dict(model), *TYPED)),
        ]
        config = configure(pairs, source)
        run = StudyRun(
            *(entry.label, task, 0, tuple(pairs), steps, False, asdict(measure), "steps", int(first["steps"])),
            limit=study.limit,
        )
        content = {**_content(config), "measure": run.measure, "lessons": run.lessons}
        content |= {"limit": study.limit} if study.timed else {}
        del content["hocket"]  # A new version of the library is no new method; the digest of its code is.
        return replace(run, key=_digest({**content, "code": code_of(entry.recipe)})), config

    def _model(self, entry: StudyMethod, source: Task) -> Pairs:
        """The setting of the study's model, or of the run's own default where the study names none; for words alone."""
        if not kind_of(source).textual:
            return []
        usual = self.study.model == Config.model
        return [("model", default_model(find(entry.recipe), source) if usual else self.study.model)]

    def _with_fitting(self, entry: StudyMethod, source: Task, pairs: Pairs, settings: Mapping[str, Any]) -> Pairs:
        """`pairs` with those of the study's settings that the recipe has and can take; the baseline takes all."""
        refused = []
        for key, value in self.study.settings.items():
            if key in settings:
                continue
            try:
                configure([*pairs, (key, value), *settings.items()], source)
            except ConfigurationError:
                if entry.label == rival(entry, self.study) or key.split(".")[0] not in SLOTS:
                    raise
                refused.append(key)
            else:
                pairs = [*pairs, (key, value)]
        if refused:
            self.refused[entry.label] = tuple(refused)
        return pairs


USUAL_SAMPLES = Independent().samples

FIXED = (Independent, WithGreedyBaseline, DelayedNucleus)
"""Rollouts of which every scenario gets as many answers as `samples` says, and a greedy one where they add it."""


def equal_budget(recipe: Recipe, study: Study, settings: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Settings that make a step sample as many answers as the study's steps do, and whether that must be metered.

    A recipe that states a group size of its own (not the library's usual one) keeps it and gets more or fewer prompts.
    A rollout that decides itself how many answers it samples keeps the study's prompts; its number of steps follows.

    Raises:
        ConfigurationError: for a recipe that samples nothing.
    """
    rollout = recipe.rollout
    if isinstance(rollout, (Demonstrations, Preferences)):
        raise ConfigurationError("it samples no answers, so it has no equal budget; leave it out")
    shares: dict[str, Any] = {}
    group = study.samples
    if has_path(recipe, "rollout.samples"):
        stated = rollout.samples or study.samples
        group = int(settings.get("rollout.samples", study.samples if stated == USUAL_SAMPLES else stated))
        shares["rollout.samples"] = group
    metered = type(rollout) not in FIXED or study.tokens > 0
    each = group + (1 if isinstance(rollout, WithGreedyBaseline) else 0)
    if has_path(recipe, "curriculum.prompts"):
        same = study.prompts * study.samples
        shares["curriculum.prompts"] = study.prompts if metered else max(1, round(same / each))
    return shares, metered


TYPED = ("task", "recipe", "steps", "name")
"""What a run is started with, besides its settings."""


def plain(value: Any) -> Any:
    """A setting as JSON has it."""
    return to_plain(value) if is_dataclass(value) else value


def _content(config: Config) -> dict[str, Any]:
    """Everything a run depends on as plain data: the configuration, and the files it names."""
    plain = stated(replace(config, run=None, runs="", seed=0))
    recipe = {key: value for key, value in plain["recipe"].items() if key not in DESCRIPTIVE}
    content = {**plain, "recipe": recipe, "hocket": __version__}
    files = {name: _fingerprint(Path(name)) for name in sorted(set(_files(content)))}
    return {**content, "files": files}


def stated(value: Any) -> Any:
    """Plain data without the fields that are off by default: a new setting that is off changes no run."""
    if is_component(value):
        fields = (part for part in dataclasses.fields(value) if part.init and not _off(part, getattr(value, part.name)))
        return {"type": type_name(type(value)), **{part.name: stated(getattr(value, part.name)) for part in fields}}
    if isinstance(value, Mapping):
        return {str(name): stated(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [stated(item) for item in value]
    return to_plain(value)


def _off(part: dataclasses.Field[Any], value: Any) -> bool:
    default = part.default if part.default_factory is dataclasses.MISSING else part.default_factory()
    return not value and type(value) is type(default) and bool(value == default)


def _files(value: Any) -> Iterator[str]:
    """The files that plain data names: `FILE.py:NAME`, `FILE.jsonl` and the like, and mixtures of these."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _files(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _files(item)
    elif isinstance(value, str):
        name = value.partition("?")[0]
        names = name.rpartition(":")[0] if ".py:" in name else name
        parts = (part.strip().rpartition("=") for part in names.split(","))
        mixed = [before if "," in names and before else after for before, _, after in parts]
        for file in dict.fromkeys([names, *mixed]):
            if file.endswith((".py", ".jsonl", ".csv", ".parquet")) and Path(file).is_file():
                yield file


def _fingerprint(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()

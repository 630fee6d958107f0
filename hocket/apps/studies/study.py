"""What a study is: which recipes, on what, with which budget, seeds and measurements; read from YAML and flags."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from hocket.core.components import from_plain
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.yaml_text import load_yaml

TUNING_SEEDS = 10_000
"""Seeds from here on are for tuning alone."""


@dataclass(frozen=True)
class StudyMethod:
    """One method of a study.

    Attributes:
        recipe: by name. settings: of its own, by dotted key.
        tasks: those of the study that it is run on; none for all. against: the label that it is compared with, if not
            the study's baseline; its own, and it is compared with nothing.
    """

    label: str
    recipe: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    against: str = ""


@dataclass(frozen=True)
class StudyMeasure:
    """How a run is measured, on unseen problems.

    Attributes:
        n: problems before training and at the end, one greedy answer each. between: problems of those on the way.
        points: how often on the way. problems, samples: sampled answers per problem at the end, for pass@k.
    """

    n: int = 200
    between: int = 100
    points: int = 4
    problems: int = 100
    samples: int = 8

    def __post_init__(self) -> None:
        if min(self.n, self.between, self.points, self.problems) < 1 or self.samples < 0:
            raise ValueError("n, between, points and problems must be at least 1, samples at least 0")


@dataclass(frozen=True)
class Tuning:
    """A search of equal size for every unit.

    Attributes:
        grid: the values tried, by dotted key, e.g. `{update.lr: [1e-4, 3e-4]}`; every combination is a candidate.
        draws: so many combinations at random instead, where there are more.
        seeds: tuning seeds of every candidate.
        halving: successive halving: the best 1/halving of the candidates go on with `halving` times the seeds, until
            one is left. None settles after the first round.
        per: `family` tunes once for all recipes of a family with the same objective class, on the first of them as
            listed (the baseline, where it is among them); `recipe` tunes each.
        by: what is compared, averaged over seeds and tasks: `final` accuracy, or the `area` under its curve.
    """

    grid: Mapping[str, Any] = field(default_factory=dict)
    draws: int | None = None
    seeds: int = 1
    halving: int | None = None
    per: Literal["family", "recipe"] = "family"
    by: Literal["final", "area"] = "final"

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, not {self.seeds}")
        if self.seeds > TUNING_SEEDS:
            raise ValueError(f"seeds must be at most {TUNING_SEEDS}, not {self.seeds}")
        if self.draws is not None and self.draws < 1:
            raise ValueError(f"draws must be at least 1, not {self.draws}")
        if self.halving is not None and self.halving < 2:
            raise ValueError(f"halving must be at least 2, not {self.halving}")
        for key, values in self.grid.items():
            if not isinstance(values, Sequence) or isinstance(values, str) or not values:
                raise ValueError(f"grid.{key} = {values!r}: write the list of values to try")


@dataclass(frozen=True, kw_only=True)
class Study:
    """A comparison of recipes on the same tasks, base, budget and seeds.

    Attributes:
        recipes: names, `FILE.py:NAME`, or `{recipe: NAME, label: .., tasks: [..], against: LABEL, KEY: VALUE}` with
            settings of its own, those of the tasks that it is for, and what it is compared with there.
        catalogue: catalogue ids; every recipe of each joins.
        baseline: the label of the method that the others are compared with.
        tasks, model: as in `hocket train`.
        teams: workflows, each of which every recipe is run as; the first one with the baseline is compared with.
        steps, prompts, samples: the budget is steps x prompts x samples answers.
        tokens: the budget in sampled tokens instead, which teams that say more or less share; 0 for answers.
        seeds: how many testing seeds, from 0. settings: settings of every run, where the recipe has them.
        equal_batches: batches on which a recipe's gradient must be proportional to the baseline's to be the same
            method here; 0 never looks.
        seconds: processor seconds of a run by task, as measured, for estimates.
        lessons: by task, how many supervised steps on its lessons come before every run on it; all begin with the same
            weights, and what they take is no part of the budget.
        shipped: every recipe runs as `hocket train` runs it, with the task's own suggestions and lessons, for `steps`
            steps; the curves say what is sampled meanwhile.
        limit: processor seconds after which a run ends early; 0 for none.
        timed: runs are compared after that time, so that another limit makes other runs.
    """

    name: str = "study"
    recipes: tuple[Any, ...] = ()
    catalogue: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    baseline: str = "grpo"
    tasks: tuple[str, ...] = ("sums",)
    model: str = "nano"
    steps: int = 30
    prompts: int = 8
    samples: int = 8
    tokens: int = 0
    seeds: int = 5
    settings: Mapping[str, Any] = field(default_factory=dict)
    measure: StudyMeasure = StudyMeasure()
    tuning: Tuning = Tuning()
    equal_batches: int = 200
    seconds: Mapping[str, float] = field(default_factory=dict)
    lessons: Mapping[str, int] = field(default_factory=dict)
    shipped: bool = False
    limit: float = 0.0
    timed: bool = False

    def __post_init__(self) -> None:
        if min(self.steps, self.prompts, self.samples) < 1:
            raise ValueError("steps, prompts and samples must be at least 1")
        if not 1 <= self.seeds <= TUNING_SEEDS:
            raise ValueError(f"seeds must be between 1 and {TUNING_SEEDS}, not {self.seeds}")
        if self.tokens < 0:
            raise ValueError(f"tokens must be at least 0, not {self.tokens}")
        if self.teams and not self.tokens:
            raise ValueError(
                "teams say more or less in an answer: give them the same budget of tokens, as in tokens: 50000"
            )
        if self.equal_batches < 0:
            raise ValueError(f"equal_batches must be at least 0, not {self.equal_batches}")
        if not self.tasks:
            raise ValueError("tasks is empty; name at least one")
        if len(set(self.tasks)) < len(self.tasks):
            raise ValueError("a task is named twice")
        for task, steps in self.lessons.items():
            if task not in self.tasks:
                raise ValueError(f"lessons.{task}: the study has no such task{nearest(task, self.tasks)}")
            if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
                raise ValueError(f"lessons.{task} = {steps!r}: how many supervised steps come first, 0 for none")

    @property
    def answers(self) -> int:
        """As many as the steps would sample with the study's prompts and samples."""
        return self.steps * self.prompts * self.samples

    @property
    def unit(self) -> str:
        """What the budget counts."""
        if self.shipped:
            return "steps"
        return "tokens" if self.tokens else "answers"

    @property
    def budget(self) -> int:
        """Of a run, in steps, sampled answers or tokens."""
        if self.shipped:
            return self.steps
        return self.tokens or self.answers

    @property
    def testing_seeds(self) -> range:
        return range(self.seeds)

    def to_json(self) -> dict[str, Any]:
        """Plain data that `read` turns back into an equal study."""
        return {**dataclasses.asdict(self), **{key: list(getattr(self, key)) for key in LISTS}}


LISTS = ("recipes", "catalogue", "teams", "tasks")

BUDGET = ("model", "steps", "prompts", "samples", "tokens", "settings", "measure", "lessons", "shipped")
"""What all runs of a study's folder have in common; recipes, tasks, seeds and tuning may be added to."""


def read(path: Path | None, flags: Iterable[tuple[str, Any]] = ()) -> Study:
    """The study that a YAML file and flags describe; flags win. Keys of flags are dotted.

    A dotted flag that begins with `measure.` or `tuning.` is the study's own; any other is a setting of every run.

    Raises:
        ConfigurationError: for a file that is no YAML mapping, an unknown key, or a wrong value.
    """
    data = _load(path) if path is not None else {}
    for key, value in flags:
        head, _, rest = key.partition(".")
        if not rest:
            data[key] = value
        elif head in ("measure", "tuning"):
            _put(data.setdefault(head, {}), rest, value)
        else:
            data["settings"] = {**data.get("settings", {}), key: value}
    data["settings"] = dict(_dotted(data.get("settings") or {}))
    data.setdefault("name", path.stem if path is not None else _named(data))
    for key in LISTS:
        if isinstance(data.get(key), str):
            data[key] = [word.strip() for word in data[key].split(",") if word.strip()]
    study = from_plain({key: value for key, value in data.items() if key != "type"}, Study)
    if not isinstance(study, Study):
        raise ConfigurationError("a study is a mapping of keys to values; see docs/studies.md")
    return study


def _dotted(settings: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted key; a mapping with `type` is one value."""
    if not isinstance(settings, Mapping):
        raise ConfigurationError(f"settings = {settings!r}: write keys and values, as in {{update.epochs: 2}}")
    for key, value in settings.items():
        if isinstance(value, Mapping) and value and "type" not in value:
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _put(data: dict[str, Any], key: str, value: Any) -> None:
    """`tuning.grid.update.lr` is the entry `update.lr` of the mapping `grid`."""
    head, _, rest = key.partition(".")
    if rest:
        data[head] = {**data.get(head, {}), rest: value}
    else:
        data[head] = value


def _named(data: Mapping[str, Any]) -> str:
    """A name for a study without a file, the same for the same recipes and tasks."""
    words = [str(word) for key in ("tasks", "recipes") for word in _words(data.get(key, ()))]
    safe = "-".join("".join(c if c.isalnum() else "-" for c in word).strip("-") for word in words)
    return safe[:80] or "study"


def _words(value: Any) -> Sequence[Any]:
    return value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else ()


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigurationError(f"there is no study file {path}")
    try:
        data = load_yaml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not a text file") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: {getattr(error, 'problem', '')}" if mark else " ".join(str(error).split())
        raise ConfigurationError(f"{path} is not valid YAML: {where}") from None
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ConfigurationError(
            f"{path} must hold keys and values (recipes: [..], tasks: [..]), as in docs/studies.md"
        )
    return data


# ---------------------------------------------------------------- methods


def entries(study: Study) -> list[StudyMethod]:
    """The methods of a study, the baseline first, each once.

    Raises:
        ConfigurationError: when there is nothing to compare, or two methods share a label.
    """
    from hocket.recipes import all_recipes

    listed = [_entry(listing) for listing in study.recipes]
    rows = set(study.catalogue)
    named = {entry.label for entry in listed}
    listed += [
        StudyMethod(name, name)
        for name, recipe in all_recipes().items()
        if rows & set(recipe.catalogue_ids) and name not in named
    ]
    if not any(entry.label == study.baseline for entry in listed):
        listed.insert(0, StudyMethod(study.baseline, study.baseline))
    if study.teams:
        listed = [as_team for entry in listed for as_team in _as_teams(entry, study)]
    labels = [entry.label for entry in listed]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"recipes: {twice!r} is there twice; give one of them another label")
    if len(listed) < 2:
        raise ConfigurationError("a study compares at least two recipes; name them: --recipes grpo,dapo")
    _check_pairs(listed, study)
    return sorted(listed, key=lambda entry: entry.label != reference(study))


def reference(study: Study) -> str:
    """The label of the method that the others are compared with."""
    if not study.teams:
        return study.baseline
    return _as_teams(StudyMethod(study.baseline, study.baseline), study)[0].label


def tasks_of(entry: StudyMethod, study: Study) -> tuple[str, ...]:
    """The tasks that a method is run on, in the study's order."""
    return tuple(task for task in study.tasks if not entry.tasks or task in entry.tasks)


def rival(entry: StudyMethod, study: Study) -> str:
    """The label of what a method is compared with; its own where it is what the others are compared with."""
    return entry.against or reference(study)


def _check_pairs(listed: Sequence[StudyMethod], study: Study) -> None:
    """Refuses a method whose tasks the study lacks, and one compared with what does not run on all of them."""
    known = {entry.label: entry for entry in listed}
    for entry in listed:
        stray = next((task for task in entry.tasks if task not in study.tasks), None)
        if stray is not None:
            raise ConfigurationError(f"{entry.label}: the study has no task {stray!r}{nearest(stray, study.tasks)}")
        other = rival(entry, study)
        if other not in known:
            raise ConfigurationError(f"{entry.label}: against = {other!r} is no method here{nearest(other, known)}")
        apart = set(tasks_of(entry, study)) - set(tasks_of(known[other], study))
        if apart:
            raise ConfigurationError(
                f"{entry.label} runs on {min(apart)}, and {other}, which it is compared with, does not; state the "
                "tasks of one of them"
            )


def _as_teams(entry: StudyMethod, study: Study) -> list[StudyMethod]:
    """A method once for every team; a team's name is enough where there is one recipe."""
    alone = all(_entry(listing).label == study.baseline for listing in study.recipes) and not study.catalogue
    return [
        replace(
            entry,
            label=team if alone else f"{entry.label} as {team}",
            settings={**entry.settings, "workflow": team},
            against=f"{entry.against} as {study.teams[0]}" if entry.against else "",
        )
        for team in study.teams
    ]


def without_recipe(study: Study) -> list[str]:
    """Catalogue ids of the study that no recipe has."""
    from hocket.recipes import all_recipes

    known = {row for recipe in all_recipes().values() for row in recipe.catalogue_ids}
    return [row for row in study.catalogue if row not in known]


def _entry(listing: Any) -> StudyMethod:
    if isinstance(listing, str):
        return StudyMethod(listing, listing)
    if not isinstance(listing, Mapping) or not isinstance(listing.get("recipe"), str):
        raise ConfigurationError(f"recipes: {listing!r}: write NAME or {{recipe: NAME, label: LABEL, KEY: VALUE}}")
    settings = {str(key): value for key, value in listing.items() if key not in ("recipe", "label", "tasks", "against")}
    label = listing.get("label", "-".join([listing["recipe"], *(f"{key}={value}" for key, value in settings.items())]))
    tasks, against = listing.get("tasks", ()), listing.get("against", "")
    tasks = (tasks,) if isinstance(tasks, str) else tasks
    if not isinstance(tasks, Sequence) or not all(isinstance(task, str) for task in tasks):
        raise ConfigurationError(f"{label}: tasks = {tasks!r}: write a list of the study's tasks")
    return StudyMethod(str(label), listing["recipe"], settings, tuple(tasks), str(against))


def check_same(study: Study, before: Mapping[str, Any], folder: Path) -> None:
    """Raises `ConfigurationError` when the folder holds a study of another budget."""
    wanted = study.to_json()
    for key in BUDGET:
        if (before.get(key) or None) != (wanted[key] or None):  # An older folder lacks what came later.
            difference = f"{before.get(key)!r} there, {wanted[key]!r} here"
            raise ConfigurationError(f"{folder} holds another study ({key}: {difference}); choose another --out")


def unknown(word: str, choices: Iterable[str], what: str) -> ConfigurationError:
    """An error that names an unknown word and the nearest known one."""
    return ConfigurationError(f"there is no {what} {word!r}{nearest(word, choices)}")

"""Searching for settings: candidates from a grid, thinned out by successive halving."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hocket.apps.studies.planning import Planner
from hocket.apps.studies.study import TUNING_SEEDS, Study, StudyMethod, Tuning
from hocket.core.keys import Key
from hocket.recipes import find

Settings = dict[str, Any]


@dataclass(frozen=True)
class Round:
    """One round of a search: how many candidates are in it, and the seeds that each has had by its end."""

    candidates: int
    seeds: int


def rounds(candidates: int, tuning: Tuning) -> list[Round]:
    """The rounds of a search (Jamieson and Talwalkar 2016, arXiv:1502.07943, with seeds as the resource).

    Halved by eta, the best ceil(k / eta) of k candidates go on, with eta times the seeds; nothing is run for one alone.
    """
    if candidates < 2:
        return []
    planned = [Round(candidates, tuning.seeds)]
    while tuning.halving is not None:
        left = math.ceil(planned[-1].candidates / tuning.halving)
        if left < 2:
            break
        planned.append(Round(left, planned[-1].seeds * tuning.halving))
    return planned


def runs_of_search(candidates: int, tuning: Tuning) -> int:
    """Runs that a search takes per task."""
    stages = rounds(candidates, tuning)
    earlier = [0, *(stage.seeds for stage in stages)]
    return sum(stage.candidates * (stage.seeds - before) for stage, before in zip(stages, earlier, strict=False))


def best(scores: Mapping[int, float], count: int) -> list[int]:
    """The `count` best candidates by score, in their order; of equal ones the earlier, of unmeasured ones none."""
    ranked = sorted(scores, key=lambda number: (-scores[number] if math.isfinite(scores[number]) else math.inf, number))
    return sorted(ranked[:count])


def tuning_seeds(count: int) -> range:
    """Seeds that no test uses."""
    return range(TUNING_SEEDS, TUNING_SEEDS + count)


@dataclass(frozen=True)
class TuningUnit:
    """What is tuned together: a name, the method tried, and the methods that take what was found."""

    name: str
    tried: StudyMethod
    members: tuple[StudyMethod, ...]
    candidates: tuple[Settings, ...]


def units(study: Study, planner: Planner, methods: Sequence[StudyMethod]) -> list[TuningUnit]:
    """The units of a study: each method, or each family of methods with one class of objective."""
    groups: dict[str, list[StudyMethod]] = {}
    for entry in methods:
        groups.setdefault(_unit(entry, study.tuning), []).append(entry)
    return [
        TuningUnit(name, members[0], tuple(members), tuple(_candidates(study.tuning, planner, members[0])))
        for name, members in groups.items()
    ]


def _unit(entry: StudyMethod, tuning: Tuning) -> str:
    if tuning.per == "recipe":
        return entry.label
    recipe = find(entry.recipe)
    return f"{recipe.family or 'other'}, {type(recipe.objective).__name__}"


def _candidates(tuning: Tuning, planner: Planner, entry: StudyMethod) -> list[Settings]:
    """Combinations of the grid's values for the settings that the method has and does not set itself."""
    known = {
        key: values for key, values in tuning.grid.items() if planner.has(entry, key) and key not in entry.settings
    }
    return combinations(known, tuning.draws)


def combinations(grid: Mapping[str, Sequence[Any]], draws: int | None = None) -> list[Settings]:
    """Every combination of a grid's values, the last key the fastest; or so many of them, drawn, where there are more.

    Which are drawn depends on the grid alone.
    """
    shape = [len(values) for values in grid.values()]
    total = math.prod(shape)
    if draws is None or draws >= total:
        return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    drawn = Key.of(0).derive("tuning", *grid).numpy().choice(total, draws, replace=False)
    places = (np.unravel_index(int(number), shape) for number in np.sort(drawn))
    return [{name: values[int(at)] for at, (name, values) in zip(place, grid.items(), strict=True)} for place in places]

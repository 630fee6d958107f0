"""Coupled restless bandits: arms that change by themselves, and constraints on which may be pulled together.

Every arm is bad, fair or good. Even arms need upkeep: pulled they are likely good at the next step, left alone they
soon are not. Odd arms are investments: from bad to good takes two pulls, and good stays. A step pays 1 for each good
arm, so pulling a bad odd arm pays nothing yet.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.worlds import WorldFamily

Family = Literal["sets", "paths", "matchings", "assignments"]
"""What couples arms: at most half of them; the nodes of a path through layers; edges without a common end; tasks that
two workers have the time and the skill for."""

LEVELS, GOOD, DISCOUNT = 3, 2, 0.8
MOST = 7
"""Arms of a world whose states are enumerated."""

UPKEEP = np.array(
    [[[0.95, 0.0, 0.05], [0.8, 0.15, 0.05], [0.7, 0.1, 0.2]], [[0.3, 0.0, 0.7], [0.2, 0.1, 0.7], [0.1, 0.1, 0.8]]]
)
INVESTMENT = np.array(
    [[[1.0, 0.0, 0.0], [0.1, 0.9, 0.0], [0.01, 0.01, 0.98]], [[0.1, 0.9, 0.0], [0.0, 0.1, 0.9], [0.0, 0.0, 1.0]]]
)
"""The chance of each next level, by whether the arm is pulled and by its level."""


@dataclass(frozen=True)
class Coupling:
    """Linear constraints on pulls and on numbers beside them, all 0 or 1: `lower <= rows x <= upper`.

    Attributes:
        arms: the first variables. rows: `[M, arms + others]`. lower, upper: `[M]`.
    """

    arms: int
    rows: Array
    lower: Array
    upper: Array


def coupling(family: Family, arms: int) -> Coupling:
    """The constraints of a family."""
    if family == "sets":
        return _bounded(arms, np.ones((1, arms)), np.array([max(arms // 2, 1)]))
    if family == "matchings":
        ends = edges(arms)
        rows = np.array([[float(end == item[side]) for item in ends] for side in range(2) for end in range(arms)])
        return _bounded(arms, rows, np.ones(len(rows)))
    if family == "assignments":
        skills, costs, time = workers(arms)
        pairs = np.argwhere(skills)
        busy = np.array([[costs[arm] * (item == worker) for item, arm in pairs] for worker in range(len(skills))])
        done = np.array([[float(other == arm) for _, other in pairs] for arm in range(arms)])
        rows = np.block([[np.zeros((len(skills), arms)), busy], [-np.eye(arms), done]])
        lower = np.concatenate([np.full(len(skills), -np.inf), np.zeros(arms)])
        return Coupling(arms, rows, lower, np.concatenate([np.full(len(skills), float(time)), np.zeros(arms)]))
    steps = ways(arms)
    rows = np.zeros((2 * arms + 1, arms + len(steps)))
    rows[:arms, :arms], rows[arms : 2 * arms, :arms] = -np.eye(arms), -np.eye(arms)
    for place, (before, after) in enumerate(steps):  # A node is pulled as often as it is entered, and as it is left.
        if after >= 0:
            rows[after, arms + place] = 1
        if before >= 0:
            rows[arms + before, arms + place] = 1
        rows[-1, arms + place] = before < 0
    equal = np.concatenate([np.zeros(2 * arms), [1.0]])
    return Coupling(arms, rows, equal, equal)


def _bounded(arms: int, rows: Array, upper: Array) -> Coupling:
    return Coupling(arms, rows, np.full(len(rows), -np.inf), upper.astype(np.float64))


def edges(arms: int) -> list[tuple[int, int]]:
    """The two ends of each arm of a matching."""
    side = int(np.ceil(np.sqrt(arms)))
    pairs = [(left, right) for left in range(side) for right in range(side)]
    every = sorted(pairs, key=lambda ends: ((ends[1] - ends[0]) % side, ends))
    return every[:arms]


def workers(arms: int) -> tuple[NDArray[np.bool_], NDArray[np.int64], int]:
    """Who can serve which arm `[2, arms]`, how long each takes `[arms]`, and the time of a worker."""
    arm = np.arange(arms)
    return np.stack([arm % 3 != 2, arm % 3 != 0]), 1 + (arm % 4 == 1), max(2, arms // 3)


def ways(arms: int) -> list[tuple[int, int]]:
    """The steps of a path through layers of two arms, -1 where it begins and ends; from the second of every other layer
    no step leads to the first of the next.
    """
    layers = [[arm for arm in (first, first + 1) if arm < arms] for first in range(0, arms, 2)]
    result = [(-1, arm) for arm in layers[0]] + [(arm, -1) for arm in layers[-1]]
    for number, (layer, following) in enumerate(itertools.pairwise(layers)):
        result += [
            (a, b) for a in layer for b in following if number % 2 or not (a % 2 and not b % 2) or len(following) < 2
        ]
    return result


def enumerated(family: Family, arms: int) -> Array:
    """All pulls `[K, arms]` that a family allows, by trying each; of paths, by walking."""
    if family == "paths":
        after: dict[int, list[int]] = {}
        for before, arm in ways(arms):
            after.setdefault(before, []).append(arm)
        walks, result = [[arm] for arm in after[-1] if arm >= 0], []
        while walks:
            walk = walks.pop()
            for arm in after.get(walk[-1], []):
                result.append(walk) if arm < 0 else walks.append([*walk, arm])
        return np.unique(np.array([np.isin(np.arange(arms), walk) for walk in result], np.float64), axis=0)
    every = np.array(list(itertools.product((0, 1), repeat=arms)))
    return np.array([pull for pull in every if _allowed(family, pull)], np.float64)


def _allowed(family: Family, pull: NDArray[np.int64]) -> bool:
    arms, chosen = len(pull), np.flatnonzero(pull)
    if family == "sets":
        return len(chosen) <= max(arms // 2, 1)
    if family == "matchings":
        ends = [edges(arms)[arm] for arm in chosen]
        return all(len({item[side] for item in ends}) == len(ends) for side in range(2))
    skills, costs, time = workers(arms)
    for who in itertools.product(range(2), repeat=len(chosen)):
        spent = np.zeros(2)
        for worker, arm in zip(who, chosen, strict=True):
            spent[worker] += costs[arm] if skills[worker, arm] else np.inf
        if (spent <= time).all():
            return True
    return False


@dataclass(frozen=True, eq=False)
class CoupledArms(TabularMDP):
    """Coupled arms as a decision process whose actions are `pulls`.

    Attributes:
        family, arms: of the coupling. pulls: `[A, arms]`. levels: of every arm in every state, `[S, arms]`.
    """

    family: Family = "sets"
    arms: int = 0
    pulls: Array = None  # type: ignore[assignment]
    levels: NDArray[np.int64] = None  # type: ignore[assignment]

    @property
    def paid(self) -> Array:
        """The good arms of every state, `[S]`: what a step pays that leads there."""
        good: Array = (self.levels == GOOD).sum(-1).astype(np.float64)
        return good

    def gains(self, state: int) -> Array:
        """What pulling each arm adds to the expected pay of this step, `[arms]`."""
        chances = [changes(arm)[:, self.levels[state, arm], GOOD] for arm in range(self.arms)]
        return np.array([pulled - left for left, pulled in chances])


def changes(arm: int) -> Array:
    """`[2, levels, levels]`, of an arm left alone and pulled."""
    return INVESTMENT if arm % 2 else UPKEEP


def coupled(family: Family, arms: int) -> CoupledArms:
    """A world of some arms, all bad at first."""
    name = f"restless-{family}:{arms}"
    if not 2 <= arms <= MOST:
        raise ConfigurationError(f"world {name}: its states are enumerated, so it has 2 to {MOST} arms")
    pulls = enumerated(family, arms)
    transition = np.ones((1, len(pulls), 1))
    for arm in range(arms):  # Arms change independently; the first varies slowest.
        moved = changes(arm)[pulls[:, arm].astype(int)].transpose(1, 0, 2)
        transition = np.einsum("xay,las->xlays", transition, moved).reshape(
            LEVELS * len(transition), len(pulls), LEVELS * transition.shape[-1]
        )
    levels = np.array(list(itertools.product(range(LEVELS), repeat=arms)))
    reward = transition @ (levels == GOOD).sum(-1)
    start = np.eye(len(levels))[0]
    return CoupledArms(transition, reward, start, None, DISCOUNT, name, family, arms, pulls, levels)


SETS = WorldFamily(
    name="restless-sets",
    description="arms by number, half of which may be pulled",
    make=partial(coupled, "sets"),
    size=(4,),
)
PATHS = WorldFamily(
    name="restless-paths", description="the same, pulled along a path", make=partial(coupled, "paths"), size=(4,)
)
MATCHINGS = WorldFamily(
    name="restless-matchings",
    description="the same, pulled as a matching",
    make=partial(coupled, "matchings"),
    size=(4,),
)
ASSIGNMENTS = WorldFamily(
    name="restless-assignments",
    description="the same, pulled by two workers",
    make=partial(coupled, "assignments"),
    size=(4,),
)
FAMILIES: tuple[Family, ...] = get_args(Family)

"""Scenarios drawn with probability proportional to their value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.occurrences import unmarked
from hocket.core.posterior import Outcomes
from hocket.curriculum.pool import PoolCache, PoolMembers, at_least_one
from hocket.stages import Curriculum, LedgerView, Stage, Task
from hocket.types import Scenario


class Value(Stage):
    """The value of drawing a scenario once more, computed from its history in the ledger: a number, at least 0.

    It is a function of its arguments. `Weighted` recomputes a `lasting` value only after the ledger has recorded the
    scenario, and any other value at every draw.
    """

    room = "curriculum"

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        """The value, from the scenario's counts and the mean rewards of its past groups, oldest first."""
        raise NotImplementedError


@dataclass(frozen=True)
class Even(Value):
    """The same value for all scenarios."""

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        return 1.0


@dataclass(frozen=True)
class Weighted(Curriculum):
    """Scenarios of a pool with probability proportional to their `value`.

    Every scenario of the pool is drawn once in random order. Then each call draws `count` different ones (Gumbel
    top-k, that is sequentially without replacement). Scenarios of value 0 are drawn only if no others are left.

    A value is cached until the ledger records the scenario. All values are recomputed at every draw if `value` may
    change by itself (see `lasting`), or if the ledger is a different object than before, as with `--lag`.

    Attributes:
        value: the value of a scenario. prompts: scenarios per step.
        pool: the number of scenarios in the pool, from `Shuffled`'s first pass. None takes all; of an endless task,
            whose scenarios are then repeated, `hocket.curriculum.pool.OF_ENDLESS`.
        even: the share of scenarios, at random, that are drawn uniformly, in [0, 1].

    Raises:
        ConfigurationError: on a call, for a value that is negative or not finite.
    """

    value: Value = Even()
    prompts: int = 16
    pool: int | None = None
    even: float = 0.0
    _kept: PoolCache[Worths] = field(default_factory=lambda: PoolCache[Worths](), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        at_least_one(prompts=self.prompts, pool=self.pool)
        if not 0 <= self.even <= 1:
            raise ValueError(f"even must lie in [0, 1], not {self.even}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        members = PoolMembers(task, self.pool, ledger, key)
        chosen = [members[place] for place in range(asked, min(asked + count, members.size))]
        if len(chosen) == count:
            return chosen
        with np.errstate(divide="ignore"):
            worth = np.log(self._kept.of(members, Worths).by(self.value, ledger))
        while len(chosen) < count:
            rng = key.derive("failures", asked + len(chosen)).numpy()
            wanted = min(count - len(chosen), members.size)
            order = least(-(worth + rng.gumbel(size=members.size)), wanted)
            if self.even:
                order = mixed(order, least(-rng.gumbel(size=members.size), wanted), self.even, rng)
            chosen += [members[place] for place in order.tolist()]
        return chosen


class Worths:
    """The values of a pool's scenarios, by place."""

    def __init__(self, members: PoolMembers) -> None:
        self._places: dict[str, list[int]] = {}
        for place in range(members.size):
            self._places.setdefault(unmarked(members[place].id), []).append(place)
        self._worths = np.zeros(members.size)
        self._ledger: LedgerView | None = None
        self._revision = 0

    def by(self, value: Value, ledger: LedgerView) -> NDArray[np.float64]:
        """The values, `[Q]`; recomputes those of scenarios that the ledger has recorded since the last call."""
        everything = ledger is not self._ledger or not lasting(value)
        for scenario in self._places if everything else ledger.changed_since(self._revision):
            if scenario in self._places:
                self._worths[self._places[scenario]] = worth_of(scenario, value, ledger)
        self._ledger, self._revision = ledger, ledger.revision
        return self._worths


def lasting(value: Stage) -> bool:
    """Whether a value cannot change by itself: it and its parts are hashable by their fields, as frozen dataclasses.

    A class with further attributes, or with a list in a field, may change unnoticed.
    """
    try:
        hash(value)
    except TypeError:
        return False
    return type(value).__hash__ is not object.__hash__ and all(map(lasting, value.parts()))


def worth_of(scenario: str, value: Value, ledger: LedgerView) -> float:
    """The value of a scenario, which must be finite and at least 0."""
    worth = value(ledger.outcomes(scenario), ledger.history(scenario))
    if not 0 <= worth < float("inf"):
        raise ConfigurationError(
            f"{type(value).__name__} says that scenario {scenario!r} is worth {worth}; a value is finite and at least 0"
        )
    return worth


def least(numbers: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The places of the `count` least numbers, in the order of a stable sort."""
    among = np.flatnonzero(numbers <= np.partition(numbers, count - 1)[count - 1])
    return among[np.argsort(numbers[among], kind="stable")[:count]]


def mixed(
    one: NDArray[np.int64], other: NDArray[np.int64], share: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """A mixture of two orders: each next member is the next of `other` with probability `share`, else of `one`.

    Both are equally long prefixes of orders of the same members.
    """
    ways, order = [iter(one.tolist()), iter(other.tolist())], dict[int, None]()
    for second in (rng.random(len(one)) < share).tolist():
        order[next(place for place in ways[second] if place not in order)] = None
    return np.fromiter(order, np.int64, len(order))

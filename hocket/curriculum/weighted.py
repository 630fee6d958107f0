"""Scenarios drawn by what asking them is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.occurrences import unmarked
from hocket.core.posterior import Outcomes
from hocket.curriculum.pool import Kept, Members, at_least_one
from hocket.stages import Curriculum, LedgerView, Stage, Task
from hocket.types import Scenario


class Value(Stage):
    """What asking a scenario once more is worth by what the ledger holds of it: a number, at least 0.

    A function of its arguments. `Weighted` asks one that is `lasting` again only once the ledger has recorded
    the scenario, and any other at every draw.
    """

    room = "curriculum"

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        """Of its counts and the mean rewards of its past groups, oldest first."""
        raise NotImplementedError


@dataclass(frozen=True)
class Even(Value):
    """All scenarios are worth the same."""

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        return 1.0


@dataclass(frozen=True)
class Weighted(Curriculum):
    """Scenarios of a pool with probability proportional to their `value`.

    Every scenario of the pool is asked once in random order, then `count` different ones are drawn (Gumbel top-k, that
    is one after the other without replacement). What is worth 0 is drawn only where nothing else is left.

    What a scenario is worth is kept until the ledger records it. All are valued anew at every draw where `value` may
    change by itself (`lasting`), and where the ledger is another one than before, as under `--lag`.

    Attributes:
        value: of a scenario. prompts: scenarios per step.
        pool: how many scenarios take part, those of `Shuffled`'s first pass; None takes all, and of an endless task,
            which comes again this way, `hocket.curriculum.pool.OF_ENDLESS`.
        even: the share of scenarios, at random, that are drawn without regard to their value, in [0, 1].

    Raises:
        ConfigurationError: on a call, for a value below 0 or none.
    """

    value: Value = Even()
    prompts: int = 16
    pool: int | None = None
    even: float = 0.0
    _kept: Kept[Worths] = field(default_factory=lambda: Kept[Worths](), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        at_least_one(prompts=self.prompts, pool=self.pool)
        if not 0 <= self.even <= 1:
            raise ValueError(f"even must lie in [0, 1], not {self.even}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        members = Members(task, self.pool, ledger, key)
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
    """What the scenarios of a pool are worth, by place."""

    def __init__(self, members: Members) -> None:
        self._places: dict[str, list[int]] = {}
        for place in range(members.size):
            self._places.setdefault(unmarked(members[place].id), []).append(place)
        self._worths = np.zeros(members.size)
        self._ledger: LedgerView | None = None
        self._revision = 0

    def by(self, value: Value, ledger: LedgerView) -> NDArray[np.float64]:
        """Theirs `[Q]`; valued are those that the ledger has recorded since the last time."""
        everything = ledger is not self._ledger or not lasting(value)
        for scenario in self._places if everything else ledger.changed_since(self._revision):
            if scenario in self._places:
                self._worths[self._places[scenario]] = worth_of(scenario, value, ledger)
        self._ledger, self._revision = ledger, ledger.revision
        return self._worths


def lasting(value: Stage) -> bool:
    """Whether a value is known to stay what it is: it and its parts are hashed by what they hold, as frozen ones are.

    A class with attributes of its own, or a list in a field, may change unseen.
    """
    try:
        hash(value)
    except TypeError:
        return False
    return type(value).__hash__ is not object.__hash__ and all(map(lasting, value.parts()))


def worth_of(scenario: str, value: Value, ledger: LedgerView) -> float:
    """The value of one, which has to be finite and at least 0."""
    found = value(ledger.outcomes(scenario), ledger.history(scenario))
    if not 0 <= found < float("inf"):
        raise ConfigurationError(
            f"{type(value).__name__} says that scenario {scenario!r} is worth {found}; a value is finite and at least 0"
        )
    return found


def least(numbers: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The places of the `count` least numbers, in order, the earlier of equals first: a stable sort's first ones."""
    among = np.flatnonzero(numbers <= np.partition(numbers, count - 1)[count - 1])
    return among[np.argsort(numbers[among], kind="stable")[:count]]


def mixed(
    one: NDArray[np.int64], other: NDArray[np.int64], share: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """An order in which each next member is the next of `other` with probability `share`, else that of `one`.

    Both are the first of an order of the same members, equally many.
    """
    ways, found = [iter(one.tolist()), iter(other.tolist())], dict[int, None]()
    for second in (rng.random(len(one)) < share).tolist():
        found[next(place for place in ways[second] if place not in found)] = None
    return np.fromiter(found, np.int64, len(found))

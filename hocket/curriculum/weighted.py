"""Scenarios drawn by what asking them is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.curriculum.shuffled import Shuffled
from hocket.stages import Curriculum, LedgerView, Stage, Task
from hocket.types import Scenario


class Value(Stage):
    """What asking a scenario once more is worth by what the ledger holds of it: a number, at least 0."""

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

    Attributes:
        value: of a scenario. prompts: scenarios per step.
        pool: how many scenarios take part, those of `Shuffled`'s first pass; all of a smaller task. Endless tasks come
            again this way.
        even: the share of scenarios, at random, that are drawn without regard to their value, in [0, 1].

    Raises:
        ConfigurationError: on a call, for a value below 0 or none.
    """

    value: Value = Even()
    prompts: int = 16
    pool: int = 256
    even: float = 0.0
    _found: FoundIds = field(default_factory=lambda: FoundIds(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.pool < 1:
            raise ValueError(f"prompts and pool must be at least 1, not {self.prompts} and {self.pool}")
        if not 0 <= self.even <= 1:
            raise ValueError(f"even must lie in [0, 1], not {self.even}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        members = Members(task, self.pool, ledger, key)
        chosen = [members[place] for place in range(asked, min(asked + count, members.size))]
        if len(chosen) == count:
            return chosen
        with np.errstate(divide="ignore"):
            worth = np.log(np.array([self._worth(one, ledger) for one in self._found.of(members)]))
        while len(chosen) < count:
            rng = key.derive("failures", asked + len(chosen)).numpy()
            noise = rng.gumbel(size=members.size)
            order = np.argsort(-(worth + noise), kind="stable")
            if self.even:
                order = mixed(order, np.argsort(-rng.gumbel(size=members.size), kind="stable"), self.even, rng)
            chosen += [members[int(place)] for place in order[: count - len(chosen)]]
        return chosen

    def _worth(self, scenario: str, ledger: LedgerView) -> float:
        found = self.value(ledger.outcomes(scenario), ledger.history(scenario))
        if not 0 <= found < float("inf"):
            raise ConfigurationError(
                f"{type(self.value).__name__} says that scenario {scenario!r} is worth {found}; a value is finite "
                "and at least 0"
            )
        return found


def mixed(
    one: np.ndarray[tuple[int], np.dtype[np.int64]],
    other: np.ndarray[tuple[int], np.dtype[np.int64]],
    share: float,
    rng: np.random.Generator,
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """An order in which each next member is the next of `other` with probability `share`, else that of `one`."""
    ways, found = [iter(one.tolist()), iter(other.tolist())], dict[int, None]()
    for second in (rng.random(len(one)) < share).tolist():
        found[next(place for place in ways[second] if place not in found)] = None
    return np.fromiter(found, np.int64, len(found))


@dataclass(frozen=True)
class Members:
    """The scenarios of a pool by place: those of the first `most` positions of `Shuffled`."""

    task: Task
    most: int
    ledger: LedgerView
    key: Key

    @property
    def size(self) -> int:
        """How many there are."""
        size = self.task.size("train")
        return self.most if size is None else min(self.most, size)

    def __getitem__(self, place: int) -> Scenario:
        return Shuffled(prompts=1)(self.task, place, 1, self.ledger, self.key)[0]


class FoundIds:
    """The ids of a pool's scenarios, which take long to make and never change; copies begin anew."""

    def __init__(self) -> None:
        self._members: Members | None = None
        self._ids: list[str] = []

    def __reduce__(self) -> tuple[type[FoundIds], tuple[()]]:
        return FoundIds, ()

    def of(self, members: Members) -> list[str]:
        """Theirs, by place."""
        old = self._members
        if old is None or old.task is not members.task or (old.size, old.key) != (members.size, members.key):
            self._members, self._ids = members, [members[place].id for place in range(members.size)]
        return self._ids

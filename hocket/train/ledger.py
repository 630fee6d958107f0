"""The history of scenarios: what each one's past groups earned."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.core.occurrences import unmarked
from hocket.core.posterior import Norms, Outcomes
from hocket.core.signals import RIGHT
from hocket.stages import State

REMEMBERED = 32
"""How many past groups of a scenario are remembered."""


class Told(NamedTuple):
    """What the ledger is told of a sample: its scenario, what it earned, and what stages had measured of it.

    None and NaN are no reward. See `hocket.core.gradient_norms` and `hocket.core.unlikeness` for the others.
    """

    scenario: str
    reward: float | None
    norm: float | None = None
    unlikeness: float | None = None


@dataclass
class LedgerEntry:
    """One scenario.

    Attributes:
        groups, samples: how often it was asked, and answered with a reward. successes: of `samples`, those that earned
            `hocket.core.signals.RIGHT` or more. step: when last asked.
        total, count: sum and number of the rewards of the group of `step`, whose mean ends `history`.
        history: mean rewards of the last groups, oldest first.
        norms: of right samples number, sum and sum of squares of what gradients' norms were told, then of wrong ones.
        unlikeness: of the last group of which it was told, its step, and number and sum.
    """

    groups: int = 0
    samples: int = 0
    step: int = 0
    total: float = 0.0
    count: int = 0
    successes: int = 0
    history: list[float] = field(default_factory=list)
    norms: tuple[float, ...] = ()
    unlikeness: tuple[float, ...] = ()


_MEASURED = {"norms": 6, "unlikeness": 3}
"""How many numbers stand for what only some stages have measured."""

_NUMBERS = [item.name for item in fields(LedgerEntry) if item.name not in ("history", *_MEASURED)]


class Ledger:
    """Implements `LedgerView`. The loop alone writes it, in assignment order; stages only read."""

    def __init__(self) -> None:
        self._entries: dict[str, LedgerEntry] = {}
        self._told: dict[str, int] = {}  # At which count of what it was told of each last; the latest stands last.
        self.told = 0

    def note(self, step: int, told: Iterable[Told]) -> None:
        """Adds the samples of a step, in order."""
        for one in told:
            self.record(one.scenario, step, one.reward, one.norm, one.unlikeness)

    def record(
        self,
        scenario: str,
        step: int,
        reward: float | None,
        norm: float | None = None,
        unlikeness: float | None = None,
    ) -> None:
        """Adds one sample, with what was measured of it. Those of one step are a group, in all its occurrences.

        None and NaN are no reward: they count as asked only, and a group without any reward leaves no mean.
        """
        scenario = unmarked(scenario)
        self._mark(scenario)
        entry = self._entries.setdefault(scenario, LedgerEntry())
        if entry.step != step:
            entry.step, entry.total, entry.count = step, 0.0, 0
            entry.groups += 1
        if reward is None or math.isnan(reward):
            return
        entry.samples += 1
        entry.successes += reward >= RIGHT
        if norm is not None:
            told = np.array(entry.norms or (0.0,) * 6)
            told[:3] += (reward >= RIGHT) * np.array([1, norm, norm**2])
            told[3:] += (reward < RIGHT) * np.array([1, norm, norm**2])
            entry.norms = tuple(told.tolist())
        if unlikeness is not None:
            _, count, total = entry.unlikeness if entry.unlikeness[:1] == (step,) else (step, 0.0, 0.0)
            entry.unlikeness = (step, count + 1, total + unlikeness)
        entry.total += float(reward)
        entry.count += 1
        earlier = entry.history if entry.count == 1 else entry.history[:-1]
        entry.history = [*earlier, entry.total / entry.count][-REMEMBERED:]

    def history(self, scenario: str) -> Sequence[float]:
        """Mean rewards of the scenario's past groups, oldest first, at most `REMEMBERED`."""
        entry = self._entries.get(unmarked(scenario))
        return tuple(entry.history) if entry else ()

    def outcomes(self, scenario: str) -> Outcomes:
        """How often the scenario was tried, and how often it was solved."""
        entry = self._entries.get(unmarked(scenario))
        if entry is None:
            return Outcomes()
        unlikeness = entry.unlikeness[2] / entry.unlikeness[1] if entry.unlikeness else None
        return Outcomes(entry.samples, entry.successes, _means(entry.norms), unlikeness)

    def changed(self, since: int) -> Iterable[str]:
        """The scenarios that it was told of after `told` was `since`, the latest first; looks at no others."""
        return itertools.takewhile(lambda scenario: self._told[scenario] > since, reversed(self._told))

    def _mark(self, scenario: str) -> None:
        self.told += 1
        self._told.pop(scenario, None)
        self._told[scenario] = self.told

    def entry(self, scenario: str) -> LedgerEntry:
        """Everything known of a scenario; to be read only."""
        return self._entries.get(unmarked(scenario)) or LedgerEntry()

    def __len__(self) -> int:
        return len(self._entries)

    def state(self) -> State:
        """Everything, as columns (a run of generated scenarios meets very many)."""
        entries = list(self._entries.values())
        columns = {name: np.array([getattr(entry, name) for entry in entries]) for name in _NUMBERS}
        return {
            "scenario": list(self._entries),
            "remembered": np.array([len(entry.history) for entry in entries], dtype=np.int64),
            "history": np.array([mean for entry in entries for mean in entry.history], dtype=np.float64),
            **columns,
            **self._measured(),
        }

    def _measured(self) -> State:
        """Columns of what stages had measured; none where nothing was."""
        known = {name: [getattr(entry, name) for entry in self._entries.values()] for name in _MEASURED}
        return {
            name: np.array([one or (0.0,) * _MEASURED[name] for one in column])
            for name, column in known.items()
            if any(column)
        }

    def restore(self, state: State) -> None:
        """Replaces everything by what `state` returned earlier.

        A checkpoint from before successes were counted tells mean rewards; what these make of the samples is taken.
        """
        history = state["history"].tolist()
        if "successes" not in state:
            state = {**state, "successes": _estimated(state)}
        columns = [state[name].tolist() for name in _NUMBERS]
        measured = {name: state[name].tolist() for name in _MEASURED if name in state}
        known, self._entries, start = list(self._entries), {}, 0
        for place, (scenario, remembered, *numbers) in enumerate(
            zip(state["scenario"], state["remembered"].tolist(), *columns, strict=True)
        ):
            self._entries[scenario] = LedgerEntry(
                **dict(zip(_NUMBERS, numbers, strict=True)), history=history[start : start + remembered]
            )
            for name, column in measured.items():
                setattr(self._entries[scenario], name, tuple(column[place]) if any(column[place]) else ())
            start += remembered
        for scenario in [*known, *self._entries]:
            self._mark(scenario)


def _means(told: tuple[float, ...]) -> Norms | None:
    """Means of norms and of their squares, from numbers and sums."""
    if not told:
        return None
    sides = [(total / count, squares / count) if count else None for count, total, squares in (told[:3], told[3:])]
    right, wrong = sides[0] or sides[1], sides[1] or sides[0]
    return Norms(*right, *wrong) if right and wrong else None


def _estimated(state: State) -> NDArray[np.int64]:
    """Successes of each scenario as its remembered mean rewards, in [0, 1], make them likely."""
    places = np.repeat(np.arange(len(state["samples"])), state["remembered"])
    summed = np.bincount(places, np.clip(state["history"], 0, 1), minlength=len(state["samples"]))
    mean = summed / np.maximum(state["remembered"], 1)
    successes: NDArray[np.int64] = np.rint(mean * state["samples"]).astype(np.int64)
    return successes

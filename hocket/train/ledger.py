"""The ledger: the rewards of each scenario's past groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.core.occurrences import unmarked
from hocket.core.posterior import Outcomes
from hocket.core.signals import RIGHT
from hocket.core.statistics import Summary
from hocket.stages import State

REMEMBERED = 32
"""How many past groups of a scenario the ledger keeps."""


class SampleOutcome(NamedTuple):
    """The outcome of one sample, as the ledger records it: scenario, reward, and per-sample statistics by name.

    None and NaN mean that there is no reward. See `hocket.core.statistics`.
    """

    scenario: str
    reward: float | None
    statistics: Mapping[str, float] = {}


@dataclass
class LedgerEntry:
    """The history of one scenario.

    Attributes:
        groups, samples: the number of its groups, and of its samples with a reward. successes: the number of samples
            with a reward of `hocket.core.signals.RIGHT` or more. step: the step of its last group.
        total, count: sum and number of the rewards of the last group, whose mean is the last item of `history`.
        history: mean rewards of the last groups, oldest first.
        statistics: a summary of each per-sample statistic, by name.
    """

    groups: int = 0
    samples: int = 0
    step: int = 0
    total: float = 0.0
    count: int = 0
    successes: int = 0
    history: list[float] = field(default_factory=list)
    statistics: dict[str, Summary] = field(default_factory=dict)


_NUMBERS = [item.name for item in fields(LedgerEntry) if item.name not in ("history", "statistics")]


class Ledger:
    """The history of all scenarios; implements `LedgerView`. Only the loop writes it, in assignment order."""

    def __init__(self) -> None:
        self._entries: dict[str, LedgerEntry] = {}
        self._revisions: dict[str, int] = {}  # The revision of the last record of each scenario, in increasing order.
        self.revision = 0

    def note(self, step: int, outcomes: Iterable[SampleOutcome]) -> None:
        """Adds the samples of a step, in order."""
        for outcome in outcomes:
            self.record(outcome.scenario, step, outcome.reward, outcome.statistics)

    def record(
        self, scenario: str, step: int, reward: float | None, statistics: Mapping[str, float] | None = None
    ) -> None:
        """Adds one sample with its statistics. All samples of a scenario in one step form a group.

        None and NaN mean that there is no reward: such a sample counts for `groups` only, and a group without any
        reward adds no mean to the history.
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
        for name, number in (statistics or {}).items():
            summary = entry.statistics.get(name, Summary())
            entry.statistics[name] = summary.plus(number, success=reward >= RIGHT, step=step)
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
        return Outcomes(entry.samples, entry.successes, dict(entry.statistics))

    def changed_since(self, revision: int) -> Iterable[str]:
        """The scenarios recorded after that revision, the latest first."""
        return itertools.takewhile(lambda scenario: self._revisions[scenario] > revision, reversed(self._revisions))

    def _mark(self, scenario: str) -> None:
        self.revision += 1
        self._revisions.pop(scenario, None)
        self._revisions[scenario] = self.revision

    def entry(self, scenario: str) -> LedgerEntry:
        """The entry of a scenario; read only."""
        return self._entries.get(unmarked(scenario)) or LedgerEntry()

    def __len__(self) -> int:
        return len(self._entries)

    def state(self) -> State:
        """All entries, as columns for compactness: a run of generated scenarios has very many."""
        entries = list(self._entries.values())
        columns = {name: np.array([getattr(entry, name) for entry in entries]) for name in _NUMBERS}
        statistics = sorted({name for entry in entries for name in entry.statistics})
        return {
            "scenario": list(self._entries),
            "remembered": np.array([len(entry.history) for entry in entries], dtype=np.int64),
            "history": np.array([mean for entry in entries for mean in entry.history], dtype=np.float64),
            **columns,
            **({"statistics": {name: self._rows(name) for name in statistics}} if statistics else {}),
        }

    def _rows(self, statistic: str) -> NDArray[np.float64]:
        """The summaries of a statistic, one row per scenario, `[K, 9]`; zeros if a scenario has none."""
        return np.array([entry.statistics.get(statistic, Summary()).row() for entry in self._entries.values()])

    def restore(self, state: State) -> None:
        """Replaces all entries by a `state`.

        Checkpoints of earlier versions have no counts of successes; these are estimated from the mean rewards.
        """
        history = state["history"].tolist()
        if "successes" not in state:
            state = {**state, "successes": _estimated(state)}
        columns = [state[name].tolist() for name in _NUMBERS]
        statistics = {name: rows.tolist() for name, rows in _statistics(state).items()}
        known, self._entries, start = list(self._entries), {}, 0
        for place, (scenario, remembered, *numbers) in enumerate(
            zip(state["scenario"], state["remembered"].tolist(), *columns, strict=True)
        ):
            self._entries[scenario] = LedgerEntry(
                **dict(zip(_NUMBERS, numbers, strict=True)), history=history[start : start + remembered]
            )
            summaries = {name: Summary.of_row(rows[place]) for name, rows in statistics.items() if any(rows[place])}
            self._entries[scenario].statistics = summaries
            start += remembered
        for scenario in [*known, *self._entries]:
            self._mark(scenario)


def _statistics(state: State) -> dict[str, NDArray[np.float64]]:
    """The summaries of each statistic, `[K, 9]`.

    Checkpoints of earlier versions hold shorter rows: moments alone (six numbers) or the last group (three).
    """
    earlier = {name: state[name] for name in state.keys() - {"scenario", "remembered", "statistics"}}
    padding = {6: ((0, 0), (0, 3)), 3: ((0, 0), (6, 0))}
    padded = {name: np.pad(rows, padding[rows.shape[1]]) for name, rows in earlier.items() if rows.ndim == 2}
    return {**padded, **state.get("statistics", {})}


def _estimated(state: State) -> NDArray[np.int64]:
    """The successes of each scenario, estimated from its mean rewards, clipped to [0, 1]."""
    places = np.repeat(np.arange(len(state["samples"])), state["remembered"])
    summed = np.bincount(places, np.clip(state["history"], 0, 1), minlength=len(state["samples"]))
    mean = summed / np.maximum(state["remembered"], 1)
    successes: NDArray[np.int64] = np.rint(mean * state["samples"]).astype(np.int64)
    return successes

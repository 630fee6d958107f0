"""Preference pairs of single turns, agent by agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from hocket.credit.pairs import paired_turns
from hocket.segments import segment_sum
from hocket.signals import REWARD, turn_visits
from hocket.stages import Credit
from hocket.types import Batch, GroupBy, Level, Occurrences


@dataclass(frozen=True)
class Candidate:
    """One turn of a group of turns that may be compared, and what it earned."""

    trajectory: int
    turn: int
    value: float


@dataclass(frozen=True)
class BestTurnAgainstWorst(Credit):
    """One pair per group of turns: the best against the worst, so that every agent of a team has pairs of its own.

    A turn is worth its own reward, those of its decisions, and that of its trajectory, which is every agent's. A group
    whose best and worst differ by `margin` or less gives no pair; among equals the first in assignment order is taken.
    `pairs` name the trajectories of the two turns and `compared` the turns; other turns get weight 0. `DPO` compares
    the log-probs of these turns alone, and a learner meets only pairs of its own policy's turns.

    Attributes:
        by: which turns are comparable; they must answer the same question, as an agent's first turns do.
        margin: how far apart two turns must be.
    """

    by: GroupBy = GroupBy("scenario", "role")
    margin: float = 0.0

    pairs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.by.level is not Level.TURN:
            raise ValueError("pairs are of turns: by must name a column of turns, such as role")
        if self.margin < 0:
            raise ValueError(f"margin must be at least 0, not {self.margin}")

    @property
    def least_samples(self) -> int:
        """Two when groups are within a scenario."""
        return 2 if "scenario" in self.by.columns else 1

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` and `compared`, `[P, 2]` each; advantages are left as they are."""
        found = []
        for members in self._groups(batch):
            best = max(members, key=lambda one: one.value)
            worst = min(members, key=lambda one: one.value)
            if best.value - worst.value > self.margin:
                found.append((best, worst))
        return paired_turns(
            batch, [((best.trajectory, best.turn), (worst.trajectory, worst.turn)) for best, worst in found]
        )

    def _groups(self, batch: Batch) -> list[list[Candidate]]:
        """The turns of each group that count, in assignment order; a shared turn is its first trajectory's."""
        seen, groups, order = batch.occurrences, self.by(batch), batch.order.tolist()
        visit, starts = turn_visits(batch)
        size = int(starts.sum())
        counted = segment_sum((seen.weight != 0).double(), visit, size) > 0
        trajectory, turn = seen.trajectory[starts].tolist(), batch.turn[seen.decision[starts]].tolist()
        value = turn_values(batch).tolist()
        members: list[list[Candidate]] = [[] for _ in range(groups.size)]
        met: set[int] = set()
        for place in sorted(range(size), key=lambda place: order[trajectory[place]]):
            if counted[place] and turn[place] not in met:
                met.add(turn[place])
                one = Candidate(trajectory[place], turn[place], value[place])
                members[int(groups.index[turn[place]])].append(one)
        return [group for group in members if group]


def turn_values(batch: Batch) -> torch.Tensor:
    """What each visit of a trajectory to a turn earned, `[M]` float64: see `BestTurnAgainstWorst`."""
    seen = batch.occurrences
    visit, starts = turn_visits(batch)
    value = torch.zeros(int(starts.sum()), dtype=torch.float64)
    if REWARD[Level.DECISION] in batch.scores:
        value = value + segment_sum(batch.scores[REWARD[Level.DECISION]].values.double(), visit, len(value))
    if REWARD[Level.TURN] in batch.scores:
        value = value + batch.scores[REWARD[Level.TURN]].values[batch.turn[seen.decision[starts]]]
    if REWARD[Level.TRAJECTORY] in batch.scores:
        value = value + batch.scores[REWARD[Level.TRAJECTORY]].values[seen.trajectory[starts]]
    return value

"""Preference pairs from rewards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.columns import PAIR_MARGIN, PAIR_TARGET, PAIR_WEIGHT, WINS, InfoColumn
from hocket.core.signals import RIGHT, counted_trajectories, returns
from hocket.stages import Credit

NUMBERS = {PAIR_WEIGHT: 1.0, PAIR_MARGIN: 0.0, PAIR_TARGET: 1.0}
"""The columns of numbers that a pair may have, and their defaults."""

Visit = tuple[int, int]
"""The index of a trajectory, and of a turn in it."""


@dataclass(frozen=True)
class Pairing(Credit):
    """The base of credits that give pairs: `by` defines the groups, `margin` the least difference of returns in a pair.

    Raises:
        ValueError: for groups of turns, and for a negative margin.
    """

    by: GroupBy = GroupBy("scenario")
    margin: float = 0.0

    pairs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.by.level is Level.TURN:
            raise ValueError("pairs are of trajectories: by may not name a column of turns")
        if self.margin < 0:
            raise ValueError(f"margin must be at least 0, not {self.margin}")

    @property
    def least_samples(self) -> int:
        """Two when groups are within a scenario."""
        return 2 if "scenario" in self.by.columns else 1


@dataclass(frozen=True)
class BestAgainstWorst(Pairing):
    """One pair per group: its best trajectory against its worst, as in online DPO (arXiv 2402.04792).

    A group whose best and worst returns differ by `margin` or less gives no pair. Ties are resolved by assignment
    order. Trajectories without a pair get weight 0.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]`; advantages are left as they are."""
        value = returns(batch).tolist()
        pairs = []
        for members in members_by_group(batch, self.by):
            best = max(members, key=lambda i: value[i])  # The first in a tie, here and below.
            worst = min(members, key=lambda i: value[i])
            if value[best] - value[worst] > self.margin:
                pairs.append((best, worst))
        return paired(batch, pairs)


@dataclass(frozen=True)
class AllPairs(Pairing):
    """Every two trajectories of a group whose returns differ by more than `margin`, the better one first.

    Trajectories without a pair get weight 0.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]`; advantages are left as they are."""
        value = returns(batch).tolist()
        pairs = [
            (better, other)
            for members in members_by_group(batch, self.by)
            for better in members
            for other in members
            if value[better] - value[other] > self.margin
        ]
        return paired(batch, pairs)


@dataclass(frozen=True)
class ComparedPairs(Pairing):
    """Every two trajectories of a group. The pair's target is the probability that the first beats the second.

    The probabilities are those of the column `WINS`, which a shaping writes (`hocket.rewards.WinShare`). Ties are
    included: a target of 1/2 draws both together. Pairs with a probability within `margin` of 1/2 are left out.

    Raises:
        ConfigurationError: on a call, for a batch without the column.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]` and `pair_target` `[P]`; advantages are left as they are."""
        wins, order = WINS.read(batch, "ComparedPairs"), batch.order.tolist()
        comparisons = [
            (first, other, chance)
            for members in members_by_group(batch, self.by)
            for place, first in enumerate(members)
            for other in members[place + 1 :]
            if (chance := (wins[first] or {}).get(order[other])) is not None
            if self.margin == 0 or abs(chance - 0.5) > self.margin
        ]
        occurrences = paired(batch, [(first, other) for first, other, _ in comparisons])
        return replace(
            occurrences, pair_target=torch.tensor([chance for *_, chance in comparisons], dtype=torch.float64)
        )


@dataclass(frozen=True)
class ShortestAgainstLonger(Pairing):
    """The shortest right trajectory of a group against its wrong ones and its much longer right ones.

    Pairs for long2short DPO (Kimi k1.5, arXiv 2501.12599, section 2.4). Ties are resolved by assignment order. A group
    without a right trajectory gives no pair. Trajectories without a pair get weight 0.

    Attributes:
        right: a return of at least this is a right answer.
        factor: a right answer at least this many times longer than the shortest is dispreferred; 1.5 in the report.
    """

    right: float = RIGHT
    factor: float = 1.5

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]`; advantages are left as they are."""
        value, length = returns(batch).tolist(), batch.lengths().tolist()
        pairs = []
        for members in members_by_group(batch, self.by):
            good = [i for i in members if value[i] >= self.right]
            if good:
                best = min(good, key=lambda i: length[i])
                pairs += [(best, i) for i in members if i not in good or length[i] >= self.factor * length[best]]
        return paired(batch, [(best, other) for best, other in pairs if best != other])


def members_by_group(batch: Batch, by: GroupBy) -> list[list[int]]:
    """The counted trajectories of each group, in assignment order."""
    groups = by(batch)
    index, counted, order = groups.index.tolist(), counted_trajectories(batch).tolist(), batch.order.tolist()
    members: list[list[int]] = [[] for _ in range(groups.size)]
    for trajectory in sorted(range(batch.trajectories), key=lambda i: order[i]):
        if counted[trajectory]:
            members[index[trajectory]].append(trajectory)
    return [group for group in members if group]


def paired(batch: Batch, found: list[tuple[int, int]]) -> Occurrences:
    """The occurrences with these pairs and their preferred trajectories' numbers; weight 0 for other trajectories."""
    occurrences = batch.occurrences
    pairs: Tensor = torch.tensor(found, dtype=torch.long).reshape(-1, 2)
    chosen = torch.zeros(batch.trajectories, dtype=torch.bool)
    chosen[pairs.flatten()] = True
    weight = torch.where(chosen[occurrences.trajectory], occurrences.weight, torch.zeros_like(occurrences.weight))
    numbers: dict[str, Any] = {column.name: _of_pairs(batch, column, pairs, usual) for column, usual in NUMBERS.items()}
    return replace(occurrences, weight=weight, pairs=pairs, **numbers)


def _of_pairs(batch: Batch, column: InfoColumn, pairs: Tensor, usual: float) -> Tensor | None:
    """The column's number of each pair's preferred trajectory, `[P]` float64; None if the column is empty."""
    rows = column.rows(batch)
    if all(row is None for row in rows):
        return None
    return torch.tensor([usual if rows[i] is None else rows[i] for i in pairs[:, 0].tolist()], dtype=torch.float64)


def paired_turns(batch: Batch, found: Sequence[tuple[Visit, Visit]]) -> Occurrences:
    """The occurrences with these pairs of turns, `compared`, and their trajectories; weight 0 for all other turns."""
    occurrences = paired(batch, [(better[0], worse[0]) for better, worse in found])
    compared = torch.tensor([(better[1], worse[1]) for better, worse in found], dtype=torch.long).reshape(-1, 2)
    return replace(within(batch, occurrences, [visit for pair in found for visit in pair]), compared=compared)


def within(batch: Batch, seen: Occurrences, visits: Iterable[Visit]) -> Occurrences:
    """Occurrences with weight 0 outside these turns of these trajectories."""
    wanted = torch.tensor([trajectory * batch.turns + turn for trajectory, turn in visits], dtype=torch.long)
    used = torch.isin(seen.trajectory * batch.turns + batch.turn[seen.decision], wanted)
    return replace(seen, weight=torch.where(used, seen.weight, torch.zeros_like(seen.weight)))

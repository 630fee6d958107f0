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
"""The columns of numbers that a pair may carry, and what they are where nothing is said."""

Visit = tuple[int, int]
"""A trajectory and a turn that it passes through, by number."""


@dataclass(frozen=True)
class Pairing(Credit):
    """What credits that yield pairs share: `by` says which trajectories are comparable, `margin` how far apart.

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

    A group whose best and worst return differ by `margin` or less gives no pair; among equals the first in assignment
    order is taken. Trajectories in no pair get weight 0.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]`; advantages are left as they are."""
        value = returns(batch).tolist()
        found = []
        for members in members_by_group(batch, self.by):
            best = max(members, key=lambda i: value[i])  # the first of equals, here and below
            worst = min(members, key=lambda i: value[i])
            if value[best] - value[worst] > self.margin:
                found.append((best, worst))
        return paired(batch, found)


@dataclass(frozen=True)
class AllPairs(Pairing):
    """Every two trajectories of a group whose returns differ by more than `margin`, the better one first.

    Trajectories in no pair get weight 0.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]`; advantages are left as they are."""
        value = returns(batch).tolist()
        found = [
            (better, other)
            for members in members_by_group(batch, self.by)
            for better in members
            for other in members
            if value[better] - value[other] > self.margin
        ]
        return paired(batch, found)


@dataclass(frozen=True)
class ComparedPairs(Pairing):
    """Every two trajectories of a group with the probability that the first beats the second as the pair's target.

    The probabilities are those of the column `WINS`, which a shaping writes (`hocket.rewards.WinShare`). Ties are told
    as well: a target of 1/2 draws both together. A `margin` leaves out pairs whose probability is within it of 1/2.

    Raises:
        ConfigurationError: on a call, for a batch without the column.
    """

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]` and `pair_target` `[P]`; advantages are left as they are."""
        wins, order = WINS.read(batch, "ComparedPairs"), batch.order.tolist()
        found = [
            (first, other, chance)
            for members in members_by_group(batch, self.by)
            for place, first in enumerate(members)
            for other in members[place + 1 :]
            if (chance := (wins[first] or {}).get(order[other])) is not None
            if self.margin == 0 or abs(chance - 0.5) > self.margin
        ]
        occurrences = paired(batch, [(first, other) for first, other, _ in found])
        return replace(occurrences, pair_target=torch.tensor([chance for *_, chance in found], dtype=torch.float64))


@dataclass(frozen=True)
class ShortestAgainstLonger(Pairing):
    """The shortest right trajectory of a group against its wrong ones and its much longer right ones.

    Pairs for long2short DPO (Kimi k1.5, arXiv 2501.12599, section 2.4). Among equals the first in assignment order is
    taken; a group without a right trajectory gives no pair, and trajectories in no pair get weight 0.

    Attributes:
        right: a return of at least this is a right answer.
        factor: how many times longer than the shortest a right answer is to be dispreferred; the report has 1.5.
    """

    right: float = RIGHT
    factor: float = 1.5

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]`; advantages are left as they are."""
        value, length = returns(batch).tolist(), batch.lengths().tolist()
        found = []
        for members in members_by_group(batch, self.by):
            good = [i for i in members if value[i] >= self.right]
            if good:
                best = min(good, key=lambda i: length[i])
                found += [(best, i) for i in members if i not in good or length[i] >= self.factor * length[best]]
        return paired(batch, [(best, other) for best, other in found if best != other])


def members_by_group(batch: Batch, by: GroupBy) -> list[list[int]]:
    """The trajectories of each group that count, in assignment order."""
    groups = by(batch)
    index, counted, order = groups.index.tolist(), counted_trajectories(batch).tolist(), batch.order.tolist()
    members: list[list[int]] = [[] for _ in range(groups.size)]
    for trajectory in sorted(range(batch.trajectories), key=lambda i: order[i]):
        if counted[trajectory]:
            members[index[trajectory]].append(trajectory)
    return [group for group in members if group]


def paired(batch: Batch, found: list[tuple[int, int]]) -> Occurrences:
    """The occurrences with these pairs and the numbers that their preferred members carry; weight 0 outside of them."""
    occurrences = batch.occurrences
    pairs: Tensor = torch.tensor(found, dtype=torch.long).reshape(-1, 2)
    chosen = torch.zeros(batch.trajectories, dtype=torch.bool)
    chosen[pairs.flatten()] = True
    weight = torch.where(chosen[occurrences.trajectory], occurrences.weight, torch.zeros_like(occurrences.weight))
    numbers: dict[str, Any] = {column.name: _of_pairs(batch, column, pairs, usual) for column, usual in NUMBERS.items()}
    return replace(occurrences, weight=weight, pairs=pairs, **numbers)


def _of_pairs(batch: Batch, column: InfoColumn, pairs: Tensor, usual: float) -> Tensor | None:
    """What the preferred member of each pair carries, `[P]` float64; None where no trajectory carries anything."""
    told = column.rows(batch)
    if all(one is None for one in told):
        return None
    return torch.tensor([usual if told[i] is None else told[i] for i in pairs[:, 0].tolist()], dtype=torch.float64)


def paired_turns(batch: Batch, found: Sequence[tuple[Visit, Visit]]) -> Occurrences:
    """The occurrences with these pairs of turns, `compared`, and the trajectories named with them; weight 0 outside."""
    occurrences = paired(batch, [(better[0], worse[0]) for better, worse in found])
    compared = torch.tensor([(better[1], worse[1]) for better, worse in found], dtype=torch.long).reshape(-1, 2)
    return replace(within(batch, occurrences, [visit for pair in found for visit in pair]), compared=compared)


def within(batch: Batch, seen: Occurrences, visits: Iterable[Visit]) -> Occurrences:
    """Occurrences with weight 0 outside of these turns of these trajectories."""
    wanted = torch.tensor([trajectory * batch.turns + turn for trajectory, turn in visits], dtype=torch.long)
    used = torch.isin(seen.trajectory * batch.turns + batch.turn[seen.decision], wanted)
    return replace(seen, weight=torch.where(used, seen.weight, torch.zeros_like(seen.weight)))

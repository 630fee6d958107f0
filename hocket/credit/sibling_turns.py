"""What the turns of a tree are worth, and pairs of those that answer the same history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hocket.credit.pairs import Pairing, members_by_group, paired_turns
from hocket.signals import returns, turn_visits
from hocket.types import Batch, Occurrences


@dataclass
class Told:
    """A history: a path of turns from the beginning of a scenario's episodes; `turn` is its last, -1 at the root.

    Attributes:
        leaves: the trajectories that came by, in assignment order. children: what was said next.
    """

    turn: int = -1
    leaves: list[int] = field(default_factory=list)
    children: dict[int, Told] = field(default_factory=dict)

    def value(self, of: list[float]) -> float:
        """The mean over its leaves."""
        return sum(of[leaf] for leaf in self.leaves) / len(self.leaves)

    def below(self) -> Iterator[Told]:
        """This history and all that go on from it, shorter ones first."""
        waiting = [self]
        while waiting:
            told = waiting.pop()
            yield told
            waiting += list(told.children.values())[::-1]


def turns_of(batch: Batch) -> list[list[int]]:
    """The turns of each trajectory in order, those without decisions left out."""
    seen = batch.occurrences
    _, starts = turn_visits(batch)
    found: list[list[int]] = [[] for _ in range(batch.trajectories)]
    turn = batch.turn[seen.decision[starts]].tolist()
    for trajectory, own in zip(seen.trajectory[starts].tolist(), turn, strict=True):
        found[trajectory].append(own)
    return found


def tree_of(members: list[int], turns: list[list[int]]) -> Told:
    """The histories of `members`: trajectories share one for as long as their turns are the same."""
    root = Told()
    for trajectory in members:
        told = root
        told.leaves.append(trajectory)
        for turn in turns[trajectory]:
            told = told.children.setdefault(turn, Told(turn))
            told.leaves.append(trajectory)
    return root


@dataclass(frozen=True)
class SiblingTurns(Pairing):
    """Pairs of turns that answer the same history: the most valuable against the least. Optima (arXiv 2410.08115).

    Episodes of a group form a tree, whose nodes are turns; a node is worth the mean return of the episodes through it.
    Of the answers to one history the best and the worst make a pair if they differ by more than `margin` and the best
    is worth more than `least`. Of a group's pairs the `share` whose better turn is worth most is kept, rounded down but
    at least one. `pairs` name an episode through each of the two turns (the earliest), and `compared` the turns; only
    their decisions keep a weight. Turns are the same if they are one object, which `hocket.rollout.DialogueTree` sees
    to; where nothing is shared, first turns are compared. Among equals the first in assignment order is taken.
    """

    margin: float = 0.3
    least: float = 0.15
    share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], not {self.share}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` and `compared`, `[P, 2]` each; advantages are left as they are."""
        value, turns = returns(batch).tolist(), turns_of(batch)
        found: list[tuple[Told, Told]] = []
        for members in members_by_group(batch, self.by):
            here = [pair for told in tree_of(members, turns).below() if (pair := self._pair(told, value)) is not None]
            here.sort(key=lambda pair: -pair[0].value(value))
            found += here[: max(1, int(self.share * len(here) + 1e-9))]
        return paired_turns(
            batch, [((better.leaves[0], better.turn), (worse.leaves[0], worse.turn)) for better, worse in found]
        )

    def _pair(self, told: Told, value: list[float]) -> tuple[Told, Told] | None:
        answers = list(told.children.values())
        if len(answers) < 2:
            return None
        better = max(answers, key=lambda one: one.value(value))
        worse = min(answers, key=lambda one: one.value(value))
        apart = better.value(value) - worse.value(value) > self.margin
        return (better, worse) if apart and better.value(value) > self.least else None

"""Worlds of two aims: what a set of policies is worth together, by the area that its front dominates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.worlds import WorldFamily

TREASURES = (1.0, 2.0, 3.0, 5.0, 8.0, 16.0, 24.0, 50.0, 74.0, 124.0)
DEPTHS = (1, 2, 3, 4, 4, 4, 7, 7, 9, 10)


def hypervolume(points: Array, reference: Array) -> float:
    """The area between points `[N, 2]` and a reference that is worse in both, more being better; never negative."""
    above = points[(points > reference).all(-1)]
    area, height = 0.0, float(reference[1])
    for first, second in above[np.argsort(-above[:, 0], kind="stable")]:
        if second > height:
            area += float((first - reference[0]) * (second - height))
            height = float(second)
    return area


@dataclass(frozen=True, eq=False)
class TwoAims:
    """A process whose decisions earn two numbers.

    The last state ends an episode: nothing leads out of it, and nothing is earned there. An answer is `[M, K, S, A]`: M
    sets of K policies each. Its value is the mean of their sets' hypervolumes.

    Attributes:
        process: states, actions and the horizon. rewards: `[S, A, 2]`. reference: what every front is held against.
        front: `[N, 2]`, the best returns there are.

    Raises:
        ConfigurationError: for rewards of another shape, no horizon, or a last state that ends nothing.
    """

    process: TabularMDP
    rewards: Array
    reference: Array
    front: Array
    name: str = "two-aims"

    def __post_init__(self) -> None:
        if self.rewards.shape != (*self.process.reward.shape, 2) or self.process.horizon is None:
            raise ConfigurationError(f"{self.name}: rewards are [S, A, 2], and the process has a horizon")
        if self.rewards[-1].any() or (self.process.transition[-1, :, -1] != 1).any():
            raise ConfigurationError(f"{self.name}: its last state must end an episode: it stays there and earns 0")

    @cached_property
    def optimum(self) -> float:
        return hypervolume(self.front, self.reference)

    def returns(self, policies: Array) -> Array:
        """`[N, 2]`, what policies `[N, S, A]` earn on average."""
        assert self.process.horizon is not None
        at = np.broadcast_to(self.process.start, (len(policies), self.process.states))
        returns = np.zeros((len(policies), 2))
        for _ in range(self.process.horizon):
            doing = at[..., None] * policies
            returns += np.einsum("nsa,sar->nr", doing, self.rewards)
            at = np.einsum("nsa,sat->nt", doing, self.process.transition)
        return returns

    def value(self, answer: Array) -> float:
        return float(np.mean([hypervolume(self.returns(policies), self.reference) for policies in answer]))


def treasure(columns: int) -> TwoAims:
    """Deep sea treasure (Vamplew et al. 2011): a diver from the surface to one of the treasures on the sea floor.

    Deeper ones are worth more, and every move costs 1, so that none is best. Moves are up, down, left and right; a dive
    ends at a treasure, or after three times the moves that the deepest one takes.

    Raises:
        ConfigurationError: for more columns than there are treasures.
    """
    if columns > len(TREASURES):
        raise ConfigurationError(f"world treasure:{columns}: it has at most {len(TREASURES)} columns")
    depths, rows = DEPTHS[:columns], DEPTHS[columns - 1] + 1
    ended = rows * columns
    transition, rewards = np.zeros((ended + 1, 4, ended + 1)), np.zeros((ended + 1, 4, 2))
    transition[ended, :, ended] = 1
    for row in range(rows):
        for column in range(columns):
            for action, (down, right) in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1))):
                to = min(max(row + down, 0), rows - 1), min(max(column + right, 0), columns - 1)
                if to[0] > depths[to[1]]:
                    to = row, column
                reached = to[0] == depths[to[1]]
                transition[row * columns + column, action, ended if reached else to[0] * columns + to[1]] = 1
                rewards[row * columns + column, action] = TREASURES[to[1]] if reached else 0.0, -1
    moves = np.array([depth + column for column, depth in enumerate(depths)])
    horizon = 3 * int(moves[-1])
    nothing, start, name = np.zeros((ended + 1, 4)), np.eye(ended + 1)[0], f"treasure:{columns}"
    process = TabularMDP(transition, nothing, start, horizon, name=name)
    front = np.stack([np.array(TREASURES[:columns]), -moves.astype(np.float64)], -1)
    return TwoAims(process, rewards, np.array([0.0, -horizon]), front, name)


def successors(process: TabularMDP) -> NDArray[np.int64]:
    """`[S, A]`, the next state of a world where nothing is left to chance.

    Raises:
        ConfigurationError: where something is, the start included.
    """
    if not np.isin(process.transition, (0.0, 1.0)).all() or process.start.max() < 1:
        raise ConfigurationError(f"{process.name}: a move or the start is left to chance; take a sure world")
    return np.asarray(process.transition.argmax(-1))


TREASURE = WorldFamily(
    name="treasure", description="a dive for depth or for speed: two aims, sets of policies", make=treasure, size=(5,)
)

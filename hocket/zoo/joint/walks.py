"""What is measured of an episode of path finding: the primary indicators of POGEMA (arXiv:2407.14931, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.types import Turn

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Walk:
    """Who was where, T steps of n agents.

    Attributes:
        place: cells before each step and after the last, `[T + 1, n, 2]`. goal: likewise. action: `[T, n]`; 0, which
            is to stay, also of who has ended.
    """

    place: Ints
    goal: Ints
    action: Ints

    @property
    def steps(self) -> int:
        """How long the episode was."""
        return len(self.action)

    def there(self) -> NDArray[np.bool_]:
        """Who stood on its goal, `[T + 1, n]`."""
        arrived: NDArray[np.bool_] = (self.place == self.goal).all(-1)
        return arrived

    def costs(self) -> Ints:
        """Steps until each agent stood on its goal for good, `[n]`; all steps where it does not at the end."""
        away = ~self.there()
        last = self.steps - away[::-1].argmax(0)  # The last moment at which it was elsewhere.
        return np.where(away.any(0), np.minimum(last + 1, self.steps), 0)

    def collisions(self) -> int:
        """How often an agent tried to move and could not, for a wall or for others."""
        stood = (self.place[1:] == self.place[:-1]).all(-1)
        return int((stood & (self.action != 0)).sum())

    def coordination(self) -> float:
        """The share of an agent's steps without a collision: `1 - collisions / (n T)`."""
        return 1.0 - self.collisions() / self.action.size

    @property
    def solved(self) -> bool:
        """Whether all stood on their goals at the end: the episode's success."""
        return bool(self.there()[-1].all())

    @property
    def arrived(self) -> float:
        """The share of agents that stood on their goals at the end."""
        return float(self.there()[-1].mean())

    @property
    def sum_of_costs(self) -> int:
        """Of all agents' `costs`."""
        return int(self.costs().sum())

    @property
    def makespan(self) -> int:
        """The largest of the agents' `costs`."""
        return int(self.costs().max())

    def reached(self) -> int:
        """How many goals were reached where another follows each: a goal is given anew when it is reached."""
        return int((self.goal[1:] != self.goal[:-1]).any(-1).sum())

    def throughput(self) -> float:
        """Goals reached in a step, by all agents together."""
        return self.reached() / self.steps


def walk(turns: Sequence[Turn], size: int) -> Walk | None:
    """The walk that the turns of all agents, in their order, were recorded from; None where they are not whole.

    Joint states begin, for each agent, with its cell and its goal, over `size`.
    """
    longest = max(turns, key=len, default=None)
    if longest is None or longest.joint is None or longest.end is None or longest.end.joint is None:
        return None
    states = np.concatenate([longest.joint, np.asarray(longest.end.joint)[None]])
    cells = np.rint(size * states.reshape(len(states), len(turns), -1)[..., :4]).astype(np.int64)
    action = np.zeros((len(longest), len(turns)), np.int64)
    for number, turn in enumerate(turns):
        action[: len(turn), number] = turn.action
    return Walk(cells[..., :2], cells[..., 2:], action)

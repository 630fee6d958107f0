"""The two-step game of Rashid et al. (arXiv:1803.11485): one choice decides which table pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.worlds import JointEnvironment, Moved, Seat

TABLES = np.array([[[7.0, 7.0], [7.0, 7.0]], [[0.0, 1.0], [1.0, 8.0]]])
"""What both earn in the second step, by the first agent's earlier move, then by both agents' moves."""


@dataclass(frozen=True)
class TwoSteps:
    """The first agent's first move chooses a table, and the second moves are paid by it. All see which state it is.

    The best return is 8, by the second table; the first pays 7 whatever is done.
    """

    name: str = "two-steps"
    agents: tuple[str, ...] = ("first", "second")
    seats: tuple[Seat, ...] = (Seat(3, 2),) * 2
    joint: int = 3

    def open(self, width: int) -> JointEnvironment:
        return _Play(width)


class _Play(JointEnvironment):
    def __init__(self, width: int) -> None:
        self.place = np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        self.place[list(slots)] = 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        first, second = (np.asarray(action, np.int64) for action in actions)
        late = self.place > 0
        paid = np.where(late, TABLES[np.maximum(self.place - 1, 0), first, second], 0.0)
        self.place = np.where(late, self.place, 1 + first)
        over = np.repeat(late[:, None], 2, 1)
        return Moved(np.repeat(paid[:, None], 2, 1), over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        return [self.state()] * 2

    def state(self) -> NDArray[np.float32]:
        return np.eye(3, dtype=np.float32)[self.place]

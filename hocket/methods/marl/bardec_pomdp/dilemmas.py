"""Games of two whose pay is a table, once or again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.worlds import JointEnvironment, Moved, Seat

Table = tuple[tuple[float, ...], ...]
"""What the first player earns, by its own move, then the other's."""

GAMES: Mapping[str, tuple[Table, Table, int]] = {
    "prisoners": (((3, 0), (5, 1)), ((3, 0), (5, 1)), 10),
    "chicken": (((3, 1), (4, 0)), ((3, 1), (4, 0)), 10),
    "stag-hunt": (((4, 0), (3, 2)), ((4, 0), (3, 2)), 10),
    "penalty": (((10, 0, -100), (0, 2, 0), (-100, 0, 10)), ((10, 0, -100), (0, 2, 0), (-100, 0, 10)), 1),
    "climbing": (((11, -30, 0), (-30, 7, 6), (0, 0, 5)), ((11, -30, 0), (-30, 7, 0), (0, 6, 5)), 1),
    "pennies": (((1, -1), (-1, 1)), ((-1, 1), (1, -1)), 1),
}
"""By name: each player's pay by its own move, then the other's; and how many rounds.

The first three are social dilemmas (Rapoport and Chammah 1965; Macy and Flache 2002): move 0 cooperates. `penalty` and
`climbing` are cooperative games with penalties for miscoordination (Claus and Boutilier 1998); `pennies` is zero-sum.
"""


@dataclass(frozen=True)
class Dilemma:
    """The game `game` of `GAMES`, played `rounds` times; None takes the game's own number.

    A player sees one-hot numbers of its own and of the other's last move, zeros before the first round, and after them
    the share of rounds that are over. The last round ends the game, which nobody outlives: it terminates. The joint
    state is what the first player sees.
    """

    game: str
    rounds: int | None = None

    def __post_init__(self) -> None:
        if self.game not in GAMES:
            hint = nearest(self.game, GAMES) or f"; choose from {', '.join(GAMES)}"
            raise ConfigurationError(f"task dilemma:{self.game} is unknown{hint}")
        if self.length < 1:
            raise ConfigurationError(f"task dilemma:{self.game} needs at least one round, not {self.rounds}")

    @property
    def name(self) -> str:
        return f"dilemma:{self.game}"

    @property
    def length(self) -> int:
        return GAMES[self.game][2] if self.rounds is None else self.rounds

    @property
    def agents(self) -> tuple[str, ...]:
        return ("row", "column")

    @property
    def seats(self) -> tuple[Seat, ...]:
        moves = len(GAMES[self.game][0])
        return (Seat(2 * moves + 1, moves),) * 2

    @property
    def joint(self) -> int:
        return self.seats[0].observations

    def open(self, width: int) -> JointEnvironment:
        return _Rounds(self, width)


class _Rounds(JointEnvironment):
    def __init__(self, world: Dilemma, width: int) -> None:
        self.world, self.moves = world, world.seats[0].actions
        self.pay = [np.array(table, np.float64) for table in GAMES[world.game][:2]]
        self.last = np.full((width, 2), -1)
        self.time = np.zeros(width, np.int64)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        self.last[list(slots)], self.time[list(slots)] = -1, 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        one, other = actions
        rewards = np.stack([self.pay[0][one, other], self.pay[1][other, one]], 1)
        self.last = np.where(live[:, None], np.stack([one, other], 1), self.last)
        self.time = self.time + live
        over = np.repeat((self.time >= self.world.length)[:, None], 2, 1)
        return Moved(rewards, over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        known = np.concatenate([np.eye(self.moves), np.zeros((1, self.moves))])[self.last]
        share = (self.time / self.world.length)[:, None]
        pairs = (known, known[:, ::-1])
        return [np.concatenate([one[:, 0], one[:, 1], share], 1).astype(np.float32) for one in pairs]

    def state(self) -> NDArray[np.float32]:
        return self.seen()[0]

"""Drones that take over users of a cell, each by its own SARSA (arXiv:2402.02957).

Drones fly over a grid and serve users within reach, each no more than it has channels. Every drone is a tabular agent
of its own: it sees where all are, moves by one cell at most, which is its limit of speed, and learns on-policy,

    Q_i(s, a_i) += lr (r + gamma Q_i(s', a'_i) - Q_i(s, a_i)),

with a'_i the move that it makes next. What joins them is the association: users are matched to channels, as many as
can be, and the share of users that is served pays all drones. The abstract names SARSA and the association alone; the
grid, what a drone sees, and the shared reward are chosen here.

`drones:N` is that world, a grid of N by N cells with two drones, small enough for the optimum over joint moves.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.cooperative import Cooperative
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.lab.exact.worlds import WorldFamily

MOVES = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
"""To stay, or to fly one cell on; a drone at the edge stays."""

REACH = 1
"""Cells, counted along the axes, within which a drone serves a user."""

CHANNELS = 4
"""Users that a drone serves at most."""

DISCOUNT = 0.9


def users(size: int) -> Array:
    """The cells `[U, 2]` of as many users as there are cells, most of them in two crowds, drawn once for a size."""
    draw = Key.of(0).derive("drones", size).numpy()
    crowds = np.array([[size - 1, 0], [size - 1, size - 1]])
    near = crowds[draw.integers(0, 2, size * size)] + draw.integers(-1, 2, (size * size, 2))
    spread = draw.integers(0, size, (size * size, 2))
    cells = np.where(draw.random((size * size, 1)) < 0.6, near, spread)
    return np.clip(cells, 0, size - 1).astype(np.float64)


def served(places: Array, where: Array) -> int:
    """How many users two drones `[2, 2]` serve when users `[U, 2]` are matched to channels as well as can be."""
    near = np.abs(where[:, None] - places).sum(-1) <= REACH
    first, second = (int((near[:, drone] & ~near[:, 1 - drone]).sum()) for drone in (0, 1))
    left = [max(0, CHANNELS - count) for count in (first, second)]
    return min(first, CHANNELS) + min(second, CHANNELS) + min(int(near.all(1).sum()), sum(left))


def drones(size: int) -> Cooperative:
    """Two drones over `size` by `size` cells, which begin anywhere; a state is both cells."""
    if size < 2:
        raise ConfigurationError(f"drones:{size}: two drones need at least 2 by 2 cells")
    cells, where = size * size, users(size)
    spots = np.array(list(itertools.product(range(size), repeat=2)))
    goes = np.clip(spots[:, None] + np.array(MOVES), 0, size - 1) @ [size, 1]
    transition = np.zeros((cells, cells, len(MOVES), len(MOVES), cells * cells))
    reward = np.zeros(transition.shape[:-1])
    paid = np.array(
        [[served(spots[[here_cell, there_cell]], where) for there_cell in range(cells)] for here_cell in range(cells)]
    ) / len(where)
    for here_cell, there_cell, mine, other in np.ndindex(reward.shape):
        after = goes[here_cell, mine], goes[there_cell, other]
        transition[here_cell, there_cell, mine, other, after[0] * cells + after[1]] = 1.0
        reward[here_cell, there_cell, mine, other] = paid[after]
    states, joint = cells * cells, len(MOVES) ** 2
    process = TabularMDP(
        transition.reshape(states, joint, states),
        reward.reshape(states, joint),
        np.full(states, 1 / states),
        discount=DISCOUNT,
        name=f"drones:{size}",
    )
    return Cooperative(process, (len(MOVES),) * 2)


DRONES = WorldFamily(name="drones", description="two drones that serve users of a grid", make=drones, size=(4,))


@dataclass(frozen=True)
class DistributedSarsa(Solver):
    """See the module; a step is `episodes` of `length` moves. Moves are epsilon-greedy, and the answer is greedy.

    Attributes:
        lr: learning rate. explore: epsilon at first, which falls in a line over `decay` steps to `least`.
        on_policy: whether it backs up the move that is made next, as SARSA; else the best one, as Q-learning.
    """

    world = Cooperative
    episodes: int = 20
    length: int = 24
    lr: float = 0.2
    explore: float = 1.0
    least: float = 0.05
    decay: int = 60
    on_policy: bool = True

    def __post_init__(self) -> None:
        if self.episodes < 1 or self.length < 1 or self.decay < 1 or not 0 < self.lr <= 1:
            raise ConfigurationError(
                f"method.episodes = {self.episodes}, method.length = {self.length}, method.decay = {self.decay}, "
                f"method.lr = {self.lr}: the first three are at least 1, lr is in (0, 1]"
            )
        if not 0 <= self.least <= self.explore <= 1:
            raise ConfigurationError(
                f"method.explore = {self.explore}, method.least = {self.least}: take 0 <= least <= explore <= 1"
            )

    def init(self, world: Cooperative, key: Key) -> State:
        states = world.process.states
        return {"quality": np.zeros((len(world.moves), states, max(world.moves))), "steps": np.zeros((), np.int64)}

    def step(self, world: Cooperative, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        quality, steps, earned = state["quality"].copy(), int(state["steps"]), 0.0
        chance = max(self.least, self.explore - (self.explore - self.least) * steps / self.decay)
        process, draw = world.process, key.derive("episodes").numpy()
        sure = process.transition.max(-1) == 1
        following = process.transition.argmax(-1)
        for _ in range(self.episodes):
            place = int(draw.choice(process.states, p=process.start))
            moves = self._moves(world, quality, place, chance, draw)
            for _ in range(self.length):
                joint = _number(moves, world.moves)
                paid = float(process.reward[place, joint])
                if sure[place, joint]:
                    then = int(following[place, joint])
                else:
                    then = int(draw.choice(process.states, p=process.transition[place, joint]))
                after = self._moves(world, quality, then, chance, draw)
                for agent, (move, later) in enumerate(zip(moves, after, strict=True)):
                    count = world.moves[agent]
                    worth = quality[agent, then, later] if self.on_policy else quality[agent, then, :count].max()
                    target = paid + process.discount * worth
                    quality[agent, place, move] += self.lr * (target - quality[agent, place, move])
                place, moves, earned = then, after, earned + paid
        mean = earned / (self.episodes * self.length)
        return {"quality": quality, "steps": np.asarray(steps + 1)}, {"reward": mean, "explore": chance}

    def answer(self, world: Cooperative, state: State) -> Array:
        greedy = [rows[:, :count].argmax(1) for rows, count in zip(state["quality"], world.moves, strict=True)]
        joint = np.ravel_multi_index(tuple(greedy), world.moves)
        chosen: Array = np.eye(world.process.actions)[joint]
        return chosen

    @staticmethod
    def _moves(
        world: Cooperative, quality: Array, place: int, chance: float, draw: np.random.Generator
    ) -> tuple[int, ...]:
        """Of every agent, by its own values; of equal ones the first."""
        tries = draw.random(len(world.moves)) < chance
        return tuple(
            int(draw.integers(count)) if tried else int(rows[place, :count].argmax())
            for rows, count, tried in zip(quality, world.moves, tries, strict=True)
        )


def _number(moves: tuple[int, ...], counts: tuple[int, ...]) -> int:
    """The joint action of these moves."""
    number = 0
    for move, count in zip(moves, counts, strict=True):
        number = number * count + move
    return number


UAV_DISTRIBUTED_SARSA = SolverMethod(
    name="uav-distributed-sarsa",
    description="independent SARSA of drones that share the reward for users that they serve",
    solver=DistributedSarsa(),
    world="drones:4",
    steps=90,
    source="Multi-Agent Reinforcement Learning for Offloading Cellular Communications with Cooperating UAVs, "
    "arXiv:2402.02957",
)

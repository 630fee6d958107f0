"""Planning a short way ahead, with a learned value of what comes after from equilibria of the whole game.

Offline: of drawn starts of a game of two with a shared constraint a generalised Nash equilibrium is solved, each player
best given the other, and every state on the way is kept with what the rest cost each player. A small network
V(x_own, x_other) is fitted to that. Online each player plans alone,

    min_u sum_{k < N} cost(x_k, u_k) + V(x_N, forecast of the other at N)   with x_k and the forecast not in conflict,

does the first step of its plan, and plans again: so V carries the meeting beyond the horizon.

Source: "Learning Two-agent Motion Planning Strategies from Generalized Nash Equilibrium for Model Predictive Control",
abstract. Ours are: cars on a grid, where plans and best answers are enumerated instead of solved; players say their
plans in turn, and a forecast is what the other said last; of several equilibria that in which the one who would be
there first goes first; the network learns what the other costs one above being alone, from places, speeds and which
player it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.exact.crossings import SPEEDS, Crossing
from hocket.exact.mdp import Array
from hocket.exact.solver import Solver, SolverMethod, State

INPUTS = 5


@dataclass(frozen=True)
class InteractionValue(Solver):
    """See the module.

    Attributes:
        games: solved in a step. fits: of the network after it, at `rate`. hidden: its width.
    """

    world: ClassVar[type] = Crossing

    games: int = 20
    fits: int = 100
    hidden: int = 32
    rate: float = 0.01

    def __post_init__(self) -> None:
        if self.games < 0 or self.fits < 0 or self.hidden < 1 or self.rate < 0:
            raise ConfigurationError(
                f"method.games = {self.games}, method.fits = {self.fits}, method.hidden = {self.hidden}, method.rate = "
                f"{self.rate}: none is below 0, and hidden is at least 1"
            )

    def init(self, world: Crossing, key: Key) -> State:
        draw = key.derive("network").numpy()
        sizes = (INPUTS, self.hidden, self.hidden, 1)
        layers = {
            f"layer {place}": np.concatenate([draw.normal(0, fan**-0.5, (fan, wide)), np.zeros((1, wide))])
            for place, (fan, wide) in enumerate(itertools.pairwise(sizes))
        }
        layers["layer 2"] *= 0  # So it begins with what being alone costs.
        return {**layers, "seen": np.zeros((0, INPUTS)), "delay": np.zeros(0)}

    def step(self, world: Crossing, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        seen, delay = gathered(world, self.games, key)
        seen, delay = np.concatenate([state["seen"], seen]), np.concatenate([state["delay"], delay])
        layers = [torch.from_numpy(state[f"layer {place}"].copy()).requires_grad_() for place in range(3)]
        optimiser = torch.optim.Adam(layers, lr=self.rate)
        told, right, error = torch.from_numpy(seen), torch.from_numpy(delay), 0.0
        for _ in range(self.fits if len(seen) else 0):
            loss = (predicted(layers, told) - right).square().mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            error = float(loss.detach())
        fitted = {f"layer {place}": layer.detach().numpy() for place, layer in enumerate(layers)}
        return {**fitted, "seen": seen, "delay": delay}, {"examples": float(len(seen)), "error": error}

    def answer(self, world: Crossing, state: State) -> Array:
        layers = [torch.from_numpy(state[f"layer {place}"]) for place in range(3)]
        shape = (2, world.through + 1, SPEEDS, world.through + 1, SPEEDS)
        states = np.stack(np.meshgrid(*map(range, shape), indexing="ij"), -1).reshape(-1, 5)
        delay = predicted(layers, torch.from_numpy(inputs(world, states))).numpy().reshape(shape)
        delay[:, world.through], delay[:, :, :, world.through] = 0, 0
        found: Array = world.free + np.maximum(delay, 0)
        return found


def gathered(world: Crossing, games: int, key: Key) -> tuple[Array, Array]:
    """`[N, INPUTS]` and `[N]`: states on the ways of equilibria, and what the other costs from there on."""
    draw = key.derive("starts").numpy()
    states, delays = [], []
    for _ in range(games):
        start = draw.integers(0, (world.approach, SPEEDS, world.approach, SPEEDS))
        drives = world.equilibrium(start)
        for car, own in enumerate(drives or ()):
            assert drives is not None
            other = drives[1 - car]
            both = (own.places < world.through) & (other.places < world.through)
            rows = np.stack([own.places, own.speeds, other.places, other.speeds], -1)[both]
            states.append(np.concatenate([np.full((len(rows), 1), car), rows], -1))
            delays.append(own.costs[both] - world.free[0, rows[:, 0], rows[:, 1], 0, 0])
    if not states:
        return np.zeros((0, INPUTS)), np.zeros(0)
    return inputs(world, np.concatenate(states)), np.concatenate(delays)


def inputs(world: Crossing, states: Array) -> Array:
    """`[N, INPUTS]` numbers near 1 from rows of player, own place and speed, the other's place and speed."""
    car, own, speed, other, going = states.T.astype(np.float64)
    size = world.approach
    return np.stack([2 * car - 1, own / size, speed - 1, (other - own) / size, going - 1], -1)


def predicted(layers: list[Tensor], told: Tensor) -> Tensor:
    """`[N]`, of layers `[inputs + 1, outputs]`, whose last row is added."""
    for place, layer in enumerate(layers):
        told = told @ layer[:-1] + layer[-1]
        told = told.tanh() if place < len(layers) - 1 else told
    return told.squeeze(-1)


IGT_MPC = SolverMethod(
    name="igt-mpc",
    description="two who plan a short way ahead, with what comes after learnt from equilibria",
    solver=InteractionValue(),
    world="crossing:8",
    steps=20,
    source="Learning Two-agent Motion Planning Strategies from Generalized Nash Equilibrium for Model Predictive "
    "Control, abstract",
    note="cars on a grid of places and speeds; the linear-quadratic game and continuous motion are not built",
)

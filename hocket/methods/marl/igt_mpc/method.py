"""Planning a short way ahead, with a learned value of what comes after from equilibria of the whole game.

Offline: of drawn starts of a game of two with a shared constraint a generalised Nash equilibrium is solved, each player
best given the other, and every state on the way is kept with what the rest cost each player. A small network
V(x_own, x_other) is fitted to that. Online each player plans alone,

    min_u sum_{k < N} cost(x_k, u_k) + V(x_N, forecast of the other at N)   with x_k and the forecast not in conflict,

does the first step of its plan, and plans again: so V carries the meeting beyond the horizon.

Source: "Learning Two-agent Motion Planning Strategies from Generalized Nash Equilibrium for Model Predictive Control",
abstract. Ours are three worlds of different kinds:

- `crossing`: cars on a grid, where plans and best answers are enumerated.
- `lanes`: cars at any place and speed; a best answer is the better of two convex problems, to pass before the other or
  after it, and a plan is one acceleration, held as far as it looks.
- `rendezvous`: a linear-quadratic game without constraints. Players answer each other's gains until nothing changes,
  which is the feedback equilibrium, and V is a quadratic form, fitted by least squares to what ways from drawn starts
  cost. As plans fix pushes ahead, the plan with V is the equilibrium's where it has one step, or costs are shared.

Cars say their plans in turn, and a forecast is what the other said last; of several equilibria that in which the one
who would be there first goes first; the network learns what the other costs one above being alone, from places, speeds
and which player it is.

Seen here: of 200 drawn pairs on `lanes:8` that look two steps ahead, 55 crash alone, and 15, 24 and 41 with the rest
learnt on three seeds; nobody is late. With three steps ahead none crash alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.lab.exact.worlds import World
from hocket.methods.marl.igt_mpc.crossings import SPEEDS, Crossing
from hocket.methods.marl.igt_mpc.lanes import ALONE, CRUISE, Lanes
from hocket.methods.marl.igt_mpc.rendezvous import DISCOUNT, SWEEPS, Rendezvous

WORLDS = (Crossing, Lanes, Rendezvous)

INPUTS = 5


@dataclass(frozen=True)
class InteractionValue(Solver):
    """See the module.

    Attributes:
        games: solved in a step. fits: of the network after it, at `rate`. hidden: its width. The last three are not for
            a rendezvous, whose form is fitted at once.
    """

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

    def checked(self, world: World) -> None:
        if not isinstance(world, WORLDS):
            raise ConfigurationError(
                f"InteractionValue solves a crossing, lanes or a rendezvous; {world.name} is a {type(world).__name__}"
            )

    def init(self, world: Crossing | Lanes | Rendezvous, key: Key) -> State:
        if isinstance(world, Rendezvous):
            return {"seen": np.zeros((0, 4)), "paid": np.zeros((0, 2))}
        draw = key.derive("network").numpy()
        sizes = (INPUTS, self.hidden, self.hidden, 1)
        layers = {
            f"layer {place}": np.concatenate([draw.normal(0, fan**-0.5, (fan, wide)), np.zeros((1, wide))])
            for place, (fan, wide) in enumerate(itertools.pairwise(sizes))
        }
        layers["layer 2"] *= 0  # So it begins with what being alone costs.
        return {**layers, "seen": np.zeros((0, INPUTS)), "delay": np.zeros(0)}

    def step(self, world: Crossing | Lanes | Rendezvous, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        if isinstance(world, Rendezvous):
            seen, paid = walked(world, self.games, key)
            after = {"seen": np.concatenate([state["seen"], seen]), "paid": np.concatenate([state["paid"], paid])}
            found = np.einsum("nk,pkl,nl->np", after["seen"], form(**after), after["seen"]) - after["paid"]
            error = float((found**2).mean()) if len(found) else 0.0
            return after, {"examples": float(len(found)), "error": error}
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

    def answer(self, world: Crossing | Lanes | Rendezvous, state: State) -> Array:
        if isinstance(world, Rendezvous):
            return form(state["seen"], state["paid"])
        if isinstance(world, Lanes):
            return packed([state[f"layer {place}"] for place in range(3)])
        layers = [torch.from_numpy(state[f"layer {place}"]) for place in range(3)]
        shape = (2, world.through + 1, SPEEDS, world.through + 1, SPEEDS)
        states = np.stack(np.meshgrid(*map(range, shape), indexing="ij"), -1).reshape(-1, 5)
        delay = predicted(layers, torch.from_numpy(inputs(world, states))).numpy().reshape(shape)
        delay[:, world.through], delay[:, :, :, world.through] = 0, 0
        found: Array = world.free + np.maximum(delay, 0)
        return found


def gathered(world: Crossing | Lanes, games: int, key: Key) -> tuple[Array, Array]:
    """`[N, INPUTS]` and `[N]`: states on the ways of equilibria, and what the other costs from there on."""
    states, delays = [], []
    for start in starts(world, games, key.derive("starts")):
        drives = world.equilibrium(start)
        for car in (0, 1) if drives is not None else ():
            assert drives is not None
            own, other = drives[car], drives[1 - car]
            both = (own.places < world.through) & (other.places < world.through)
            rows = np.stack([own.places, own.speeds, other.places, other.speeds], -1)[both].astype(np.float64)
            states.append(np.concatenate([np.full((len(rows), 1), car), rows], -1))
            delays.append(own.costs[both] - alone(world, rows))
    if not states:
        return np.zeros((0, INPUTS)), np.zeros(0)
    return inputs(world, np.concatenate(states)), np.concatenate(delays)


def starts(world: Crossing | Lanes, games: int, key: Key) -> Array:
    """`[games, 4]`, place and speed of both."""
    if isinstance(world, Lanes):
        return world.drawn(games, key)
    draw = key.numpy()
    return np.asarray(draw.integers(0, (world.approach, SPEEDS, world.approach, SPEEDS), (games, 4)))


def alone(world: Crossing | Lanes, rows: Array) -> Array:
    """`[N]`, what the way costs a car alone, of rows that begin with its place and speed."""
    if isinstance(world, Lanes):
        return np.asarray(ALONE * (rows[:, 1] - CRUISE) ** 2)
    places, speeds = rows[:, :2].T.astype(np.int64)
    return np.asarray(world.free[0, places, speeds, 0, 0])


def settled(world: Rendezvous) -> Array:
    """`[2, 4]`, gains that are best answers to each other: from none, in turn, until neither changes."""
    gains = np.zeros((2, 4))
    for _ in range(SWEEPS):
        before = gains.copy()
        for player in (0, 1):
            gains[player] = world.answered(player, gains)
        if np.abs(gains - before).max() < 1e-14:
            break
    return gains


def walked(world: Rendezvous, games: int, key: Key) -> tuple[Array, Array]:
    """`[games, 4]` and `[games, 2]`: drawn starts, and what the equilibrium's way from there costs each."""
    seen = key.derive("starts").numpy().normal(size=(games, 4))
    paid, state = np.zeros((games, 2)), seen
    gains = settled(world) if games else np.zeros((2, 4))
    for time in range(SWEEPS):
        push = -state @ gains.T
        own = np.einsum("nk,pkl,nl->np", state, world.states, state) + push**2 @ world.efforts.T
        paid += DISCOUNT**time * own
        state = state @ world.move.T + push @ world.push.T
    return seen, paid


def form(seen: Array, paid: Array) -> Array:
    """`[2, 4, 4]`, P of `x'P x` nearest to what was paid, the smallest of several; zeros where nothing was seen."""
    if not len(seen):
        return np.zeros((2, 4, 4))
    row, column = np.triu_indices(4)
    found = np.linalg.lstsq(seen[:, row] * seen[:, column], paid, rcond=None)[0]
    forms = np.zeros((2, 4, 4))
    forms[:, row, column] += found.T / 2
    forms[:, column, row] += found.T / 2
    return forms


def packed(layers: list[Array]) -> Array:
    """`[3, M + 1, M]`: layers in one array, zeros where they have no weight, what is added in the last row of each."""
    wide = max(INPUTS, layers[1].shape[1])
    found = np.zeros((len(layers), wide + 1, wide))
    for place, layer in enumerate(layers):
        found[place, : len(layer) - 1, : layer.shape[1]] = layer[:-1]
        found[place, -1, : layer.shape[1]] = layer[-1]
    return found


def inputs(world: Crossing | Lanes, states: Array) -> Array:
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
)

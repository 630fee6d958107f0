"""SEQUOIA: Q-learning whose actions are combinations, chosen by mixed-integer programmes (Xu et al., arXiv:2503.01919).

The value of a state and a vector of pulls is a ReLU network that reads both. The pulls that maximise it under the
constraints are the solution of a programme in which every unit `z = max(0, w x + b)` with `l <= w x + b <= u` is

    z >= w x + b,   z >= 0,   z <= w x + b - l (1 - d),   z <= u d,   d in {0, 1},

with l and u by interval arithmetic; units whose sign is certain need no d. HiGHS solves it (scipy). The learner acts
greedily by that programme, with random pulls in a share of moves, and backs up `r + gamma max_a' Q-(s', a')` by it too.

The abstract and the idea of the embedding were at hand. Ours are: the constraints of each family, the arms, the sizes,
and that a maximum of the slow copy is solved once for each state and copy. The paper's shortcuts for large problems are
left out. `hocket solve` measures the greedy policy in all states by trying all pulls, which the worlds list.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, drawn
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.methods.control.sequoia.world import LEVELS, CoupledArms, Coupling, coupling

Ints = NDArray[np.int64]
Argmax = tuple[Array, float]


@dataclass(frozen=True)
class ReluNetwork:
    """Two layers of ReLU and a linear output: `third max(0, second max(0, first x + ..) + ..) + ..`.

    Attributes:
        first: `[H, I + 1]`. second: `[H', H + 1]`. third: `[H' + 1]`. The last column of each is what is added.
    """

    first: Array
    second: Array
    third: Array

    @classmethod
    def drawn(cls, inputs: int, hidden: tuple[int, int], key: Key) -> ReluNetwork:
        """Weights with the variance 2 over inputs; nothing is added at first."""
        rng, sizes = key.numpy(), (inputs, *hidden, 1)
        layers = []
        for before, after in itertools.pairwise(sizes):
            layers.append(np.hstack([rng.normal(size=(after, before)) * np.sqrt(2 / before), np.zeros((after, 1))]))
        return cls(layers[0], layers[1], layers[2][0])

    @classmethod
    def of(cls, flat: Array, inputs: int, hidden: tuple[int, int]) -> ReluNetwork:
        """The network of `flat`."""
        first, second = hidden
        ends = np.cumsum([first * (inputs + 1), second * (first + 1)])
        item, two, three = np.split(flat, ends)
        return cls(item.reshape(first, -1), two.reshape(second, -1), three)

    @property
    def flat(self) -> Array:
        """All weights in a row."""
        return np.concatenate([getattr(self, field.name).ravel() for field in fields(self)])

    def values(self, x: Array) -> Array:
        """Of inputs `[.., I]`, `[..]`."""
        hidden = np.maximum(x @ self.first[:, :-1].T + self.first[:, -1], 0)
        hidden = np.maximum(hidden @ self.second[:, :-1].T + self.second[:, -1], 0)
        value: Array = hidden @ self.third[:-1] + self.third[-1]
        return value

    def slope(self, x: Array, target: Array) -> Array:
        """The gradient, as `flat`, of the mean of half the squares of `values(x) - target`."""
        bare = np.hstack([x, np.ones((len(x), 1))])
        first = np.maximum(bare @ self.first.T, 0)
        lower = np.hstack([first, np.ones((len(x), 1))])
        second = np.maximum(lower @ self.second.T, 0)
        upper = np.hstack([second, np.ones((len(x), 1))])
        error = (upper @ self.third - target) / len(x)
        above = error[:, None] * self.third[:-1] * (second > 0)
        below = above @ self.second[:, :-1] * (first > 0)
        return np.concatenate([(below.T @ bare).ravel(), (above.T @ lower).ravel(), error @ upper])


def best_pulls(network: ReluNetwork, state: Array, bounds: Coupling) -> Argmax:
    """The pulls `[arms]` that the constraints allow with the highest value beside `state`, and that value.

    Raises:
        ConfigurationError: where no pulls are allowed.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    arms, others = bounds.arms, bounds.rows.shape[1] - bounds.arms
    units = [len(network.first), len(network.second)]
    size = arms + others + 2 * sum(units)
    places = np.cumsum([arms + others, units[0], units[0], units[1], units[1]])
    low, high, entire = np.zeros(size), np.ones(size), np.zeros(size)
    entire[: arms + others] = 1
    rows, lower, upper = [np.zeros((len(bounds.rows), size))], [bounds.lower], [bounds.upper]
    rows[0][:, : arms + others] = bounds.rows
    inputs, span = np.arange(arms), (np.zeros(arms), np.ones(arms))
    for number, (weights, added) in enumerate(
        (
            (network.first[:, len(state) : -1], network.first[:, : len(state)] @ state + network.first[:, -1]),
            (network.second[:, :-1], network.second[:, -1]),
        )
    ):
        positive, negative = np.maximum(weights, 0), np.minimum(weights, 0)
        least = positive @ span[0] + negative @ span[1] + added
        most = positive @ span[1] + negative @ span[0] + added
        unit = places[2 * number] + np.arange(units[number])
        choice = unit + units[number]
        for place in range(units[number]):
            row, z, d = np.zeros(size), unit[place], choice[place]
            row[inputs] = -weights[place]
            row[z] = 1
            high[z] = max(most[place], 0.0)
            unclear = least[place] < 0 < most[place]
            entire[d], high[d] = unclear, unclear
            if most[place] <= 0:
                continue
            rows.append(row[None])
            lower.append(added[place : place + 1])
            upper.append(np.array([np.inf]) if unclear else added[place : place + 1])
            if unclear:
                on, off = np.zeros(size), row.copy()
                on[z], on[d] = 1, -most[place]
                off[d] = -least[place]
                rows.append(np.stack([on, off]))
                lower.append(np.full(2, -np.inf))
                upper.append(np.array([0.0, added[place] - least[place]]))
        inputs, span = unit, (np.maximum(least, 0), np.maximum(most, 0))
    cost = np.zeros(size)
    cost[inputs] = -network.third[:-1]
    linear = LinearConstraint(np.concatenate(rows), np.concatenate(lower), np.concatenate(upper))
    solved = milp(cost, integrality=entire, bounds=Bounds(low, high), constraints=linear, options={"mip_rel_gap": 0.0})
    if solved.x is None:
        raise ConfigurationError(f"no pulls of {arms} arms keep the constraints: {solved.message}")
    return np.round(solved.x[:arms]), float(network.third[-1] - solved.fun)


@dataclass(frozen=True)
class CombinatorialQ(Solver):
    """See the module. A step is some moves of every copy, then gradients on drawn rows.

    Attributes:
        hidden: units of both layers. copies, moves: environments, and moves of each in a step. gradients, rows: of a
            step. lr: of Adam, over `1 + steps / over`. follow: steps between copies of the network for backups. first,
            last: of epsilon, which falls within `over` steps. later: whether what follows counts; without it the
            programme maximises the next pay alone.
    """

    world: ClassVar[type] = CoupledArms

    hidden: tuple[int, int] = (16, 8)
    copies: int = 4
    moves: int = 4
    gradients: int = 32
    rows: int = 128
    lr: float = 8e-3
    follow: int = 4
    first: float = 1.0
    last: float = 0.2
    over: int = 15
    later: bool = True

    def __post_init__(self) -> None:
        counts = (*self.hidden, self.copies, self.moves, self.gradients, self.rows, self.follow, self.over)
        if min(counts) < 1 or not self.lr > 0 or not 0 <= self.last <= self.first <= 1:
            raise ConfigurationError(
                f"method: hidden = {self.hidden}, copies = {self.copies}, moves = {self.moves}, gradients = "
                f"{self.gradients}, rows = {self.rows}, follow = {self.follow}, over = {self.over} are at least 1, "
                f"lr = {self.lr} is positive, and last = {self.last} <= first = {self.first} are shares"
            )

    def init(self, world: CoupledArms, key: Key) -> State:
        network = ReluNetwork.drawn(self.inputs(world), self.hidden, key.derive("network")).flat
        return {
            "network": network,
            "slow": network,
            "moments": np.zeros((2, len(network))),
            "ahead": np.full(world.states, np.nan),  # The slow copy's maximum of each state, once it was needed.
            "at": np.zeros(self.copies, np.int64),
            "states": np.zeros((0, 2), np.int64),  # Of every move, before and after.
            "pulls": np.zeros((0, world.arms)),
            "steps": np.zeros((), np.int64),
        }

    def inputs(self, world: CoupledArms) -> int:
        return (LEVELS + 1) * world.arms

    def step(self, world: CoupledArms, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        steps, after = int(state["steps"]), dict(state)
        after |= self.moved(world, state, key.derive("moves"))
        flat, moments, ahead = state["network"].copy(), state["moments"].copy(), state["ahead"].copy()
        slow, bounds = self.network(world, state["slow"]), coupling(world.family, world.arms)
        rng, paid, solved = key.derive("rows").numpy(), world.paid, 0
        for number in range(self.gradients):
            chosen = rng.integers(len(after["states"]), size=self.rows)
            before, following = after["states"][chosen].T
            target = paid[following]
            if self.later:
                for item in np.unique(following[np.isnan(ahead[following])]):
                    ahead[item] = best_pulls(slow, seen(world, item), bounds)[1]
                    solved += 1
                target = target + world.discount * ahead[following]
            x = np.hstack([seen(world, before), after["pulls"][chosen]])
            slope = self.network(world, flat).slope(x, target)
            count = steps * self.gradients + number + 1
            moments[0] += 0.1 * (slope - moments[0])
            moments[1] += 0.001 * (slope**2 - moments[1])
            flat -= (
                self.lr
                / (1 + steps / self.over)
                * moments[0]
                / (1 - 0.9**count)
                / (np.sqrt(moments[1] / (1 - 0.999**count)) + 1e-8)
            )
        after |= {"network": flat, "moments": moments, "ahead": ahead, "steps": np.array(steps + 1)}
        if (steps + 1) % self.follow == 0:
            after |= {"slow": flat, "ahead": np.full(world.states, np.nan)}
        return after, {"epsilon": self.epsilon(steps), "backups_solved": float(solved)}

    def epsilon(self, steps: int) -> float:
        """The share of random pulls."""
        return self.last + (self.first - self.last) * max(0.0, 1 - steps / self.over)

    def network(self, world: CoupledArms, flat: Array) -> ReluNetwork:
        return ReluNetwork.of(flat, self.inputs(world), self.hidden)

    def moved(self, world: CoupledArms, state: State, key: Key) -> dict[str, Array | Ints]:
        """Where the copies are, and all moves with the new ones."""
        network, bounds, rng = self.network(world, state["network"]), coupling(world.family, world.arms), key.numpy()
        best: dict[int, Array] = {}
        at, rows, pulls = state["at"], [state["states"]], [state["pulls"]]
        for _ in range(self.moves):
            luck, any_pull = rng.random(self.copies), rng.integers(world.actions, size=self.copies)
            chosen = world.pulls[any_pull]
            for copy in np.flatnonzero(luck >= self.epsilon(int(state["steps"]))):
                item = int(at[copy])
                if item not in best:
                    best[item] = best_pulls(network, seen(world, at[copy]), bounds)[0]
                chosen[copy] = best[item]
            action = (chosen[:, None] == world.pulls).all(-1).argmax(-1)
            to = drawn(world.transition[at, action], rng.random(self.copies))
            rows.append(np.stack([at, to], 1))
            pulls.append(chosen)
            at = to
        return {"at": at, "states": np.concatenate(rows), "pulls": np.concatenate(pulls)}

    def answer(self, world: CoupledArms, state: State) -> Array:
        """The greedy policy `[S, A]`."""
        states = np.repeat(seen(world, np.arange(world.states)), world.actions, 0)
        x = np.hstack([states, np.tile(world.pulls, (world.states, 1))])
        return world.greedy(self.network(world, state["network"]).values(x).reshape(world.reward.shape))


def seen(world: CoupledArms, states: Ints | np.int64) -> Array:
    """What the network reads of states `[..]`: a one-hot level of every arm, `[.., LEVELS * arms]`."""
    levels = world.levels[states]
    read: Array = np.eye(LEVELS)[levels].reshape(*levels.shape[:-1], -1)
    return read


SEQUOIA = SolverMethod(
    name="sequoia",
    description="action values of combinations of arms, maximised by integer programmes",
    solver=CombinatorialQ(),
    world="restless-sets:4",
    steps=60,
    source="Reinforcement learning with combinatorial actions for coupled restless bandits, arXiv:2503.01919",
)

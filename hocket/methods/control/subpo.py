"""SubPO: policy gradient for utilities with diminishing returns (Submodular Reinforcement Learning).

What a trajectory is worth is a function F of the set of what it visited, such as the weight of all that was covered, so
that a state pays the less the more was seen before. Each decision is rewarded by its marginal gain, which telescopes,

    m_t = F(tau_0:t + s_t+1) - F(tau_0:t),   grad J = E[sum_t grad log pi(a_t | s_t, t) (sum_{j >= t} m_j - b_t)],

so REINFORCE climbs E[F] with policies that know the step and the state, and not what was covered.

The paper's text was not at hand; the formula is the catalogue's, recalled, and follows from the telescoping sum. Ours
are: coverage as the utility (`Coverage`), a table of logits for every step and state, and the mean of the other
episodes' rewards to go at the same step as the baseline. The natural-gradient variants are not built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, ExactEpisode, TabularMDP, softmax
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.lab.exact.worlds import WorldFamily, grid

MOST = 14
"""Items of a world at most: their subsets are enumerated."""


@dataclass(frozen=True, eq=False)
class Coverage:
    """An episodic world that pays for the items that its visited states cover, each once.

    Values are those of `E[F]`: `value` of a policy `[H, S, A]`, `optimum` of the best that also knows what was covered.

    Attributes:
        moves: states, actions and where they lead; what they earn there counts for nothing.
        covers: which items a state covers, `[S, I]` bool. weights: of items, `[I]`. modular: items pay at each visit.
    """

    moves: TabularMDP
    covers: NDArray[np.bool_]
    weights: Array
    modular: bool = False

    def __post_init__(self) -> None:
        if self.moves.horizon is None or self.weights.size > MOST or (self.weights < 0).any():
            raise ConfigurationError(
                f"{self.name}: coverage takes a horizon, at most {MOST} items, and weights from 0 up"
            )

    @property
    def name(self) -> str:
        return self.moves.name

    @property
    def horizon(self) -> int:
        return self.moves.shape[0]

    @cached_property
    def worth(self) -> Array:
        """F of every set of items, `[2^I]`; item i is bit i."""
        held = np.arange(2**self.weights.size)[:, None] >> np.arange(self.weights.size) & 1
        found: Array = held @ self.weights
        return found

    @cached_property
    def bits(self) -> NDArray[np.int64]:
        """What each state covers as a set, `[S]`."""
        found: NDArray[np.int64] = (self.covers << np.arange(self.weights.size)).sum(-1)
        return found

    @cached_property
    def own(self) -> Array:
        """What each state would pay alone, `[S]`."""
        return self.worth[self.bits]

    def gain(self, covered: NDArray[np.int64], state: NDArray[np.int64]) -> Array:
        """`F(covered + state) - F(covered)`, of sets and states of one shape."""
        if self.modular:
            return self.own[state]
        found: Array = self.worth[covered | self.bits[state]] - self.worth[covered]
        return found

    def marginals(self, episode: ExactEpisode) -> Array:
        """What each decision of an episode gains, `[T]`; its first state is covered already."""
        before = np.bitwise_or.accumulate(self.bits[episode.states])
        return self.gain(before[:-1], episode.states[1:])

    @property
    def optimum(self) -> float:
        every, states = self._every
        value = np.zeros(every.shape)
        for _ in range(self.horizon):
            ahead = self.gain(every, states) + value[every | self.bits, np.arange(self.moves.states)]
            value = np.einsum("sat,mt->msa", self.moves.transition, ahead).max(-1)
        return float(self.moves.start @ (self.own + value[self.bits, np.arange(self.moves.states)]))

    def value(self, policy: Array) -> float:
        every, states = self._every
        whole, chance = np.broadcast_to(policy, self.moves.shape), np.zeros(every.shape)
        chance[self.bits, np.arange(self.moves.states)] = self.moves.start
        total = float(self.moves.start @ self.own)
        for step in range(self.horizon):
            reached = chance @ np.einsum("sa,sat->st", whole[step], self.moves.transition)
            total += float((reached * self.gain(every, states)).sum())
            chance = np.zeros(every.shape)
            np.add.at(chance, (every | self.bits, states), reached)
        return total

    @property
    def _every(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every set of items with every state, `[2^I, S]` each."""
        sets, states = np.arange(len(self.worth)), np.arange(self.moves.states)
        return np.repeat(sets[:, None], self.moves.states, 1), np.repeat(states[None], len(sets), 0)


@dataclass(frozen=True)
class SubmodularGradient(Solver):
    """See the module.

    Attributes:
        episodes: a step. rate: of the gradient. marginal: without, a state is rewarded by all that it covers.
    """

    episodes: int = 32
    rate: float = 1.0
    marginal: bool = True
    world = Coverage

    def __post_init__(self) -> None:
        if self.episodes < 2 or not self.rate > 0:
            raise ConfigurationError(
                f"method.episodes = {self.episodes}, method.rate = {self.rate}: at least 2 episodes, of which each is "
                "the others' baseline, and a positive rate"
            )

    def init(self, world: Coverage, key: Key) -> State:
        return {"logits": np.zeros(world.moves.shape)}

    def step(self, world: Coverage, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        policy = softmax(state["logits"])
        played = [world.moves.episode(policy, key.derive("episode", number)) for number in range(self.episodes)]
        gains = np.stack([world.marginals(one) if self.marginal else world.own[one.states[1:]] for one in played])
        slope = gradient(policy, played, gains)
        figures = {"return": float(gains.sum(1).mean()), "slope": float(np.linalg.norm(slope))}
        return {"logits": state["logits"] + self.rate * slope}, figures

    def answer(self, world: Coverage, state: State) -> Array:
        return softmax(state["logits"])


def gradient(policy: Array, played: list[ExactEpisode], gains: Array) -> Array:
    """REINFORCE in logits `[H, S, A]`, from what each decision gained, `[B, H]`; baselines leave the episode out."""
    ahead = gains[:, ::-1].cumsum(1)[:, ::-1]
    advantage = (ahead - ahead.mean(0)) * (len(played) / (len(played) - 1))
    found = np.zeros_like(policy)
    for one, credit in zip(played, advantage, strict=True):
        steps = np.arange(len(credit))
        chosen = np.eye(policy.shape[-1])[one.actions] - policy[steps, one.states[:-1]]
        found[steps, one.states[:-1]] += credit[:, None] * chosen
    return found / len(played)


def cover(rows: int, columns: int) -> Coverage:
    """A grid with as many steps as cells: each pays 1 when it is first entered, and the last one 2."""
    cells = rows * columns
    weights = np.ones(cells)
    weights[-1] = 2
    place = grid(rows, columns)
    world = TabularMDP(place.transition, place.reward, place.start, cells, name=f"cover:{rows}x{columns}")
    return Coverage(world, np.eye(cells, dtype=bool), weights)


COVER = WorldFamily(name="cover", description="a grid whose cells pay once, for subpo", make=cover, size=(3, 3))

SUBPO = SolverMethod(
    name="subpo",
    description="policy gradient of what each decision adds to a set's worth",
    solver=SubmodularGradient(),
    world="cover:3x3",
    steps=300,
    source="Submodular Reinforcement Learning",
)

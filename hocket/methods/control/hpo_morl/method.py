"""Tuning a learner of two aims: a trial's result is a set of policies, its worth the hypervolume of their front.

Hyper-parameters h are searched for the highest `mean over seeds of HV(front(h, seed))`. The first trial is the default;
later ones are drawn from the whole space or near one of the best. What looks best on the search's seeds is run again on
fresh ones, and the best there is chosen: with many trials the highest worth is high by luck too. What the chosen one
finds on seeds that neither knew is the answer, and how much the search's own figure was above that is told.

The learner is Q-learning of both aims at once, a policy for each of K weights w, that takes the action with the least
Chebyshev distance `max_j w_j |Q_j(s, a) - z_j|` from a point z beyond the best seen (Van Moffaert et al. 2013), which
also finds what lies in a dent of the front.

Source: "Hyperparameter Optimization for Multi-Objective Reinforcement Learning", abstract. Ours are: the learner and
its three parameters, each between a tenth and ten times its default on a logarithmic scale; drawing instead of a
model; aims scaled by what lies between the reference and the best there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.fronts import TwoAims, successors
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.solver import Solver, SolverMethod, State

DEFAULT = np.array([0.05, 0.1, 0.1])
"""The learner's step, its chance of a random action, and how far z lies beyond the best seen, in scaled aims."""

KINDS = SEARCH, FRESH, HELD = range(3)
"""Of seeds: those that trials are compared on, those the best are compared on again, and those of the answer."""


Ints = NDArray[np.int64]


@dataclass(frozen=True)
class HypervolumeSearch(Solver):
    """See the module.

    Attributes:
        seeds: that a trial is run on; as many fresh ones, and as many that are held out. spread: of the space, as a
            power of ten of the default; 0 leaves the default alone. top: how many of the best are run again.
        weights, moves: of the learner, its policies and how often each of them moves.
    """

    world: ClassVar[type] = TwoAims

    seeds: int = 3
    spread: float = 1.0
    top: int = 3
    weights: int = 8
    moves: int = 2000

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.spread < 0 or self.top < 1 or self.weights < 2 or self.moves < 1:
            raise ConfigurationError(
                f"method.seeds = {self.seeds}, method.spread = {self.spread}, method.top = {self.top}, "
                f"method.weights = {self.weights}, method.moves = {self.moves}: spread is at least 0, weights at least "
                "2, the others 1"
            )

    def init(self, world: TwoAims, key: Key) -> State:
        sets = (self.seeds, self.weights, *world.process.reward.shape)
        even = np.full(sets, 1 / world.process.actions)
        return {
            "trials": np.zeros((0, len(DEFAULT))),
            "worth": np.zeros(0),  # Of each trial on the search's seeds.
            "again": np.zeros(0),  # On fresh ones; not a number where it was not run there.
            "chosen": np.array(-1),
            "seeds": key.derive("seeds").numpy().integers(2**62, size=(len(KINDS), self.seeds)),
            "answer": even,
        }

    def step(self, world: TwoAims, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        seeds = state["seeds"]
        trials = np.concatenate([state["trials"], self.proposed(state, key.derive("trial"))[None]])
        worth = np.append(state["worth"], self.tried(world, trials[-1], seeds[SEARCH]))
        again = np.append(state["again"], np.nan)
        for place in np.argsort(-worth, kind="stable")[: self.top]:
            if np.isnan(again[place]):
                again[place] = self.tried(world, trials[place], seeds[FRESH])
        chosen, answer = int(np.nanargmax(again)), state["answer"]
        if chosen != state["chosen"]:
            answer = self.learnt(world, trials[chosen], seeds[HELD])
        found = {"trials": trials, "worth": worth, "again": again, "chosen": np.array(chosen), "answer": answer}
        return {**found, "seeds": seeds}, {
            "worth": float(worth[-1]),
            "best_worth": float(worth.max()),
            "chosen": float(chosen),
            "optimism": float(worth.max()) - world.value(answer),
        }

    def proposed(self, state: State, key: Key) -> Array:
        """The next trial: the default, then in turn one of the whole space and one near one of the best."""
        draw, count = key.numpy(), len(state["trials"])
        if not count:
            return DEFAULT
        if count % 2:
            powers = draw.uniform(-1, 1, len(DEFAULT))
        else:
            best = np.argsort(-state["worth"], kind="stable")[: self.top]
            near = np.log10(state["trials"][draw.choice(best)] / DEFAULT) / (self.spread or 1)
            powers = np.clip(near + draw.normal(0, 0.2, len(DEFAULT)), -1, 1)
        found: Array = DEFAULT * 10 ** (self.spread * powers)
        return found

    def tried(self, world: TwoAims, trial: Array, seeds: Ints) -> float:
        """The mean hypervolume on some seeds."""
        return world.value(self.learnt(world, trial, seeds))

    def learnt(self, world: TwoAims, trial: Array, seeds: Ints) -> Array:
        """`[seeds, K, S, A]`, the policies that a trial learns on each seed."""
        keys = [Key.of(int(seed)) for seed in seeds]
        return np.stack([chebyshev(world, trial, self.weights, self.moves, key) for key in keys])

    def answer(self, world: TwoAims, state: State) -> Array:
        return state["answer"]


def chebyshev(world: TwoAims, trial: Array, weights: int, moves: int, key: Key) -> Array:
    """`[K, S, A]`, greedy policies after `moves` moves of each of K learners side by side.

    Args:
        trial: step, chance of a random action and distance, as `DEFAULT`.
    """
    rate, chance, beyond = trial
    onward, process = successors(world.process), world.process
    assert process.horizon is not None
    scaled = world.rewards / (world.front.max(0) - world.reference)
    share = np.linspace(0, 1, weights)
    weighing = np.stack([share, 1 - share], -1)
    each, draw = np.arange(weights), key.numpy()
    quality, best = np.zeros((weights, *world.rewards.shape)), np.zeros((weights, 2))
    start = int(process.start.argmax())
    at, age = np.full(weights, start), np.zeros(weights, np.int64)

    def far(states: Ints) -> Array:
        behind = np.abs(quality[each, states] - (best + beyond)[:, None])
        found: Array = (weighing[:, None] * behind).max(-1)
        return found

    for _ in range(moves):
        luck, picked = draw.random(weights), draw.integers(process.actions, size=weights)
        ties = 1e-9 * draw.random((weights, process.actions))
        action = np.where(luck < chance, picked, (far(at) + ties).argmin(-1))
        to = onward[at, action]
        follows = far(to).argmin(-1)
        ends = to == process.states - 1
        target = scaled[at, action] + np.where(ends[:, None], 0, quality[each, to, follows])
        quality[each, at, action] += rate * (target - quality[each, at, action])
        best = np.maximum(best, quality[each, at, action])
        age += 1
        over = ends | (age >= process.horizon)
        at, age = np.where(over, start, to), np.where(over, 0, age)
    behind = np.abs(quality - (best + beyond)[:, None, None])
    chosen: Array = np.eye(process.actions)[(weighing[:, None, None] * behind).max(-1).argmin(-1)]
    return chosen


HPO_MORL = SolverMethod(
    name="hpo-morl",
    description="tunes a learner of two aims by the hypervolume of what it finds",
    solver=HypervolumeSearch(),
    world="treasure:5",
    steps=30,
    source="Hyperparameter Optimization for Multi-Objective Reinforcement Learning, abstract",
)

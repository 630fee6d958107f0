"""LPO: optimistic policy optimisation that seldom switches, by a small core set of what was visited.

A visited pair z joins the core set D with a probability in proportion to its online sensitivity, which for linear
functions of the features phi with weights of at most norm 1 is the ridge leverage score,

    sens(z) = sup_{f, g} (f(z) - g(z))^2 / (sum_{z' in D} (f(z') - g(z'))^2 + 1) = phi^T (sum phi phi^T + I)^-1 phi,

counted as often as it was unlikely, so that the core set stands for all that was visited. The width of the class on it
is the bonus, `b(z) = bonus sqrt(sens(z))`. Bonus and policy are made anew only when the core set has grown, by mirror
steps `pi <- pi exp(rate (Q + b))` from even play on, each with Q of the policy before from all data; in between all
episodes are played by the same policy. So it switches O(d log N) times.

The paper's text was not at hand, only its abstract. Ours are: Q comes from ridge regression of the next values on the
features (one for every state and action where a world has none), where the paper fits it to sampled returns reweighted
by importance; the policy begins anew from even play, as the bonus is another; rewards are known; values are clipped to
what rewards allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.counts import TransitionCounts
from hocket.lab.exact.factored_mdp import FactoredMDP, estimated, factored
from hocket.lab.exact.mdp import Array, TabularMDP, softmax
from hocket.lab.exact.solver import EpisodicSolver, SolverMethod, State


def sensitivity(core: Array, features: Array) -> Array:
    """`phi^T core^-1 phi` of each row of features `[.., d]`; core is `sum phi phi^T + I`, `[d, d]`."""
    found: Array = (features * np.linalg.solve(core, features[..., None])[..., 0]).sum(-1)
    return found


@dataclass(frozen=True)
class LowSwitching(EpisodicSolver):
    """See the module.

    Attributes:
        keep: a pair joins with probability `min(1, keep * sens)`; `.inf` keeps all. bonus: its size, in units of value.
        rate, rounds: of the mirror steps.
    """

    keep: float = 1.0
    bonus: float = 1.0
    rate: float = 2.0
    rounds: int = 30

    def __post_init__(self) -> None:
        if not self.keep > 0 or self.bonus < 0 or not self.rate > 0 or self.rounds < 1:
            raise ConfigurationError(
                f"method.keep = {self.keep}, method.bonus = {self.bonus}, method.rate = {self.rate}, method.rounds = "
                f"{self.rounds}: keep and rate are positive, bonus is at least 0 and rounds at least 1"
            )

    def init(self, world: TabularMDP, key: Key) -> State:
        size = factored(world).features.shape[-1]
        begun = {"core": np.eye(size), "kept": np.zeros(()), "policy": world.even, "grown": np.ones((), bool)}
        return {**TransitionCounts.none(world).state, **begun}

    def step(self, world: TabularMDP, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        counts, whole, policy = TransitionCounts.of(state), factored(world), state["policy"]
        if state["grown"]:
            width = self.bonus * np.sqrt(sensitivity(state["core"], whole.features))
            shares, _ = estimated(whole, counts.seen)
            *_, (policy, _) = climbed(whole, shares, width, self.rate, self.rounds)
        episode = world.episode(policy, key.derive("episode"))
        visited = whole.features[episode.states[:-1], episode.actions]
        core, kept = joined(state["core"], visited, self.keep, key.derive("keep"))
        total = state["kept"] + kept
        after = {**counts.plus(episode).state, "core": core, "kept": total, "policy": policy}
        figures = {"return": float(episode.rewards.sum()), "kept": float(total), "rebuilt": float(state["grown"])}
        return {**after, "grown": np.array(kept > 0)}, figures

    def answer(self, world: TabularMDP, state: State) -> Array:
        return state["policy"]


def joined(core: Array, visited: Array, keep: float, key: Key) -> tuple[Array, int]:
    """The core matrix with those of the visited features `[T, d]` that joined, in turn, and how many did."""
    draws, found, count = key.numpy().random(len(visited)), core, 0
    for phi, draw in zip(visited, draws, strict=True):
        chance = min(1.0, keep * float(sensitivity(found, phi)))
        if draw < chance:
            found, count = found + np.outer(phi, phi) / chance, count + 1
    return found, count


def climbed(world: FactoredMDP, shares: Array, width: Array, rate: float, rounds: int) -> Iterator[tuple[Array, float]]:
    """Mirror steps from even play on: each policy, and the optimistic value of the one before it.

    Args:
        shares: estimated factors, `[d, S]`. width: the bonus, `[S, A]`.
    """
    logits = np.zeros(world.shape)
    for _ in range(rounds):
        policy = softmax(logits)
        value, quality, left = np.zeros(world.states), np.zeros(world.shape), 0.0
        for step in reversed(range(len(policy))):
            left = 1 + world.discount * left
            ahead = world.discount * world.features @ (shares @ value)
            quality[step] = np.clip(world.reward + width + ahead, None, left * world.reward.max())
            value = (policy[step] * quality[step]).sum(-1)
        logits = logits + rate * quality
        yield softmax(logits), float(world.start @ value)


LPO_LOW_SWITCHING = SolverMethod(
    name="lpo-low-switching",
    description="optimistic mirror steps, anew only when a core set of visits has grown",
    solver=LowSwitching(),
    world="lock:10",
    steps=600,
    source="Low-Switching Policy Gradient with Exploration via Online Sensitivity Sampling",
)

"""CDPO: posterior sampling without its leaps (Conservative Dual Policy Optimization).

Two updates an episode. The referential one plans fully in one model, the least-squares estimate of what was seen:
`q_t = argmax_pi V(pi; f_LS)`. The conservative one goes on from there to what is best on average over the posterior,
within a trust region: `pi_t = argmax_pi E_f V(pi; f)` subject to `TV(pi(.|s), q_t(.|s)) <= eta`. So no model that was
drawn once is believed in full, as in posterior sampling.

The paper's text was not at hand, only its abstract and the two problems. Ours are: the posterior is a Dirichlet one per
state and action and rewards are known; the estimate is the posterior's mean, which is least squares with a ridge; the
expectation is the mean of `models` draws; the region holds at every step and state, which implies the mean divergence.
The value of a policy averaged over models is linear in the policy of one step of the episode when those of the others
are fixed, so each step's problem is solved exactly, from the last step to the first, `sweeps` times: with one model and
no region one sweep is value iteration, with several it ends in a maximum that no single step improves.

Neither update has a reason to explore of its own: in some worlds it stays with a policy that is not the best, as its
reference alone does more often (the claims tell how often).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.counts import TransitionCounts
from hocket.lab.exact.mdp import NEGLIGIBLE, Array, TabularMDP
from hocket.lab.exact.solver import EpisodicSolver, SolverMethod, State


@dataclass(frozen=True)
class ConservativeDual(EpisodicSolver):
    """See the module.

    Attributes:
        eta: the largest total variation from the reference, at every step and state; 1 leaves no region.
        models: draws from the posterior. prior: of its Dirichlet distribution. sweeps: over the steps of an episode.
    """

    eta: float = 0.2
    models: int = 10
    prior: float = 0.5
    sweeps: int = 2

    def __post_init__(self) -> None:
        if not 0 <= self.eta <= 1 or self.models < 1 or self.prior <= 0 or self.sweeps < 1:
            raise ConfigurationError(
                f"method.eta = {self.eta}, method.models = {self.models}, method.prior = {self.prior}, method.sweeps = "
                f"{self.sweeps}: eta lies in [0, 1], prior is positive, and models and sweeps are at least 1"
            )

    def init(self, world: TabularMDP, key: Key) -> State:
        return {**TransitionCounts.none(world).state, "policy": world.even}

    def step(self, world: TabularMDP, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        counts = TransitionCounts.of(state)
        reference = replace(world, transition=counts.mean(self.prior)).best.policy
        drawn = counts.drawn(self.prior, key.derive("model"), self.models)
        policy = reference
        for _ in range(self.sweeps):
            policy = swept(world, drawn, policy, reference, self.eta)
        episode = world.episode(policy, key.derive("episode"))
        figures = {"return": float(episode.rewards.sum()), "from reference": _apart(policy, reference)}
        return {**counts.plus(episode).state, "policy": policy}, figures

    def answer(self, world: TabularMDP, state: State) -> Array:
        return state["policy"]


def swept(world: TabularMDP, models: Array, policy: Array, reference: Array, eta: float) -> Array:
    """The policy after each of its steps, the last first, was made the best one near the reference for the others.

    Args:
        models: transitions `[M, S, A, S]`. policy, reference: `[H, S, A]`.
    """
    assert world.horizon is not None
    seen = np.broadcast_to(world.start, (len(models), world.states))
    reached = [seen]
    for step in range(world.horizon):
        reached.append(np.einsum("ms,sa,msat->mt", reached[-1], policy[step], models))
    found, value = policy.copy(), np.zeros((len(models), world.states))
    for step in reversed(range(world.horizon)):
        quality = world.reward + world.discount * np.einsum("msat,mt->msa", models, value)
        # A state that no model reaches counts as one that all reach alike.
        weight = np.where(reached[step].any(0), reached[step], 1.0)
        found[step] = nearby(reference[step], np.einsum("ms,msa->sa", weight, quality), eta)
        value = (found[step] * quality).sum(-1)
    return found


def nearby(reference: Array, gain: Array, eta: float) -> Array:
    """`argmax_p <p, gain>` over shares within total variation `eta` of the reference, `[S, A]` all.

    Up to `eta` goes from the worst actions to the best; what gains no more than `NEGLIGIBLE` stays.
    """
    found, left = reference.copy(), np.full(len(reference), eta)
    rows, top = np.arange(len(reference)), gain.max(-1)
    best = (gain >= top[:, None] - NEGLIGIBLE).argmax(-1)
    for action in gain.argsort(-1, kind="stable").T:
        worse = gain[rows, action] < top - NEGLIGIBLE
        moved = np.where(worse, np.minimum(found[rows, action], left), 0.0)
        found[rows, action] -= moved
        found[rows, best] += moved
        left = left - moved
    return found


def _apart(policy: Array, reference: Array) -> float:
    """The largest total variation of their rows."""
    return float(0.5 * np.abs(policy - reference).sum(-1).max())


CDPO = SolverMethod(
    name="cdpo",
    description="plans in the mean model, then carefully for the whole posterior",
    solver=ConservativeDual(),
    world="river:4",
    steps=300,
    source="Conservative Dual Policy Optimization for Efficient Model-Based Reinforcement Learning",
)

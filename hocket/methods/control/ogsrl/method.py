"""OGSRL: planning in a model of recorded treatments, kept to where there are records, and within a cost.

From recorded episodes of clinicians comes a model by counting. A guard calls a decision outside its support where it
was recorded fewer than `least` times. The policy that is looked for earns the most in the model, with few expected
violations of the guard, D, and a low expected cost, C:

    max_pi min_{l >= 0}  J(pi) - l_1 (D(pi) - eps_1) - l_2 (C(pi) - eps_2).

Each step plans exactly in the model for the reward less the multipliers' penalties, then moves the multipliers by how
far the bounds were missed. The answer is the policy of the mean visits of the steps, which may mix actions as the
solution of a constrained problem must. Only the abstract of Runze Yan et al. (2025), Offline Guarded Safe Reinforcement
Learning for Medical Treatment Optimization Strategies, was at hand: the guard by counts, tables in place of networks,
and the form by multipliers are our reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.methods.control.ogsrl.world import Treatment


@dataclass(frozen=True)
class GuardedPlanning(Solver):
    """See the module.

    Attributes:
        episodes: recorded ones. least: records of a decision that the guard asks for; 0 guards nothing.
        violations: eps_1, the expected violations of an episode. cost: eps_2 as a multiple of the clinicians' own cost
            in the model; `.inf` does not bound it. rate: of the multipliers, over the root of the number of steps;
            a bound counts as missed by 1 at most.
    """

    episodes: int = 20_000
    least: int = 20
    violations: float = 0.05
    cost: float = 1.0
    rate: float = 1.0

    world = Treatment

    def __post_init__(self) -> None:
        if self.episodes < 1 or self.least < 0 or self.violations < 0 or self.cost < 0 or not self.rate > 0:
            raise ConfigurationError(
                f"method.episodes = {self.episodes}, method.least = {self.least}, method.violations = "
                f"{self.violations}, method.cost = {self.cost}, method.rate = {self.rate}: episodes and rate are "
                "positive, and the others at least 0"
            )

    def init(self, world: Treatment, key: Key) -> State:
        """The records, and nothing learnt.

        Raises:
            ConfigurationError: for bounds that no policy of the model keeps.
        """
        rows, counts = np.unique(world.recorded(self.episodes, key.derive("records")), axis=0, return_counts=True)
        records: State = {"rows": rows, "counts": counts}
        model, outside = modelled(world, records, self.least)
        clinicians_cost = self.cost * model.sums(model.behaviour, model.cost)[0] if np.isfinite(self.cost) else np.inf
        for name, numbers, bound in (("violations", outside, self.violations), ("cost", model.cost, clinicians_cost)):
            least = model.sums(replace(model, reward=-numbers).best.policy, numbers)[0] if np.isfinite(bound) else 0.0
            if least > bound + 1e-9:
                raise ConfigurationError(
                    f"method.{name} = {getattr(self, name)}: no policy of the model has less than {least:.3g}, and the "
                    f"bound is {bound:.3g}; set it higher, or lower method.least"
                )
        begun = {"multipliers": np.zeros(2), "visits": np.zeros(world.shape), "steps": np.zeros((), np.int64)}
        return {**records, **begun}

    def step(self, world: Treatment, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        model, outside = modelled(world, state, self.least)
        guard, price = state["multipliers"]
        bound = self.cost * model.sums(model.behaviour, model.cost)[0] if np.isfinite(self.cost) else np.inf
        policy = replace(model, reward=model.reward - guard * outside - price * model.cost).best.policy
        earned, strayed, spent = model.sums(policy, model.reward, outside, model.cost)
        steps = int(state["steps"]) + 1
        missed = np.array([strayed - self.violations, spent - bound if np.isfinite(bound) else -np.inf])
        multipliers = np.maximum(state["multipliers"] + self.rate / np.sqrt(steps) * missed.clip(-1, 1), 0.0)
        visited = model.visits(policy) / (1 - model.discount)
        visited[model.over] = policy[model.over]
        visits = state["visits"] + (visited - state["visits"]) / steps
        figures = {"model/return": earned, "model/violations": strayed, "model/cost": spent, "model/cost_bound": bound}
        after = {"multipliers": multipliers, "visits": visits, "steps": np.array(steps)}
        return {**state, **after}, {**figures, "multiplier/guard": guard, "multiplier/cost": price}

    def answer(self, world: Treatment, state: State) -> Array:
        """The policy of the mean visits; where there are none, the clinicians'."""
        total = state["visits"].sum(-1, keepdims=True)
        guarded_policy: Array = np.where(total > 1e-12, state["visits"] / np.maximum(total, 1e-12), world.behaviour)
        shares: Array = guarded_policy / guarded_policy.sum(-1, keepdims=True)
        return shares


def modelled(world: Treatment, state: State, least: int) -> tuple[Treatment, Array]:
    """The model of the records, where a decision without any leads anywhere; and what the guard forbids, `[S, A]`."""
    rows = state["rows"]
    visited = np.zeros_like(world.transition)
    visited[rows[:, 0], rows[:, 1], rows[:, 2]] = state["counts"]
    total = visited.sum(-1)
    share = np.where(total[..., None] > 0, visited / np.maximum(total, 1)[..., None], 1 / world.states)
    over = world.over
    share[over] = world.transition[over]
    outside = (total < least).astype(np.float64)
    outside[over] = 0.0
    taken = np.zeros(world.shape)
    np.add.at(taken, (rows[:, 0], rows[:, 1]), state["counts"])
    known = taken.sum(-1, keepdims=True)
    clone = np.where(known > 0, taken / np.maximum(known, 1), 1 / world.actions)
    reward = np.where(over[:, None], world.reward, share @ world.paid)
    return replace(world, transition=share, reward=reward, behaviour=clone, name=f"model of {world.name}"), outside


OGSRL = SolverMethod(
    name="ogsrl",
    description="plans in a model of recorded treatments, kept to its support and within a cost",
    solver=GuardedPlanning(),
    world="sepsis",
    steps=30,
    source="Offline Guarded Safe Reinforcement Learning for Medical Treatment Optimization Strategies (2025)",
    note="tables in place of networks, and a guard by counts; the paper's text was not at hand",
)

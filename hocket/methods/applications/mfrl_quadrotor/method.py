"""Plans of flight by RL whose reward is estimated from cheap and few dear evaluations (Ryou et al., arXiv:2403.08152).

A policy chooses the times of the legs of a flight, and is paid by how much of the time of least snap it saves if the
plan can be flown. Whether it can, only a dear flight tells. So the policy is paid by an estimate,

    r = P(flies | plan) (0.2 + min(1 - T / T_0, 0.2)),

with T_0 the time of least snap, and the estimator learns beside it: of each batch the plans that are nearest to its
boundary, by -|m| / v, are evaluated, `cheap` of them without drag and `dear` of them with all. `Estimator` of
`hocket.methods.applications.mfrl_quadrotor.estimator` links both levels.

Reward, acquisition and fixed numbers of evaluations by level are those of the authors' code. Its policy is a network
over sequences that also weighs snap, its estimator a deep Gaussian process, and its flights are of a quadrotor in
space, begun at speed; here plans of three legs in a vertical plane begin and end at rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch

from hocket.core.errors import ConfigurationError
from hocket.core.outcomes import StepResult
from hocket.methods.applications.mfrl_quadrotor.estimator import HIGH, LOW, Estimator
from hocket.methods.applications.mfrl_quadrotor.flight import Array, flown, ideal
from hocket.methods.applications.mfrl_quadrotor.world import (
    LEGS,
    ROOM,
    Flights,
    features,
    of_least_snap,
    stretched,
    waypoints,
)
from hocket.methods.base.ppo import PPO
from hocket.rollout.joint import JointPlayer
from hocket.stages import Hook, HookContext, Player, State
from hocket.types import Trajectory

Plans = tuple[Array, Array, Array]
"""Waypoints `[B, LEGS + 1, 2]`, the times of least snap and the factors of them, `[B, LEGS]`."""


def plans_of(trajectories: list[Trajectory]) -> Plans:
    """The plans of episodes of `flights`."""
    turns = [trajectory.turns[0] for trajectory in trajectories]
    views = np.concatenate([np.asarray(turn.observation, np.float64) for turn in turns])
    moves = views[:, : 2 * LEGS].reshape(-1, LEGS, 2) * ROOM
    points = np.concatenate([np.zeros((len(moves), 1, 2)), moves.cumsum(1)], 1)
    actions = np.concatenate([np.asarray(turn.action, np.float64) for turn in turns])
    return points, views[:, 2 * LEGS :], stretched(actions)


def evaluated(estimator: Estimator, plans: Plans, level: int, chosen: slice | np.ndarray[Any, Any]) -> Estimator:
    """With some of the plans evaluated at a level."""
    points, first, factors = (part[chosen] for part in plans)
    if not len(points):
        return estimator
    flies = (flown if level == HIGH else ideal)(points, first * factors)
    return estimator.joined(features(points, factors), level, flies)


@dataclass(frozen=True)
class EstimatedFlights(Hook):
    """Pays plans by an estimate, for which some plans of each step are evaluated; see the module.

    Evaluation flies.

    Attributes:
        cheap: evaluations of a step without drag and lag. dear: with them. first: as many of each before the first
            step, of factors drawn evenly.
    """

    cheap: int = 16
    dear: int = 2
    first: tuple[int, int] = (128, 16)

    def __post_init__(self) -> None:
        if min(self.cheap, self.dear, *self.first) < 0 or len(self.first) != 2 or sum(self.first) < 1:
            raise ValueError(
                f"cheap, dear and both of first are at least 0, with one evaluation at first, not {self.cheap}, "
                f"{self.dear} and {list(self.first)}"
            )

    def check(self, run: HookContext) -> None:
        super().check(run)
        if not isinstance(run.player, JointPlayer) or not isinstance(run.player.world, Flights):
            raise ConfigurationError(
                f"recipe {run.method} estimates which flights can be flown, and task {run.task.name} has none; use "
                "--task flights"
            )

    def begin(self, run: HookContext, earlier: State | None) -> Any:
        """The estimator after its first evaluations; that of an earlier phase, if there was one."""
        if earlier:
            return self.restore(earlier, run)
        count = max(self.first)
        points = np.stack([waypoints(run.task.scenario("train", number).seed) for number in range(count)])
        actions = run.key.derive("plans").numpy().uniform(-1, 1, (count, LEGS))
        plans = points, of_least_snap(points), stretched(actions)
        estimator = Estimator(np.zeros((0, 3 * LEGS)), np.zeros(0, np.int64), np.zeros(0, bool))
        for level, amount in enumerate(self.first):
            estimator = evaluated(estimator, plans, level, slice(amount))
        return {"estimator": estimator}

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        joint = cast(JointPlayer, player)
        judged = replace(cast(Flights, joint.world), judge=memory["estimator"].chance)
        return replace(joint, world=judged, _open=[])

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        estimator: Estimator = memory["estimator"]
        played = [] if result.experience is None else result.experience.trajectories
        finished = [trajectory for trajectory in played if trajectory.failure is None]
        if finished:
            plans, known = plans_of(finished), estimator
            read = features(plans[0], plans[2])
            for level, amount in ((LOW, self.cheap), (HIGH, self.dear)):
                nearest = np.argsort(-known.doubt(read, level), kind="stable")[:amount]
                estimator = evaluated(estimator, plans, level, nearest)
        for name, level in (("cheap", LOW), ("dear", HIGH)):
            result.metrics[f"flights/{name}"] = float((estimator.level == level).sum())
        return {"estimator": estimator}

    def state(self, memory: Any, run: HookContext) -> State:
        estimator: Estimator = memory["estimator"]
        columns = (estimator.features, estimator.level, estimator.flies)
        return dict(zip(("features", "level", "flies"), map(torch.from_numpy, columns), strict=True))

    def restore(self, state: State, run: HookContext) -> Any:
        return {"estimator": Estimator(*(state[name].numpy() for name in ("features", "level", "flies")))}


MFRL_QUADROTOR = PPO.but(
    name="mfrl-quadrotor",
    title="Plans of flight by RL, paid by a multi-fidelity estimate",
    source="Multi-Fidelity Reinforcement Learning for Time-Optimal Quadrotor Re-planning, arXiv:2403.08152",
    catalogue_ids=("mfrl-quadrotor",),
    axes=("reward", "search", "environment", "policy"),
    formula="as ppo,  r = Phi(m / sqrt(1 + v)) (0.2 + min(1 - T / T_0, 0.2)) / 0.2,  f_high = rho f_low + delta;  "
    "evaluated next: the largest -|m| / v of each level",
    conventions={
        **PPO.conventions,
        "levels": "2: rotors in range without drag and lag; within 8 cm of the path with them. No real flights",
        "evaluations": "128 and 16 before the first step, 16 and 2 in each",
        "estimator": "a process with rho = 1 and fixed kernels, by Laplace's approximation; the authors' is deep",
        "plan": "a factor of the time of each of 3 legs; the weights of snap are not chosen",
        "T_0": "1.15 times that of an ideal flight, with which nine of ten plans of least snap can be flown",
        "world": "a quadrotor in a vertical plane, begun at rest, stands in for flights in space",
    },
    task="flights",
    hooks=(EstimatedFlights(),),
)

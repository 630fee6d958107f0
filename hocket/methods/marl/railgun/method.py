"""RAILGUN: one convolutional policy over the whole map moves all agents (Tang et al. 2025, of which the abstract).

A commander is shown the map as channels: what is free, where agents are, and under each agent which steps lead nearer
to its goal, and where and how far that is (`mapf:whole`). One pass of a U-Net gives odds of five moves at every cell,
and each agent draws from those under it; so the same weights move any number of agents on maps of any size. After the
network a shield resolves collisions: who would enter a cell that another wants or keeps, or would swap, stays.

The network imitates a planner: `PlannerLessons` lets it play the episodes of training, and the loss is the likelihood
of its moves. Ours are the channels; the planner, priority inheritance with backtracking (`planned`), which is the
world's `teacher`; and random maps in the place of the paper's many kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.base.bc import BC
from hocket.methods.base.conventions import COMMON
from hocket.rollout.independent import Independent
from hocket.rollout.joint import JointController, JointPlayer
from hocket.stages import Hook, HookContext, Player
from hocket.types import Assignment, Trajectory


class TaughtPlayer(JointPlayer):
    """A `JointPlayer` whose policies are teachers: log-probs of their decisions are unknown."""

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        trajectories = await super().play(assignments, key=key)
        for trajectory in trajectories:
            for turn in trajectory.turns:
                turn.logp = None
        return trajectories


@dataclass(frozen=True)
class PlannerLessons(Hook):
    """The world's `teacher` plays the episodes of training in the place of every policy, which learns from its moves.

    Evaluation plays the policies.
    """

    def check(self, run: HookContext) -> None:
        super().check(run)
        if not isinstance(run.player, JointPlayer) or not hasattr(run.player.world, "teacher"):
            raise ConfigurationError(
                f"recipe {run.method} imitates the planner of a task, and task {run.task.name} has none; use mapf:whole"
            )

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        """A player with the same copies, in which the teacher has every seat."""
        joint = cast(JointPlayer, player)
        teacher = cast(JointController, joint.world.teacher)  # type: ignore[attr-defined]
        held = {field.name: getattr(joint, field.name) for field in fields(joint)}
        return TaughtPlayer(**{**held, "policies": dict.fromkeys(joint.policies, teacher)})


RAILGUN = BC.but(
    name="railgun",
    title="RAILGUN: one convolutional policy of the whole map",
    source="RAILGUN: A Unified Convolutional Policy for Multi-Agent Path Finding, abstract",
    catalogue_ids=("railgun",),
    axes=("policy", "environment", "team"),
    formula="L = -mean sum_i log pi(a_i | map, x_i),  pi(. | map, x) the U-Net's odds at cell x;  a of a planner",
    conventions={
        **COMMON,
        "aggregation": "mean over moments; a moment's log-prob is the sum over agents",
        "advantages": "not read",
        "log-probs": "the planner's are unknown",
        "shield": "who would collide stays, as the world has it",
        "planner": "priority inheritance with backtracking; who is furthest from its goal goes first",
        "draws": "an agent draws its move by itself; greedy play takes the likeliest",
        "maps": "random ones with a fifth of the cells blocked; no mazes, rooms or warehouses",
    },
    task="mapf:whole",
    rollout=Independent(samples=1),
    store=None,
    hooks=(PlannerLessons(),),
)

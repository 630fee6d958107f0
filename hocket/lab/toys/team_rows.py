"""Teams with action values, and rows of a team drawn from a store, for claims about losses of such rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hocket.core.batch import Batch, Level
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import paid_at_decisions
from hocket.core.worlds import JointEnvironment, Seat
from hocket.policies.control import ControlPolicy
from hocket.policies.settings import NetworkSettings
from hocket.recipe import Recipe
from hocket.rollout.joint_transitions import JointTransitions
from hocket.tasks.joint import JointTask
from hocket.types import End, Scenario, Score, Trajectory, Turn

OBSERVATIONS, ACTIONS, JOINT, GAMMA = 3, 3, 4, 0.9


@dataclass(frozen=True)
class Trio:
    """The spaces of three agents."""

    name: str = "trio"
    agents: tuple[str, ...] = ("a", "b", "c")
    seats: tuple[Seat, ...] = (Seat(OBSERVATIONS, ACTIONS),) * 3
    joint: int = JOINT

    def open(self, width: int) -> JointEnvironment:
        raise NotImplementedError


def policies_of(recipe: Recipe, *, shared: bool, seed: int = 0, world: Any = None) -> dict[str, ControlPolicy]:
    """The policies of a team, one of all or one of each, whose slow copies have other weights than what they follow."""
    task, network = JointTask(world or Trio()), NetworkSettings(hidden=(8, 8), activation="relu")
    agents = task.world.agents
    members = {"policy": agents} if shared else {agent: (agent,) for agent in agents}
    policies = {}
    for name, players in members.items():
        key = Key.of(seed).derive(name)
        policy = ControlPolicy(task.spaces(players), key=key, network=network, name=name)
        for part in recipe.policy_parts:
            part.install(policy)
        policy.require(recipe.needs)
        rng = key.derive("moved").torch()
        with torch.no_grad():
            for weight in policy.module.parameters():
                weight.add_(0.3 * torch.randn(weight.shape, generator=rng))
        policies[name] = policy
    return policies


def episodes(*, shared: bool, seed: int = 0, count: int = 6) -> Batch:
    """Rewarded random episodes of the trio, some of whose agents end before the others; half end, half are cut."""
    rng, teams = Key.of(seed).derive("episodes").numpy(), []
    for number in range(count):
        size = int(rng.integers(3, 7))
        joint = rng.normal(size=(size + 1, JOINT)).astype(np.float32)
        team = Trajectory(Scenario(f"s{number}"), [], terminated=number % 2 == 0, truncated=number % 2 == 1)
        paid: list[NDArray[np.float64]] = []
        for place, agent in enumerate(Trio.agents):
            length = size - (place if number % 3 == 0 else 0)
            sight = rng.normal(size=(length + 1, OBSERVATIONS)).astype(np.float32)
            if shared:
                sight = np.concatenate([sight, np.eye(3, dtype=np.float32)[[place] * (length + 1)]], 1)
            turn = Turn(
                agent,
                "policy" if shared else agent,
                sight[:-1],
                rng.integers(0, ACTIONS, length),
                np.full(length, -1.0, np.float32),
                time=np.arange(length),
                joint=joint[:length],
            )
            over = length < size or number % 2 == 0
            turn.end = End(over, not over, sight[-1], joint[length])
            team.turns.append(turn)
            paid.append(rng.normal(size=length))
        team.scores["reward"] = Score(np.concatenate(paid), Level.DECISION)
        teams.append(team)
    batch = pack(teams)
    return paid_at_decisions(batch, batch.scores["reward"].values)


def team_rows(recipe: Recipe, *, shared: bool, seed: int = 0, count: int = 16) -> Batch:
    """Rows drawn from such episodes, with credit."""
    store = JointTransitions(size=500, rows=4, begin=0, gamma=GAMMA, steps=getattr(recipe.store, "steps", 1))
    state = store.add(store.init(), episodes(shared=shared, seed=seed))
    drawn = store.draw(state, count, Key.of(seed).derive("draw"))
    return drawn.but(occurrences=recipe.credit(drawn))

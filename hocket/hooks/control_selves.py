"""Past selves of control policies in the seats of a joint world; see `hocket.hooks.past_selves`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.stages import HookContext, Player, Policy, State
from hocket.types import Assignment, Trajectory


@runtime_checkable
class SeatsPolicies(Protocol):
    """A player that seats policies: `hocket.rollout.joint.JointPlayer`.

    Attributes:
        seats: the policy of each agent. policies: by name. usual: the seats before guests came, or none.
    """

    seats: Mapping[str, str]
    policies: Mapping[str, Any]
    usual: Mapping[str, str]


def seats_of(player: SeatsPolicies, trained: Mapping[str, Policy]) -> dict[str, list[str]]:
    """The agents of each policy in training."""
    held: dict[str, list[str]] = {}
    for agent, policy in player.seats.items():
        if policy in trained:
            held.setdefault(policy, []).append(agent)
    return held


def guests_of(seats: Mapping[str, list[str]], rng: np.random.Generator) -> list[str]:
    """The policies that lose a seat to a past self: all that have several, else one of those that have one each."""
    several = [name for name, agents in seats.items() if len(agents) > 1]
    if several or len(seats) < 2:
        return several
    return [list(seats)[int(rng.integers(len(seats)))]]


def seated(player: Player, policies: Mapping[str, Any], seats: Mapping[str, str]) -> Player:
    """The player with further policies, and other policies in some seats."""
    held = cast(Any, player)
    every, usual = {**held.policies, **policies}, held.usual or held.seats
    return cast(Player, replace(held, seats={**held.seats, **seats}, policies=every, usual=usual))


def copied(policy: Policy, name: str) -> Policy:
    """A frozen copy, which is called `name`."""
    copy = policy.frozen_copy()
    copy.name = name
    return copy


def weights_of(policy: Policy) -> State:
    """All of its weights and running statistics."""
    return dict(policy.module.state_dict())


def restored(policy: Policy, name: str, weights: State) -> Policy:
    """The inverse of `weights_of`, in a copy."""
    copy = copied(policy, name)
    with torch.no_grad():
        copy.module.load_state_dict(weights)
    return copy


async def payoff(run: HookContext, agents: list[str], pair: tuple[Policy, Policy], matches: int, key: Key) -> float:
    """How much more the first of two policies earns than the second, halved, over both orders of two seats."""
    total, count = 0.0, 0
    for place, order in enumerate(((0, 1), (1, 0))):
        names = {agent: pair[who].name for agent, who in zip(agents, order, strict=True)}
        player = seated(run.player, {policy.name: policy for policy in pair}, names)
        scenarios = [run.task.scenario("train", number) for number in range((matches + 1) // 2)]
        for trajectory in await player.play([Assignment(scenario) for scenario in scenarios], key=key.derive(place)):
            if trajectory.failure is None:
                earned = _earned(trajectory)
                total += earned.get(agents[order[0]], 0.0) - earned.get(agents[order[1]], 0.0)
                count += 1
    return total / (2 * max(count, 1))


def _earned(trajectory: Trajectory) -> dict[str, float]:
    """The world's rewards of each agent, summed."""
    earned, start = dict[str, float](), 0
    score = trajectory.scores.get("reward")
    values = np.zeros(trajectory.length) if score is None else np.asarray(score.value, np.float64)
    for turn in trajectory.turns:
        earned[turn.agent] = earned.get(turn.agent, 0.0) + float(values[start : start + len(turn)].sum())
        start += len(turn)
    return earned

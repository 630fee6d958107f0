"""PyTAG: tabletop games with masks and any number of players, and self-play PPO as baseline (arXiv:2307.09905).

The bridge leads to OpenSpiel's and PettingZoo's games here (`Table` of `hocket.methods.marl.pytag.world`),
where the original's leads to games in Java. One network plays all seats and learns by PPO from what each of them
earned. In a share of the steps one seat is taken by what the network was some steps ago, which learns nothing
(`FormerSelf`); chance and tree search are scripted opponents of the task: `?against=random+mcts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch

from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.methods.marl.ippo import IPPO
from hocket.rollout.joint import JointController, JointPlayer
from hocket.stages import Hook, HookContext, Player, Policy, State


@dataclass
class Pool:
    """Former selves of one policy, oldest first: after how many steps each was taken, and the policy as it was."""

    selves: list[tuple[int, Policy]] = field(default_factory=list)


@dataclass(frozen=True)
class FormerSelf(Hook):
    """In a share of the steps one seat of every game is a former self of the policy, drawn evenly; the others learn.

    Before the first step and every `every` steps a copy of each policy that learns in several seats enters its pool,
    from which the oldest leaves. Where a policy has one seat alone nothing is done.

    Attributes:
        every: steps between copies. keep: the most in a pool. share: of the steps.
    """

    every: int = 5
    keep: int = 4
    share: float = 0.5

    def __post_init__(self) -> None:
        if self.every < 1 or self.keep < 1:
            raise ValueError(f"every and keep must be at least 1, not {self.every} and {self.keep}")
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must lie in [0, 1], not {self.share}")

    def check(self, run: HookContext) -> None:
        super().check(run)
        if not isinstance(run.player, JointPlayer):
            raise ConfigurationError(
                f"FormerSelf of recipe {run.method} seats former selves of control policies, and task {run.task.name} "
                "has no seats of theirs; use ppo, or a task such as openspiel:tic_tac_toe?kind=control"
            )

    def _shared(self, run: HookContext) -> dict[str, list[str]]:
        """The seats of each trained policy that has several."""
        held: dict[str, list[str]] = {}
        for agent, policy in cast(JointPlayer, run.player).seats.items():
            held.setdefault(policy, []).append(agent)
        return {policy: agents for policy, agents in held.items() if policy in run.trained and len(agents) > 1}

    async def before(self, run: HookContext, step: int, memory: dict[str, Pool]) -> dict[str, Pool]:
        """Takes the copies that are due."""
        for name in self._shared(run) if (step - 1) % self.every == 0 else ():
            pool = memory.setdefault(name, Pool())
            pool.selves = [*pool.selves, (step - 1, _copied(run.trained[name], step - 1))][-self.keep :]
        return memory

    def seat(self, player: Player, run: HookContext, step: int, memory: dict[str, Pool]) -> Player:
        """The player with a former self in one seat, in its share of the steps."""
        rng = run.key.derive("former", step).numpy()
        if not isinstance(player, JointPlayer) or rng.random() >= self.share:
            return player
        seats, policies = dict(player.seats), dict(player.policies)
        for name, agents in self._shared(run).items():
            taken, policy = memory[name].selves[int(rng.integers(len(memory[name].selves)))]
            policies[_named(name, taken)] = cast(JointController, policy)
            seats[agents[int(rng.integers(len(agents)))]] = _named(name, taken)
        return replace(player, seats=seats, policies=policies)

    def state(self, memory: dict[str, Pool], run: HookContext) -> State:
        return {
            name: [{"step": step, "weights": dict(policy.module.state_dict())} for step, policy in pool.selves]
            for name, pool in memory.items()
        }

    def restore(self, state: State, run: HookContext) -> dict[str, Pool]:
        return {name: Pool([_restored(run.trained[name], one) for one in kept]) for name, kept in state.items()}


def _named(policy: str, step: int) -> str:
    """No policy in training may be called so."""
    return f"{policy}@{step}"


def _copied(policy: Policy, step: int) -> Policy:
    copied = policy.frozen_copy()
    copied.name = _named(policy.name, step)
    return copied


def _restored(policy: Policy, kept: Mapping[str, Any]) -> tuple[int, Policy]:
    copied = _copied(policy, int(kept["step"]))
    with torch.no_grad():
        copied.module.load_state_dict(kept["weights"])
    return int(kept["step"]), copied


PYTAG = IPPO.but(
    name="pytag",
    title="PyTAG's baseline: self-play PPO with masks at a table",
    source="PyTAG: Tabletop Games for Multi-Agent Reinforcement Learning, arXiv:2307.09905",
    catalogue_ids=("pytag",),
    axes=("environment", "team"),
    formula="ippo of one network in all seats;  in half of the steps one seat is the network of k steps ago",
    conventions={
        **IPPO.conventions,
        "world": "games of OpenSpiel and PettingZoo; the original's are in Java",
        "agents": "one network in all seats, told its seat by a one-hot number; a game of several numbers of players "
        "tells that number, too",
        "rewards": "what the game pays, at the last move before",
        "former selves": "a copy every 5 steps; in half of the steps one of the 4 latest has a seat of every game",
        "scripted opponents": "chance and tree search by the task's `against`; the paper's pool has both",
    },
    task="openspiel:tic_tac_toe?kind=control",
    requires=(Requirement.AGENTS,),
    hooks=(FormerSelf(),),
)

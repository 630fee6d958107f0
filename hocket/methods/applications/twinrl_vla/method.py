"""TwinRL: a simulator that copies the real task widens and guides what real-world RL explores (TwinRL-VLA, abstract).

Online RL explores little beyond what supervised data cover. So before and between dear real episodes a cheap twin is
asked, three times:

1. the warm-up imitates demonstrations of a person, and beside them those of the twin, begun where nobody demonstrated;
2. the policy learns by RL in the twin;
3. then it learns in reality, and real episodes begin where the twin says that this policy fails at times: a start's
   odds are in proportion to `p (1 - p)`, p its success among episodes of the twin. In every second step a person is
   beside, who takes over where the time left is hardly enough.

What a person does is imitated, `-log pi(a | s)` (`Imitation`), all else learnt by PPO; advantages run across both.

The abstract states the three uses of the twin and no loss. Chosen here: PPO, `p (1 - p)` for "failure-prone yet
informative", and the person's rule. A point behind a wall stands in for manipulation, and a survey with errors (a gate
that is elsewhere, moves that are turned and shorter) for a scene reconstructed from pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.credit.forced_decisions import TaughtToo
from hocket.methods.applications.twinrl_vla.world import CELLS, LENGTH, SHOWN, Reach, Starts, cells
from hocket.methods.base.ppo import PPO
from hocket.objectives.imitation import Imitation
from hocket.objectives.value import ValueLoss
from hocket.rollout.joint import JointController, JointPlayer
from hocket.stages import Hook, HookContext, Player, State
from hocket.types import Assignment, Trajectory

HANDS = 0.2
"""The deviation of a person's actions."""

SLACK = 2.0
"""A person takes over where so many moments are left beyond those that are needed."""

Takes = Callable[[NDArray[np.float32]], NDArray[np.bool_]]
"""Whether a person acts at `[B, 5]`, `[B]`."""


@dataclass(frozen=True)
class GuidedController:
    """A policy, beside which a person of a world acts where `takes` says so."""

    policy: JointController
    world: Reach
    takes: Takes

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def version(self) -> int:
        return self.policy.version

    @property
    def draws(self) -> int:
        return self.policy.draws

    def sample(
        self,
        observations: NDArray[np.float32],
        uniforms: NDArray[np.float64],
        temperature: NDArray[np.float32],
        allowed: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Actions `[B, 2]`; log-probs are the policy's, and without meaning where the person acts."""
        actions, logp = self.policy.sample(observations, uniforms, temperature, allowed)
        hands = self.world.shown(observations) + HANDS * ndtri(np.clip(uniforms[:, :2], 1e-9, 1 - 1e-9))
        taken = self.takes(observations)
        return np.where(taken[:, None], hands, actions).astype(np.float32), logp


class GuidedPlayer(JointPlayer):
    """A `JointPlayer` whose policies are a `GuidedController`; what the person did is recorded as forced."""

    async def play(self, assignments: Sequence[Assignment], *, key: Key) -> list[Trajectory]:
        trajectories = await super().play(assignments, key=key)
        takes = next(iter(self.policies.values())).takes  # type: ignore[attr-defined]
        for trajectory in trajectories:
            for turn in trajectory.turns:
                turn.forced = takes(np.asarray(turn.observation, np.float32))
        return trajectories


@dataclass(frozen=True)
class TwinFirst(Hook):
    """Warm-up, RL in the twin, then RL in reality from starts that the twin chooses; see the module.

    Attributes:
        warm: steps of imitation, every second of them of the twin where `widened`; else all are of the person's.
        twin: steps of RL in the twin. targeted: whether the twin chooses where real episodes begin.
        probes: episodes of the twin for that, before each step. beside: in every so many-th real step a person is; 0
            for none.
    """

    warm: int = 12
    widened: bool = True
    twin: int = 16
    targeted: bool = True
    probes: int = 192
    beside: int = 2

    def __post_init__(self) -> None:
        if min(self.warm, self.twin, self.beside) < 0 or self.probes < 1:
            raise ValueError(
                f"warm, twin and beside are at least 0 and probes at least 1, not {self.warm}, {self.twin}, "
                f"{self.beside} and {self.probes}"
            )

    def check(self, run: HookContext) -> None:
        super().check(run)
        if not isinstance(run.player, JointPlayer) or not isinstance(run.player.world, Reach):
            raise ConfigurationError(
                f"recipe {run.method} learns in the twin of a world, and task {run.task.name} has none; use "
                "--task reach"
            )

    def real(self, step: int) -> bool:
        """Whether a step is one of RL in reality."""
        return step > self.warm + self.twin

    async def before(self, run: HookContext, step: int, memory: Any) -> Any:
        """Lets the policy play in the twin, where the next real episodes are to be chosen by it."""
        if not (self.targeted and self.real(step)):
            return memory
        joint = cast(JointPlayer, run.player)
        player = replace(joint, world=replace(cast(Reach, joint.world), twin=True), _open=[])
        scenarios = [run.task.scenario("train", number) for number in range(self.probes)]
        played = await player.play([Assignment(each) for each in scenarios], key=run.key.derive("probes", step))
        player.close()
        return {"odds": list(informative(played))}

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        joint = cast(JointPlayer, player)
        world = cast(Reach, joint.world)
        if step <= self.warm:
            shown = replace(world, twin=True) if self.widened and step % 2 == 0 else replace(world, starts=SHOWN)
            return self._beside(joint, shown, lambda seen: np.ones(len(seen), bool))
        if not self.real(step):
            return replace(joint, world=replace(world, twin=True), _open=[])
        chosen = replace(world, starts=Starts(tuple(memory["odds"]))) if memory else world
        if self.beside and (step - self.warm - self.twin) % self.beside == 0:
            return self._beside(joint, chosen, lambda seen: LENGTH * seen[:, 2] - world.needs(seen) < SLACK)
        return replace(joint, world=chosen, _open=[])

    def _beside(self, joint: JointPlayer, world: Reach, takes: Takes) -> JointPlayer:
        held = {field.name: getattr(joint, field.name) for field in fields(joint)}
        policies = {name: GuidedController(policy, world, takes) for name, policy in joint.policies.items()}
        return GuidedPlayer(**{**held, "world": world, "policies": policies, "_open": []})

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        if result.batch is not None:
            result.metrics["twin/real"] = float(self.real(step))
            result.metrics["twin/taught"] = float(result.batch.forced.float().mean())
        return memory

    def restore(self, state: State, run: HookContext) -> Any:
        return {name: list(odds) for name, odds in state.items()}


def informative(played: Sequence[Trajectory]) -> NDArray[np.float64]:
    """p (1 - p) of every cell of starts, `[N]`, p its share of successes with one more success and one more failure."""
    begun = np.stack([np.asarray(each.turns[0].observation)[0, :2] for each in played]).astype(np.float64)
    count, size = cells(begun), CELLS[0] * CELLS[1]
    solved = np.array([each.terminated for each in played], np.float64)
    share = (np.bincount(count, solved, size) + 1) / (np.bincount(count, minlength=size) + 2)
    return np.asarray(share * (1 - share), np.float64)


TWINRL_VLA = PPO.but(
    name="twinrl-vla",
    title="TwinRL: a digital twin that widens and guides exploration",
    source="TwinRL-VLA: Digital Twin-Driven Reinforcement Learning for Real-World Robotic Manipulation, abstract",
    catalogue_ids=("twinrl-vla",),
    axes=("rollout", "data", "environment", "policy"),
    formula="L = ppo - 1/T sum_(t by a person) log pi(a_t | s_t):  on demonstrations, real ones and wider ones of the "
    "twin;  then in the twin;  then in reality, from starts with odds p (1 - p), p the success in the twin",
    conventions={
        **PPO.conventions,
        "warm-up": "12 steps, every second of which has demonstrations of the twin",
        "RL in the twin": "16 steps",
        "informative": "p (1 - p) of 48 cells of the region of starts, of 192 episodes in the twin before each step",
        "person": "scripted; in every second real step it takes over where hardly enough time is left",
        "imitation": "over the number of all decisions, so that few of a person's weigh little",
        "world": "a point behind a wall stands in for a robot's arm, a network of 5 numbers for a model of vision",
    },
    task="reach",
    credit=TaughtToo(),
    regularisers=(ValueLoss(coefficient=0.5, aggregate="token-mean"), Imitation()),
    hooks=(TwinFirst(),),
)

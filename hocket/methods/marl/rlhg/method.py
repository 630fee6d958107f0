"""RLHG: an agent that is paid for what its partner reaches above what it reaches anyway.

First an agent learns its task alone, and V, what the partner reaches beside it from each state on, is its primitive
value. From then on V is fixed, and the agent learns its task and the partner's gain above V, of which losses do not
count:

    A(s, a) + share * (E[ max(0, G - V(s)) | s, a ] - D(s)),    D(s) = E[ max(0, G - V(s)) | s ],

G what the partner reaches from there on. Where the agent can change nothing about G the second term is 0 for every
action, however much the partner reaches.

Source: Gao et al., "Enhancing Human Experience in Human-Agent Collaboration: A Human-Centered Modeling Approach Based
on Positive Human Gain", arXiv:2401.16444, of which the abstract, the two stages and the two value networks (primitive
value, and expected positive gain upon it) were at hand. Ours are: the advantage above, where the paper's estimator was
not at hand; its expectations are exact, by the law of G, in a small world with a scripted partner who stands in for
people; steps are a natural policy gradient's; all episodes have a partner, where the paper keeps a share without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, softmax
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.methods.marl.rlhg.companions import Companion


@dataclass(frozen=True)
class HumanGain(Solver):
    """See the module.

    Attributes:
        share: of the gain beside the task. alone: steps in which the task is learnt alone. rate: of a step.
    """

    world: ClassVar[type] = Companion

    share: float = 0.1
    alone: int = 100
    rate: float = 3.0

    def __post_init__(self) -> None:
        if self.share < 0 or self.alone < 0 or self.rate < 0:
            raise ConfigurationError(
                f"method.share = {self.share}, method.alone = {self.alone}, method.rate = {self.rate}: none is below 0"
            )

    def init(self, world: Companion, key: Key) -> State:
        return {
            "logits": np.zeros(world.process.shape),
            "primitive": np.zeros((world.horizon, world.process.states)),
            "steps": np.array(0),
        }

    def step(self, world: Companion, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        policy, steps = softmax(state["logits"]), int(state["steps"])
        primitive = world.partner.solved(policy).value[:-1] if steps <= self.alone else state["primitive"]
        climb = advantage(world.process.solved(policy).quality, policy)
        gained = gain(world, policy, primitive)
        if steps >= self.alone:
            climb = climb + self.share * advantage(gained, policy)
        after = {"logits": state["logits"] + self.rate * climb, "primitive": primitive, "steps": np.array(steps + 1)}
        moved = softmax(after["logits"])
        return after, {
            "task": world.process.value(moved),
            "partner": world.partner.value(moved),
            "gain": float(world.process.start @ (policy[0] * gained[0]).sum(-1)),
        }

    def answer(self, world: Companion, state: State) -> Array:
        return softmax(state["logits"])


def gain(world: Companion, policy: Array, primitive: Array) -> Array:
    """`E[max(0, G - V(s)) | s, a]` at each step, `[H, S, A]`.

    Args:
        policy: who plays on, `[H, S, A]`. primitive: V, `[H, S]`.
    """
    chances = world.reached(policy)
    above = np.maximum(0, np.arange(chances.shape[-1]) - primitive[..., None])
    found: Array = np.einsum("hsak,hsk->hsa", chances, above)
    return found


def advantage(quality: Array, policy: Array) -> Array:
    """Of each action over the policy's mean, `[H, S, A]`."""
    found: Array = quality - (policy * quality).sum(-1, keepdims=True)
    return found


RLHG = SolverMethod(
    name="rlhg",
    description="an agent paid for what its partner reaches above what it reaches anyway",
    solver=HumanGain(),
    world="companion:4x10",
    steps=300,
    source="Gao et al., Enhancing Human Experience in Human-Agent Collaboration, arXiv:2401.16444",
)

"""EIR-MAPPO: a team in which anybody may be a traitor, as a Bayesian game (Li et al., arXiv:2305.12872).

In worlds with `?traitor=0.5` (`Betrayed` of `hocket.methods.marl.bardec_pomdp.traitor`) nature draws at the beginning
of an episode who is Byzantine, if anybody: there an adversary policy decides, whose pay is minus the team's. The others
are not told, and hold a belief of everybody's type,

    b_i(theta_j = 1 | o_i1..o_it),  trained by  -sum_j [theta_j log b_ij + (1 - theta_j) log(1 - b_ij)],

that minimises its cross-entropy at the posterior of Bayes' rule. Actors read it beside what they see,
`pi_i(a | o_i, b_i)`; the critic, needed in training alone, reads the types themselves. Both sides learn by PPO with a
central critic, the adversary on the fast timescale and the team on the slow one, so that the team meets one that
answers it: the solution is a robust Bayesian equilibrium, in which beliefs follow from what was seen. Formulas and
what the conventions call the code's are the released code's (DIG-Beihang/EIR-MAPPO).

`TypeLoss` trains the belief (`Suspicion`), `TwoTimescales` says who learns when. The relatives: the team that believes
to the end what it believed at first, robust ex ante alone, and the attack, under which the team stays as it is:

    hocket train --task "dilemma:gathering?traitor=0.3" \
        --plan '[{recipe: bardec-pomdp, steps: 200}, {recipe: bardec-pomdp-attack, steps: 100}]'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hocket.core.batch import Batch, Level
from hocket.core.casting import Shared
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.methods.base.mappo import MAPPO
from hocket.methods.marl.bardec_pomdp.traitor import TRAITOR, Betrayed
from hocket.policies.beliefs import Belief, BeliefForm, Paths
from hocket.policies.control_bodies import Memory
from hocket.policies.control_networks import Perceptron
from hocket.rollout.joint import JointPlayer
from hocket.stages import Hook, HookContext, Objective
from hocket.types import Evaluation, Quantity, Terms


class Suspicion(Belief):
    """How likely each member is the traitor, by all that was seen so far: a gated unit, then a sigmoid for each."""

    def __init__(self, inputs: int, hidden: Sequence[int], members: int, *, key: Key) -> None:
        super().__init__()
        self.memory = Memory(inputs, hidden, key=key.derive("memory"))
        self.judged = Perceptron((self.memory.carries, members), last_gain=0.01, key=key.derive("judged"))
        self.size, self.carries = members, self.memory.carries

    def step(self, seen: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        state = self.memory.onto(seen, carried)
        return torch.sigmoid(self.judged(state)), state

    def forward(self, seen: Tensor) -> Tensor:
        return torch.sigmoid(self.judged(self.memory.states(seen)))

    def told(self, paths: Paths) -> Tensor:
        """The log-odds of every member, `[U, L, n]`."""
        odds: Tensor = self.judged(self.memory.states(paths.seen))
        return odds


@dataclass(frozen=True)
class SuspicionForm(BeliefForm):
    """How a `Suspicion` is made; see `TypeLoss`."""

    hidden: tuple[int, ...]
    members: int

    def build(self, observations: int, actions: int, *, discrete: bool, key: Key) -> Suspicion:
        return Suspicion(observations, self.hidden, self.members, key=key)


@dataclass(frozen=True)
class TypeLoss(Objective):
    """`-coefficient sum_j [theta_j log b_j + (1 - theta_j) log(1 - b_j)]`, its mean over the members' decisions.

    theta are the types with which the joint state ends. What the traitor believes, who knows, is not learnt.

    Attributes:
        hidden: layers of the belief, the last of which is its gated unit. members: of the team.
    """

    coefficient: float = 1.0
    hidden: tuple[int, ...] = (32,)
    members: int = 3

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.BELIEF})
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.coefficient < 0 or self.members < 2 or not self.hidden or min(self.hidden) < 1:
            raise ValueError(
                "coefficient must be at least 0, members at least 2 and the layers of hidden at least 1, not "
                f"{self.coefficient}, {self.members} and {list(self.hidden)}"
            )

    @property
    def policy_parts(self) -> tuple[SuspicionForm, ...]:
        """The belief that it trains."""
        return (SuspicionForm(self.hidden, self.members),)

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        decision = batch.occurrences.decision
        told = now.get(Quantity.BELIEF)
        if told.dim() == 1:  # Nothing counts here (a mini-batch without a decision of its own), so nothing was told.
            told = told[:, None].expand(-1, self.members)
        odds, types = told[decision], types_of(batch, self.members)[decision]
        surprise = functional.binary_cross_entropy_with_logits(odds, types.to(odds), reduction="none").sum(1)
        counted = (batch.occurrences.weight != 0) & true_members(batch)[decision]
        weight = counted.to(surprise.dtype) / counted.sum().clamp(min=1)
        shown = {"belief/surprise": (surprise.detach() * weight).sum()}
        return Terms(self.coefficient * surprise, weight, Level.DECISION, shown)


def types_of(batch: Batch, members: int) -> Tensor:
    """Which members were traitors at each decision, `[T, n]` of 0 and 1."""
    if not batch.joint or any(one is None for one in batch.joint):
        raise ConfigurationError("types stand in the joint state, and these turns have none; take a task with traitor=")
    rows = np.concatenate([np.asarray(one, np.float32)[:, -members:] for one in batch.joint])
    return torch.from_numpy(rows)


def true_members(batch: Batch) -> Tensor:
    """Which decisions are not the traitor's, `[T]` bool."""
    names = batch.names["agent"]
    code = names.index(TRAITOR) if TRAITOR in names else -1
    return batch.agent[batch.turn] != code


@dataclass(frozen=True)
class TwoTimescales(Shared):
    """A policy for the traitor, which learns at every step, and one for the team, which learns at some.

    Attributes:
        every: the team learns at every so many steps; 0 for never.
    """

    every: int = 2

    def __post_init__(self) -> None:
        if self.every < 0:
            raise ValueError(f"cast.every must be at least 0, not {self.every}")

    def policy(self, role: str) -> str | None:
        return TRAITOR if role == TRAITOR else None

    def learning(self, policies: Sequence[str], step: int) -> frozenset[str]:
        slow = self.every > 0 and step % self.every == 0
        return frozenset(policies) if slow else frozenset(policies) & {TRAITOR}


@dataclass(frozen=True)
class Byzantine(Hook):
    """A run in a world where one of the team may be a traitor.

    Raises:
        ConfigurationError: in another, and where beliefs are of another number of members.
    """

    def check(self, run: HookContext) -> None:
        super().check(run)
        world = run.player.world if isinstance(run.player, JointPlayer) else None
        if not isinstance(world, Betrayed):
            raise ConfigurationError(
                f"recipe {run.method} trains a team of whom one may be a traitor, and in task {run.task.name} nobody "
                "can be; choose a task such as forage:5x5-3p-1f?traitor=0.5"
            )
        for policy in run.trained.values():
            held = getattr(policy.module, "beliefs", None)
            if held is not None and held.learnt.size != world.team:
                raise ConfigurationError(
                    f"recipe {run.method} believes something of {held.learnt.size} members, and task {run.task.name} "
                    f"has {world.team}; set the members of its TypeLoss to {world.team}"
                )


BARDEC_POMDP = MAPPO.but(
    name="bardec-pomdp",
    title="Robust teams as a Bayesian game: beliefs of who is a traitor",
    source="Li et al., Byzantine Robust Cooperative MARL as a Bayesian Game, arXiv:2305.12872; released code "
    "DIG-Beihang/EIR-MAPPO",
    catalogue_ids=("bardec-pomdp",),
    axes=("team", "system", "objective"),
    survives=("partners",),
    formula="members:  PPO of pi(a_i | o_i, b_i),  b_i = sigmoid(w GRU(o_i1..o_it)) trained by "
    "-sum_j [theta_j log b_ij + (1 - theta_j) log(1 - b_ij)],  V of the state and the types theta;  "
    "adversary:  PPO on minus the team's pay, at every step, the members at every second",
    conventions={
        **MAPPO.conventions,
        "types": "one of the team at most, drawn evenly, with the probability that the task tells; the code draws "
        "more often whom it costs the team most",
        "belief": "a probability for every member, apart, as in the code; actor and critic read it as it was when the "
        "batch was sampled, and no gradient of theirs passes into it",
        "critic": "reads the types; the paper's reads the beliefs",
        "adversary": "sees what the member in whose place it is would see, and the place; the code's is told besides "
        "what the others are about to do",
        "timescales": "the team learns at every second step, at the same rate; the theorem has two rates, and the code "
        "as many steps of the adversary as it is told",
        "teacher forcing": "none; the code lets actors read the true types at first",
    },
    note="shown in a matrix game; in level-based foraging (4x4, three players, one food, one seed) a traitor that "
    "learnt took nothing from the others, who had beliefs (.33 each, .29 without a traitor) or had been trained "
    "without traitors (.32, .30), so that a lower loss under attack could not be seen",
    task="dilemma:gathering?traitor=0.3",
    requires=(Requirement.AGENTS,),
    regularisers=(*MAPPO.regularisers, TypeLoss()),
    cast=TwoTimescales(),
    hooks=(Byzantine(),),
)


EX_ANTE = BARDEC_POMDP.but(
    name="bardec-pomdp-ex-ante",
    title="Robust teams that believe to the end what they believed at first",
    formula="as bardec-pomdp, without beliefs",
    regularisers=MAPPO.regularisers,
)


ATTACK = BARDEC_POMDP.but(
    name="bardec-pomdp-attack",
    title="A traitor against a team that stays as it is",
    formula="as bardec-pomdp, the members never learning",
    **{"cast.every": 0},
)

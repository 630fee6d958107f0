"""MAPO-LSO: MAPPO whose agents read a latent that has learnt how the world goes on (Huh and Mohapatra, 2406.02890).

What agent i saw so far is summed up in `z^i_t`, by a gated recurrent unit that all share; actor and critic read it
beside what is seen. It is trained by what the team can tell together. Moments of agents, drawn at random, are blanked,
and from `z~` of what is left, with the others' help, must be told

    dynamics:  what is seen, |o^_t - o_t|^2,  what is paid, (r^_t - r_t)^2,  the next latent, |z^_{t+1} - z-_{t+1}|^2,
    foretold:  - sum_k cos( z^_{t+k}, z-_{t+k} ),  k = 1..K, after the moves a_t..a_{t+k-1} alone,
    undone:    - log p(a_t | z~_t, z~_{t+1}).

`z-` is a slow copy of the encoder that reads everything; no gradient passes into it. The loss is `L_mappo +
c1 dynamics + c2 (foretold + undone)`; with both at 0 there is no latent, and the run is MAPPO's.

That the two groups are reconstruction of the joint transition under a recurrent model and self-prediction with masks,
forward and inverse models is said in summaries of the paper; its weights, masks and networks could not be read, so they
are ours. A head that reads the whole team would need a team of fixed size, so every joint prediction is a sum: agent
i's own share and the mean of the others', `own(z^i) + mean_{j != i} other(z^j)`, in any number and order.

`Latents` (a belief of `hocket.policies.beliefs`) is the network, `LatentLoss` the loss, `SlowTarget` moves z-.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hocket.core.batch import Batch, Level
from hocket.core.keys import Key, uniforms
from hocket.core.outcomes import StepResult
from hocket.core.requirements import Requirement
from hocket.core.signals import rewards_by_occurrence
from hocket.methods.base.mappo import MAPPO
from hocket.policies.beliefs import BeliefForm, Paths, RecurrentBelief
from hocket.policies.control_bodies import Memory
from hocket.policies.control_networks import Perceptron
from hocket.stages import Hook, HookContext, Objective
from hocket.types import Evaluation, Quantity, Terms


class Latents(RecurrentBelief):
    """A carried latent, and every agent's shares in what the team tells.

    Attributes:
        slow: the encoder whose latents are to be told; see `SlowTarget`.
    """

    def __init__(
        self, inputs: int, actions: int, hidden: Sequence[int], ahead: int, *, masked: float, discrete: bool, key: Key
    ) -> None:
        super().__init__(inputs, hidden, key=key.derive("carried"))
        self.actions, self.ahead, self.masked, self.discrete = actions, ahead, masked, discrete
        self.slow = copy.deepcopy(self.memory).requires_grad_(False)
        size = self.carries

        def head(*sizes: int, called: str) -> Perceptron:
            return Perceptron(sizes, last_gain=1.0, key=key.derive(called))

        self.sees = head(size, size, 2 * inputs, called="sees")
        self.earns = head(size + actions, size, 2, called="earns")
        self.goes_on = head(size + actions, size, 2 * size, called="goes on")
        self.foretells = head(size, 2 * size, called="foretells")
        self.undoes = head(2 * size, size, actions, called="undoes")
        self.moves = Memory(actions, (size,), key=key.derive("moves"))

    def shown(self, paths: Paths) -> Tensor:
        """Which moments are not blanked, `[U, L, 1]`, 0 or 1."""
        words, number = np.uint64(paths.key.word), paths.decision.numpy().astype(np.uint64)
        drawn = torch.from_numpy(uniforms(np.full(number.shape, words), number))
        return (drawn >= self.masked).to(paths.seen)[..., None]

    def told(self, paths: Paths) -> Tensor:
        """One behind the other what `Told` names."""
        seen = paths.seen
        latent = self(seen * self.shown(paths))
        made = self._made(paths)
        both = torch.cat([latent, made], -1)
        found = [self.sees(latent), self.earns(both), self.goes_on(both)]
        state, steps = latent.flatten(0, 1), torch.arange(seen.shape[1])
        for ahead in range(self.ahead):
            later = (steps + ahead).clamp(max=steps[-1])
            state = self.moves.onto(made[:, later].flatten(0, 1), state)
            found.append(self.foretells(state).reshape(*seen.shape[:2], -1))
        after = latent[:, (steps + 1).clamp(max=steps[-1])]
        found.append(self._surprise(self.undoes(torch.cat([latent, after], -1)), paths.action)[..., None])
        return torch.cat([*found, self.slow.states(seen), seen], -1)

    def _made(self, paths: Paths) -> Tensor:
        """The moves as networks read them, `[U, L, A]`."""
        if not self.discrete:
            return paths.action.to(paths.seen)
        return functional.one_hot(paths.action.long(), self.actions).to(paths.seen)

    def _surprise(self, said: Tensor, action: Tensor) -> Tensor:
        """How far from the moves made is what was said of them, `[U, L]`: nats, or half a square."""
        if not self.discrete:
            return (said - action).square().sum(-1) / 2
        return -torch.log_softmax(said, -1).gather(-1, action.long()[..., None])[..., 0]


class Told(NamedTuple):
    """What `Latents` tells at E decisions. Where a head has two shares its own stands before the others'.

    Attributes:
        sees: `[E, 2 O]`. earns: `[E, 2]`. goes_on: `[E, 2 Z]`. foretells: for each k, `[E, 2 Z]`.
        undone: `[E]`. target: of the slow encoder, `[E, Z]`. seen: `[E, O]`.
    """

    sees: Tensor
    earns: Tensor
    goes_on: Tensor
    foretells: tuple[Tensor, ...]
    undone: Tensor
    target: Tensor
    seen: Tensor

    @classmethod
    def of(cls, told: Tensor, size: int, ahead: int) -> Told:
        """From `[E, D]`, of latents of so many numbers."""
        inputs = (told.shape[1] - 3 - (2 * ahead + 3) * size) // 3
        widths = [2 * inputs, 2, *[2 * size] * (1 + ahead), 1, size, inputs]
        sees, earns, goes_on, *foretells, undone, target, seen = torch.split(told, widths, 1)
        return cls(sees, earns, goes_on, tuple(foretells), undone[:, 0], target.detach(), seen.detach())


@dataclass(frozen=True)
class LatentsForm(BeliefForm):
    """How `Latents` are made; see `LatentLoss`."""

    hidden: tuple[int, ...]
    ahead: int
    masked: float

    def build(self, observations: int, actions: int, *, discrete: bool, key: Key) -> Latents:
        return Latents(observations, actions, self.hidden, self.ahead, masked=self.masked, discrete=discrete, key=key)


@dataclass(frozen=True)
class LatentLoss(Objective):
    """`dynamics (|o^ - o|^2 / O + (r^ - r)^2 + |z^ - z-|^2 / Z) + foretold (-sum_k cos(z^_k, z-_k) - log p(a))`.

    The mean over decisions; what is told of a moment after a turn's end counts nothing. With both coefficients at 0
    there is no latent.

    Attributes:
        dynamics, foretold: coefficients. ahead: the largest k. masked: the share of moments that are blanked.
        hidden: layers of the latent, the last of which it is.
    """

    dynamics: float = 1.0
    foretold: float = 1.0
    ahead: int = 3
    masked: float = 0.2
    hidden: tuple[int, ...] = (32,)

    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if min(self.dynamics, self.foretold) < 0 or self.ahead < 1 or not self.hidden or min(self.hidden) < 1:
            raise ValueError(
                "dynamics and foretold must be at least 0, ahead and the layers of hidden at least 1, not "
                f"{self.dynamics}, {self.foretold}, {self.ahead} and {list(self.hidden)}"
            )
        if not 0 <= self.masked < 1:
            raise ValueError(f"masked must lie in [0, 1), not {self.masked}")

    @property
    def acts(self) -> bool:
        """Whether there is a latent at all."""
        return self.dynamics + self.foretold > 0

    @property
    def needs(self) -> frozenset[Quantity]:
        return frozenset({Quantity.BELIEF}) if self.acts else frozenset()

    @property
    def couples(self) -> Level:
        return Level.TRAJECTORY if self.acts else Level.DECISION

    @property
    def policy_parts(self) -> tuple[LatentsForm, ...]:
        """The latent that it trains, where there is one."""
        return (LatentsForm(self.hidden, self.ahead, self.masked),) if self.acts else ()

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen = batch.occurrences
        counted = seen.weight != 0
        if not self.acts:
            return Terms(now.logp.new_zeros(len(seen)), counted.to(now.logp.dtype), Level.DECISION)
        told = Told.of(now.get(Quantity.BELIEF)[seen.decision], self.hidden[-1], self.ahead)
        cell, turn = moments(batch), batch.turn[seen.decision]
        weight = counted.to(told.seen.dtype) / counted.sum().clamp(min=1)
        paid = rewards_by_occurrence(batch).to(told.seen)[:, None]
        now_seen = (joint(told.sees, cell) - told.seen).square().mean(1)
        earned = (joint(told.earns, cell) - paid).square().mean(1)
        target, there = ahead(told.target, turn, 1)
        onward = there * (joint(told.goes_on, cell) - target).square().mean(1)
        undone, alike = there * told.undone, torch.zeros_like(onward)
        for k, shares in enumerate(told.foretells, start=1):
            target, still = ahead(told.target, turn, k)
            alike = alike + still * functional.cosine_similarity(joint(shares, cell), target, dim=1)
        term = self.dynamics * (now_seen + earned + onward) + self.foretold * (undone - alike)
        figures = {"seen": now_seen, "earned": earned, "onward": onward, "alike": alike / self.ahead, "undone": undone}
        means = {f"latent/{name}": (one.detach() * weight).sum() for name, one in figures.items()}
        means["latent/least_deviation"] = told.target.std(0).min() if len(seen) > 1 else told.target.new_zeros(())
        return Terms(term, weight, Level.TRAJECTORY, means)


def moments(batch: Batch) -> Tensor:
    """A number for each trajectory's each time, `[E]`: what agents decide at once shares one."""
    seen = batch.occurrences
    if batch.time is None:
        return torch.arange(len(seen))
    time = batch.time[seen.decision]
    span = int(time.max()) + 1 if len(time) else 1
    numbers: Tensor = torch.unique(seen.trajectory * span + time, return_inverse=True)[1]
    return numbers


def joint(shares: Tensor, cell: Tensor) -> Tensor:
    """What a team tells of each member, `[E, W]`: its own share and the mean of those beside it, of `[E, 2 W]`."""
    own, other = shares.chunk(2, 1)
    size = int(cell.max()) + 1 if len(cell) else 0
    total = other.new_zeros(size, other.shape[1]).index_add(0, cell, other)
    beside = torch.bincount(cell, minlength=size)[cell] - 1
    mean: Tensor = (total[cell] - other) / beside.clamp(min=1)[:, None]
    return own + mean


def ahead(values: Tensor, turn: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Values `[E, W]` k decisions later in the same turn, and where there are any, `[E]` of 0 and 1."""
    later = (torch.arange(len(turn)) + k).clamp(max=max(len(turn) - 1, 0))
    there = (turn[later] == turn) & (torch.arange(len(turn)) + k < len(turn))
    return values[later], there.to(values)


@dataclass(frozen=True)
class SlowTarget(Hook):
    """After every step the slow encoder moves towards the learnt one: `slow <- slow + rate (learnt - slow)`."""

    rate: float = 0.3

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate must lie in (0, 1], not {self.rate}")

    async def after(self, run: HookContext, step: int, result: StepResult, memory: Any) -> Any:
        for policy in run.trained.values():
            latents = getattr(getattr(policy.module, "beliefs", None), "learnt", None)
            if isinstance(latents, Latents):
                follow(latents, self.rate)
        return memory


@torch.no_grad()
def follow(latents: Latents, rate: float) -> None:
    """One move of the slow encoder."""
    for slow, learnt in zip(latents.slow.parameters(), latents.memory.parameters(), strict=True):
        slow.lerp_(learnt, rate)


MAPO_LSO = MAPPO.but(
    name="mapo-lso",
    title="MAPO-LSO: multi-agent policy optimisation with a latent of the team's dynamics",
    source="Huh and Mohapatra, Representation Learning For Efficient Deep Multi-Agent Reinforcement Learning, "
    "arXiv:2406.02890",
    catalogue_ids=("mapo-lso",),
    axes=("policy", "objective", "team"),
    formula=MAPPO.formula + ",  pi and V also of z^i_t = GRU(o^i_1..o^i_t),  "
    "+ c1 (|o^_t - o_t|^2 / O + (r^_t - r_t)^2 + |z^_{t+1} - z-_{t+1}|^2 / Z)  "
    "+ c2 (-sum_k cos(z^_{t+k}, z-_{t+k}) - log p(a_t | z~_t, z~_{t+1})),  x^i = own(z~^i) + mean_{j != i} other(z~^j)",
    conventions={
        **MAPPO.conventions,
        "coefficients": "1 and 1",
        "k": "1, 2 and 3",
        "masks": "0.2 of the moments of each agent, drawn anew in every step",
        "joint predictions": "sums of each agent's own share and the mean of the others'; the paper's network over the "
        "whole team could not be read",
        "slow encoder": "moves 0.3 of the way after every step",
        "what acts": "the latent as it was when the batch was sampled, beside what is seen; no gradient of MAPPO "
        "passes into it, where the paper's policies read the latent alone",
        "data": "the batch alone",
        "left out": "pretraining and the model of uncertainty",
    },
    note="in a small particle world its return over the first steps is not told apart from MAPPO's, where the paper's "
    "rises faster",
    requires=(Requirement.AGENTS,),
    regularisers=(*MAPPO.regularisers, LatentLoss()),
    hooks=(SlowTarget(),),
)

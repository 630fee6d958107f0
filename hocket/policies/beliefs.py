"""Parts of control networks that sum up what an agent has seen: beliefs, which actor and critic read beside it.

A belief is computed along a turn from its beginning, like what a recurrent body carries. It is trained by a loss of
its own alone (`Quantity.BELIEF`), never by what actor and critic want; and what these read is a copy, `acting`, that
becomes the learnt one between steps, so that a batch is learnt from with the beliefs it was sampled with.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.control_bodies import Memory
from hocket.policies.control_parts import ControlPart, PartHost
from hocket.policies.turns import at_ends, before, sequences


@dataclass(frozen=True)
class Paths:
    """U turns from their beginnings, in rows of L decisions; where a turn is shorter its last decision fills the row.

    Attributes:
        seen: before each decision, as networks read it, `[U, L, O]`. action: `[U, L]` or `[U, L, A]`.
        decision: which of the batch, `[U, L]`. key: of the step, for draws that a decision's number counts.
    """

    seen: Tensor
    action: Tensor
    decision: Tensor
    key: Key


class Belief(nn.Module, ABC):
    """What sums up what was seen.

    Attributes:
        size: numbers of a belief. carries: numbers carried from decision to decision, 0 before the first.
    """

    size: int
    carries: int

    @abstractmethod
    def step(self, seen: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        """Beliefs `[B, size]` when `[B, O]` is seen next, and what is carried on, `[B, carries]`."""

    @abstractmethod
    def forward(self, seen: Tensor) -> Tensor:
        """Beliefs `[U, L, size]` at every decision of U sequences from their beginning, `[U, L, O]`."""

    @abstractmethod
    def told(self, paths: Paths) -> Tensor:
        """What the loss that trains it reads at every decision, `[U, L, D]`."""


class RecurrentBelief(Belief):
    """A gated recurrent unit whose state is the belief; layers `hidden[:-1]` with tanh stand before it."""

    def __init__(self, inputs: int, hidden: Sequence[int], *, key: Key) -> None:
        super().__init__()
        self.memory = Memory(inputs, hidden, key=key)
        self.size = self.carries = self.memory.carries

    def step(self, seen: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        state = self.memory.onto(seen, carried)
        return state, state

    def forward(self, seen: Tensor) -> Tensor:
        return self.memory.states(seen)


class Beliefs(nn.Module):
    """A belief that is learnt, and the copy of it that acts."""

    def __init__(self, learnt: Belief) -> None:
        super().__init__()
        self.learnt = learnt
        self.acting = copy.deepcopy(learnt).requires_grad_(False)

    @torch.no_grad()
    def go_on(self) -> None:
        """What acts becomes what was learnt."""
        for mine, new in zip(self.acting.parameters(), self.learnt.parameters(), strict=True):
            mine.copy_(new)


class BeliefForm(ControlPart):
    """How a belief is made, and what has the policy read it: a part that the stage states whose loss trains it."""

    needed: ClassVar[str] = "a belief that a loss of its own trains"
    advice: ClassVar[str] = "choose a task such as recall:bandit, or another recipe"
    recurrent: ClassVar[bool] = True
    groups: ClassVar[Mapping[str, str]] = {"belief": "beliefs"}

    @abstractmethod
    def build(self, observations: int, actions: int, *, discrete: bool, key: Key) -> Belief:
        """A fresh belief of what a policy sees and does, its weights drawn from the key."""

    def begin(self, host: PartHost) -> None:
        if host.action_form is not None:
            raise ConfigurationError(
                "a belief reads one choice for every decision, and here an action is a function with arguments; use "
                "sc2le, or a task such as recall:bandit"
            )
        if host.module.beliefs is not None or host.module.critic is not None:
            there = "another belief" if host.module.beliefs is not None else "a critic without a belief"
            raise ConfigurationError(f"policy {host.name!r} has {there} already; train it anew")
        key = host.key.derive("belief")
        host.module.beliefs = Beliefs(self.build(host.observations, host.actions, discrete=host.discrete, key=key))

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {"belief": repr(self)}

    def behind(self, host: PartHost) -> int:
        return beliefs_of(host).learnt.size

    def read(self, host: PartHost, batch: Batch, chosen: Tensor, seen: Tensor, *, critic: bool) -> Tensor:
        return torch.cat([seen, acting_beliefs(host, batch)[chosen]], 1)

    def read_last(self, host: PartHost, batch: Batch, rows: Sequence[int], last: Tensor, seen: Tensor) -> Tensor:
        read = host.as_read(host.observed(batch))
        ends = [torch.cat([read[path], end[None]]) for path, end in zip(before(batch, rows), last, strict=True)]
        with torch.no_grad():
            return torch.cat([seen, at_ends(beliefs_of(host).acting, ends)], 1)

    def carries(self, host: PartHost) -> int:
        return beliefs_of(host).acting.carries

    def step(self, host: PartHost, seen: Tensor, carried: Tensor) -> tuple[Tensor, Tensor]:
        belief, state = beliefs_of(host).acting.step(seen, carried)
        return torch.cat([seen, belief], 1), state

    def observe(self, host: PartHost, batch: Batch, mine: Tensor) -> None:
        beliefs_of(host).go_on()


def beliefs_of(host: PartHost) -> Beliefs:
    """The beliefs of a policy.

    Raises:
        ValueError: where it has none.
    """
    if host.module.beliefs is None:
        raise ValueError(f"policy {host.name!r} has no belief: attach one first")
    return cast(Beliefs, host.module.beliefs)


def acting_beliefs(host: PartHost, batch: Batch) -> Tensor:
    """What the policy that acts believes before each decision of a batch, `[T, size]`, without gradient."""
    acting = beliefs_of(host).acting

    def along_turns() -> Tensor:
        index, place = sequences(batch, torch.arange(batch.decisions))
        with torch.no_grad():
            beliefs: Tensor = acting(host.as_read(host.observed(batch))[index])[place]
        return beliefs

    return host.cached("beliefs", batch.observation, along_turns)


def belief_outputs(host: PartHost, batch: Batch, chosen: Tensor) -> Tensor:
    """What the belief that is learnt tells its loss at the chosen decisions, `[T, D]`, 0 elsewhere."""
    learnt = beliefs_of(host).learnt
    index, place = sequences(batch, chosen)
    observed = host.as_read(host.observed(batch))[index]
    key = host.key.derive("told", batch.step)
    read = learnt.told(Paths(observed, batch.action[index], index, key))[place]
    return read.new_zeros(batch.decisions, read.shape[1]).index_put((chosen,), read)

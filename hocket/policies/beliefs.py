"""Parts of control networks that sum up what an agent has seen: beliefs, which actor and critic read beside it.

A belief is computed along a turn from its beginning, like what a recurrent body carries. It is trained by a loss of
its own alone (`Quantity.BELIEF`), never by what actor and critic want; and what these read is a copy, `acting`, that
becomes the learnt one between steps, so that a batch is learnt from with the beliefs it was sampled with.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from hocket.core.keys import Key
from hocket.policies.control_bodies import Memory


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


class BeliefForm(Protocol):
    """How a belief is made: what a stage gives as its `belief`."""

    def build(self, observations: int, actions: int, *, discrete: bool, key: Key) -> Belief: ...


class Carried(Belief):
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

"""A softmax over a bandit's answers as a policy, so that a recipe's whole update can be made on it exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.keys import Key
from hocket.lab.bandit import Bandit
from hocket.recipe import Recipe
from hocket.stages import Policy, State
from hocket.types import Evaluation, Quantity
from hocket.update.problem import Problem


class AnswerPolicy:
    """Logits `[K]` of a bandit's answers, float64; its batches are the bandit's samples."""

    granularity = Level.TRAJECTORY

    def __init__(self, bandit: Bandit, logits: Tensor) -> None:
        self.name, self.version = "policy", 0
        self.answers = bandit.answers()
        self.logits = nn.Parameter(logits.detach().clone().double())
        self.module = nn.ParameterList([self.logits])

    @property
    def probs(self) -> Tensor:
        """The distribution, `[K]`."""
        return torch.softmax(self.logits.detach(), -1)

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        return [decisions] if len(decisions) else []

    def evaluate(
        self, batch: Batch, needs: Iterable[Quantity], decisions: Tensor | None = None, **_: Any
    ) -> Evaluation:
        return Evaluation(torch.log_softmax(self.logits, -1)[self.answers])


@dataclass
class Updating:
    """A recipe's updates by plain gradient steps on a bandit, one after another.

    Attributes:
        recipe: its update's optimiser is replaced by gradient descent at `lr`, without clipping.
    """

    recipe: Recipe
    lr: float
    memory: State = field(default_factory=dict)

    def step(self, bandit: Bandit, policy: AnswerPolicy) -> None:
        """One update of the policy from the bandit's samples."""
        update = cast(Any, self.recipe.but({"update.clip_norm": None}).update)
        optimiser = torch.optim.SGD([policy.logits], lr=self.lr)
        needs = frozenset({Quantity.LOGP})
        batch, loss = bandit.batch(self.recipe), self.recipe.loss
        learner = cast(Policy, policy)
        problem = Problem(batch, learner, optimiser, loss, needs, Level.BATCH, False, memory=self.memory)
        update.step(problem, Key.of(0))
        self.memory = problem.memory

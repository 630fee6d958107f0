"""Expectations over every group of samples that a small policy can draw.

    group = EnumeratedGroups(Tabular(world))
    group.gradient(GRPO, 4)  # the expected step on the policy's logits, exact
    group.true_gradient()    # the gradient of the expected reward

A recipe sees each group as a recorded batch of its own, through the microscope, so it is the recipe itself that is
averaged.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hocket.lab.microscope import inspect
from hocket.lab.policy import Tabular
from hocket.lab.world import Answer
from hocket.recipe import Recipe

Row = dict[str, Any]
Document = dict[str, Any]


def document(rows: Sequence[Row]) -> Document:
    """A recorded batch of these trajectories."""
    return {"version": 1, "trajectories": list(rows)}


def recorded(groups: Sequence[Sequence[float]], *, lengths: int | Sequence[Sequence[int]] = 1, **more: Any) -> Document:
    """A batch of groups given by their rewards; log-probs fall from -0.5 with the place. `more` goes into every row."""
    rows = []
    for number, rewards in enumerate(groups):
        for sample, reward in enumerate(rewards):
            size = lengths if isinstance(lengths, int) else lengths[number][sample]
            logp = [-0.5 - 0.01 * place - 0.001 * sample for place in range(size)]
            rows.append({"group": str(number), "scores": {"reward": float(reward)}, "logp": logp, **more})
    return document(rows)


def first_advantages(recipe: Recipe, batch: Document) -> list[float]:
    """The advantage of each trajectory's first decision, in the order of the batch."""
    return [row[0] for row in inspect(recipe, batch)["advantages"]]


class EnumeratedGroups:
    """One question of a world, answered by a policy whose groups are enumerated as multisets of answers."""

    def __init__(self, policy: Tabular, question: int = 0) -> None:
        self.policy, self.question = policy, question
        self.answers: list[Answer] = list(policy.world.answers())
        self.rewards: list[float] = [policy.world.reward(question, answer) for answer in self.answers]
        with torch.no_grad():
            self.chances: list[float] = policy.logp(question).exp().tolist()
            table = torch.log_softmax(policy.logits, -1)
        self._logps: list[list[float]] = []
        self._slopes: list[Tensor] = []
        for answer in self.answers:
            rows = policy.path(question, answer)
            self._logps.append([float(table[row, token]) for row, token in zip(rows, answer, strict=True)])
            slope = torch.zeros(len(rows), *table.shape, dtype=torch.float64)
            for place, (row, token) in enumerate(zip(rows, answer, strict=True)):
                slope[place, row] = -table[row].exp()
                slope[place, row, token] += 1
            self._slopes.append(slope)

    @property
    def success(self) -> float:
        """The expected reward."""
        return sum(chance * reward for chance, reward in zip(self.chances, self.rewards, strict=True))

    def samples(self, size: int) -> Iterator[tuple[float, tuple[int, ...]]]:
        """Every multiset of `size` answers (by number) with its probability."""
        for drawn in itertools.combinations_with_replacement(range(len(self.answers)), size):
            ways = math.factorial(size)
            for count in Counter(drawn).values():
                ways //= math.factorial(count)
            yield ways * math.prod(self.chances[number] for number in drawn), drawn

    def row(self, number: int, group: str = "0", **more: Any) -> Row:
        """An answer as a recorded trajectory."""
        reward = {"reward": self.rewards[number]}
        return {"group": group, "scores": reward, "logp": self._logps[number], **more}

    def step(
        self, recipe: Recipe, rows: Sequence[Row], drawn: Sequence[int], *, state: Mapping[str, Any] | None = None
    ) -> Tensor:
        """What the recipe descends along on the logits when it sees `rows`, the first of which are `drawn`.

        `state` is what its stages remember.
        """
        result = inspect(recipe, {**document(rows), "state": state or {}})
        total = torch.zeros_like(self.policy.logits)
        for number, gradient in zip(drawn, result["gradient"], strict=False):
            total -= torch.einsum("t,trv->rv", torch.tensor(gradient, dtype=torch.float64), self._slopes[number])
        return total.detach()

    def gradient(
        self,
        recipe: Recipe,
        size: int,
        beside: Sequence[Row] = (),
        change: Callable[[Row], Mapping[str, Any]] | None = None,
        *,
        state: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """The expected step on the logits of groups of `size`, each a batch with the rows `beside` it."""
        return self.moments(recipe, size, beside, change, state=state)[0]

    def moments(
        self,
        recipe: Recipe,
        size: int,
        beside: Sequence[Row] = (),
        change: Callable[[Row], Mapping[str, Any]] | None = None,
        *,
        state: Mapping[str, Any] | None = None,
    ) -> tuple[Tensor, float]:
        """The expected step, and the total variance (summed over logits) of the step."""
        mean, square = torch.zeros_like(self.policy.logits), 0.0
        for chance, drawn in self.samples(size):
            rows = [self.row(number) for number in drawn]
            if change is not None:
                rows = [{**row, **change(row)} for row in rows]
            step = self.step(recipe, [*rows, *beside], drawn, state=state)
            mean = mean + chance * step
            square += chance * float(step.square().sum())
        return mean.detach(), square - float(mean.square().sum())

    def true_gradient(self) -> Tensor:
        """The gradient of the expected reward."""
        parts = zip(self.chances, self.rewards, self.slopes, strict=True)
        return sum((chance * reward * slope for chance, reward, slope in parts), torch.zeros_like(self.slopes[0]))

    @property
    def slopes(self) -> list[Tensor]:
        """The gradient of each answer's log-probability on the logits."""
        return [slope.sum(0) for slope in self._slopes]

    def contrast(self) -> Tensor:
        """`E[grad log pi | reward > 0] - E[grad log pi | reward <= 0]`, the direction of any binary contrast."""
        sides = {True: torch.zeros_like(self.policy.logits), False: torch.zeros_like(self.policy.logits)}
        masses = {True: 0.0, False: 0.0}
        for chance, reward, slope in zip(self.chances, self.rewards, self.slopes, strict=True):
            sides[reward > 0] = sides[reward > 0] + chance * slope
            masses[reward > 0] += chance
        return (sides[True] / masses[True] - sides[False] / masses[False]).detach()


def gap(left: Tensor, right: Tensor) -> float:
    """The largest difference, relative to the largest number of both."""
    scale = max(float(left.abs().max()), float(right.abs().max()), 1e-300)
    return float((left - right).abs().max()) / scale

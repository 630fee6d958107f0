"""Listwise preference learning from several scored answers to one prompt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level
from hocket.objectives.aggregate import counted_lengths, trajectory_means, trajectory_sums
from hocket.objectives.measures import LogRatio, Measure, anchored
from hocket.stages import Objective, Stage
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class ListLoss(Stage):
    """A loss of one list."""

    room = "objectives"

    def __call__(self, score: Tensor, label: Tensor) -> Tensor:
        """The loss, a scalar, from the policy's measure of each answer `[K]` and constant labels `[K]`."""
        raise NotImplementedError


@dataclass(frozen=True)
class ListMle(ListLoss):
    """-log of the Plackett-Luce probability of the labels' order; ties keep the list's order."""

    def __call__(self, score: Tensor, label: Tensor) -> Tensor:
        ranked = score[torch.argsort(label, descending=True, stable=True)]
        rest = torch.logcumsumexp(ranked.flip(0), 0).flip(0)
        return (rest - ranked).sum()


@dataclass(frozen=True)
class SoftmaxRanking(ListLoss):
    """-sum_i p_i log softmax(s)_i, p the labels over their sum (ListNet's softmax); 0 for labels of sum 0."""

    def __call__(self, score: Tensor, label: Tensor) -> Tensor:
        share = label / label.sum() if bool(label.sum() > 0) else torch.zeros_like(label)
        return -(share * torch.log_softmax(score, 0)).sum()


@dataclass(frozen=True)
class Listwise(Objective):
    """Minimises the mean over groups of a loss of s_i = beta m(y_i) and labels, the trajectories' advantages.

    A group consists of the counted trajectories of a scenario; groups whose labels are all equal do not count.

    Attributes:
        loss: the loss of one list. measure: the policy's measure of an answer. beta: its scale.
    """

    loss: ListLoss = ListMle()
    beta: float = 0.1
    measure: Measure = LogRatio()

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    couples: ClassVar[Level] = Level.GROUP
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.beta <= 0:
            raise ValueError(f"beta must be positive, not {self.beta}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        logp = now.logp[occurrences.decision]
        gap = logp - anchored(self.measure, batch).to(dtype)
        lengths = counted_lengths(batch)
        score = self.beta * self.measure(trajectory_sums(logp, batch), trajectory_sums(gap, batch), lengths)
        label = trajectory_means(occurrences.advantage.detach(), batch).to(dtype)
        groups = GroupBy("scenario")(batch)
        lists = [torch.nonzero((groups.index == n) & (lengths > 0)).flatten() for n in range(groups.size)]
        informative = [
            bool((label[members] != label[members[0]]).any()) if len(members) else False for members in lists
        ]
        values = [
            self.loss(score[members], label[members]) if used else score.new_zeros(())
            for members, used in zip(lists, informative, strict=True)
        ]
        weight = torch.tensor(informative).to(dtype) / max(sum(informative), 1)
        shares = [ordered(score[m].detach(), label[m]) for m, used in zip(lists, informative, strict=True) if used]
        right = sum(shares) / len(shares) if shares else math.nan
        return Terms(
            torch.stack(values), weight, Level.GROUP, {"lists/total": sum(informative), "lists/accuracy": right}
        )


def ordered(score: Tensor, label: Tensor) -> float:
    """The share of pairs with different labels that the scores order correctly; equal scores count 1/2."""
    better = label[:, None] > label[None, :]
    return float(((score[:, None] - score[None, :]).sign().double()[better] + 1).mean() / 2)

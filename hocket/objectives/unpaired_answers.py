"""Unpaired preference learning from single answers with labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column, InfoColumn
from hocket.objectives.aggregate import counted_lengths, mean, trajectory_means, trajectory_sums
from hocket.objectives.ratios import recorded
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms

SHIFT = InfoColumn("shift", "What implicit rewards are measured from, in reward; 0 where nothing is said.")

Form = Literal["sigmoid", "logistic"]


@dataclass(frozen=True)
class Unpaired(Objective):
    """Raises desirable answers above a reference point, and lowers the others below it.

    Minimises the mean over trajectories of w l(s (r - c)), r = beta (log pi(y) - log ref(y)), s the sign of the
    trajectory's advantage, w its size times `desirable` or `undesirable`, c the column `SHIFT`. Trajectories of
    advantage 0 do not count.

        sigmoid    l(x) = 1 - sigmoid(x)       KTO (arXiv 2402.01306, eq. 8), c its estimate of the divergence;
                                               APO-zero unpaired (arXiv 2408.06266) with c = 0
        logistic   l(x) = -log sigmoid(x)      BCO (arXiv 2404.04656, eq. 12), c the running mean of rewards
    """

    beta: float = 0.1
    form: Form = "sigmoid"
    desirable: float = 1.0
    undesirable: float = 1.0

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.REFERENCE})
    couples: ClassVar[Level] = Level.TRAJECTORY

    def __post_init__(self) -> None:
        if self.form not in get_args(Form):
            raise ValueError(f"form is {self.form!r}; choose from {', '.join(get_args(Form))}")
        if self.beta <= 0 or min(self.desirable, self.undesirable) < 0:
            raise ValueError(
                f"beta must be positive, desirable and undesirable at least 0, not {self.beta}, {self.desirable} and "
                f"{self.undesirable}"
            )

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        gap = now.logp[occurrences.decision] - recorded(batch, "reference")[occurrences.decision].to(dtype)
        reward = self.beta * trajectory_sums(gap, batch)
        verdict = trajectory_means(occurrences.advantage.detach(), batch).to(dtype)
        inside = verdict.sign() * (reward - torch.tensor([row or 0.0 for row in SHIFT.rows(batch)], dtype=dtype))
        value = torch.sigmoid(-inside) if self.form == "sigmoid" else -logsigmoid(inside)
        counted = (counted_lengths(batch) > 0) & (verdict != 0)
        size = verdict.abs() * torch.where(verdict > 0, self.desirable, self.undesirable).to(dtype)
        weight = counted.to(dtype) * size / counted.sum().clamp(min=1)
        return Terms(value, weight, Level.TRAJECTORY, _metrics(reward, inside, verdict, counted))


def _metrics(reward: Tensor, inside: Tensor, verdict: Tensor, counted: Tensor) -> dict[str, Tensor]:
    return {
        "labels/total": counted.sum().double(),
        # On the right side of the point of reference; on it is a guess.
        "labels/accuracy": mean((inside.sign().double() + 1) / 2, counted),
        "labels/desirable": (counted & (verdict > 0)).sum().double(),
        "labels/undesirable": (counted & (verdict < 0)).sum().double(),
        "labels/reward_desirable": mean(reward, counted & (verdict > 0)),
        "labels/reward_undesirable": mean(reward, counted & (verdict < 0)),
    }

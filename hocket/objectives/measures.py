"""Measures of answers: implicit rewards of trajectories, from log-probs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hocket.core.batch import Batch
from hocket.core.columns import Column
from hocket.objectives.ratios import recorded
from hocket.stages import Stage

Divergence = Literal["reverse-kl", "forward-kl", "jensen-shannon", "alpha"]

HIGHEST = 80.0
"""The largest exponent: e^80 is finite in float32; its square is not needed."""


@dataclass(frozen=True)
class Measure(Stage):
    """A number per answer, from the sum of its log-probs, the sum of their gaps to the reference's, and its length.

    `anchors` are the recorded policies for the gaps, as shares by the column of their log-probs; without anchors the
    gaps are the log-probs. `log_ratio` is true for the plain log-ratio to the reference.
    """

    room = "objectives"

    @property
    def anchors(self) -> Mapping[Column, float]:
        return {}

    @property
    def reads(self) -> frozenset[Column]:
        return frozenset(self.anchors)

    @property
    def log_ratio(self) -> bool:
        return False

    def __call__(self, own: Tensor, gap: Tensor, lengths: Tensor) -> Tensor:
        """The measure, elementwise, from sums of log-probs `own`, sums of gaps `gap`, and counted decisions `lengths`.

        All have the same shape.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class LogRatio(Measure):
    """f'(pi(y) / ref(y)), the implicit reward under an f-divergence to the reference (arXiv 2309.16240, table 1).

        reverse-kl      log u                   plain DPO
        forward-kl      1 - 1/u
        jensen-shannon  log(2u / (1 + u))
        alpha           (u^(a - 1) - 1) / (a - 1), log u at a = 1

    The paper's forward KL is -1/u and its alpha divergence (1 - u^-alpha) / alpha, which is this one at a = 1 - alpha.
    Constants cancel in pairs. They are chosen so that at u = 1 all are 0 with slope 1, except for jensen-shannon, whose
    slope is 1/2. Exponents saturate at 80, with gradient 0 beyond.

    Attributes:
        divergence, alpha: see above. length_normalised: divide by the answer's number of decisions.
        old: the share of the behaviour policy in the denominator of the ratio, ref^(1 - old) pi_old^old (INPO,
            arXiv 2407.00617).
    """

    divergence: Divergence = "reverse-kl"
    alpha: float = 0.5
    length_normalised: bool = False
    old: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.old <= 1:
            raise ValueError(f"old must lie in [0, 1], not {self.old}")
        if self.divergence not in get_args(Divergence):
            raise ValueError(f"divergence is {self.divergence!r}; choose from {', '.join(get_args(Divergence))}")

    @property
    def anchors(self) -> Mapping[Column, float]:
        shares = {Column.REFERENCE: 1 - self.old, Column.BEHAVIOUR: self.old}
        return {column: share for column, share in shares.items() if share}

    @property
    def log_ratio(self) -> bool:
        return self.divergence == "reverse-kl" and not self.length_normalised and self.old == 0

    def __call__(self, own: Tensor, gap: Tensor, lengths: Tensor) -> Tensor:
        score = self._score(gap)
        return score / lengths.clamp(min=1) if self.length_normalised else score

    def _score(self, log_ratio: Tensor) -> Tensor:
        if self.divergence == "forward-kl":
            return 1 - (-log_ratio).clamp(max=HIGHEST).exp()
        if self.divergence == "jensen-shannon":
            return math.log(2) + logsigmoid(log_ratio)
        if self.divergence == "alpha" and self.alpha != 1:
            power = self.alpha - 1
            return torch.expm1((power * log_ratio).clamp(max=HIGHEST)) / power
        return log_ratio


@dataclass(frozen=True)
class Likelihood(Measure):
    """log pi(y), without a reference: CPO (arXiv 2401.08417); a mean with `length_normalised`: SimPO (2405.14734).

    With `alpha` other than 0 it is (1 - p^-alpha) / alpha, log p being that measure: AlphaPO (arXiv 2501.03884).
    """

    length_normalised: bool = False
    alpha: float = 0.0

    def __call__(self, own: Tensor, gap: Tensor, lengths: Tensor) -> Tensor:
        score = own / lengths.clamp(min=1) if self.length_normalised else own
        return score if self.alpha == 0 else -torch.expm1((-self.alpha * score).clamp(max=HIGHEST)) / self.alpha


@dataclass(frozen=True)
class Odds(Measure):
    """log(p / (1 - p)), log p the mean log-prob of a decision, without a reference: ORPO (arXiv 2403.07691, eq. 4)."""

    def __call__(self, own: Tensor, gap: Tensor, lengths: Tensor) -> Tensor:
        mean = (own / lengths.clamp(min=1)).clamp(max=-1e-7)  # p = 1 has infinite odds.
        return mean - torch.log(-torch.expm1(mean))


def anchored(measure: Measure, batch: Batch) -> Tensor:
    """The log-probs of a measure's anchors at each occurrence's decision, `[E]`; 0 without anchors."""
    decision = batch.occurrences.decision
    parts = [share * recorded(batch, column.name)[decision] for column, share in measure.anchors.items()]
    return torch.stack(parts).sum(0) if parts else torch.zeros(len(decision))

"""The links of pairwise preference learning: losses of a policy's measures of two answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hocket.core.batch import Level
from hocket.stages import Stage


@dataclass(frozen=True)
class Comparison:
    """Pairs, as the input of a link.

    Attributes:
        beta: the strength of the KL constraint.
        chosen, rejected: the measure of each member, `[P]`.
        margin: h = beta (chosen - rejected) minus the required margin.
        reference: log ref(chosen) - log ref(rejected), `[P]`; 0 without a reference.
        counted: whether each pair counts, `[P]` bool.
    """

    beta: float
    chosen: Tensor
    rejected: Tensor
    margin: Tensor
    reference: Tensor
    counted: Tensor

    def reversed(self) -> Comparison:
        """The comparison with the roles of chosen and rejected exchanged."""
        return replace(self, chosen=self.rejected, rejected=self.chosen, margin=-self.margin, reference=-self.reference)


@dataclass(frozen=True)
class Link(Stage):
    """A loss per pair, `[P]`.

    Attributes:
        each: whether it judges each answer by its own log-ratio to the reference, so that it supports neither margins
            nor other measures. couples: the unit that it couples.
    """

    room = "objectives"
    each: ClassVar[bool] = False
    compares_pairs: ClassVar[bool] = True
    couples: ClassVar[Level] = Level.PAIR

    def __call__(self, pair: Comparison) -> Tensor:
        raise NotImplementedError


@dataclass(frozen=True)
class Logistic(Link):
    """-log sigmoid(h): Bradley-Terry (DPO, arXiv 2305.18290, eq. 7)."""

    def __call__(self, pair: Comparison) -> Tensor:
        return -logsigmoid(pair.margin)


@dataclass(frozen=True)
class Hinge(Link):
    """max(0, 1 - h): SLiC-HF (arXiv 2305.10425), RSO (2309.06657).

    RRHF's max(0, p_l - p_w) (2304.05302) is the hinge on mean log-probs with beta 1 and margin -1.
    """

    def __call__(self, pair: Comparison) -> Tensor:
        return (1 - pair.margin).clamp(min=0)


@dataclass(frozen=True)
class Squared(Link):
    """(h / beta - 1 / (2 beta))^2: IPO (arXiv 2310.12036, eq. 17)."""

    def __call__(self, pair: Comparison) -> Tensor:
        return (pair.margin / pair.beta - 1 / (2 * pair.beta)).square()


@dataclass(frozen=True)
class Exo(Link):
    """KL(q || p), q = (sigmoid(h), sigmoid(-h)), p = (1 - flip, flip): EXO (arXiv 2402.00856, eq. 16)."""

    flip: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 < self.flip < 1:
            raise ValueError(f"flip must lie in (0, 1), not {self.flip}: the divergence is from (1 - flip, flip)")

    def __call__(self, pair: Comparison) -> Tensor:
        first, second = logsigmoid(pair.margin), logsigmoid(-pair.margin)
        return first.exp() * (first - math.log1p(-self.flip)) + second.exp() * (second - math.log(self.flip))


@dataclass(frozen=True)
class Robust(Link):
    """The logistic loss corrected for labels flipped with probability `flip` (arXiv 2403.00409, eq. 12)."""

    flip: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.flip < 0.5:
            raise ValueError(f"flip must lie in [0, 0.5), not {self.flip}")

    def __call__(self, pair: Comparison) -> Tensor:
        right, wrong = -logsigmoid(pair.margin), -logsigmoid(-pair.margin)
        return ((1 - self.flip) * right - self.flip * wrong) / (1 - 2 * self.flip)


@dataclass(frozen=True)
class DiscoPop(Link):
    """(1 - m) (-log sigmoid h) + m e^-h, m = sigmoid(h / temperature): DiscoPOP (arXiv 2406.08414, eq. 5)."""

    temperature: float = 0.05

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive, not {self.temperature}")

    def __call__(self, pair: Comparison) -> Tensor:
        mixed = torch.sigmoid(pair.margin / self.temperature)
        return -logsigmoid(pair.margin) * (1 - mixed) + (-pair.margin).exp() * mixed


# ---------------------------------------------------------------- losses of single answers


@dataclass(frozen=True)
class Nca(Link):
    """NCA of a pair (arXiv 2402.05369, eq. 11), which keeps the chosen answer's likelihood from falling."""

    each: ClassVar[bool] = True

    def __call__(self, pair: Comparison) -> Tensor:
        chosen, rejected = pair.beta * pair.chosen, pair.beta * pair.rejected
        return -logsigmoid(chosen) - 0.5 * logsigmoid(-chosen) - 0.5 * logsigmoid(-rejected)


@dataclass(frozen=True)
class Bco(Link):
    """Binary classification of each answer, without BCO's running mean (arXiv 2404.04656)."""

    each: ClassVar[bool] = True

    def __call__(self, pair: Comparison) -> Tensor:
        return -logsigmoid(pair.beta * pair.chosen) - logsigmoid(-pair.beta * pair.rejected)


@dataclass(frozen=True)
class Sppo(Link):
    """(d_w - 1/(2 beta))^2 + (d_l + 1/(2 beta))^2: SPPO with wins of 1 and 0 (arXiv 2405.00675, eq. 4.7).

    With a target probability t in place of 1 the gradient is that of the goals +-(t - 1/2) / beta.
    """

    each: ClassVar[bool] = True

    def __call__(self, pair: Comparison) -> Tensor:
        goal = 0.5 / pair.beta
        return (pair.chosen - goal).square() + (pair.rejected + goal).square()


@dataclass(frozen=True)
class ApoZero(Link):
    """Raises chosen and lowers rejected answers, for chosen ones better than the model's (arXiv 2408.06266, eq. 7)."""

    each: ClassVar[bool] = True

    def __call__(self, pair: Comparison) -> Tensor:
        return torch.sigmoid(-pair.beta * pair.chosen) + torch.sigmoid(pair.beta * pair.rejected)


@dataclass(frozen=True)
class ApoDown(Link):
    """Lowers both, rejected answers more, for chosen ones worse than the model's (arXiv 2408.06266, eq. 8)."""

    each: ClassVar[bool] = True

    def __call__(self, pair: Comparison) -> Tensor:
        return torch.sigmoid(pair.beta * pair.chosen) + torch.sigmoid(-pair.beta * (pair.chosen - pair.rejected))


# ---------------------------------------------------------------- distributions over the batch


@dataclass(frozen=True)
class Aot(Link):
    """The policy's sorted gaps against the reference's sorted gaps: stochastic dominance over the batch (2406.05882).

    The k-th smallest log pi(chosen) - log pi(rejected) is compared with the k-th smallest of the reference, which may
    be of another pair.
    """

    each: ClassVar[bool] = True
    couples: ClassVar[Level] = Level.BATCH

    def __call__(self, pair: Comparison) -> Tensor:
        gap = pair.chosen - pair.rejected + pair.reference
        return -logsigmoid(pair.beta * (_ranked(gap, pair.counted) - _ranked(pair.reference, pair.counted)))


@dataclass(frozen=True)
class AotUnpaired(Link):
    """The sorted log-ratios of chosen answers against those of rejected ones (arXiv 2406.05882)."""

    each: ClassVar[bool] = True
    couples: ClassVar[Level] = Level.BATCH

    def __call__(self, pair: Comparison) -> Tensor:
        gap = _ranked(pair.chosen, pair.counted) - _ranked(pair.rejected, pair.counted)
        return -logsigmoid(pair.beta * gap)


def _ranked(values: Tensor, counted: Tensor) -> Tensor:
    """The counted values in increasing order, at the places of counted pairs; 0 elsewhere."""
    return torch.zeros_like(values).masked_scatter(counted, values[counted].sort(stable=True).values)

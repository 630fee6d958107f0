"""NFT: supervised learning that also uses wrong answers, through the policy they imply (Chen et al., arXiv:2505.18116).

`NegativeAwareLikelihood` raises the likelihood of right answers and lowers that of wrong ones under the mixture that
the success rate defines (`implied_negative`). `Verdicts` of `hocket.credit.verdicts` tells it right from wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.credit.verdicts import Verdicts
from hocket.methods.base.conventions import CENTRED
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.ratios import log_ratios, saturated, saturation
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms

PromptWeight = Literal["failure", "deviation", "one"]


def implied_negative(ratio: Tensor, rate: Tensor) -> Tensor:
    """pi_minus / pi_old = (1 - q r) / (1 - q), q being the success rate and r = pi / pi_old. Same shape.

    From pi_old = q pi_plus + (1 - q) pi_minus with the trained policy in the place of pi_plus; so it sums to 1 under
    pi_old whenever r does.
    """
    return (1 - rate * ratio) / (1 - rate)


def negative_likelihood(ratio: Tensor, rate: Tensor, floor: float) -> Tensor:
    """-log max(pi_minus / pi_old, floor) with a straight-through clamp: below the floor its slope is -1/floor."""
    implied = implied_negative(ratio, rate)
    bounded = implied.detach().clamp(min=floor)
    # The clamp's value and, unclamped, the logarithm's slope; written so that large ratios cancel nowhere.
    return -bounded.log() - (implied - implied.detach()) / bounded


@dataclass(frozen=True)
class NegativeAwareLikelihood(Objective):
    """NFT (Chen et al. 2025, arXiv 2505.18116): -log r for right answers, -log max((1 - q r)/(1 - q), floor) for wrong.

    r = pi/pi_old of each decision, q the prompt's success rate. Advantages are read as centred verdicts o - q with
    o in {0, 1} (`hocket.credit.Verdicts`), which tell both o and q; an advantage of 0 (all alike) says nothing.

    Attributes:
        floor: of the implied negative policy. 1, as in the released script, lets no wrong answer weigh more than
            q r / (1 - q).
        prompts: a prompt's weight: `failure` 1 - q (the released script's), `deviation` sqrt((1 - q)/q), with which the
            on-policy gradient is GRPO's, or `one`.
        negatives: factor of the wrong answers' term; 0 leaves rejection-sampling fine-tuning.
        least: q is cut to [least, 1 - least].
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    floor: float = 1.0
    prompts: PromptWeight = "failure"
    negatives: float = 1.0
    least: float = 0.02
    aggregate: Aggregate = "constant-length"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.prompts not in get_args(PromptWeight):
            raise ValueError(f"prompts is {self.prompts!r}; choose from {', '.join(get_args(PromptWeight))}")
        if self.floor <= 0 or self.negatives < 0 or not 0 < self.least < 0.5:
            raise ValueError(
                "floor must be positive, negatives at least 0 and least in (0, 0.5), not "
                f"{self.floor}, {self.negatives} and {self.least}"
            )

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        advantage = seen.advantage.detach().to(dtype)
        right = advantage > 0
        rate = torch.where(right, 1 - advantage, -advantage).clamp(self.least, 1 - self.least)
        log_ratio = log_ratios(now, batch)
        bounded = saturated(log_ratio)
        wrong = self.negatives * negative_likelihood(bounded.exp(), rate, self.floor)
        active = advantage != 0
        value = torch.where(right, -bounded, wrong) * self._prompt(rate) * active
        counted = (seen.weight != 0) & active
        floored = ~right & (implied_negative(bounded.detach().exp(), rate) < self.floor)
        metrics = {"negative/floored": share(floored, counted), "ratio/saturated": saturation(log_ratio, counted)}
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype), metrics=metrics)

    def _prompt(self, rate: Tensor) -> Tensor:
        if self.prompts == "failure":
            return 1 - rate
        return ((1 - rate) / rate).sqrt() if self.prompts == "deviation" else torch.ones_like(rate)


NFT = GRPO.but(
    name="nft",
    title="Negative-aware fine-tuning",
    source="Chen et al., Bridging Supervised Learning and Reinforcement Learning, arXiv:2505.18116",
    catalogue_ids=("nft",),
    axes=("objective", "credit"),
    formula="L = 1/(N L) sum_i w_q sum_t x_it,  x = -log r (right), -log max((1 - q r)/(1 - q), 1) (wrong),  w = 1 - q",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "right": "reward above the group's mean: for rewards in {0, 1} reward 1, in a mixed group; others are silent",
        "success rate": "q of the group, cut to [0.02, 0.98]",
        "prompt weight": "1 - q, as in the released script; objective.prompts = deviation has sqrt((1 - q)/q)",
        "floor": "1, as in the released script; values below have the gradient of the floor (straight-through)",
        "aggregation": f"sum over decisions / (N L), L = objective.horizon = {HORIZON}",
        "clipping side": "the floor alone",
        "updates per batch": "16 mini-batches, as in the released script (512 prompts by 32); with one it is GRPO",
    },
    credit=Verdicts(),
    objective=NegativeAwareLikelihood(),
    **{"update.minibatches": 16},
)

"""GRPO on a checker's verdict where there is one and a reward model's elsewhere (arXiv:2510.05283).

`RuleOverModel` mixes the two by the checker's confidence and adds further aspects; `LengthBand` charges answers outside
a band of lengths. The abstract gives no formulas; these are chosen here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON
from hocket.rewards.combine import Weights, sources, summed
from hocket.rewards.shaping import added
from hocket.stages import Combine, Shaping


@dataclass(frozen=True)
class RuleOverModel(Combine):
    """accuracy = c rule + (1 - c) model where the rule has an opinion, else the model's; the other scores are added.

    A checker overrides a reward model by its confidence c (Hybrid and Multi-Aspect Reward Optimisation, arXiv
    2510.05283, which gives no formula: the mixture is chosen here). Where the model has none, the rule's stands.

    Attributes:
        rule, model: names of the two scores. The mixture is weighted like the model's.
        confidence: c in [0, 1], or the name of a score that gives it per trajectory (then added to nothing).
    """

    rule: str = "correct"
    model: str = "model"
    confidence: float | str = 1.0
    weights: Weights | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.confidence, str) and not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence must lie in [0, 1] or name a score, not {self.confidence}")

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        given = dict(sources(batch))
        sure = given.pop(self.confidence, None) if isinstance(self.confidence, str) else None
        if self.rule in given and self.model in given:
            rule, model = given.pop(self.rule), given[self.model]
            constant = 1.0 if isinstance(self.confidence, str) else float(self.confidence)
            share = torch.full_like(model.values, constant) if sure is None else sure.values.nan_to_num(1.0).clamp(0, 1)
            given[self.model] = LevelScores(model.level, mixed(rule.values, model.values, share))
        return summed(batch, given, {**weights, **(self.weights or {})})


def mixed(rule: Tensor, model: Tensor, confidence: Tensor) -> Tensor:
    """`c rule + (1 - c) model`, `[N]`; where only one of them has an opinion (is not NaN), that one."""
    both = confidence * rule + (1 - confidence) * model
    return torch.where(rule.isnan(), model, torch.where(model.isnan(), rule, both))


def band_penalty(lengths: Tensor, shortest: float, longest: float, power: float) -> Tensor:
    """`max(0, (L - longest)/longest, (shortest - L)/shortest)^power`, at most 1, `[N]` float64."""
    beyond = (lengths.double() - longest) / longest
    if shortest > 0:
        beyond = beyond.maximum((shortest - lengths.double()) / shortest)
    return beyond.clamp(0.0, 1.0) ** power


@dataclass(frozen=True)
class LengthBand(Shaping):
    """`reward -= penalty * (relative distance to [shortest, longest])^power`, nothing within the band.

    A length penalty in a general form, for which Hybrid and Multi-Aspect Reward Optimisation (arXiv 2510.05283) gives
    no formula; this one is chosen here. `power` 1 is linear, less punishes small excess, more tolerates it.

    Attributes:
        shortest, longest: decisions of a trajectory, all turns together. penalty: due at twice the longest.
    """

    lengths: ClassVar[tuple[str, ...]] = ("longest",)

    longest: float = 128.0
    shortest: float = 0.0
    penalty: float = 0.5
    power: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.shortest <= self.longest or self.longest <= 0:
            raise ValueError(f"0 <= shortest <= longest must hold, not {self.shortest} and {self.longest}")
        if self.power <= 0:
            raise ValueError(f"power must be positive, not {self.power}")

    def __call__(self, batch: Batch) -> Batch:
        cost = self.penalty * band_penalty(batch.lengths(), self.shortest, self.longest, self.power)
        return added(batch, Level.TRAJECTORY, -cost)


HYBRID_REWARD = GRPO.but(
    name="hybrid-multi-aspect-reward",
    title="Hybrid and multi-aspect reward: a rule over a model, adherence and length",
    source="Beyond Monolithic Rewards, arXiv:2510.05283 (abstract; mixture and penalty are chosen here)",
    catalogue_ids=("hybrid-multi-aspect-reward",),
    axes=("reward", "policy"),
    formula="R = c rule + (1 - c) model (model where no rule) + sum_k w_k aspect_k - 0.5 clip((L - L0)/L0, 0, 1)",
    conventions={
        **GRPO.conventions,
        "confidence": "combine.confidence = 1: the rule overrides; a number below mixes, a name reads a score",
        "names": "scores 'correct' (rule) and 'model'; all others are aspects and are added",
        "length": f"linear beyond shaping.0.longest = {HORIZON // 2} decisions, half of what a response may have; "
        "0.5 at twice as many",
    },
    note="shown on text; its modality comes later",
    task="worked-sums?form=0.2&model=1",
    requires=(Requirement.SCORES,),
    combine=RuleOverModel(),
    shaping=(LengthBand(longest=float(HORIZON // 2), penalty=0.5, power=1.0),),
)

"""PluralLLM: what groups of people prefer, learnt without their answers leaving them (Srewa et al., recalled).

A scorer reads what a group chose before, a question and an option; the softmax of its scores over the options is the
share of the group that it expects to choose each. Every group trains a copy on its own answers for some steps, and
the weights are averaged by the sizes of the groups' data: `hocket swarm --recipe plural-llm --average N`. The result
pays as any reward model does (`--reward model:RUN`), conditioned on a group by its answers in the prompt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.errors import ConfigurationError
from hocket.credit.reinforce import ReturnToGo
from hocket.credit.score_positions import ReadAt
from hocket.methods.base.reward_model import REWARD_MODEL
from hocket.objectives.aggregate import counted_lengths, trajectory_means, trajectory_sums
from hocket.objectives.listwise import ListLoss, SoftmaxRanking, ordered
from hocket.objectives.scores import ScoreLoss
from hocket.rollout.demonstrations import Ranked
from hocket.types import Evaluation, Terms


def alignment(predicted: Tensor, true: Tensor) -> Tensor:
    """1 less the Jensen-Shannon divergence of distributions `[K]` in bits: 1 where they are equal, 0 where disjoint.

    What the paper calls alignment is recalled as one less a distance of distributions; which one is chosen here.
    """
    middle = (predicted + true) / 2

    def divergence(p: Tensor) -> Tensor:
        return torch.where(p > 0, p * (p / middle).log2(), torch.zeros_like(p)).sum()

    return 1 - (divergence(predicted) + divergence(true)) / 2


def fairness(values: Sequence[float]) -> float:
    """(sum x)^2 / (n sum x^2) of what n groups get, in [1/n, 1], 1 where all get the same (Jain et al. 1984).

    With the coefficient of variation v it is 1 / (1 + v^2). NaN of none, 1 where all get nothing.
    """
    if not values:
        return math.nan
    squares = sum(one * one for one in values)
    return 1.0 if squares == 0 else sum(values) ** 2 / (len(values) * squares)


@dataclass(frozen=True)
class PredictedShares(ScoreLoss):
    """Minimises the mean over questions of -sum_i p_i log q_i, q the softmax of the scores of a question's options.

    p are the options' recorded shares over their sum. A group of answers to one scenario is a question; one with a
    single option, or without shares, does not count.

    Raises:
        ConfigurationError: on a call, for a negative share.
    """

    couples: ClassVar[Level] = Level.GROUP
    held_out: ClassVar[str | None] = "lists/accuracy"

    loss: ListLoss = SoftmaxRanking()

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        score = trajectory_sums(self.scores(now, batch), batch)
        label = trajectory_means(batch.occurrences.advantage.detach(), batch).to(score.dtype)
        if bool((label < 0).any()):
            raise ConfigurationError("shares of options must not be negative; give shares, or learn with reward-model")
        lengths, groups = counted_lengths(batch), GroupBy("scenario")(batch)
        lists = [torch.nonzero((groups.index == n) & (lengths > 0)).flatten() for n in range(groups.size)]
        known = [len(members) > 1 and bool(label[members].sum() > 0) for members in lists]
        values = [
            self.loss(score[m], label[m]) if used else score.new_zeros(()) for m, used in zip(lists, known, strict=True)
        ]
        weight = torch.tensor(known).to(score.dtype) / max(sum(known), 1)
        told = [(score[m].detach(), label[m]) for m, used in zip(lists, known, strict=True) if used]
        fits = [float(alignment(torch.softmax(s, 0), p / p.sum())) for s, p in told]
        right = [ordered(s, p) for s, p in told if bool((p != p[0]).any())]  # Where all are liked alike none is wrong.
        metrics = {
            "lists/total": float(sum(known)),
            "lists/alignment": sum(fits) / len(fits) if fits else math.nan,
            "lists/accuracy": sum(right) / len(right) if right else math.nan,
        }
        return Terms(torch.stack(values), weight, Level.GROUP, metrics)


PLURAL_LLM = REWARD_MODEL.but(
    name="plural-llm",
    title="Preferences of groups, learnt by federated averaging",
    source="PluralLLM: Pluralistic Alignment in LLMs via Federated Learning, recalled",
    catalogue_ids=("plural-llm",),
    axes=("reward", "system", "data"),
    formula="L = -mean_q sum_i p_i log softmax(s)_i at every group;  then w = sum_k (n_k / n) w_k",
    task="opinions",
    conventions={
        **{
            name: told
            for name, told in REWARD_MODEL.conventions.items()
            if name not in ("pairs", "margin", "label smoothing", "centring")
        },
        "shares": "the recorded scores of a question's answers over their sum",
        "predictor": "a language model's trunk with a scalar head reads group, question and option as text; the paper "
        "embeds them with a frozen model and trains a small transformer on the embeddings",
        "averaging": "`hocket swarm --average N`: changes weighted by the sizes of the groups' data; N = 5 steps",
        "alignment": "1 - Jensen-Shannon divergence in bits, mean over questions; chosen here",
        "fairness": "Jain's index of the groups' alignments, 1 / (1 + variation^2)",
    },
    rollout=Ranked(),
    credit=ReadAt(ReturnToGo()),
    objective=PredictedShares(),
)

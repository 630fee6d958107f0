"""TW-GRPO: GRPO that weighs tokens by how much the group's samples differ there (Dang et al., arXiv:2505.24718).

The learner compares the samples' whole next-token distributions place by place (annotator `DIVERGENCE`);
`PlaceWeighted` turns the difference into weights of at least 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.annotators import Annotator, Distributing
from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import Column
from hocket.core.segments import segment_count, segment_extreme
from hocket.credit.refinement import Refined
from hocket.methods.base.grpo import GRPO
from hocket.stages import Policy

BUDGET = 2**23
"""Numbers of distributions held at once."""


LARGEST = 11.0
"""Log-ratios are cut to [-11, 11] nats, as in the authors' code, so that an impossible token counts finitely."""


def divergence_from_mean(logp: Tensor) -> Tensor:
    """`mean_i sum_v (exp(m_v - l_iv) - (m_v - l_iv) - 1)`, m the mean of l over i; `[G, P, V]` to `[P]`.

    l are log-distributions of G samples at P places (TW-GRPO, arXiv 2505.24718, as its code has it: the mean is of
    log-probs, so m is no distribution). 0 where all are equal, positive elsewhere.
    """
    gap = (logp.mean(0) - logp).clamp(-LARGEST, LARGEST)
    # expm1 keeps small gaps, where the parts cancel.
    return (gap.expm1() - gap).sum(-1).mean(0)


def divergence_by_place(batch: Batch, policy: Policy, decisions: Tensor, budget: int = BUDGET) -> Tensor:
    """The divergence at each of `decisions`, scattered into `[T]` float64, without gradient.

    Samples of a scenario are compared at equal places, counted along each trajectory's decisions of the policy; one
    that is over is taken as uniform. At most `budget` numbers of distributions are held, and the hidden states of one
    scenario's samples. A policy that shows no whole distributions has divergence 0 everywhere.
    """
    found = torch.zeros(batch.decisions, dtype=torch.float64)
    if not isinstance(policy, Distributing) or not len(decisions):
        return found
    own = torch.zeros(batch.decisions, dtype=torch.bool)
    own[decisions] = True
    seen = batch.occurrences
    used = torch.nonzero(own[seen.decision]).flatten()
    decision, trajectory = seen.decision[used], seen.trajectory[used]
    lengths = segment_count(trajectory, batch.trajectories)
    place = torch.arange(len(used)) - (torch.cumsum(lengths, 0) - lengths)[trajectory]
    groups = GroupBy("scenario")(batch)
    index = groups.index[trajectory]
    for group in range(groups.size):
        here = index == group
        if here.any():
            _, member = torch.unique(trajectory[here], return_inverse=True)
            values = _of_group(batch, policy, decision[here], member, place[here], budget)
            found[decision[here]] = values[place[here]]
    return found


def _of_group(
    batch: Batch, policy: Distributing, decision: Tensor, member: Tensor, place: Tensor, budget: int
) -> Tensor:
    """The divergence at each place of one scenario's samples, `[P]`; `decision`, `member` and `place` are `[K]`."""
    unique, of = torch.unique(decision, return_inverse=True)
    logp = policy.distributions(batch, unique)
    size, places = int(member.max()) + 1, int(place.max()) + 1
    width = logp(torch.zeros(1, dtype=torch.long)).shape[-1]
    step = max(1, budget // (size * width))
    parts = []
    for start in range(0, places, step):
        end = min(places, start + step)
        inside = torch.nonzero((place >= start) & (place < end)).flatten()
        block = torch.full((size, end - start, width), -math.log(width), dtype=torch.float64)
        block[member[inside], place[inside] - start] = logp(of[inside]).double()
        parts.append(divergence_from_mean(block))
    return torch.cat(parts)


DIVERGENCE = Annotator(
    "divergence",
    "How much the samples of a scenario differ in what they expect at this place, 0 where they agree.",
    divergence_by_place,
)


def spread_to(values: Tensor, group: Tensor, size: int, largest: float, epsilon: float) -> Tensor:
    """`1 + (largest - 1) (x - min_g x) / (max_g x - min_g x + epsilon)`, `[K]` in [1, largest]."""
    low = segment_extreme(values, group, size, largest=False)[group]
    high = segment_extreme(values, group, size, largest=True)[group]
    return 1 + (largest - 1) * (values - low) / (high - low + epsilon)


@dataclass(frozen=True)
class PlaceWeighted(Refined):
    """Weights in [1, largest] that grow with how much a group's samples differ at a place: TW-GRPO (arXiv 2505.24718).

    The difference is the column `divergence` that the learner annotates (see `hocket.credit.divergence`): the samples'
    whole next-token distributions against their mean. Weights multiply terms and leave denominators as they are.
    `largest` is that of the public code.
    """

    largest: float = 1.4
    epsilon: float = 1e-8

    adds: ClassVar[frozenset[Column]] = frozenset({DIVERGENCE})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.largest < 1:
            raise ValueError(f"largest must be at least 1, not {self.largest}")

    def refine(self, batch: Batch) -> Occurrences:
        divergence = DIVERGENCE.read(batch, "PlaceWeighted")
        seen = batch.occurrences
        used = torch.nonzero(seen.weight != 0).flatten()
        groups = GroupBy("scenario")(batch)
        values = divergence.double()[seen.decision[used]]
        index = groups.index[seen.trajectory[used]]
        weight = seen.weight.double().clone()
        weight[used] = weight[used] * spread_to(values, index, groups.size, self.largest, self.epsilon)
        return replace(seen, weight=weight)


TW_GRPO = GRPO.but(
    name="tw-grpo",
    title="Token-weighted GRPO",
    source="Dang et al., Reinforcing Video Reasoning with Focused Thinking, arXiv:2505.24718",
    catalogue_ids=("tw-grpo",),
    axes=("credit", "reward", "data"),
    formula="w_t = 1 + (w_max - 1) minmax_t mean_i sum_v (e^(m-l) - (m-l) - 1),  L = sum_it w_t x_it / sum_i n_i",
    conventions={
        **GRPO.conventions,
        "aggregation": "mean over all decisions of the batch; weights leave the denominator as it is",
        "divergence": "m is the mean of the samples' log-distributions l; finished samples count as uniform",
        "weights": "between 1 and credit.largest = 1.4 over the places of a group; 1 where no distributions are shown; "
        "smallest and largest are of places that somebody reached, in the public code of padding too",
        "reward": "the task's; for questions with several right options hocket.rewards.SubsetMatch",
        "memory": "hidden states of one group and 2^23 numbers of distributions at once",
    },
    note="shown on text; its modality comes later",
    credit=PlaceWeighted(of=GRPO.credit),
    **{"objective.aggregate": "token-mean"},
)

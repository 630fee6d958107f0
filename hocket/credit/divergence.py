"""How much the samples of a scenario differ, place by place, in what they expect next."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from hocket.core.annotators import Annotator
from hocket.segments import segment_count
from hocket.stages import Policy
from hocket.types import Batch, GroupBy

BUDGET = 2**23
"""Numbers of distributions held at once."""

LARGEST = 11.0
"""Log-ratios are cut to [-11, 11] nats, as in the authors' code, so that an impossible token counts finitely."""


@runtime_checkable
class Distributing(Protocol):
    """A policy that can show whole distributions."""

    def distributions(self, batch: Batch, decisions: Tensor) -> Callable[[Tensor], Tensor]:
        """Those at `decisions` `[K]`, as a function of places in it `[M]` that gives log-probs `[M, V]`."""
        ...


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

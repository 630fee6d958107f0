"""Importance ratios of the current policy to the behaviour or proximal policy."""

from __future__ import annotations

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.errors import HocketError
from hocket.core.segments import segment_count, segment_sum
from hocket.core.signals import turn_visits
from hocket.types import Evaluation

BOUND = 50.0
"""Log-ratios up to +-50 nats are exact; exp(50) = 5e21 leaves room in float32 for products and sums."""


def saturated(log_ratio: Tensor, bound: float = BOUND) -> Tensor:
    """`log_ratio` clamped to +-`bound`, with derivative 1 everywhere.

    So beyond the bound a function of it has the same value and gradient as at the bound. A plain clamp would have
    gradient 0 exactly where the policies differ most.
    """
    return log_ratio.detach().clamp(-bound, bound) + (log_ratio - log_ratio.detach())


def recorded(batch: Batch, name: str) -> Tensor:
    """Recorded log-probs of `name` per decision, `[T]`.

    Raises:
        HocketError: when a counted decision has none.
    """
    column = batch.logp.get(name)
    if column is None:
        raise HocketError(f"the loss reads {name} log-probs, but the batch has none")
    missing = int((~column.present[_counted(batch)]).sum())
    if missing:
        raise HocketError(
            f"{missing} decisions have no {name} log-prob (text that was not sampled has none); give it or leave the "
            "decisions out of training"
        )
    return column.values


def anchor(batch: Batch) -> Tensor:
    """The log-probs in a ratio's denominator, `[T]`: `proximal` if all counted decisions have it, else `behaviour`."""
    proximal = batch.logp.get("proximal")
    if proximal is not None and bool(proximal.present[_counted(batch)].all()):
        return proximal.values
    return recorded(batch, "behaviour")


def _counted(batch: Batch) -> Tensor:
    occurrences = batch.occurrences
    return occurrences.decision[occurrences.weight != 0]


def log_ratios(now: Evaluation, batch: Batch) -> Tensor:
    """log pi(a) - log pi_old(a) at each occurrence, `[E]`, not saturated."""
    decision = batch.occurrences.decision
    return now.logp[decision] - anchor(batch)[decision].to(now.logp.dtype)


def sequence_means(log_ratio: Tensor, batch: Batch) -> Tensor:
    """The mean log-ratio over each occurrence's trajectory, `[E]`: the log of GSPO's s_i (arXiv 2507.18071).

    Only counted occurrences enter the mean, whatever their weight.
    """
    occurrences = batch.occurrences
    counted = occurrences.weight != 0
    total = segment_sum(log_ratio[counted], occurrences.trajectory[counted], batch.trajectories)
    length = segment_count(occurrences.trajectory[counted], batch.trajectories).clamp(min=1)
    return (total / length)[occurrences.trajectory]


def segment_means(log_ratio: Tensor, batch: Batch) -> Tensor:
    """The mean log-ratio over each occurrence's segment, `[E]`: the log of a segment's geometric mean ratio.

    Segments of a turn are separate in each of its trajectories (Rank-GRPO's items, arXiv 2510.20150). Only counted
    occurrences enter the mean, whatever their weight.
    """
    occurrences = batch.occurrences
    place = torch.stack([occurrences.trajectory, batch.turn[occurrences.decision], batch.segment[occurrences.decision]])
    fresh = torch.ones(len(occurrences), dtype=torch.bool)
    fresh[1:] = (place[:, 1:] != place[:, :-1]).any(0)
    segment, size = torch.cumsum(fresh, 0) - 1, int(fresh.sum())
    counted = occurrences.weight != 0
    total = segment_sum(log_ratio[counted], segment[counted], size)
    return (total / segment_count(segment[counted], size).clamp(min=1))[segment]


def turn_sums(values: Tensor, batch: Batch) -> Tensor:
    """The sum of `values` `[E]` over the counted occurrences of each occurrence's turn in its trajectory, `[E]`."""
    visit, starts = turn_visits(batch)
    counted = batch.occurrences.weight != 0
    return segment_sum(values[counted], visit[counted], int(starts.sum()))[visit]


def turn_means(values: Tensor, batch: Batch) -> Tensor:
    """The mean of `values` `[E]` where `turn_sums` has the sum, `[E]`; 0 if no occurrence of the turn counts."""
    visit, starts = turn_visits(batch)
    length = segment_count(visit[batch.occurrences.weight != 0], int(starts.sum())).clamp(min=1)
    return turn_sums(values, batch) / length[visit]


def saturation(log_ratio: Tensor, among: Tensor, bound: float = BOUND) -> Tensor:
    """How many log-ratios of the occurrences `among` exceed the bound, a scalar."""
    return ((log_ratio.detach().abs() > bound) & among).sum().to(torch.float64)

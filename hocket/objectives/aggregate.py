"""Aggregation of terms per decision into a loss, by the choice of denominators.

An occurrence counts in a denominator if its weight is not 0. So forced, filtered and masked decisions, and trajectories
without counted decisions, enter neither numerator nor denominator. Any other weight (an importance weight) multiplies
its term and does not change the denominators.

The forms, for sequences i with n_i counted decisions, N of them; sequence i has K_i turns with a counted decision,
turn k of it n_ik counted decisions:

    token-mean          1 / sum_i n_i * sum_i sum_t x_it                DAPO (arXiv 2503.14476)
    sequence-mean       1/N sum_i 1/n_i sum_t x_it                      GRPO (arXiv 2402.03300)
    sequence-sum        1/N sum_i sum_t x_it                            the policy gradient itself
    constant-length     1/N sum_i 1/L sum_t x_it, L given               Dr. GRPO (arXiv 2503.20783)
    turn-mean           1 / sum_i K_i * sum_i sum_k 1/n_ik sum_t x_ikt  each turn counts as a sequence
    sequence-turn-mean  1/N sum_i 1/K_i sum_k 1/n_ik sum_t x_ikt        ReMA (arXiv 2503.09501)
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.segments import segment_count, segment_mean, segment_sum
from hocket.core.signals import turn_visits
from hocket.types import Decoding

Aggregate = Literal["token-mean", "sequence-mean", "sequence-sum", "constant-length", "turn-mean", "sequence-turn-mean"]

HORIZON = Decoding().max_tokens
"""The constant length unless another is given: the default limit of a response."""


def weights(
    batch: Batch, aggregate: Aggregate, horizon: int = HORIZON, *, dtype: torch.dtype = torch.float64
) -> Tensor:
    """The weight of each occurrence's term, `[E]`, including the occurrence's own weight; 0 where it does not count.

    Raises:
        ValueError: for an unknown `aggregate`.
    """
    occurrences = batch.occurrences
    counted = occurrences.weight != 0
    lengths = segment_sum(counted.double(), occurrences.trajectory, batch.trajectories)
    sequences = (lengths > 0).sum().clamp(min=1)
    if aggregate == "token-mean":
        denominator = counted.sum().clamp(min=1).double().expand(len(occurrences))
    elif aggregate == "sequence-mean":
        denominator = sequences * lengths.clamp(min=1)[occurrences.trajectory]
    elif aggregate == "sequence-sum":
        denominator = sequences.double().expand(len(occurrences))
    elif aggregate == "constant-length":
        denominator = (sequences * float(horizon)).expand(len(occurrences))
    elif aggregate in ("turn-mean", "sequence-turn-mean"):
        denominator = _turn_denominator(batch, counted, sequences, among_all=aggregate == "turn-mean")
    else:
        raise ValueError(f"unknown aggregate {aggregate!r}")
    return (occurrences.weight.double() / denominator).to(dtype)


def _turn_denominator(batch: Batch, counted: Tensor, sequences: Tensor, *, among_all: bool) -> Tensor:
    """The denominator of turn means, `[E]`: decisions of the turn times the number of turns.

    With `among_all` that number is of the whole batch, else of the sequence, times the number of sequences.
    """
    trajectory = batch.occurrences.trajectory
    visit, starts = turn_visits(batch)
    length = segment_sum(counted.double(), visit, int(starts.sum()))
    used = (length > 0).double()
    turns = used.sum().clamp(min=1).expand(len(trajectory))
    if not among_all:
        turns = sequences * segment_sum(used, trajectory[starts], batch.trajectories).clamp(min=1)[trajectory]
    return turns * length.clamp(min=1)[visit]


def check(aggregate: str, horizon: int = HORIZON) -> None:
    """Raises `ValueError` unless `aggregate` is a known form and `horizon` is positive."""
    if aggregate not in get_args(Aggregate):
        raise ValueError(f"aggregate is {aggregate!r}; choose from {', '.join(get_args(Aggregate))}")
    if horizon < 1:
        raise ValueError(f"horizon must be at least 1, not {horizon}")


def trajectory_sums(values: Tensor, batch: Batch) -> Tensor:
    """Weighted sum over each trajectory's occurrences of `values` `[E]`: `[N]`, in the dtype of `values`."""
    occurrences = batch.occurrences
    counted = occurrences.weight != 0
    used = torch.where(counted, values, torch.zeros_like(values)) * occurrences.weight.to(values.dtype)
    return segment_sum(used, occurrences.trajectory, batch.trajectories)


def trajectory_means(values: Tensor, batch: Batch) -> Tensor:
    """Plain mean over each trajectory's counted occurrences of `values` `[E]`: `[N]`; 0 where none counts."""
    counted = batch.occurrences.weight != 0
    return segment_mean(values[counted], batch.occurrences.trajectory[counted], batch.trajectories)


def counted_lengths(batch: Batch) -> Tensor:
    """Counted occurrences per trajectory, `[N]` long."""
    occurrences = batch.occurrences
    return segment_count(occurrences.trajectory[occurrences.weight != 0], batch.trajectories)


def share(where: Tensor, among: Tensor) -> Tensor:
    """The fraction of `among` in which `where` holds (both `[K]` bool), a scalar; 0 if `among` is empty."""
    return (where & among).sum().double() / among.sum().clamp(min=1)


def mean(values: Tensor, among: Tensor) -> Tensor:
    """The detached mean of `values` where `among` holds, a scalar; 0 if `among` is empty."""
    return values.detach()[among].double().sum() / among.sum().clamp(min=1)


def weighted_total(values: Tensor, weight: Tensor) -> Tensor:
    """sum_k w_k x_k over the terms of non-zero weight, a scalar."""
    used = weight != 0
    return (values[used] * weight[used]).sum()


def single_term(weight: Tensor) -> Tensor:
    """The weight of a single term of the whole batch: 1, or 0 when nothing counts."""
    return torch.any(weight != 0).to(weight.dtype)[None]

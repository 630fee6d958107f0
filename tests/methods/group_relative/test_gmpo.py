"""Geometric means of ratios against loops in float64."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from objective_batches import (
    batches,
    close,
    doubles,
    naive_total,
    near_an_edge,
    occurrences,
    total_of,
    value_and_gradient,
)

from hocket.methods.group_relative.gmpo import GeometricMean
from hocket.objectives.surrogate import ClippedSurrogate

many = settings(max_examples=60, deadline=None)


@many
@given(batches())
def test_the_geometric_mean(drawn):
    batch, logp = drawn
    old = batch.logp["behaviour"].values
    if near_an_edge(batch, logp, 0.4, -0.2):
        return

    def naive(x):
        parts = []
        for row in occurrences(batch):
            part = []
            ratios = [
                torch.exp(
                    torch.maximum(x[d] - old[d], doubles(-0.2)) if a < 0 else torch.minimum(x[d] - old[d], doubles(0.4))
                )
                for d, a, _ in row
            ]
            whole = torch.stack(ratios).prod() ** (1 / len(row)) if row else doubles(1)
            part += [(weight, -advantage * whole) for _, advantage, weight in row]
            parts.append(part)
        return naive_total(parts, "sequence-mean", 1)

    found = value_and_gradient(total_of(GeometricMean(low=0.2, high=0.4), batch), logp)
    wanted = value_and_gradient(lambda x: naive(x).sum(), logp)
    close(found[0], wanted[0], 1e-7)
    close(found[1], wanted[1], 1e-7)


@many
@given(batches(credit=["zero", "trajectory"]))
def test_at_the_old_policy_it_is_grpo(drawn):
    batch, _ = drawn
    batch = batch.credited(weight=(batch.occurrences.weight != 0).double())
    old = batch.logp["behaviour"].values
    ours = value_and_gradient(total_of(GeometricMean(), batch), old)
    theirs = value_and_gradient(total_of(ClippedSurrogate(), batch), old)
    close(ours[0], theirs[0])
    close(ours[1], theirs[1])

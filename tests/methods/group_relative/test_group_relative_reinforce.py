"""Edits of advantages, masks that make PPO, and the quadratic leash."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import batch_of, batches, close, doubles, near_an_edge, occurrences, total_of, value_and_gradient

from hocket.methods.group_relative.group_relative_reinforce import (
    MaskedPolicyGradient,
)
from hocket.objectives.log_ratio import LogRatioPenalty
from hocket.objectives.policy_gradient import PolicyGradient
from hocket.objectives.surrogate import ClippedSurrogate

AGGREGATES = st.sampled_from(["token-mean", "sequence-mean", "sequence-sum", "constant-length"])


many = settings(max_examples=60, deadline=None)


@many
@given(batches(), AGGREGATES)
def test_mask_and_ratio_make_ppo(drawn, aggregate):
    batch, logp = drawn
    if near_an_edge(batch, logp, math.log(0.8), math.log(1.2)):
        return
    ours = value_and_gradient(total_of(MaskedPolicyGradient(weighted=True, aggregate=aggregate), batch), logp)[1]
    close(ours, value_and_gradient(total_of(ClippedSurrogate(aggregate=aggregate), batch), logp)[1])


@many
@given(batches(), AGGREGATES)
def test_no_mask_is_reinforce_and_two_sides_keep_less_than_one(drawn, aggregate):
    batch, logp = drawn
    plain = value_and_gradient(total_of(PolicyGradient(aggregate), batch), logp)[1]
    free, one, two = (
        value_and_gradient(total_of(MaskedPolicyGradient(sides=sides, aggregate=aggregate), batch), logp)[1]
        for sides in ("none", "one", "two")
    )
    close(free, plain)
    if len(set(batch.occurrences.decision.tolist())) == len(batch.occurrences):
        assert bool(((one == 0) | (one == plain)).all())
        assert bool(((two == 0) | (two == one)).all())


@many
@given(batches())
def test_the_quadratic_penalty(drawn):
    batch, logp = drawn
    old = batch.logp["behaviour"].values

    def naive(x):
        rows = [row for row in occurrences(batch) if row]
        total = sum((0.3 * sum(w * (x[d] - old[d]) for d, _, w in row) ** 2 for row in rows), torch.zeros(()).double())
        return total / max(1, len(rows))

    found = value_and_gradient(total_of(LogRatioPenalty(0.3), batch), logp)
    wanted = value_and_gradient(naive, logp)
    close(found[0], wanted[0], 1e-8)
    close(found[1], wanted[1], 1e-8)


def test_the_penalty_rests_where_the_pull_is_met():
    """-A l + c l^2 is least at l = A / (2 c)."""
    batch = batch_of([[0]], behaviour=doubles(-1.0), advantage=doubles(0.6))
    terms = (PolicyGradient("sequence-sum"), LogRatioPenalty(0.5))
    slope = sum(value_and_gradient(total_of(term, batch), doubles(-1.0 + 0.6))[1] for term in terms)
    close(slope, doubles(0.0))

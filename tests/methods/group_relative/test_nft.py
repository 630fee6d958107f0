"""Likelihoods of what is negative."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objective_batches import batch_of, close, doubles, total_of, value_and_gradient

from hocket.methods.group_relative.nft import NegativeAwareLikelihood, negative_likelihood

many = settings(max_examples=60, deadline=None)


@many
@given(st.floats(-5, 5), st.floats(0.02, 0.98), st.floats(0.05, 1.0))
def test_negative_likelihood_is_the_logarithm_above_its_floor_and_a_line_below(gap, rate, floor):
    value, slope = value_and_gradient(lambda x: negative_likelihood(x.exp(), doubles(rate), floor).sum(), doubles(gap))
    implied = (1 - rate * math.exp(gap)) / (1 - rate)
    bounded = max(implied, floor)
    assert float(value) == pytest.approx(-math.log(bounded), abs=1e-12)
    assert float(slope) == pytest.approx(rate * math.exp(gap) / (1 - rate) / bounded)


def test_nft_reads_verdict_and_rate_off_the_advantage():
    """One right answer of four, two decisions each: loss and gradient by hand."""
    rows = [[0, 1], [2, 3], [4, 5], [6, 7]]
    advantage = doubles(0.75, 0.75, *[-0.25] * 6)
    batch = batch_of(rows, behaviour=doubles(*[-1] * 8), advantage=advantage)
    logp = doubles(-0.9, -1.2, -1.1, -1.0, -0.8, -2.0, -1.0, -1.0)
    loss = NegativeAwareLikelihood(floor=0.1, prompts="failure", aggregate="sequence-sum")
    value, gradient = value_and_gradient(total_of(loss, batch), logp)
    ratio = (logp + 1).exp()
    wanted = torch.where(advantage > 0, -(logp + 1), -((1 - 0.25 * ratio) / 0.75).log())
    close(value, 0.75 * wanted.sum() / 4)
    slope = torch.where(advantage > 0, -torch.ones(8).double(), 0.25 * ratio / (1 - 0.25 * ratio))
    close(gradient, 0.75 * slope / 4)

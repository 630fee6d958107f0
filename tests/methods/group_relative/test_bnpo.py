"""Moments and density of a beta, and rewards of another range."""

from __future__ import annotations

import statistics

import pytest
import torch

from hocket.methods.group_relative.bnpo.method import beta_density, beta_moments


def test_moments_of_a_beta():
    rates = torch.tensor([0.1, 0.4, 0.5, 0.9], dtype=torch.float64)
    a, b = beta_moments(rates)
    mean, variance = statistics.fmean(rates.tolist()), statistics.variance(rates.tolist())
    assert a / (a + b) == pytest.approx(mean)
    assert mean * (1 - mean) / (a + b + 1) == pytest.approx(variance)
    assert beta_moments(rates[:1]) == beta_moments(rates[[0, 0]]) == (0.0, 0.0)


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (1.5, 1.5), (2.5, 4.0)])
def test_the_density_integrates_to_one(alpha, beta):
    grid = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
    assert float(beta_density(grid, alpha, beta).mean()) == pytest.approx(1.0, abs=1e-4)
    edges = beta_density(torch.tensor([0.0, 1.0], dtype=torch.float64), alpha, beta).tolist()
    assert edges == ([1.0, 1.0] if alpha == 1 else [0.0, 0.0])

"""`OptimalTokenBaseline` where its formula says little: groups of one, equal energies, decisions left out."""

from __future__ import annotations

import pytest
import torch
from credit_cases import batch_of, make

from hocket.core.errors import ConfigurationError
from hocket.methods.group_relative.optimal_token_baseline import ENERGY, OptimalTokenBaseline


def spent(trajectories, energy=None):
    batch = batch_of(trajectories)
    energy = torch.ones(batch.decisions, dtype=torch.float64) if energy is None else torch.tensor(energy).double()
    return batch.but(annotations={ENERGY.name: energy})


def test_a_group_of_one_has_no_baseline():
    batch = spent([make("s", 1.0, length=2), make("t", 0.5, length=1)])
    for tail in ("zero", "own"):
        assert OptimalTokenBaseline(tail=tail)(batch).advantage.tolist() == [1.0, 1.0, 0.5]


def test_what_is_refused():
    with pytest.raises(ConfigurationError, match="energy"):
        OptimalTokenBaseline()(batch_of([make("s", 1.0), make("s", 0.0)]))
    with pytest.raises(ValueError, match="tail"):
        OptimalTokenBaseline(tail="none")

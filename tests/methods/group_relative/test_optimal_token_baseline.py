"""`OptimalTokenBaseline` where its formula says little: groups of one, equal energies, decisions left out."""

from __future__ import annotations

import pytest
import torch
from credit_cases import batch_of, by_trajectory, make

from hocket.core.errors import ConfigurationError
from hocket.methods.group_relative.optimal_token_baseline import ENERGY, OptimalTokenBaseline


def spent(trajectories, energy=None):
    batch = batch_of(trajectories)
    energy = torch.ones(batch.decisions, dtype=torch.float64) if energy is None else torch.tensor(energy).double()
    return batch.but(annotations={ENERGY.name: energy})


def test_with_equal_energies_it_is_the_mean_of_those_still_going():
    batch = spent([make("s", 1.0, length=3), make("s", 0.0, length=2), make("s", 0.5, length=1)])
    found = by_trajectory(batch, OptimalTokenBaseline(epsilon=0.0)(batch).advantage)
    for row, wanted in zip(found, ([0.5, 0.5, 1.0], [-0.5, -0.5], [0.0]), strict=True):
        assert row == pytest.approx(wanted)
    own = by_trajectory(batch, OptimalTokenBaseline(epsilon=0.0, tail="own")(batch).advantage)
    assert own[0] == pytest.approx([0.5, 0.5, 0.0])


def test_a_sample_that_has_spent_more_counts_more():
    batch = spent([make("s", 1.0, length=2), make("s", 0.0, length=2)], [3.0, 1.0, 1.0, 0.0])
    found = by_trajectory(batch, OptimalTokenBaseline(epsilon=0.0)(batch).advantage)
    assert found[0] == pytest.approx([1 - 3 / 4, 1 - 4 / 5])


def test_a_group_of_one_has_no_baseline():
    batch = spent([make("s", 1.0, length=2), make("t", 0.5, length=1)])
    for tail in ("zero", "own"):
        assert OptimalTokenBaseline(tail=tail)(batch).advantage.tolist() == [1.0, 1.0, 0.5]


def test_what_is_refused():
    with pytest.raises(ConfigurationError, match="energy"):
        OptimalTokenBaseline()(batch_of([make("s", 1.0), make("s", 0.0)]))
    with pytest.raises(ValueError, match="tail"):
        OptimalTokenBaseline(tail="none")

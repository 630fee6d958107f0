"""The frozen scale of sources, their weights, and state through a recipe."""

from __future__ import annotations

import math

import pytest
import torch
from credit_cases import LAW
from hypothesis import given
from hypothesis import strategies as st
from rewards_cases import rewards_of, scored_batch

from hocket.lab.microscope import inspect
from hocket.methods.group_relative.quark_medical_alignment import FrozenScale, factor_weights, redundancy_factors
from hocket.recipes import find


def test_statistics_are_those_of_the_first_batch_for_ever():
    combine = FrozenScale(adaptive=False)
    first, state = combine(scored_batch([{"a": 1.0}, {"a": 3.0}]), {"a": 1.0}, combine.init())
    assert rewards_of(first) == pytest.approx([-math.sqrt(0.5), math.sqrt(0.5)])
    later, state = combine(scored_batch([{"a": 100.0}, {"a": 2.0}]), {"a": 1.0}, state)
    assert rewards_of(later) == pytest.approx([98 / math.sqrt(2), 0.0])
    assert state["mean"] == {"a": 2.0}


def test_a_source_that_never_varied_counts_nothing_until_it_does():
    combine = FrozenScale(adaptive=False)
    _, state = combine(scored_batch([{"a": 1.0, "b": 5.0}, {"a": 3.0, "b": 5.0}]), {}, combine.init())
    assert "b" not in state["mean"]
    _, state = combine(scored_batch([{"a": 1.0, "b": 5.0}, {"a": 3.0, "b": 7.0}]), {}, state)
    assert state["mean"] == {"a": 2.0, "b": 6.0}


@LAW
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=4), st.floats(0.2, 5.0))
def test_weights_sum_to_one_and_weakness_orders_them(levels, temperature):
    level = torch.tensor(levels, dtype=torch.float64)
    ones = torch.ones_like(level)
    weight = factor_weights(level, ones, ones, temperature)
    assert float(weight.sum()) == pytest.approx(1.0)
    assert torch.equal(weight.argsort(stable=True).sort().values, torch.arange(len(levels)))
    assert float(weight[level.argmin()]) == pytest.approx(float(weight.max()))


@LAW
@given(
    st.lists(st.lists(st.sampled_from([0.0, 1.0, -2.0, 3.5, math.nan]), min_size=4, max_size=4), min_size=1, max_size=4)
)
def test_equal_sources_share_a_weight(rows):
    values = torch.tensor(rows, dtype=torch.float64)
    factors = redundancy_factors(values)
    assert bool(((factors > 0) & (factors <= 1)).all())
    twice = redundancy_factors(torch.cat([values, values[:1]]))
    known = values[0][~values[0].isnan()]
    if len(known) > 1 and float(known.max()) > float(known.min()):
        # Its own double adds a correlation of 1; the total weight of both is at most doubled, and never shrinks.
        assert float(twice[0]) == pytest.approx(1 / (1 / float(factors[0]) + 1))
        assert float(factors[0]) <= 2 * float(twice[0]) < 2 * float(factors[0])


def test_state_is_threaded_by_the_recipe_and_survives_json():
    recipe = find("quark-medical-alignment")
    assert recipe.init() == {"combine": {"mean": {}, "deviation": {}, "level": {}}}
    batch = scored_batch([{"a": 1.0}, {"a": 3.0}])
    _, state = recipe.compute_credit(batch, recipe.init(), {"a": 1.0})
    assert state["combine"]["mean"] == {"a": 2.0}
    assert recipe.init() == {"combine": {"mean": {}, "deviation": {}, "level": {}}}, "the first state is not written to"
    document = {"version": 1, "state": state, "trajectories": [
        {"group": "g", "scores": {"a": value}, "logp": [-1.0]} for value in (4.0, 8.0)
    ]}  # fmt: skip
    assert len(inspect(recipe, document)["advantages"]) == 2

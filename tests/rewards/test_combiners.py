"""Combiners against sums written out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from credit_cases import LAW, experiences
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.components import from_plain, to_plain
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import counted_trajectories
from hocket.lab.documents import random_document
from hocket.lab.microscope import RecordedBatch, inspect
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.dr_genre import WeightedByTask
from hocket.methods.group_relative.hybrid_multi_aspect_reward import RuleOverModel, mixed
from hocket.methods.group_relative.multi_objective_grpo import NormalisedSum
from hocket.methods.group_relative.quark_medical_alignment import FrozenScale, factor_weights, redundancy_factors
from hocket.recipes import find
from hocket.rewards.combine import Gated, WeightedSum

COMBINERS = (
    WeightedSum(),
    NormalisedSum(),
    WeightedByTask({"x": {"a": 2.0}}),
    Gated(("a", "b")),
    RuleOverModel("a", "b"),
)


def batch_of(rows, groups=None, info=None):
    """A batch with these scores per trajectory; the groups are all one unless told."""
    found = [
        {"id": str(n), "group": str(groups[n] if groups else 0), "scores": row, "logp": [-1.0, -0.5]}
        for n, row in enumerate(rows)
    ]
    for row, told in zip(found, info or [], strict=False):
        row["info"] = told
    return RecordedBatch({"version": 1, "trajectories": found}).batch


def reward(batch):
    return batch.scores["reward"].values.tolist()


@LAW
@given(experiences())
def test_every_combiner_is_finite_and_leaves_one_number_per_trajectory(trajectories):
    batch = pack(trajectories)
    for combine in COMBINERS:
        total = combine(batch, {})
        assert total.scores["reward"].values.shape == (batch.trajectories,)
        assert all(bool(torch.isfinite(total.scores[name].values).all()) for name in total.scores if "reward" in name)


@LAW
@given(experiences())
def test_trivial_settings_are_the_plain_sum(trajectories):
    batch = pack(trajectories)
    plain = WeightedSum()(batch, {})
    for combine in (WeightedByTask(), Gated(()), RuleOverModel("no such", "score"), WeightedSum({})):
        other = combine(batch, {})
        for name in ("reward", "reward/turn", "reward/decision"):
            assert (name in plain.scores) == (name in other.scores)
            if name in plain.scores:
                torch.testing.assert_close(plain.scores[name].values, other.scores[name].values, rtol=0, atol=0)


def test_a_combiners_own_weights_replace_those_of_the_rewards_it_names():
    batch = batch_of([{"a": 1.0, "b": 10.0}, {"a": 2.0, "b": None}])
    assert reward(WeightedSum({"b": 0.5})(batch, {"a": 3.0, "b": 7.0})) == [8.0, 6.0]


@LAW
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.5, None]), min_size=2, max_size=2), min_size=1, max_size=8))
def test_normalised_sum_by_hand(values):
    groups = [n % 2 for n in range(len(values))]
    batch = batch_of([dict(zip("ab", row, strict=True)) for row in values], groups)
    found = reward(NormalisedSum(weights={"b": 3.0}, epsilon=0.01)(batch, {"a": 1.0, "b": 1.0}))
    for number, row in enumerate(values):
        wanted = 0.0
        for column, weight in ((0, 1.0), (1, 3.0)):
            others = [v[column] for v, g in zip(values, groups, strict=True) if g == groups[number]]
            known = [v for v in others if v is not None]
            if row[column] is None or len(set(known)) < 2:
                continue
            middle = sum(known) / len(known)
            spread = math.sqrt(sum((v - middle) ** 2 for v in known) / (len(known) - 1))
            wanted += weight * (row[column] - middle) / (spread + 0.01)
        assert found[number] == pytest.approx(wanted, abs=1e-12)


def test_trajectories_without_weight_enter_no_statistic():
    document = random_document(Key.of(1), groups=1, samples=5)
    for row, value in zip(document["trajectories"], (1.0, 2.0, 3.0, 100.0, -100.0), strict=True):
        row["scores"] = {"a": value}
    for row in document["trajectories"][3:]:
        row["trained"] = [False] * len(row["logp"])
    batch = RecordedBatch(document).batch
    assert reward(NormalisedSum(epsilon=0.0)(batch, {"a": 1.0})) == [-1.0, 0.0, 1.0, 0.0, 0.0]
    combine = FrozenScale(adaptive=False)
    total, state = combine(batch, {"a": 1.0}, combine.init())
    assert (state["mean"], state["deviation"]) == ({"a": 2.0}, {"a": 1.0})
    assert reward(total) == [-1.0, 0.0, 1.0, 0.0, 0.0]


def test_weights_by_task_come_from_metadata_or_a_column():
    scores = [{"a": 1.0, "b": 10.0}] * 3
    combine = WeightedByTask({"x": {"a": 1.0, "b": 0.0}, "y": {"a": 0.0}})
    told = [{"metadata": {"task": "x"}}, {"metadata": {"task": "y"}}, {"metadata": {}}]
    assert reward(combine(batch_of(scores, info=told), {"a": 1.0, "b": 2.0})) == [1.0, 20.0, 21.0]
    column = [{"task": task} for task in ("x", "y", "z")]
    assert reward(combine(batch_of(scores, info=column), {"a": 1.0, "b": 2.0})) == [1.0, 20.0, 21.0]
    assert reward(combine(batch_of(scores), {"a": 1.0, "b": 2.0})) == [21.0] * 3


def test_gates_bar_all_and_pay_once():
    rows = [
        {"correct": 1.0, "judge": 1.0, "style": 0.3},
        {"correct": 1.0, "judge": 0.4, "style": 0.3},
        {"correct": None, "judge": 0.9, "style": 0.3},
        {"correct": 0.0, "judge": None, "style": 0.3},
        {"correct": None, "judge": None, "style": None},
    ]
    assert reward(Gated(weights={"correct": 2.0})(batch_of(rows), {})) == [2.3, 0.0, 2.3, 0.0, 2.0]


def test_a_gate_bars_rewards_of_decisions_too():
    rows = [{"correct": right} for right in (1.0, 0.0)]
    batch = batch_of(rows)
    document = {
        "version": 1,
        "trajectories": [
            {"id": str(n), "group": "g", "scores": row, "logp": [-1.0, -1.0], "token_scores": {"step": [0.5, 0.25]}}
            for n, row in enumerate(rows)
        ],
    }
    batch = RecordedBatch(document).batch
    assert Gated()(batch, {}).scores["reward/decision"].values.tolist() == [0.5, 0.25, 0.0, 0.0]


def test_a_rule_overrides_a_model_by_its_confidence():
    rows = [
        {"correct": 1.0, "model": 0.2, "sure": 0.5},
        {"correct": None, "model": 0.4},
        {"correct": 0.0, "model": None},
    ]
    batch = batch_of(rows)
    assert reward(RuleOverModel(weights={"sure": 0.0})(batch, {})) == [1.0, 0.4, 0.0]
    assert reward(RuleOverModel(confidence=0.25, weights={"sure": 0.0})(batch, {})) == pytest.approx([0.4, 0.4, 0.0])
    assert reward(RuleOverModel(confidence="sure")(batch, {})) == pytest.approx([0.6, 0.4, 0.0])
    with pytest.raises(ValueError, match="confidence"):
        RuleOverModel(confidence=1.5)


def test_mixture_knows_who_has_no_opinion():
    nan = math.nan
    found = mixed(*(torch.tensor(x) for x in ([1.0, nan, 1.0, nan], [0.0, 0.5, nan, nan], [0.75, 1.0, 0.0, 0.5])))
    assert found[:3].tolist() == [0.75, 0.5, 1.0]
    assert math.isnan(found[3])


def test_a_normalised_sum_needs_no_scaling_credit():
    batch = {"version": 1, "trajectories": [
        {"group": "g", "scores": {"a": a, "b": b}, "logp": [-1.0]} for a, b in ((0.0, 5.0), (1.0, 7.0), (2.0, 0.0))
    ]}  # fmt: skip
    seen = inspect(find("multi-objective-grpo-normalised").but({"combine.epsilon": 0.0}), batch)["advantages"]
    spread = math.sqrt(13)
    assert [row[0] for row in seen] == pytest.approx([-1 + 1 / spread, 3 / spread, 1 - 4 / spread])


# ---------------------------------------------------------------- the frozen scale


def test_statistics_are_those_of_the_first_batch_for_ever():
    combine = FrozenScale(adaptive=False)
    first, state = combine(batch_of([{"a": 1.0}, {"a": 3.0}]), {"a": 1.0}, combine.init())
    assert reward(first) == pytest.approx([-math.sqrt(0.5), math.sqrt(0.5)])
    later, state = combine(batch_of([{"a": 100.0}, {"a": 2.0}]), {"a": 1.0}, state)
    assert reward(later) == pytest.approx([98 / math.sqrt(2), 0.0])
    assert state["mean"] == {"a": 2.0}


def test_a_source_that_never_varied_counts_nothing_until_it_does():
    combine = FrozenScale(adaptive=False)
    _, state = combine(batch_of([{"a": 1.0, "b": 5.0}, {"a": 3.0, "b": 5.0}]), {}, combine.init())
    assert "b" not in state["mean"]
    _, state = combine(batch_of([{"a": 1.0, "b": 5.0}, {"a": 3.0, "b": 7.0}]), {}, state)
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


def test_risk_multiplies_a_weight():
    ones = torch.ones(2, dtype=torch.float64)
    assert factor_weights(ones, torch.tensor([3.0, 1.0]).double(), ones, 1.0).tolist() == [0.75, 0.25]


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
    batch = batch_of([{"a": 1.0}, {"a": 3.0}])
    _, state = recipe.compute_credit(batch, recipe.init(), {"a": 1.0})
    assert state["combine"]["mean"] == {"a": 2.0}
    assert recipe.init() == {"combine": {"mean": {}, "deviation": {}, "level": {}}}, "the first state is not written to"
    document = {"version": 1, "state": state, "trajectories": [
        {"group": "g", "scores": {"a": value}, "logp": [-1.0]} for value in (4.0, 8.0)
    ]}  # fmt: skip
    assert len(inspect(recipe, document)["advantages"]) == 2


@pytest.mark.parametrize("combine", COMBINERS, ids=lambda one: type(one).__name__)
def test_a_combiner_can_be_written_down(combine):
    assert from_plain(to_plain(combine)) == combine


def test_order_of_trajectories_does_not_matter():
    document = random_document(Key.of(5))
    for number, row in enumerate(document["trajectories"]):
        row["scores"] = {"a": number % 3 / 2, "b": float(number % 5)}
    turned = {**document, "trajectories": document["trajectories"][::-1]}
    for combine in (NormalisedSum(), FrozenScale()):
        recipe = GRPO.but(combine=combine)
        one, other = inspect(recipe, document), inspect(recipe, turned)
        for left, right in zip(one["advantages"], other["advantages"][::-1], strict=True):
            assert left == pytest.approx(right, abs=1e-9)


def test_counted_trajectories():
    document = random_document(Key.of(2), groups=1, samples=2)
    document["trajectories"][0]["trained"] = [False] * len(document["trajectories"][0]["logp"])
    assert counted_trajectories(RecordedBatch(document).batch).tolist() == [False, True]

"""What holds for every combiner, plain sums, gates, and who enters a statistic."""

from __future__ import annotations

import pytest
import torch
from credit_cases import LAW, experiences
from hypothesis import given
from rewards_cases import rewards_of, scored_batch

from hocket.core.components import from_plain, to_plain
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.core.signals import counted_trajectories
from hocket.lab.documents import random_document
from hocket.lab.microscope import RecordedBatch, inspect
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.dr_genre import WeightedByTask
from hocket.methods.group_relative.hybrid_multi_aspect_reward import RuleOverModel
from hocket.methods.group_relative.multi_objective_grpo import NormalisedSum
from hocket.methods.group_relative.quark_medical_alignment import FrozenScale
from hocket.rewards.combine import Gated, WeightedSum

COMBINERS = (
    WeightedSum(),
    NormalisedSum(),
    WeightedByTask({"x": {"a": 2.0}}),
    Gated(("a", "b")),
    RuleOverModel("a", "b"),
)


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
    batch = scored_batch([{"a": 1.0, "b": 10.0}, {"a": 2.0, "b": None}])
    assert rewards_of(WeightedSum({"b": 0.5})(batch, {"a": 3.0, "b": 7.0})) == [8.0, 6.0]


def test_trajectories_without_weight_enter_no_statistic():
    document = random_document(Key.of(1), groups=1, samples=5)
    for row, value in zip(document["trajectories"], (1.0, 2.0, 3.0, 100.0, -100.0), strict=True):
        row["scores"] = {"a": value}
    for row in document["trajectories"][3:]:
        row["trained"] = [False] * len(row["logp"])
    batch = RecordedBatch(document).batch
    assert rewards_of(NormalisedSum(epsilon=0.0)(batch, {"a": 1.0})) == [-1.0, 0.0, 1.0, 0.0, 0.0]
    combine = FrozenScale(adaptive=False)
    total, state = combine(batch, {"a": 1.0}, combine.init())
    assert (state["mean"], state["deviation"]) == ({"a": 2.0}, {"a": 1.0})
    assert rewards_of(total) == [-1.0, 0.0, 1.0, 0.0, 0.0]


def test_gates_bar_all_and_pay_once():
    rows = [
        {"correct": 1.0, "judge": 1.0, "style": 0.3},
        {"correct": 1.0, "judge": 0.4, "style": 0.3},
        {"correct": None, "judge": 0.9, "style": 0.3},
        {"correct": 0.0, "judge": None, "style": 0.3},
        {"correct": None, "judge": None, "style": None},
    ]
    assert rewards_of(Gated(weights={"correct": 2.0})(scored_batch(rows), {})) == [2.3, 0.0, 2.3, 0.0, 2.0]


def test_a_gate_bars_rewards_of_decisions_too():
    rows = [{"correct": right} for right in (1.0, 0.0)]
    batch = scored_batch(rows)
    document = {
        "version": 1,
        "trajectories": [
            {"id": str(n), "group": "g", "scores": row, "logp": [-1.0, -1.0], "token_scores": {"step": [0.5, 0.25]}}
            for n, row in enumerate(rows)
        ],
    }
    batch = RecordedBatch(document).batch
    assert Gated()(batch, {}).scores["reward/decision"].values.tolist() == [0.5, 0.25, 0.0, 0.0]


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

"""Independent samples, greedy baselines, demonstrations, preferences."""

from __future__ import annotations

import pytest
from rollout_cases import Stage, assignments, identity

from hocket.core.components import from_plain, to_plain
from hocket.core.errors import ConfigurationError
from hocket.core.packing import pack
from hocket.credit.group import GroupRelative
from hocket.credit.pairs import BestAgainstWorst
from hocket.credit.reinforce import GreedyBaseline
from hocket.methods.preference.kto.labels import Desirability
from hocket.rewards.combine import WeightedSum
from hocket.rollout.baseline import WithGreedyBaseline
from hocket.rollout.demonstrations import Demonstrations, Labelled, Preferences, Ranked
from hocket.rollout.dynamic import DynamicSampling
from hocket.rollout.independent import Independent
from hocket.types import Assignment, Decoding, Scenario


def by_sample(scenario, sample):
    return float(sample)


def test_independent_samples():
    experience = Stage(by_sample).collect(Independent(samples=3), assignments("a", "b"), more=lambda n: [])
    assert identity(experience.trajectories) == [(s, i) for s in "ab" for i in range(3)]


def test_greedy_baseline_feeds_remax():
    decoding = Decoding(temperature=0.7, max_tokens=9)
    stage = Stage(lambda scenario, sample: sample + 1.0)
    asked = [Assignment(Scenario(name), decoding=decoding) for name in "ab"]
    experience = stage.collect(WithGreedyBaseline(samples=2), asked)
    assert [(t.scenario.id, t.source) for t in experience.trajectories] == [
        (s, source) for s in "ab" for source in ("own", "own", "baseline")
    ]
    sampled, greedy = stage.asked[0][:2]
    assert sampled.decoding == decoding
    assert greedy.decoding == Decoding(temperature=0.0, max_tokens=9)
    assert greedy.samples == 1
    batch = WeightedSum()(pack(experience.trajectories), {})
    seen = GreedyBaseline()(batch)
    assert seen.advantage.tolist() == [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    assert seen.weight.tolist() == [1, 1, 0, 1, 1, 0]
    assert WithGreedyBaseline.gives_baseline


def test_demonstrations_ask_for_teacher_forcing():
    stage = Stage(by_sample)
    asked = [
        *assignments("shown", demonstration="2+2=4"),
        Assignment(Scenario("answered", answer=7, metadata={"k": 1})),
    ]
    experience = stage.collect(Demonstrations(samples=2), asked)
    assert [(a.source, a.samples) for a in stage.asked[0]] == [("expert", 2), ("expert", 2)]
    assert [a.scenario.metadata["demonstration"] for a in stage.asked[0]] == ["2+2=4", "7"]
    assert stage.asked[0][1].scenario.metadata["k"] == 1
    assert "demonstration" not in asked[1].scenario.metadata, "the scenario asked is left alone"
    assert {t.source for t in experience.trajectories} == {"expert"}
    assert len(stage.scored) == 4
    with pytest.raises(ConfigurationError, match="'bare'"):
        stage.collect(Demonstrations(), assignments("bare"))


def test_preferences_become_pairs():
    stage = Stage(by_sample)
    asked = assignments("a", "b", chosen="good", rejected="bad")
    experience = stage.collect(Preferences(), asked)
    assert [(a.source, a.samples, a.first) for a in stage.asked[0]] == [("imported", 2, 0)] * 2
    assert [t.scores["preference"].value for t in experience.trajectories] == [1.0, 0.0, 1.0, 0.0]
    assert stage.scored == [], "no other opinion may turn a preference round"
    batch = WeightedSum()(pack(experience.trajectories), {})
    assert BestAgainstWorst()(batch).pairs.tolist() == [[0, 1], [2, 3]]
    with pytest.raises(ConfigurationError, match="'rejected'"):
        stage.collect(Preferences(), assignments("a", chosen="good"))


@pytest.mark.parametrize(
    "rollout",
    [
        DynamicSampling(oversample=1.5, score="v"),
        WithGreedyBaseline(2),
        Demonstrations(),
        Preferences(),
        Labelled(True),
        Ranked(),
    ],
)
def test_rollouts_are_values_that_configuration_files_hold(rollout):
    plain = to_plain(rollout)
    assert plain["type"] == f"hocket.rollout.{type(rollout).__name__}"
    assert from_plain(plain) == rollout


@pytest.mark.parametrize("kind", [Independent, WithGreedyBaseline, Demonstrations])
def test_samples_are_checked(kind):
    with pytest.raises(ValueError, match="samples"):
        kind(samples=0)


def test_groups_of_dynamic_sampling_all_carry_credit():
    stage = Stage(lambda scenario, sample: float(sample % 2) if scenario != "flat" else 1.0)
    experience = stage.collect(DynamicSampling(samples=2, max_rounds=2), assignments("a", "flat", "b"))
    batch = WeightedSum()(pack(experience.trajectories), {})
    assert (GroupRelative()(batch).advantage != 0).all()


def test_labelled_answers_are_scored_by_their_label_and_met_by_each_others_prompts():
    stage = Stage(by_sample)
    asked = [
        *assignments("a", demonstration="good", label=True, weight=2),
        *assignments("b", demonstration="bad", label=False),
    ]
    experience = stage.collect(Labelled(mismatched=True), asked)
    shown = [(a.scenario.id, a.source, a.scenario.metadata["demonstration"]) for call in stage.asked for a in call]
    assert shown == [("a", "expert", "good"), ("b", "expert", "bad"), ("a", "expert", "bad"), ("b", "expert", "good")]
    own, others = experience.trajectories[:2], experience.trajectories[2:]
    assert [t.scores["label"].value for t in own] == [1.0, 0.0]
    assert not any(t.scores for t in others)
    batch = WeightedSum()(pack(experience.trajectories), {})
    seen = Desirability()(batch)
    assert seen.advantage.tolist() == [2.0, -1.0, 0.0, 0.0]
    assert seen.weight.tolist() == [1, 1, 0, 0]
    assert stage.scored == []
    for wrong, why in ((assignments("a", demonstration="good"), "'label'"), (asked[:1], "at least 2")):
        with pytest.raises(ConfigurationError, match=why):
            stage.collect(Labelled(mismatched=True), wrong)


def test_ranked_answers_carry_their_scores():
    experience = Stage(by_sample).collect(Ranked(), assignments("a", responses=["x", "y", "z"], scores=[1, 3, 2]))
    assert [t.scores["preference"].value for t in experience.trajectories] == [1.0, 3.0, 2.0]
    assert [t.scenario.metadata["demonstration"] for t in experience.trajectories] == ["x", "y", "z"]
    batch = WeightedSum()(pack(experience.trajectories), {})
    assert BestAgainstWorst()(batch).pairs.tolist() == [[1, 0]]
    for wrong in ({"responses": ["x"], "scores": [1]}, {"responses": ["x", "y"], "scores": [1]}):
        with pytest.raises(ConfigurationError, match="ranked answers need two or more"):
            Stage(by_sample).collect(Ranked(), assignments("a", **wrong))


def test_pairs_carry_the_numbers_of_their_scenario():
    asked = assignments("a", chosen="good", rejected="bad", weight=0.5, margin=2, target=0.75)
    experience = Stage(by_sample).collect(Preferences(), [*asked, *assignments("b", chosen="good", rejected="bad")])
    seen = BestAgainstWorst()(WeightedSum()(pack(experience.trajectories), {}))
    assert [seen.pair_weight.tolist(), seen.pair_margin.tolist(), seen.pair_target.tolist()] == [
        [0.5, 1.0],
        [2.0, 0.0],
        [0.75, 1.0],
    ]

"""Rewards by nearness and steps, and the conformance of traces, against counting by hand."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.toys.rewarded import said, shaped
from hocket.methods.group_relative.crowdvlm_r1 import Closeness, closeness, number_of
from hocket.methods.group_relative.e_grpo import E_GRPO, EntityMatch, matched_share
from hocket.methods.group_relative.pm4grpo import PM4GRPO, Conformance, activities, conformance, harmonic_mean
from hocket.methods.group_relative.r1_vl import R1_VL, keyword_density, match_ratio
from hocket.methods.group_relative.temporal_r1 import IntervalIoU, interval_iou, interval_of
from hocket.methods.group_relative.tempsamp_r1 import TEMPSAMP_R1, AsymmetricCurve, asymmetric_curve
from hocket.rewards.key_steps import OrderedStages
from hocket.types import Scenario, Trajectory, Turn

BOUNDS = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda ends: (float(min(ends)), float(max(ends))))
UNIT = st.floats(0, 1)


def opinions(reward, texts, scenario):
    trajectories = [
        Trajectory(scenario, [Turn("a", "a", np.zeros(1, np.int64), np.zeros(1, np.int64), text=text)])
        for text in texts
    ]
    return list(asyncio.run(reward(trajectories, key=Key.of(0))))


@given(st.floats(-100, 100), st.floats(0.5, 100), st.floats(0.1, 10))
def test_closeness_is_scale_free_and_bounded(guess, truth, scale):
    value = closeness(guess, truth)
    gap = abs(guess - truth) / truth
    assert value == (1.5 - gap if gap < 0.5 else 0.0)
    if abs(gap - 0.5) > 1e-9:
        assert closeness(scale * guess, scale * truth) == pytest.approx(value, abs=1e-9)


def test_a_count_of_nothing_is_hit_or_missed():
    assert closeness(0, 0) == 1.5
    assert closeness(1, 0) == 0.0


def test_closeness_reads_texts_and_truths_from_answer_or_metadata():
    texts = ["<answer>9</answer>", "<answer> 10 </answer>", "<answer>ten</answer>", "10"]
    assert opinions(Closeness(), texts, Scenario("s", answer="10")) == pytest.approx([1.4, 1.5, 0.0, 0.0])
    told = Scenario("s", metadata={"count": 10})
    assert opinions(Closeness(key="count", extract="number"), texts, told) == pytest.approx([1.4, 1.5, 0.0, 1.5])
    assert opinions(Closeness(), texts[:1], Scenario("s")) == [None]


@given(st.text(max_size=30))
def test_any_text_is_graded(text):
    for value in opinions(Closeness(extract="number"), [text], Scenario("s", answer=7)):
        assert value is not None
        assert 0 <= value <= 1.5
    for value in opinions(IntervalIoU(extract="last-line"), [text], Scenario("s", metadata={"interval": (1, 4)})):
        assert value is not None
        assert 0 <= value <= 1
    assert number_of(text) is None or math.isfinite(number_of(text))


@given(BOUNDS, BOUNDS)
def test_iou_counts_cells(one, other):
    cells = set(range(int(one[0]), int(one[1]))), set(range(int(other[0]), int(other[1])))
    union = cells[0] | cells[1]
    expected = 1.0 if one == other else len(cells[0] & cells[1]) / len(union) if union else 0.0
    assert interval_iou(one, other) == pytest.approx(expected)
    assert interval_iou(one, other) == interval_iou(other, one)


def test_intervals_in_words():
    assert interval_of("from 2.5 s to 7 s") == (2.5, 7.0)
    assert interval_of("2-7") == (2.0, 7.0)
    assert interval_of("at 7") is None
    assert interval_iou((7.0, 2.0), (2.0, 7.0)) == 0.0
    assert interval_iou((7.0, 2.0), (7.0, 2.0)) == 0.0


def test_entities_match_whole_words_only():
    assert matched_share("Ada  LOVELACE, London", ["Ada Lovelace", "London"]) == 1
    assert matched_share("Londoners", ["London"]) == 0
    assert matched_share("anything", []) == 0
    assert matched_share("a (b) c+", ["(b)", "c+"]) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_entity_rewards_by_hand(samples):
    names = ["oak", "pine", "fir"]
    rows = [
        said("q", " ".join(names[:found]), float(right), label="x" if formed else None, info={"entities": names})
        for found, right, formed in samples
    ]
    highest = max(found for found, _, _ in samples)
    wanted = [
        1.0 if right else 0.3 * found / highest if formed and highest else 0.0 for found, right, formed in samples
    ]
    other = said("other", "", label="x")
    assert shaped(E_GRPO, [*rows, other])[:-1] == pytest.approx(wanted, abs=1e-12)


def test_metadata_name_entities_steps_and_teachers_too():
    told = {"metadata": {"entities": ["oak"], "key_steps": ["oak"], "teacher": ["derive"]}}
    rows = [said("q", "oak makes 4 <answer>4</answer>", label="4", info=told)]
    assert shaped(E_GRPO, rows) == pytest.approx([0.3])
    assert shaped(R1_VL, rows) == pytest.approx([0.1])
    assert shaped(PM4GRPO, rows) == pytest.approx([1.0])


def test_steps_are_matched_as_phrases_before_the_answer():
    assert match_ratio("it gives 17 <answer>17 times</answer>", ["17 times", "gives 17"]) == 0.5
    assert match_ratio("it gives 171", ["gives 17"]) == 0
    assert match_ratio("anything", []) == 0
    assert keyword_density("one two", ["one", ["two"]]) == 1
    assert keyword_density("so one is it", ["one"]) == 0.25
    assert keyword_density("", ["one"]) == 0


def test_answers_without_known_steps_keep_their_reward():
    recipe = R1_VL.but({"shaping.1.weight": 0.0})
    assert shaped(recipe, [said("q", "hm", 0.7, label=None), said("q", "hm", 0.2, label="x")]) == [0.7, 0.2]


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("<think>a</think> <answer>b</answer>", True),
        ("<THINK>a</THINK><answer>b</answer>", True),
        ("<answer>b</answer> <think>a</think>", False),
        ("<think>a</think>", False),
        ("", False),
    ],
)
def test_stages_stand_in_order(text, valid):
    assert OrderedStages().holds(text) is valid
    assert OrderedStages(("a", "b")).holds("a a b b")
    assert not OrderedStages(("a", "b")).holds("a b a")


@given(st.lists(UNIT, min_size=2, max_size=8), UNIT, st.floats(0.01, 1), st.floats(0.1, 5))
def test_the_curve_rises_and_has_the_formula(rewards, threshold, above, below):
    values = torch.tensor(sorted(rewards), dtype=torch.float64)
    bent = asymmetric_curve(values, threshold, above, below)
    assert bool((bent.diff() >= -1e-12).all())
    for r, value in zip(values.tolist(), bent.tolist(), strict=True):
        high = threshold + above * math.log(1 + r - threshold) if r > threshold else None
        low = threshold - (math.exp(below * (threshold - r)) - 1) / (math.exp(below) - 1)
        assert value == pytest.approx(low if high is None else high, abs=1e-9)


def test_the_curve_is_applied_to_whole_returns():
    rows = [said("q", "x", 0.3), {**said("q", "x", 0.1), "token_scores": {"step": [0.1, 0.1]}}]
    shape = AsymmetricCurve()
    assert TEMPSAMP_R1.shaping == (shape,)
    summed = TEMPSAMP_R1.but(name="sum")
    rows = [{**row, "scores": {"verdict": row["scores"]["reward"]}} for row in rows]
    assert shaped(summed, rows)[0] == pytest.approx(shaped(summed, rows)[1])


def test_activities_by_rules():
    text = "We are asked for 3.5 plus 4. Add them; that makes 7.5! Hm. Let me verify. So the answer is 7.5"
    assert activities(text) == ("restate", "derive", "derive", "check", "conclude")
    assert activities("") == ()
    assert activities("Foo bar", (("named", "foo"),)) == ("named",)


def test_the_harmonic_mean_of_nothing_is_nothing():
    assert harmonic_mean(0.0, 0.0) == 0.0
    assert harmonic_mean(1.0, 0.5) == pytest.approx(2 / 3)


def test_conformance_of_traces():
    pytest.importorskip("pm4py")
    assert conformance(("a", "b", "c"), ("a", "b", "c")) == (1.0, 1.0)
    assert conformance((), ("a",)) == (0.0, 0.0)
    assert conformance(("a",), ()) == (0.0, 0.0)
    assert Conformance().score("add 3 and 4", "sum them") == 1.0
    assert Conformance().score("add 3 and 4", None) == 0.0


def test_conformance_without_pm4py_says_what_to_install(monkeypatch):
    import sys

    from hocket.methods.group_relative import pm4grpo as module

    monkeypatch.setitem(sys.modules, "pm4py", None)
    module._pm4py.cache_clear()
    module.conformance.cache_clear()
    try:
        with pytest.raises(ConfigurationError, match=r"hocket\[process\]"):
            Conformance().score("add 3 and 4", ["derive"])
    finally:
        module._pm4py.cache_clear()


@pytest.mark.parametrize(
    "make",
    [
        lambda: EntityMatch(alpha=1.0),
        lambda: AsymmetricCurve(above=0.0),
        lambda: Closeness(extract="anywhere"),
        lambda: Closeness(cut=2.0),
        lambda: IntervalIoU(extract="anywhere"),
    ],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises((ValueError, ConfigurationError), match=r"must|unknown"):
        make()

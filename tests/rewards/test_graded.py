"""Any text graded, what metadata name, stages in order, and settings that are refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewards_cases import opinions

from hocket.core.errors import ConfigurationError
from hocket.lab.toys.recorded_answers import said, shaped
from hocket.methods.group_relative.crowdvlm_r1 import Closeness, number_of
from hocket.methods.group_relative.e_grpo import E_GRPO, EntityMatch
from hocket.methods.group_relative.pm4grpo import PM4GRPO
from hocket.methods.group_relative.r1_vl import R1_VL
from hocket.methods.group_relative.temporal_r1 import IntervalIoU
from hocket.methods.group_relative.tempsamp_r1 import AsymmetricCurve
from hocket.rewards.key_steps import OrderedStages
from hocket.types import Scenario


@given(st.text(max_size=30))
def test_any_text_is_graded(text):
    for value in opinions(Closeness(extract="number"), [text], Scenario("s", answer=7)):
        assert value is not None
        assert 0 <= value <= 1.5
    for value in opinions(IntervalIoU(extract="last-line"), [text], Scenario("s", metadata={"interval": (1, 4)})):
        assert value is not None
        assert 0 <= value <= 1
    assert number_of(text) is None or math.isfinite(number_of(text))


def test_metadata_name_entities_steps_and_teachers_too():
    told = {"metadata": {"entities": ["oak"], "key_steps": ["oak"], "teacher": ["derive"]}}
    rows = [said("q", "oak makes 4 <answer>4</answer>", label="4", info=told)]
    assert shaped(E_GRPO, rows) == pytest.approx([0.3])
    assert shaped(R1_VL, rows) == pytest.approx([0.1])
    assert shaped(PM4GRPO, rows) == pytest.approx([1.0])


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

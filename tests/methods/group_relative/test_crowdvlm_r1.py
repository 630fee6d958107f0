"""Closeness of counts, and where they are read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewards_cases import opinions

from hocket.methods.group_relative.crowdvlm_r1 import Closeness, closeness, number_of
from hocket.types import Scenario


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


def test_counts_are_read_as_everywhere():
    for text, value in (
        ("1e3", 1000),
        ("\u22125", -5),
        ("12.", 12),
        ("1_0", None),
        ("٥", None),
        ("nan", None),
        (math.nan, None),
    ):
        assert number_of(text) == value, text

"""Closeness of counts, and where they are read."""

from __future__ import annotations

import math

import pytest
from rewards_cases import opinions

from hocket.methods.group_relative.crowdvlm_r1 import Closeness, number_of
from hocket.types import Scenario


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

"""Bags of words, boxes and near numbers, and a route for each scenario."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rewards_cases import answered, graded

from hocket.methods.group_relative.mixed_r1 import (
    ROUTES,
    Routed,
    bag_similarity,
    box_in,
    box_overlap,
    max_average,
    near_number,
    overlap,
)


def test_max_average_by_hand():
    assert max_average(torch.tensor([[0.2, 0.8], [0.4, 0.1], [0.0, 0.6]])) == pytest.approx(
        ((0.8 + 0.4 + 0.6) / 3 + (0.4 + 0.8) / 2) / 2
    )


def test_a_models_own_embeddings_may_be_given():
    table = {"a": [1.0, 0.0], "b": [0.0, 2.0], "c": [3.0, 3.0]}
    found = bag_similarity("a", "c", lambda tokens: torch.tensor([table[token] for token in tokens]))
    assert found == pytest.approx(0.5**0.5)


BOXES = st.tuples(*[st.floats(0, 10)] * 4)


@given(BOXES, BOXES)
def test_overlap_is_symmetric_and_a_share(one, other):
    assert overlap(one, other) == pytest.approx(overlap(other, one))
    assert 0.0 <= overlap(one, other) <= 1.0 + 1e-12
    if one[0] < one[2] and one[1] < one[3] and (one[2] - one[0]) * (one[3] - one[1]) > 1e-6:
        assert overlap(one, one) == pytest.approx(1.0)


def test_boxes_in_words():
    assert box_in("from (1, 2) to [3.5, -4]") == (1.0, 2.0, 3.5, -4.0)
    assert box_in("1 2 3") is None
    assert box_overlap("no box", (0, 0, 1, 1)) == 0.0


def test_numbers_may_be_near():
    assert [near_number(text, 200) for text in ("210", "189.9", "it is 1,000", "none", "-200")] == [1, 0, 0, 0, 0]
    assert near_number("0", 0) == 1.0


def test_each_scenario_has_one_opinion():
    answers = [
        answered("<answer>B</answer>", "b", reward="match"),
        answered("thus\n42", "40", reward="chart"),
        answered("<answer>0 0 2 2</answer>", (0, 0, 2, 1), reward="box"),
        answered("a red fox", "fox red a", reward="open"),
        answered("7", 7),
        answered("7", None, reward="match"),
        answered("7", 7, reward="other"),
    ]
    table = [graded(route, *answers) for route in ROUTES]
    opinions = [[value for value in column if value is not None] for column in zip(*table, strict=True)]
    assert opinions == [[1.0], [1.0], [0.5], [pytest.approx(1.0)], [1.0], [], []]
    assert [route.name for route in ROUTES] == ["match", "chart", "box", "open"]


def test_a_route_may_grade_in_its_own_way():
    assert graded(
        Routed("length", grade=lambda text, answer: float(len(text))), answered("abc", 1, reward="length")
    ) == [3.0]
    with pytest.raises(ValueError, match="kind"):
        Routed("length")


def test_numbers_are_read_as_everywhere():
    for text, reference, due in (
        ("so \u22125", 5, 0),
        ("so \u22125", -5, 1),
        ("1e3", 3, 0),
        ("10,00", 0, 0),
        ("105", 100, 1),
    ):
        assert near_number(text, reference) == due, text
    assert box_in("1,200,300,400") == (1, 200, 300, 400)
    assert box_in("1_0, 2, 3, 4") is None

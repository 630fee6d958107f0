"""Routers, bags, boxes, checklists, languages, length bands: graded by hand."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.microscope import RecordedBatch
from hocket.methods.group_relative.ace_rl import (
    Checklist,
    EndsWith,
    HasSection,
    InOrder,
    Mentions,
    WordRange,
    decompose,
    instruction,
)
from hocket.methods.group_relative.curr_reft import FormatGrade, chosen_share
from hocket.methods.group_relative.hybrid_multi_aspect_reward import LengthBand, band_penalty
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
from hocket.methods.group_relative.qwen3_korean import LanguageShare, script_share, thoughts, vocabulary_share
from hocket.rewards.verifiers import final_answer, token_match
from hocket.types import Scenario, Trajectory, Turn

WORDS = st.lists(st.sampled_from(["red", "box", "small", "green", "table", "a", "the"]), min_size=1, max_size=6)
BOXES = st.tuples(*[st.floats(0, 10)] * 4)


def said(text, answer=None, **metadata):
    turn = Turn("solo", "solo", np.zeros(1, np.int64), np.zeros(1, np.int64), text=text)
    return Trajectory(Scenario("s", answer=answer, metadata=metadata), [turn])


def graded(reward, *trajectories):
    return list(asyncio.run(reward(trajectories, key=Key.of(0))))


# ---------------------------------------------------------------- similarity


@given(WORDS, WORDS, st.randoms(use_true_random=False))
def test_bag_similarity_is_symmetric_blind_to_order_and_1_for_equal_bags(one, other, draw):
    mixed = list(one)
    draw.shuffle(mixed)
    first, second = " ".join(one), " ".join(other)
    assert bag_similarity(first, " ".join(mixed)) == pytest.approx(1.0)
    assert bag_similarity(first, second) == pytest.approx(bag_similarity(second, first))
    assert bag_similarity(first, second) == pytest.approx(bag_similarity(" ".join(mixed), second))
    assert -1e-12 <= bag_similarity(first, second) <= 1 + 1e-12


def test_bag_similarity_of_nothing():
    assert bag_similarity("", "") == 1.0
    assert bag_similarity("word", " ") == bag_similarity("", "word") == 0.0


def test_max_average_by_hand():
    assert max_average(torch.tensor([[0.2, 0.8], [0.4, 0.1], [0.0, 0.6]])) == pytest.approx(
        ((0.8 + 0.4 + 0.6) / 3 + (0.4 + 0.8) / 2) / 2
    )


def test_a_models_own_embeddings_may_be_given():
    table = {"a": [1.0, 0.0], "b": [0.0, 2.0], "c": [3.0, 3.0]}
    found = bag_similarity("a", "c", lambda tokens: torch.tensor([table[token] for token in tokens]))
    assert found == pytest.approx(0.5**0.5)


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


# ---------------------------------------------------------------- routes


def test_each_scenario_has_one_opinion():
    answers = [
        said("<answer>B</answer>", "b", reward="match"),
        said("thus\n42", "40", reward="chart"),
        said("<answer>0 0 2 2</answer>", (0, 0, 2, 1), reward="box"),
        said("a red fox", "fox red a", reward="open"),
        said("7", 7),
        said("7", None, reward="match"),
        said("7", 7, reward="other"),
    ]
    table = [graded(route, *answers) for route in ROUTES]
    opinions = [[value for value in column if value is not None] for column in zip(*table, strict=True)]
    assert opinions == [[1.0], [1.0], [0.5], [pytest.approx(1.0)], [1.0], [], []]
    assert [route.name for route in ROUTES] == ["match", "chart", "box", "open"]


def test_a_route_may_grade_in_its_own_way():
    assert graded(Routed("length", grade=lambda text, answer: float(len(text))), said("abc", 1, reward="length")) == [
        3.0
    ]
    with pytest.raises(ValueError, match="kind"):
        Routed("length")


def test_final_answers():
    assert [final_answer(text) for text in ("x <answer> 4 </answer> y", "a\n b \n\n", "")] == ["4", "b", ""]


# ---------------------------------------------------------------- checklists


@pytest.mark.parametrize(
    ("constraint", "met", "missed"),
    [
        (WordRange(2, 3), "two words", "one"),
        (Mentions("sea"), "The Sea.", "the seaside"),
        (InOrder("first", "then"), "First this, then that", "then first"),
        (EndsWith("end"), "this is the End.", "end of it"),
        (HasSection("Summary"), "intro\n  summary: all well", "a summary: no"),
    ],
)
def test_constraints(constraint, met, missed):
    assert constraint(met)
    assert not constraint(missed)
    assert not constraint("")
    assert decompose(instruction([constraint])) == (constraint,)


def test_the_reward_is_the_share_and_nothing_without_constraints():
    constraints = (WordRange(1, 3), Mentions("sea"), EndsWith("end"), HasSection("x"))
    reward = Checklist()
    found = graded(reward, said("sea end", constraints=constraints), said("", constraints=constraints), said("sea"))
    assert found == [0.75, 0.0, None]
    assert decompose(instruction(constraints)) == constraints


def test_a_demand_nobody_knows_is_refused():
    with pytest.raises(ConfigurationError, match="be nice"):
        decompose("Write a text: be nice.")


# ---------------------------------------------------------------- languages


def test_thoughts_are_what_stands_before_the_answer():
    assert thoughts("<think>a</think>b<think>c") == "a c"
    assert thoughts("a b <answer>c</answer>") == "a b "


def test_shares_of_scripts_and_vocabularies():
    assert script_share("둘 two", "Hangul") == 0.25
    assert script_share("1 + 1", "HANGUL") is None
    assert vocabulary_share("Hana, two", frozenset({"hana"})) == 0.5
    found = graded(LanguageShare(), said("<think>하나</think><answer>one</answer>"), said("<answer>1</answer>"))
    assert found == [1.0, None]
    assert graded(LanguageShare(words=("hana",), part="all"), said("hana dul")) == [0.5]


# ---------------------------------------------------------------- formats and lengths


def test_formats_are_graded_each_in_its_way():
    grade = FormatGrade().grade
    assert [grade("Yes.", "yes", "binary"), grade("no", "yes", "binary")] == [1.0, 0.0]
    assert [grade(text, "AC", "choice") for text in ("A", "C, A", "AB", "none")] == [0.5, 1.0, 0.0, 0.0]
    assert [grade("4.0", 4), grade("5", 4), grade("red big box", "box red")] == [1.0, 0.0, pytest.approx(0.8)]
    assert grade("4", None) is None
    assert chosen_share("", "A") == 0.0
    assert token_match("", "a") == 0.0


def test_a_length_band_costs_what_lies_outside():
    lengths = torch.tensor([0, 5, 10, 20, 30, 40, 100])
    assert band_penalty(lengths, 10, 20, 1.0).tolist() == [1.0, 0.5, 0.0, 0.0, 0.5, 1.0, 1.0]
    assert band_penalty(lengths, 0, 20, 2.0).tolist() == [0.0, 0.0, 0.0, 0.0, 0.25, 1.0, 1.0]
    rows = [{"group": "g", "scores": {"reward": 1.0}, "logp": [-1.0] * size} for size in (2, 3)]
    batch = LengthBand(longest=2, penalty=0.5)(RecordedBatch({"version": 1, "trajectories": rows}).batch)
    assert batch.scores["reward"].values.tolist() == [1.0, 0.75]
    with pytest.raises(ValueError, match="shortest"):
        LengthBand(longest=1, shortest=2)

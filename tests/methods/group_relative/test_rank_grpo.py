"""Gains of lists and advantages of their items by hand."""

from __future__ import annotations

import math
import re

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, make, make_turn, mean
from hypothesis import given
from hypothesis import strategies as st
from rewards_cases import answered, graded

from hocket.methods.group_relative.rank_grpo import ListedSteps, ListGain, RankRelative, name_of
from hocket.tasks.split import split_of


def test_a_list_earns_its_discounted_gain_and_tells_its_hits():
    trajectory = answered("Rome\n\n paris \nRome\nOslo", ["rome", "Oslo"])
    (gain,) = graded(ListGain(), trajectory)
    assert trajectory.info["hits"] == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert gain == pytest.approx(1 + 1 / torch.log2(torch.tensor(6.0)).item())
    assert graded(ListGain(), answered("", ["x"]), answered("x", "x")) == [0.0, None]


def listed(reward, segments, hits, *, truncated=False):
    trajectory = make("a", reward, truncated=truncated, turns=[make_turn(len(segments))])
    trajectory.turns[0].segment = torch.tensor(segments).numpy()
    trajectory.info["hits"] = hits
    return trajectory


@LAW
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4), min_size=2, max_size=5))
def test_item_advantages_by_hand(hits):
    batch = batch_of([listed(0.0, list(range(len(row))), row) for row in hits])
    longest = max(map(len, hits))
    gains = [[sum(h / math.log2(j + 2) for j, h in enumerate(row) if j >= k) for k in range(longest)] for row in hits]
    found = by_trajectory(batch, RankRelative(gain="remaining")(batch).advantage)
    for own, row in zip(found, gains, strict=True):
        for rank, advantage in enumerate(own):
            column = [other[rank] for other in gains]
            centre = mean(column)
            deviation = (sum((x - centre) ** 2 for x in column) / (len(column) - 1)) ** 0.5
            equal = max(column) == min(column)
            assert advantage == pytest.approx(0.0 if equal else (row[rank] - centre) / (deviation + 1e-4), abs=1e-9)


def test_a_list_cut_short_earns_no_end():
    batch = batch_of([listed(0.0, [0, 1, 1], [1.0, 0.0], truncated=True), listed(0.0, [0, 1, 1], [1.0, 0.0])])
    found = by_trajectory(batch, RankRelative(length=2)(batch).advantage)
    assert (found[0][-1], found[1][-1]) == (0.0, 0.1)


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("1. Rome", "rome"),
        ("12) Rome ", "rome"),
        ("- **Rome**", "rome"),
        ('2. "The  Third Man"', "the third man"),
        ("1. -5 + 3", "-5 + 3"),
        ("2001: A Space Odyssey", "2001: a space odyssey"),
        ("12.5 metres", "12.5 metres"),
        ("3.", "3."),
    ],
)
def test_an_item_without_its_marks(item, name):
    assert name_of(item) == name


def test_listed_steps_are_pairs_that_add_up_to_the_sum():
    task = ListedSteps()
    for number in range(20):
        scenario = task.scenario("train", number)
        asked = scenario.messages[-1]["content"].removeprefix("What is ").removesuffix("?")
        assert [len(re.findall(r"\d+", step)) for step in scenario.answer] == [2] * 3
        assert split_of(scenario.messages[-1]["content"]) == "train"
        assert sum(map(eval, scenario.answer)) == eval(asked)
        numbered = "\n".join(f"{n}. {step}" for n, step in enumerate(scenario.answer, 1))
        assert task.verify(numbered, scenario) == 1.0
        assert 0 < task.verify(numbered.rpartition("\n")[0], scenario) < 1

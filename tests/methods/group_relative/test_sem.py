"""Guess, search and answer found in a text."""

from __future__ import annotations

from statistics import fmean

import pytest
from rewards_cases import answered

from hocket.methods.group_relative.sem import KnownOrSought, parts_of
from hocket.tasks.split import split_of


def test_parts_of_a_search():
    assert parts_of("<answer>1</answer><search>q</search><answer>2</answer>") == ("1", True, "2")
    assert parts_of("<answer>1</answer>") == ("1", False, "1")
    assert parts_of("<search>q</search><answer>2</answer>") == (None, True, "2")
    assert parts_of("") == (None, False, None)


def test_half_of_the_shipped_tasks_questions_are_known_and_splits_share_none():
    task = KnownOrSought()
    drawn = [(split, task.scenario(split, number)) for split in ("train", "eval") for number in range(200)]
    assert all((split_of(str(one.prompt)) == "eval") == (split == "eval") for split, one in drawn)
    assert all(("*" in str(one.prompt)) != one.metadata["known"] for _, one in drawn)
    assert 0.4 < fmean(one.metadata["known"] for _, one in drawn) < 0.6


@pytest.mark.parametrize(
    ("text", "needed", "searched"),
    [
        ("<answer>7</answer>", 0, 0),
        ("<answer>3</answer><search>x</search><answer>7.0</answer>", 1, 1),
        ("<answer>7</answer><tool_call>x</tool_call><answer>3</answer>", 0, 1),
        ("<search>x</search><answer>7</answer>", 1, 1),
        ("7", 1, 0),
    ],
)
def test_an_episode_tells_if_a_search_was_needed(text, needed, searched):
    told = KnownOrSought().describe(answered(text, answer="7"))
    assert (told["needed"], told["searched"]) == (needed, searched)

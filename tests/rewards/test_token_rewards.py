"""Segments found in texts, and options in tags or plain."""

from __future__ import annotations

import pytest
from rewards_cases import answered, graded, read

from hocket.rewards.choices import SubsetMatch
from hocket.rewards.spans import SegmentsByText, numbered_by

# ---------------------------------------------------------------- segments


@pytest.mark.parametrize(
    ("pieces", "separator", "numbers"),
    [
        (["a", "\n", "b", "\n", "<end>"], "\n", [0, 0, 1, 1, 2]),
        (["a\n\nb", "c"], "\n", [0, 2]),
        (["x", "</thi", "nk>y", "z"], "</think>", [0, 0, 0, 1]),
        ([], "\n", []),
    ],
)
def test_parts_are_numbered(pieces, separator, numbers):
    assert numbered_by(pieces, separator) == numbers


def test_segments_start_anew_in_each_turn_and_stay_without_texts():
    row = {"logp": [-1.0] * 4, "turn": [0, 0, 1, 1], "segment": [3, 3, 5, 5]}
    told = read({**row, "info": {"pieces": ["a\n", "b", "c\n", "d"]}})
    assert SegmentsByText()(told).segment.tolist() == [0, 1, 0, 1]
    assert SegmentsByText()(read(row)).segment.tolist() == [3, 3, 5, 5]
    silent = read({**row, "info": {"pieces": [""] * 4}})
    assert SegmentsByText()(silent).segment.tolist() == [3, 3, 5, 5]


# ---------------------------------------------------------------- options


def test_options_in_tags_or_plain():
    given = [answered(t, ["A", "C"]) for t in ("<answer>a, c</answer>", "A", "A,B", "")]
    assert graded(SubsetMatch(), *given, answered("A", None)) == [1.0, 0.5, 0.0, 0.0, None]


def test_options_that_are_numbers_are_equal_by_value():
    given = [answered(t, [1000, 1e16, -2.5]) for t in ("1e3, 10000000000000000, \u22122.50", "1,000", "2.5", "None")]
    assert graded(SubsetMatch(), *given) == [1.0, 0.0, 0.0, 0.0]
    assert graded(SubsetMatch(), answered("None, A", [None, "A"]), answered("nan", [float("nan")])) == [0.0, 0.0]

"""Key steps matched as phrases."""

from __future__ import annotations

from hocket.lab.toys.recorded_answers import said, shaped
from hocket.methods.group_relative.r1_vl import R1_VL, keyword_density, match_ratio


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

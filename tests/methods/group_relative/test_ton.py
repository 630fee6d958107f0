"""Thoughts dropped from demonstrations."""

from __future__ import annotations

from rollout_cases import Stage, assignments

from hocket.methods.group_relative.ton import DroppedThoughts


def test_thoughts_are_dropped_by_draws_of_their_own():
    stage = Stage(lambda name, sample: 1.0)
    asked = assignments("a", "b", demonstration="<think>x</think><answer>1</answer>")
    stage.collect(DroppedThoughts(samples=30), asked)
    shown = [one.scenario.metadata["demonstration"] for one in stage.asked[0]]
    assert len(shown) == 60
    assert {len(set(shown[:30])), len(set(shown[30:]))} == {2}
    assert [one.first for one in stage.asked[0]] == [*range(30), *range(30)]
    stage.collect(DroppedThoughts(share=0.0), asked)
    assert "x" in stage.asked[1][0].scenario.metadata["demonstration"]

"""Weights of rewards by task."""

from __future__ import annotations

from rewards_cases import rewards_of, scored_batch

from hocket.methods.group_relative.dr_genre import WeightedByTask


def test_weights_by_task_come_from_metadata_or_a_column():
    scores = [{"a": 1.0, "b": 10.0}] * 3
    combine = WeightedByTask({"x": {"a": 1.0, "b": 0.0}, "y": {"a": 0.0}})
    told = [{"metadata": {"task": "x"}}, {"metadata": {"task": "y"}}, {"metadata": {}}]
    assert rewards_of(combine(scored_batch(scores, info=told), {"a": 1.0, "b": 2.0})) == [1.0, 20.0, 21.0]
    column = [{"task": task} for task in ("x", "y", "z")]
    assert rewards_of(combine(scored_batch(scores, info=column), {"a": 1.0, "b": 2.0})) == [1.0, 20.0, 21.0]
    assert rewards_of(combine(scored_batch(scores), {"a": 1.0, "b": 2.0})) == [21.0] * 3

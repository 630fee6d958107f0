"""Which answers P3O compares."""

from __future__ import annotations

from hocket.lab.microscope import RecordedBatch
from hocket.methods.preference.p3o import EveryTwo
from hocket.rewards.combine import WeightedSum


def test_every_two_of_a_group_are_compared_ties_too_unless_a_margin_is_set() -> None:
    rows = [
        {"id": f"{n}", "group": group, "scores": {"reward": reward}, "logp": [-1.0]}
        for n, (group, reward) in enumerate([("a", 1.0), ("a", 1.0), ("b", 3.0), ("a", 0.0)])
    ]
    batch = WeightedSum()(RecordedBatch({"version": 1, "trajectories": rows}).batch, {})
    seen = EveryTwo()(batch)
    assert seen.pairs is not None
    assert seen.pairs.tolist() == [[0, 1], [0, 3], [1, 3]]
    assert seen.advantage.tolist() == [1.0, 1.0, 3.0, 0.0]
    assert seen.weight.tolist() == [1, 1, 0, 1]
    apart = EveryTwo(margin=0.5)(batch)
    assert apart.pairs is not None
    assert apart.pairs.tolist() == [[0, 3], [1, 3]]

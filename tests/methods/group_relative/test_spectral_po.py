"""Groups without a right answer are scored by steps."""

from __future__ import annotations

from rewards_cases import read

from hocket.core.signals import returns
from hocket.methods.group_relative.spectral_po import StepScores


def test_only_groups_without_a_right_answer_are_scored_by_steps():
    rows = [
        {"scores": {"reward": 0.0}, "text": "1 + 1 = 3"},
        {"scores": {"reward": 0.0}, "text": "1 + 1 = 2"},
        {"scores": {"reward": 0.0}, "text": "1 + 1 = 2", "group": "b"},
        {"scores": {"reward": 1.0}, "text": "1 + 1 = 2", "group": "b"},
    ]
    batch = read(*rows)
    found = returns(StepScores()(batch)).tolist()
    assert found[2:] == [0.0, 1.0]
    assert 0 < found[0] < 0.5 < found[1] < 1
    assert StepScores()(read(*rows[2:])).scores is not None
    assert returns(StepScores()(read(*rows[2:]))).tolist() == [0.0, 1.0]

"""Answers forced after blocks, and credit for progress."""

from __future__ import annotations

import numpy as np
import pytest
from rollout_cases import collect_thoughts

from hocket.methods.group_relative.mrt import (
    ForcedAnswers,
    ProgressBonus,
    block_ends,
    cumulative_regret,
)


def test_forced_values_stand_for_prefixes():
    rollout = ForcedAnswers(samples=2, blocks=3, tries=2, phrase="<answer>7</answer>")
    experience, _ = collect_thoughts(rollout, bias=1)
    assert len(experience.trajectories) == 4
    for trajectory in experience.trajectories:
        values, segments = trajectory.info["forced_values"], trajectory.turns[0].segment
        # Whoever is made to say 7 is right; the last value is what the trajectory earned itself.
        assert values[:-1] == [1.0] * (len(values) - 1)
        assert values[-1] == trajectory.scores["verdict"].value
        assert segments[0] == 0
        assert segments.max() == len(values) - 2
        assert (np.diff(segments) >= 0).all()
    assert all(t.source == "baseline" for t in experience.discarded)
    assert len({(t.scenario.id, t.sample) for t in experience.discarded}) == len(experience.discarded)


def test_blocks_and_regret():
    assert block_ends(0, 8, 4) == [2, 4, 6, 8]
    assert block_ends(3, 5, 4) == [4, 5]
    assert block_ends(2, 2, 4) == [2]
    assert cumulative_regret([0.0, 0.25, 1.0]) == 1.75


def test_settings_are_checked():
    with pytest.raises(ValueError, match="form"):
        ProgressBonus(form="all")

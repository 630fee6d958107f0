"""Answers forced after blocks, and credit for progress."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from credit_cases import LAW, batch_of, make, make_turn
from hypothesis import given
from hypothesis import strategies as st
from rollout_cases import collect_thoughts

from hocket.methods.group_relative.mrt import (
    ForcedAnswers,
    ProgressBonus,
    block_ends,
    cumulative_regret,
    progress,
    progress_to_go,
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


@LAW
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8))
def test_progress_telescopes(values):
    known = torch.tensor(values, dtype=torch.float64)
    assert float(progress(known).sum()) == pytest.approx(values[-1] - values[0], abs=1e-9)
    assert progress_to_go(known).tolist() == pytest.approx([values[-1] - v for v in values[:-1]], abs=1e-9)


def segmented(values, segments, weight=None):
    """A batch of one trajectory whose decisions lie in `segments`, with forced values."""
    trajectory = make("g", 1.0, turns=[make_turn(len(segments))])
    trajectory.info["forced_values"] = values
    batch = batch_of([trajectory])
    batch = batch.but(segment=torch.tensor(segments))
    return batch if weight is None else batch.credited(weight=torch.tensor(weight))


def test_own_blocks_and_to_go():
    batch = segmented([0.0, 0.25, 1.0], [0, 0, 1, 2])
    assert ProgressBonus(base=None)(batch).advantage.tolist() == [0.25, 0.25, 0.75, 0.75]
    assert ProgressBonus(base=None, form="to-go", alpha=2.0)(batch).advantage.tolist() == [2.0, 2.0, 1.5, 1.5]


def test_no_weight_no_bonus_and_no_values_no_bonus():
    assert ProgressBonus(base=None)(segmented([0.0, 1.0], [0, 0], [1.0, 0.0])).advantage.tolist() == [1.0, 0.0]
    assert ProgressBonus(base=None)(batch_of([make("g", 1.0)])).advantage.tolist() == [0.0, 0.0]


def test_settings_are_checked():
    with pytest.raises(ValueError, match="form"):
        ProgressBonus(form="all")

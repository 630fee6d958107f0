"""Dynamic sampling by accuracy: which groups are learnt from, and what is left of the verdicts."""

from __future__ import annotations

import pytest
from rollout_cases import Stage, assignments, identity

from hocket.core.batch import Level
from hocket.methods.agents.tapo_tool import AccuracySampling
from hocket.types import Score

REWARDS = {"mixed": (1.0, 0.0), "formless": (0.0, -1.0), "shades": (0.2, 0.4), "good": (0.95, 1.0), "lost": (1.0, None)}


def rule(scenario, sample):
    return REWARDS[scenario][sample % 2]


def names(trajectories):
    return {name for name, _ in identity(trajectories)}


@pytest.mark.parametrize(("right", "kept"), [(0.9, {"mixed"}), (0.3, {"mixed", "shades"}), (-0.5, {"formless"})])
def test_what_is_right_is_a_setting(right, kept):
    found = Stage(rule).collect(AccuracySampling(samples=2, max_rounds=1, right=right), assignments(*REWARDS))
    assert names(found.trajectories) == kept


def test_without_any_such_group_the_first_asked_are_learnt_from():
    found = Stage(rule).collect(AccuracySampling(samples=2, max_rounds=2), assignments("formless", "good"))
    assert names(found.trajectories) == {"formless", "good"}


class Several(Stage):
    async def score(self, trajectories):
        await super().score(trajectories)
        for one in trajectories:
            one.scores["steps"] = Score([0.5, None, 0.5], Level.TURN)


@pytest.mark.parametrize(
    ("score", "right", "kept"),
    [
        (None, 1.97, {"mixed", "good"}),
        ("verdict", 0.97, {"mixed", "good"}),
        ("verdict", 0.9, {"mixed"}),
        (None, 1.9, {"mixed"}),
    ],
)
def test_scores_are_added_up_or_one_is_named(score, right, kept):
    """Sums are 2 and 1 of mixed, 1.95 and 2 of good."""
    rollout = AccuracySampling(samples=2, max_rounds=1, score=score, right=right)
    assert names(Several(rule).collect(rollout, assignments("mixed", "good")).trajectories) == kept

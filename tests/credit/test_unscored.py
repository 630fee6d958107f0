"""Answers nobody scored: in no statistic, and in the denominators."""

from __future__ import annotations

import pytest

from hocket.credit.group import GroupRelative
from hocket.credit.reinforce import RunningMean
from hocket.credit.scored_answers import WithoutUnscored
from hocket.lab.microscope import inspect
from hocket.methods.base.grpo import GRPO


def rows(*scores):
    """Answers of two decisions, with these numbers from two rewards."""
    return {
        "version": 1,
        "trajectories": [
            {"group": "g", "scores": {"first": one, "second": other}, "logp": [-1.0, -1.0]} for one, other in scores
        ],
    }


SCORES = [(1.0, None), (0.0, 0.0), (None, None), (None, 0.5)]


def test_they_enter_no_mean_and_get_nothing():
    recipe = GRPO.but({"credit": WithoutUnscored(of=GroupRelative(scale=None))})
    found = inspect(recipe, rows(*SCORES))
    assert [row[0] for row in found["advantages"]] == pytest.approx([0.5, -0.5, 0.0, 0.0])
    plain = inspect(GRPO.but({"credit": GroupRelative(scale=None)}), rows(*SCORES))
    assert [row[0] for row in plain["advantages"]] == pytest.approx([0.625, -0.375, -0.375, 0.125])


def test_they_stay_in_the_denominators():
    recipe = GRPO.but({"credit": WithoutUnscored(of=GroupRelative(scale=None)), "objective.aggregate": "token-mean"})
    assert inspect(recipe, rows(*SCORES))["gradient"][0] == pytest.approx([-0.5 / 8] * 2)


def test_where_all_are_scored_it_is_what_it_wraps():
    scored = rows((1.0, 0.0), (0.0, None), (0.3, 0.2))
    ours, plain = (inspect(GRPO.but({"credit": one}), scored) for one in (WithoutUnscored(), GroupRelative()))
    assert ours["gradient"] == plain["gradient"]
    with pytest.raises(ValueError, match="memory"):
        WithoutUnscored(of=RunningMean())

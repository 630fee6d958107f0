"""Gated accumulation: which immediate rewards count."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.signals import returns
from hocket.lab.microscope import RecordedBatch
from hocket.methods.agents.g_ra import GatedAccumulation

LAW = settings(max_examples=60, deadline=None, derandomize=True)
NUMBERS = st.sampled_from([0.0, 1.0, -0.5, 0.25, None])


def read(rows):
    return RecordedBatch({"version": 1, "trajectories": rows}).batch


def row(outcome, turns=(), tokens=None):
    found = {"group": "g", "scores": {"verdict": outcome}, "logp": [-1.0] * max(1, len(turns))}
    if turns:
        found |= {"turn": list(range(len(turns))), "turn_scores": [{"step": value} for value in turns]}
    if tokens is not None:
        found["token_scores"] = {"tick": tokens}
    return found


@LAW
@given(
    outcomes=st.lists(NUMBERS, min_size=1, max_size=4),
    turns=st.lists(NUMBERS, min_size=1, max_size=3),
    threshold=st.sampled_from([-1.0, 0.0, 0.25, 1.0, math.inf, -math.inf]),
    weight=st.sampled_from([1.0, 0.5]),
)
def test_it_is_the_formula(outcomes, turns, threshold, weight):
    rows = [row(outcome, turns, [0.125] * len(turns)) for outcome in outcomes]
    found = returns(GatedAccumulation((threshold,))(read(rows), {"step": weight, "verdict": 2.0})).tolist()
    for outcome, value in zip(outcomes, found, strict=True):
        worth = 2.0 * (outcome or 0.0)
        immediate = weight * sum(turn or 0.0 for turn in turns) + 0.125 * len(turns)
        opened = threshold == -math.inf or (outcome is not None and worth > threshold)
        assert value == pytest.approx(worth + immediate * opened)


def test_levels_chain_over_any_grain():
    combine = GatedAccumulation(thresholds=(0.0, 0.3), levels=(("verdict",), ("step",)))
    rows = [row(1.0, (0.1, 0.3), [0.5, 0.5]), row(1.0, (0.1, 0.1), [0.5, 0.5]), row(0.0, (0.1, 0.3), [0.5, 0.5])]
    assert returns(combine(read(rows), {"step": 1.0})).tolist() == pytest.approx([2.4, 1.2, 0.0])


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigurationError, match="verdcit"):
        GatedAccumulation(levels=(("verdcit",),))(read([row(1.0)]), {"verdict": 1.0})
    for setting in (
        {"thresholds": (0.0, 1.0)},
        {"levels": ((),)},
        {"levels": (("a",), ("a",)), "thresholds": (0.0, 0.0)},
    ):
        with pytest.raises(ValueError, match=r"thresholds|level"):
            replace(GatedAccumulation(), **setting)

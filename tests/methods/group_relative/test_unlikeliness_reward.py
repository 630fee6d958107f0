"""Ranks by likelihood, and whom they cost."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rewards_cases import read

from hocket.core.signals import returns
from hocket.methods.group_relative.unlikeliness_reward import UnlikelinessReward, likelihood_ranks

LAW = settings(max_examples=80, deadline=None, derandomize=True)


@LAW
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([-3.0, -1.0, -0.5])), min_size=1, max_size=10))
def test_ranks_by_hand(members):
    group = torch.tensor([g for g, _ in members])
    logp = torch.tensor([x for _, x in members], dtype=torch.float64)
    for (own, value), rank in zip(members, likelihood_ranks(logp, group, 3).tolist(), strict=True):
        others = [x for g, x in members if g == own]
        below, equal = sum(x < value for x in others), sum(x == value for x in others)
        assert rank == pytest.approx(below + (equal - 1) / 2)


def test_only_rewards_above_zero_are_ranked_down():
    batch = read(*({"scores": {"reward": r}, "logp": [p]} for r, p in ((1.0, -1.0), (-1.0, -2.0), (0.0, -3.0))))
    assert returns(UnlikelinessReward(0.3)(batch)).tolist() == pytest.approx([1 - 0.3 * 2 / 3, -1.0, 0.0])

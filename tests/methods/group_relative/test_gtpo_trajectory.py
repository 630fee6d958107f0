"""Tokens that right and wrong answers contest."""

from __future__ import annotations

import pytest
import torch
from credit_cases import batch_of, make

from hocket.credit.group import GroupRelative
from hocket.methods.group_relative.gtpo_trajectory import ConflictTokens

PLAIN = GroupRelative()


def with_tokens(group, reward, tokens, **more):
    trajectory = make(group, reward, length=len(tokens), **more)
    trajectory.turns[0].action[:] = tokens
    return trajectory


def test_a_conflict_at_both_ends_is_squared():
    batch = batch_of([with_tokens("a", 1.0, [5, 6]), with_tokens("a", 0.0, [5, 6])])
    batch = batch.but(entropy=torch.zeros(batch.decisions))
    plain = PLAIN(batch).advantage
    found = ConflictTokens()(batch).advantage
    assert found.tolist() == pytest.approx([4 * plain[0].item() / 2] * 2 + [0.0, 0.0])


def test_other_groups_are_no_conflict_and_constant_groups_keep_the_cost():
    batch = batch_of([with_tokens("a", 1.0, [5, 6]), with_tokens("b", 0.0, [5, 6])])
    batch = batch.but(entropy=torch.full((batch.decisions,), 0.5))
    assert ConflictTokens()(batch).advantage.tolist() == pytest.approx([-0.05] * 4)
    assert not ConflictTokens(cost=0.0)(batch).advantage.any()

"""Tokens that right and wrong answers contest."""

from __future__ import annotations

import pytest
import torch
from credit_cases import LAW, batch_of, make
from hypothesis import given
from hypothesis import strategies as st

from hocket.credit.group import GroupRelative
from hocket.methods.group_relative.gtpo_trajectory import ConflictTokens, contested, opening_run


@st.composite
def groups_of_tokens(draw):
    rows = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=2, max_size=5))
    return rows, [draw(st.sampled_from([-1, 0, 1])) for _ in rows]


@LAW
@given(groups_of_tokens())
def test_contested_runs_by_hand(case):
    rows, signs = case
    trajectory = torch.tensor([n for n, row in enumerate(rows) for _ in row])
    place = torch.tensor([p for row in rows for p in range(len(row))])
    token = torch.tensor([t for row in rows for t in row])
    sign = torch.tensor([signs[n] for n in trajectory.tolist()])
    marked = contested(torch.zeros_like(trajectory), place, token, sign)
    expected = [
        signs[n] != 0
        and any(signs[m] * signs[n] < 0 and len(other) > p and other[p] == t for m, other in enumerate(rows))
        for n, row in enumerate(rows)
        for p, t in enumerate(row)
    ]
    assert marked.tolist() == expected
    runs = opening_run(marked, trajectory, len(rows)).tolist()
    at = 0
    for row in rows:
        own = expected[at : at + len(row)]
        assert runs[at : at + len(row)] == [all(own[: p + 1]) for p in range(len(row))]
        at += len(row)


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

"""Chains of agents against their recursion and against GAE."""

from __future__ import annotations

import itertools

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, counted_turns, experiences, make, valued, weights_by_hand
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.credit.gae import GAE
from hocket.methods.teams.marft import AgentGAE


def chain_by_hand(trajectory, values, rewards, final, credit):
    """Advantages and targets of each decision, backwards over links."""
    links, place = [], 0
    for turn in trajectory.turns:
        size = len(turn)
        parts = [(place, size)] if credit.level == "action" else [(place + k, 1) for k in range(size)]
        links += [(turn, start, length) for start, length in parts]
        place += size
    discounts, acted = [], set()
    for (turn, _, _), following in itertools.zip_longest(links, links[1:]):
        acted.add(turn.agent)
        if following is not None and following[0] is turn:
            discounts.append(credit.between)
        elif following is not None and following[0].agent not in acted:
            discounts.append(credit.within)
        else:
            discounts.append(credit.gamma)
            acted = set()
    ahead, running = final, 0.0
    advantages, targets = [0.0] * place, [0.0] * place
    for (_, start, length), discount in zip(reversed(links), reversed(discounts), strict=True):
        earned = sum(rewards[start : start + length])
        running = earned + discount * ahead - values[start] + discount * credit.lam * running
        ahead = values[start]
        for k in range(start, start + length):
            advantages[k], targets[k] = running, running + values[start]
    return advantages, targets


@LAW
@given(
    experiences(sources=("own", "own", "baseline")),
    st.integers(0, 10**6),
    st.sampled_from(["action", "token"]),
    st.sampled_from([(1.0, 1.0, 1.0, 1.0), (0.9, 0.95, 1.0, 1.0), (0.9, 0.0, 0.9, 0.9), (0.5, 0.7, 0.8, 0.6)]),
)
def test_a_chain_equals_its_recursion(trajectories, seed, level, discounts):
    from credit_cases import rewards_by_hand

    gamma, lam, within, between = discounts
    credit = AgentGAE(level=level, gamma=gamma, lam=lam, within=within, between=between, whiten=False)
    batch = valued(batch_of(trajectories), seed)
    seen = credit(batch)
    values = by_trajectory(batch, batch.value[batch.occurrences.decision])
    got, targets = by_trajectory(batch, seen.advantage), by_trajectory(batch, seen.target)
    for n, trajectory in enumerate(trajectories):
        final = float(batch.final_value[n])
        want, goal = chain_by_hand(trajectory, values[n], rewards_by_hand(trajectory), final, credit)
        used, place = counted_turns(trajectory), 0
        each = weights_by_hand(trajectory)
        for turn, counted in zip(trajectory.turns, used, strict=True):
            for k in range(place, place + len(turn)):
                counts = counted if level == "action" else each[k] > 0
                assert got[n][k] == pytest.approx(want[k] if counts else 0.0, abs=1e-9)
                assert targets[n][k] == pytest.approx(goal[k], abs=1e-9)
            place += len(turn)


@LAW
@given(experiences(), st.integers(0, 10**6))
def test_a_single_agent_token_by_token_without_discount_is_gae(trajectories, seed):
    batch = valued(batch_of(trajectories), seed)
    got = AgentGAE(level="token", gamma=1.0, lam=0.9, whiten=False)(batch)
    want = GAE(gamma=1.0, lam=0.9, whiten=False)(batch)
    assert torch.allclose(got.advantage, want.advantage)
    assert torch.allclose(got.target, want.target)


def test_without_values_the_chain_says_so():
    with pytest.raises(ConfigurationError, match="value"):
        AgentGAE()(batch_of([make("x", 1.0)]))

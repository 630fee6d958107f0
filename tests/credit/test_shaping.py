"""Edits of the combined reward."""

from __future__ import annotations

import math

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, experiences, make, make_turn, recorded, rewards_by_hand
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import RecordedNumbers
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.credit.group import GroupRelative
from hocket.credit.reinforce import ReturnToGo
from hocket.rewards.shaping import KLInReward, MaskTruncated, OverlongPenalty, kl_estimate


def dapo_by_hand(length, limit, buffer):
    """Equation 13, case by case."""
    if length <= limit - buffer:
        return 0.0
    if length <= limit:
        return ((limit - buffer) - length) / buffer
    return -1.0


@LAW
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 15), st.data())
def test_overlong_penalty(lengths, limit, data):
    buffer = data.draw(st.integers(1, limit))
    batch = batch_of([make("s", 0.5, length=length) for length in lengths])
    found = returns(OverlongPenalty(limit=limit, buffer=buffer, penalty=2.0)(batch)).tolist()
    assert found == pytest.approx([0.5 + 2.0 * dapo_by_hand(length, limit, buffer) for length in lengths])
    assert returns(batch).tolist() == [0.5] * len(lengths), "the batch passed in is left alone"


def test_overlong_penalty_counts_decisions_of_all_turns_not_observations():
    first = make_turn(3, observed=100)
    batch = batch_of([make("s", 0.0, turns=[first, make_turn(3, parent=first, observed=100)])])
    assert returns(OverlongPenalty(limit=8, buffer=4)(batch)).tolist() == [-0.5]


@LAW
@given(experiences(sources=("own", "baseline")), st.integers(0, 10**6), st.sampled_from(["k1", "k2", "k3"]))
def test_kl_in_reward(trajectories, seed, estimator):
    batch, draw = batch_of(trajectories), Key.of(seed).torch()
    policy, reference = (-torch.rand(batch.decisions, generator=draw, dtype=torch.float64) for _ in range(2))
    batch = batch.but(logp={"behaviour": recorded(policy), "reference": recorded(reference)})
    seen = ReturnToGo()(KLInReward(coefficient=0.1, estimator=estimator)(batch))
    forms = {"k1": lambda x: -x, "k2": lambda x: x * x / 2, "k3": lambda x: math.exp(x) - 1 - x}
    rows = by_trajectory(batch, batch.occurrences.decision)
    for trajectory, row, got in zip(trajectories, rows, by_trajectory(batch, seen.advantage), strict=True):
        rewards = rewards_by_hand(trajectory)
        for t, d in enumerate(row):
            if not batch.forced[d]:
                rewards[t] -= 0.1 * forms[estimator](float(reference[d] - policy[d]))
        want = [math.fsum(rewards[t:]) for t in range(len(rewards))]
        live = [
            w if trajectory.source == "own" and not batch.forced[d] else 0.0 for w, d in zip(want, row, strict=True)
        ]
        assert got == pytest.approx(live, abs=1e-10)


@LAW
@given(st.lists(st.floats(0.05, 1), min_size=3, max_size=3), st.lists(st.floats(0.05, 1), min_size=3, max_size=3))
def test_estimators_against_exact_kl(left, right):
    """k1 and k3 are unbiased on a small vocabulary; k2 and k3 are never negative."""
    p = torch.tensor(left, dtype=torch.float64) / sum(left)
    q = torch.tensor(right, dtype=torch.float64) / sum(right)
    exact = float((p * (p / q).log()).sum())
    for estimator in ("k1", "k3"):
        assert float((p * kl_estimate(p.log(), q.log(), estimator)).sum()) == pytest.approx(exact, abs=1e-12)
    for estimator in ("k2", "k3"):
        assert (kl_estimate(p.log(), q.log(), estimator) >= -1e-15).all()
    assert math.isfinite(kl_estimate(torch.tensor(-1e5), torch.tensor(0.0), "k3").item())


def test_kl_prefers_proximal_and_skips_what_is_unknown():
    batch = batch_of([make("s", 0.0, length=3)])
    absent = RecordedNumbers(torch.tensor([-1.0, -2.0, -3.0]), torch.tensor([True, True, False]))
    proximal = RecordedNumbers(torch.tensor([0.0, -5.0, 0.0]), torch.tensor([False, True, False]))
    logp = {"behaviour": absent, "proximal": proximal, "reference": recorded(torch.zeros(3))}
    shaped = KLInReward(coefficient=1.0)(batch.but(logp=logp))
    assert shaped.scores["reward/decision"].values.tolist() == [1.0, 5.0, 0.0]
    twice = KLInReward(coefficient=1.0)(shaped)
    assert twice.scores["reward/decision"].values.tolist() == [2.0, 10.0, 0.0]


def test_mask_truncated_before_and_after_credit():
    batch = batch_of([make("s", r, length=1, truncated=cut) for r, cut in ((1.0, False), (0.0, False), (0.0, True))])
    before = GroupRelative(scale=None)(MaskTruncated()(batch))
    assert before.weight.tolist() == [1, 1, 0]
    assert before.advantage.tolist() == [0.5, -0.5, 0.0]
    after = MaskTruncated()(batch.but(occurrences=GroupRelative(scale=None)(batch))).occurrences
    assert after.weight.tolist() == [1, 1, 0]
    assert after.advantage.tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])


def test_settings_are_checked():
    with pytest.raises(ValueError, match="buffer"):
        OverlongPenalty(limit=4, buffer=5)
    with pytest.raises(ValueError, match="estimator"):
        KLInReward(estimator="k4")
    with pytest.raises(ConfigurationError, match="reference"):
        KLInReward()(batch_of([make("s", 1.0)]))

"""Generalised advantage estimation against a loop per trajectory."""

from __future__ import annotations

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, deviation, experiences, make, make_turn, mean, rewards_by_hand
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.credit.gae import GAE


def valued(trajectories, seed=0):
    """A batch with random values of decisions and final states; the latter's are 0 where not truncated."""
    batch = batch_of(trajectories)
    draw = Key.of(seed).torch()
    value = torch.randn(batch.decisions, generator=draw, dtype=torch.float64)
    final = torch.randn(batch.trajectories, generator=draw, dtype=torch.float64)
    return batch.but(value=value, final_value=torch.where(batch.truncated, final, 0.0))


def loop(rewards, values, final, gamma, lam):
    """The recursion of the paper, backwards in time."""
    following, running, advantages = final, 0.0, []
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        delta = reward + gamma * following - value
        running = delta + gamma * lam * running
        advantages.append(running)
        following = value
    return advantages[::-1]


@LAW
@given(
    experiences(sources=("own", "own", "baseline")),
    st.integers(0, 10**6),
    st.sampled_from([1.0, 0.97, 0.5]),
    st.sampled_from([0.0, 0.95, 1.0]),
)
def test_equals_the_recursion(trajectories, seed, gamma, lam):
    batch = valued(trajectories, seed)
    seen = GAE(gamma=gamma, lam=lam, whiten=False)(batch)
    values = by_trajectory(batch, batch.value[batch.occurrences.decision])
    raw = [
        loop(rewards_by_hand(t), values[i], batch.final_value[i].item(), gamma, lam) for i, t in enumerate(trajectories)
    ]
    used = by_trajectory(batch, batch.occurrences.weight != 0)
    targets = by_trajectory(batch, seen.target)
    for i, got in enumerate(by_trajectory(batch, seen.advantage)):
        assert got == pytest.approx([a if u else 0.0 for a, u in zip(raw[i], used[i], strict=True)], abs=1e-10)
        assert targets[i] == pytest.approx([a + v for a, v in zip(raw[i], values[i], strict=True)], abs=1e-10)

    white = GAE(gamma=gamma, lam=lam)(batch)
    assert torch.equal(white.target, seen.target), "the target does not depend on whitening"
    pool = [a for i in range(len(raw)) for a, u in zip(raw[i], used[i], strict=True) if u]
    if len(pool) > 1:
        want = [(a - mean(pool)) / (deviation(pool, 1) + 1e-8) for a in pool]
        assert white.advantage[white.weight != 0].tolist() == pytest.approx(want, abs=1e-6)


def test_lam_zero_is_the_one_step_difference_and_one_is_the_return_minus_the_value():
    trunk = make_turn(2)
    cut = make("s", 1.0, turns=[trunk, make_turn(1, parent=trunk, observed=9)], truncated=True)
    batch = batch_of([cut]).but(value=torch.tensor([0.5, 0.25, -1.0]), final_value=torch.tensor([4.0]))
    gamma = 0.5
    one_step = GAE(gamma=gamma, lam=0.0, whiten=False)(batch).advantage.tolist()
    assert one_step == [gamma * 0.25 - 0.5, gamma * -1.0 - 0.25, 1 + gamma * 4.0 + 1.0]
    whole = GAE(gamma=gamma, lam=1.0, whiten=False)(batch)
    last = 1 + gamma * 4.0
    assert whole.target.tolist() == [gamma**2 * last, gamma * last, last]
    assert whole.advantage.tolist() == [gamma**2 * last - 0.5, gamma * last - 0.25, last + 1.0]


def test_a_terminated_end_is_not_bootstrapped():
    batch = batch_of([make("s", 1.0, length=1), make("s", 1.0, length=1, truncated=True)])
    batch = batch.but(value=torch.zeros(2), final_value=torch.tensor([3.0, 3.0]))
    assert GAE(whiten=False)(batch).advantage.tolist() == [1.0, 4.0]
    unknown = batch.but(final_value=None)
    assert GAE(whiten=False)(unknown).advantage.tolist() == [1.0, 1.0]


def test_a_perfect_critic_leaves_no_advantage():
    batch = batch_of([make("s", 2.0, length=4)])
    batch = batch.but(value=torch.full((4,), 2.0))
    seen = GAE(lam=0.7)(batch)
    assert (seen.advantage == 0).all()
    assert (seen.target == 2.0).all()


def test_whitening_statistics():
    batch = valued([make(g, float(r), length=5) for g in "ab" for r in range(3)])
    advantage = GAE(gamma=0.9, lam=0.9)(batch).advantage
    assert float(advantage.mean()) == pytest.approx(0, abs=1e-12)
    assert float(advantage.std()) == pytest.approx(1, abs=1e-7)


def test_gradients_do_not_flow_through_values():
    batch = batch_of([make("s", 2.0, length=3)])
    batch = batch.but(value=torch.ones(3, requires_grad=True))
    assert not GAE()(batch).target.requires_grad


def test_values_are_needed():
    with pytest.raises(ConfigurationError, match="value"):
        GAE()(batch_of([make("s", 1.0)]))
    with pytest.raises(ValueError, match="lam"):
        GAE(lam=-0.1)

"""Group-relative credit: GRPO, Dr. GRPO, RLOO, REINFORCE++-baseline, per-turn groups."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from credit_cases import (
    LAW,
    batch_of,
    by_trajectory,
    counts,
    deviation,
    experiences,
    make,
    make_turn,
    mean,
    rewards_by_hand,
)
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import GroupBy, Level
from hocket.credit.group import GroupRelative
from hocket.types import Score

SCENARIO = GroupBy("scenario")


def credit_by_hand(trajectories, *, scale, ddof, epsilon, leave_one_out, whole_batch_scale):
    value = [math.fsum(rewards_by_hand(t)) for t in trajectories]
    used = [i for i, t in enumerate(trajectories) if counts(t)]
    groups = {}
    for i in used:
        groups.setdefault(trajectories[i].scenario.id, []).append(i)
    middle = {i: value[i] - mean([value[j] for j in members]) for members in groups.values() for i in members}
    advantages = []
    for i, trajectory in enumerate(trajectories):
        if i not in used:
            advantages.append(0.0)
            continue
        members = groups[trajectory.scenario.id]
        others = [value[j] for j in members if j != i]
        credit = (value[i] - mean(others) if others else 0.0) if leave_one_out else middle[i]
        if scale == "std":
            pool = list(middle.values()) if whole_batch_scale else [value[j] for j in members]
            credit /= deviation(pool, ddof) + epsilon
        advantages.append(credit)
    return advantages


@LAW
@given(
    experiences(sources=("own", "own", "own", "baseline")),
    st.sampled_from(["std", None]),
    st.sampled_from([0, 1]),
    st.booleans(),
    st.booleans(),
)
def test_equals_the_formula_by_hand(trajectories, scale, ddof, loo, whole):
    credit = GroupRelative(scale=scale, ddof=ddof, leave_one_out=loo, scale_by=GroupBy() if whole else None)
    batch = batch_of(trajectories)
    found = by_trajectory(batch, credit(batch).advantage)
    expected = credit_by_hand(
        trajectories, scale=scale, ddof=ddof, epsilon=1e-6, leave_one_out=loo, whole_batch_scale=whole
    )
    for trajectory, got, want in zip(trajectories, found, expected, strict=True):
        # Where a group is constant up to rounding, dust over epsilon remains in the naive form.
        assert got == pytest.approx([want] * trajectory.length, abs=1e-8, rel=1e-9)


@LAW
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8), st.floats(-100, 100), st.floats(0.01, 100))
def test_mean_zero_std_one_and_invariance_to_shift_and_scale(rewards, shift, factor):
    def credit(numbers, **settings):
        batch = batch_of([make("s", r, length=1) for r in numbers])
        return GroupRelative(epsilon=0.0, **settings)(batch).advantage

    if deviation(rewards, 1) < 1e-3:
        return
    plain = credit(rewards)
    assert abs(plain.mean()) < 1e-9
    assert plain.std() == pytest.approx(1.0, abs=1e-9)
    assert credit(rewards, ddof=0).std(correction=0) == pytest.approx(1.0, abs=1e-9)
    assert torch.allclose(credit([factor * r + shift for r in rewards]), plain, atol=1e-6)
    unscaled = credit(rewards, scale=None)
    assert torch.allclose(credit([r + shift for r in rewards], scale=None), unscaled, atol=1e-9)
    assert torch.allclose(credit([factor * r for r in rewards], scale=None), factor * unscaled, atol=1e-7)


@pytest.mark.parametrize("settings", [{}, {"leave_one_out": True}, {"scale": None}, {"epsilon": 0.0}, {"ddof": 0}])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e17, -7e-9])
def test_constant_groups_and_groups_of_one_are_exactly_zero(settings, value):
    batch = batch_of([*(make("same", value) for _ in range(3)), make("alone", value + 1)])
    assert (GroupRelative(**settings)(batch).advantage == 0).all()
    scaled_over_batch = GroupRelative(scale_by=GroupBy(), **settings)(batch).advantage
    assert (scaled_over_batch == 0).all()


def test_baselines_stay_out_of_the_statistics_and_get_nothing():
    own = [make("s", r) for r in (0.0, 1.0, 0.5)]
    greedy = make("s", 40.0, source="baseline")
    alone = GroupRelative()(batch_of(own)).advantage
    beside = GroupRelative()(batch_of([greedy, *own])).advantage
    assert torch.equal(beside[2:], alone)
    assert (beside[:2] == 0).all()


def test_deviation_of_the_whole_batch():
    """REINFORCE++-baseline: centre by group, divide by the deviation of all centred returns."""
    batch = batch_of(
        [make("a", 0.0, length=1), make("a", 2.0, length=1), make("b", 5.0, length=1), make("b", 5.0, length=1)]
    )
    advantage = GroupRelative(scale_by=GroupBy(), epsilon=0.0, ddof=0)(batch).advantage
    root = math.sqrt((1 + 1 + 0 + 0) / 4)
    assert advantage.tolist() == pytest.approx([-1 / root, 1 / root, 0, 0])


def test_turn_level_groups_use_the_reward_to_go_of_each_visit():
    """Two attempts meet in state `door`; what was earned before it does not count there."""
    first, second = make_turn(2, state="start"), make_turn(1, state="start")
    a = make("s", None, turns=[first, make_turn(1, state="door", parent=first)])
    b = make("s", None, turns=[second, make_turn(3, state="door", parent=second)], sample=1)
    a.scores["turns"] = Score([10.0, 1.0], Level.TURN)
    b.scores["turns"] = Score([0.0, 4.0], Level.TURN)
    credit = GroupRelative(by=GroupBy("scenario", "state"), scale=None)
    batch = batch_of([a, b])
    # start: to-go 11 and 4, mean 7.5; door: 1 and 4, mean 2.5.
    assert by_trajectory(batch, credit(batch).advantage) == [[3.5, 3.5, -1.5], [-3.5, 1.5, 1.5, 1.5]]


def test_a_shared_turn_is_credited_once_per_trajectory():
    trunk = make_turn(2, state="root")
    leaves = [make("s", r, turns=[trunk, make_turn(1, parent=trunk)], sample=i) for i, r in enumerate((1.0, 0.0, 0.0))]
    batch = batch_of(leaves)
    assert batch.decisions == 5
    assert len(batch.occurrences) == 9
    seen = GroupRelative(scale=None)(batch)
    assert by_trajectory(batch, seen.advantage) == [pytest.approx([x] * 3) for x in (2 / 3, -1 / 3, -1 / 3)]
    per_turn = GroupRelative(by=GroupBy("scenario", "state"), scale=None)(batch)
    assert by_trajectory(batch, per_turn.advantage)[0] == pytest.approx([2 / 3, 2 / 3, 0.0])


PROBABILITY, PAYOFF = [0.5, 0.2, 0.3], [1.0, -2.0, 0.25]


def expected_gradient(credit, group_size):
    """E[1/G sum_i A_i grad log pi(a_i)] of a softmax bandit, by enumerating every group of samples."""
    groups = list(itertools.product(range(3), repeat=group_size))
    batch = batch_of(
        [
            make(number, PAYOFF[a], length=1, sample=i)
            for number, group in enumerate(groups)
            for i, a in enumerate(group)
        ]
    )
    advantage = credit(batch).advantage.reshape(len(groups), group_size)
    gradient = [0.0] * 3
    for number, group in enumerate(groups):
        chance = math.prod(PROBABILITY[a] for a in group)
        for i, a in enumerate(group):
            for k in range(3):
                gradient[k] += chance * float(advantage[number, i]) * ((a == k) - PROBABILITY[k]) / group_size
    return gradient


def true_gradient():
    value = sum(p * r for p, r in zip(PROBABILITY, PAYOFF, strict=True))
    return [p * (r - value) for p, r in zip(PROBABILITY, PAYOFF, strict=True)]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_leave_one_out_is_unbiased(size):
    found = expected_gradient(GroupRelative(scale=None, leave_one_out=True), size)
    assert found == pytest.approx(true_gradient(), abs=1e-12)


@pytest.mark.parametrize("size", [2, 3])
def test_the_group_mean_shrinks_the_gradient_by_one_sample(size):
    found = expected_gradient(GroupRelative(scale=None), size)
    assert found == pytest.approx([(size - 1) / size * g for g in true_gradient()], abs=1e-12)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="scale must be"):
        GroupRelative(scale="variance")
    with pytest.raises(ValueError, match="scale_by"):
        GroupRelative(scale_by=GroupBy("agent"))
    assert GroupRelative().least_samples == 2
    assert GroupRelative(by=GroupBy()).least_samples == 1

"""Credit by returns: REINFORCE, REINFORCE++, running mean, ReMax, cloning."""

from __future__ import annotations

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
    weights_by_hand,
)
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.credit.reinforce import GreedyBaseline, ReturnToGo, RunningMean, Uniform
from hocket.stages import Stateful
from hocket.types import Score


def to_go_by_hand(trajectory, gamma):
    rewards = rewards_by_hand(trajectory)
    return [math.fsum(gamma ** (k - t) * rewards[k] for k in range(t, len(rewards))) for t in range(len(rewards))]


@LAW
@given(experiences(sources=("own", "own", "baseline")), st.sampled_from([1.0, 0.9, 0.0]))
def test_reward_to_go(trajectories, gamma):
    batch = batch_of(trajectories)
    found = by_trajectory(batch, ReturnToGo(gamma=gamma)(batch).advantage)
    for trajectory, got in zip(trajectories, found, strict=True):
        want = [
            g if w else 0.0 for g, w in zip(to_go_by_hand(trajectory, gamma), weights_by_hand(trajectory), strict=True)
        ]
        assert got == pytest.approx(want, abs=1e-12)


@LAW
@given(experiences(sources=("own", "own", "baseline")), st.sampled_from([1.0, 0.9]), st.sampled_from([0, 1]))
def test_batch_baseline_and_whitening(trajectories, gamma, ddof):
    batch = batch_of(trajectories)
    pool = [
        g
        for trajectory in trajectories
        for g, w in zip(to_go_by_hand(trajectory, gamma), weights_by_hand(trajectory), strict=True)
        if w
    ]
    seen = ReturnToGo(gamma=gamma, baseline="batch-mean")(batch)
    used = seen.weight != 0
    assert (seen.advantage[~used] == 0).all()
    white = ReturnToGo(gamma=gamma, whiten=True, ddof=ddof, epsilon=1e-8)(batch).advantage
    assert (white[~used] == 0).all()
    if not pool:
        return
    assert seen.advantage[used].tolist() == pytest.approx([g - mean(pool) for g in pool], abs=1e-12)
    if max(pool) - min(pool) < 1e-6:
        assert white.abs().max() < 1e-6
        return
    root = deviation(pool, ddof)
    assert white[used].tolist() == pytest.approx([(g - mean(pool)) / (root + 1e-8) for g in pool], abs=1e-9)
    assert float(white[used].mean()) == pytest.approx(0.0, abs=1e-9)
    assert float(white[used].std(correction=ddof)) == pytest.approx(1.0, abs=1e-6)


def test_observation_tokens_take_no_time_and_lose_no_reward():
    """A reward in the middle and one at the end, with long observations between the turns or none at all."""
    found = []
    for observed in (0, 50):
        first = make_turn(2)
        trajectory = make("s", 1.0, turns=[first, make_turn(2, parent=first, observed=observed)])
        trajectory.scores["steps"] = Score([0.0, 5.0, 0.0, 0.0], Level.DECISION)
        found.append(ReturnToGo(gamma=0.5)(batch_of([trajectory])).advantage.tolist())
    assert found[0] == found[1] == [0.5 * 5 + 0.125, 5 + 0.25, 0.5, 1.0]


def test_whitening_a_constant_batch_gives_nothing():
    batch = batch_of([make("a", 0.1), make("b", 0.1), make("c", 0.1)])
    assert (ReturnToGo(whiten=True, epsilon=0.0)(batch).advantage == 0).all()


@LAW
@given(st.lists(experiences(sources=("own", "baseline")), min_size=1, max_size=4), st.sampled_from([0.0, 0.5, 0.9]))
def test_running_mean_by_hand(steps, momentum):
    credit = RunningMean(momentum=momentum)
    assert isinstance(credit, Stateful)
    state = credit.init()
    history = []
    for trajectories in steps:
        batch, before = batch_of(trajectories), dict(state)
        seen, after = credit(batch, state)
        assert state == before, "the state passed in is left alone"
        ages = range(len(history) - 1, -1, -1)
        mass = sum(momentum**age for age in ages)
        baseline = sum(momentum**age * m for age, m in zip(ages, history, strict=True)) / mass if history else 0.0
        for trajectory, got in zip(trajectories, by_trajectory(batch, seen.advantage), strict=True):
            want = math.fsum(rewards_by_hand(trajectory)) - baseline if counts(trajectory) else 0.0
            assert got == pytest.approx([want] * trajectory.length, abs=1e-9)
        used = [math.fsum(rewards_by_hand(t)) for t in trajectories if counts(t)]
        history += [mean(used)] if used else []
        state = after


def test_the_running_mean_ignores_the_present_batch():
    """Changing one sample's reward changes no other sample's advantage: the baseline is independent of the actions."""
    credit, state = RunningMean(), {"sum": 0.3, "weight": 0.5}
    low, _ = credit(batch_of([make("a", 0.0), make("b", 1.0)]), state)
    high, _ = credit(batch_of([make("a", 9.0), make("b", 1.0)]), state)
    assert torch.equal(low.advantage[2:], high.advantage[2:])
    assert low.advantage[2].item() == pytest.approx(1.0 - 0.6)


@LAW
@given(experiences(), st.lists(st.floats(-3, 3), min_size=3, max_size=3))
def test_greedy_baseline_by_hand(trajectories, levels):
    greedy = {t.scenario.id: make(t.scenario.id, levels[int(t.scenario.id)], source="baseline") for t in trajectories}
    together = [*trajectories, *greedy.values()]
    batch = batch_of(together)
    seen = GreedyBaseline()(batch)
    for trajectory, got in zip(together, by_trajectory(batch, seen.advantage), strict=True):
        want = math.fsum(rewards_by_hand(trajectory)) - levels[int(trajectory.scenario.id)]
        if trajectory.source == "baseline" or not counts(trajectory):
            want = 0.0
        assert got == pytest.approx([want] * trajectory.length, abs=1e-12)
    assert torch.equal(seen.weight, batch.occurrences.weight)


def test_greedy_baseline_is_invariant_to_a_shift_per_scenario():
    def credit(shift):
        rows = [
            ("a", 1.0, "own"),
            ("a", 0.25, "own"),
            ("a", 0.5, "baseline"),
            ("b", 3.0, "own"),
            ("b", 2.0, "baseline"),
        ]
        return GreedyBaseline()(batch_of([make(g, r + shift[g], source=s) for g, r, s in rows])).advantage

    assert torch.allclose(credit({"a": 0.0, "b": 0.0}), credit({"a": 100.0, "b": -7.0}), atol=1e-12)


def test_greedy_baseline_is_unbiased_on_a_bandit():
    probability, payoff = [0.5, 0.2, 0.3], [1.0, -2.0, 0.25]
    rows = [make(a, payoff[a], length=1) for a in range(3)]
    rows += [make(a, payoff[0], length=1, source="baseline") for a in range(3)]
    advantage = GreedyBaseline()(batch_of(rows)).advantage[:3].tolist()
    found = [sum(probability[a] * advantage[a] * ((a == k) - probability[k]) for a in range(3)) for k in range(3)]
    value = sum(p * r for p, r in zip(probability, payoff, strict=True))
    assert found == pytest.approx([p * (r - value) for p, r in zip(probability, payoff, strict=True)], abs=1e-12)


def test_a_scenario_without_its_baseline_is_left_out():
    batch = batch_of([make("a", 1.0), make("a", 0.0, source="baseline"), make("lost", 1.0)])
    seen = GreedyBaseline()(batch)
    assert seen.weight.tolist() == [1, 1, 0, 0, 0, 0]
    assert seen.advantage.tolist() == [1, 1, 0, 0, 0, 0]
    with pytest.raises(ConfigurationError, match="WithGreedyBaseline"):
        GreedyBaseline()(batch_of([make("a", 1.0)]))


def test_uniform():
    batch = batch_of([make("a", 1.0, length=3), make("a", 0.0, source="baseline")])
    seen = Uniform(0.5)(batch)
    assert seen.advantage.tolist() == [0.5] * 5
    assert seen.weight.tolist() == [1, 1, 1, 0, 0]


def test_settings_are_checked():
    for build, message in (
        (lambda: ReturnToGo(gamma=1.5), "gamma"),
        (lambda: ReturnToGo(baseline="mean"), "batch-mean"),
        (lambda: RunningMean(momentum=1.0), "momentum"),
    ):
        with pytest.raises(ValueError, match=message):
            build()

"""Preference pairs."""

from __future__ import annotations

import math

import pytest
from credit_cases import LAW, batch_of, by_trajectory, counts, experiences, make, rewards_by_hand, weights_by_hand
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.batch import GroupBy
from hocket.credit.pairs import AllPairs, BestAgainstWorst


def expected_pairs(trajectories, margin):
    """All pairs by hand, and per group the first best with the first worst."""
    value = [math.fsum(rewards_by_hand(t)) for t in trajectories]
    everything, extremes = set(), set()
    for scenario in {t.scenario.id for t in trajectories}:
        members = [i for i, t in enumerate(trajectories) if t.scenario.id == scenario and counts(t)]
        everything |= {(i, j) for i in members for j in members if value[i] - value[j] > margin}
        if members:
            best = next(i for i in members if value[i] == max(value[j] for j in members))
            worst = next(i for i in members if value[i] == min(value[j] for j in members))
            extremes |= {(best, worst)} if value[best] - value[worst] > margin else set()
    return everything, extremes


@LAW
@given(experiences(sources=("own", "own", "baseline")), st.sampled_from([0.0, 0.3]))
def test_pairs_by_hand(trajectories, margin):
    batch = batch_of(trajectories)
    everything, extremes = expected_pairs(trajectories, margin + 1e-12 if margin else 1e-12)
    for credit, want in ((AllPairs(margin=margin), everything), (BestAgainstWorst(margin=margin), extremes)):
        seen = credit(batch)
        found = [tuple(pair) for pair in seen.pairs.tolist()]
        assert len(found) == len(set(found))
        strict = {
            (i, j)
            for i, j in found
            if math.fsum(rewards_by_hand(trajectories[i])) - math.fsum(rewards_by_hand(trajectories[j]))
            > margin + 1e-12
        }
        if credit == AllPairs(margin=margin):
            assert strict == want
        else:
            # Ties up to rounding may choose another of the equals; their rewards are the same.
            assert len(strict) == len(want)
        paired = {i for pair in found for i in pair}
        for i, weights in enumerate(by_trajectory(batch, seen.weight)):
            assert weights == (weights_by_hand(trajectories[i]) if i in paired else [0.0] * len(weights))


def test_ties_go_by_order_and_equal_groups_give_no_pair():
    rewards = {"a": [0.0, 1.0, 1.0, 0.0], "b": [0.5, 0.5], "c": [2.0]}
    batch = batch_of([make(g, r, length=1) for g, values in rewards.items() for r in values])
    seen = BestAgainstWorst()(batch)
    assert seen.pairs.tolist() == [[1, 0]]
    assert seen.weight.tolist() == [1, 1, 0, 0, 0, 0, 0]
    assert sorted(map(tuple, AllPairs()(batch).pairs.tolist())) == [(1, 0), (1, 3), (2, 0), (2, 3)]
    assert BestAgainstWorst(margin=1.0)(batch).pairs.shape == (0, 2)


def test_the_tie_break_follows_order_not_place():
    batch = batch_of([make("a", r, length=1) for r in (0.0, 1.0, 1.0)])
    turned = batch.select(batch.order).but(order=batch.order.flip(0))
    assert BestAgainstWorst()(turned).pairs.tolist() == [[2, 0]]


def test_settings():
    assert BestAgainstWorst.pairs
    assert AllPairs.pairs
    assert BestAgainstWorst().least_samples == 2
    with pytest.raises(ValueError, match="turns"):
        BestAgainstWorst(by=GroupBy("agent"))
    with pytest.raises(ValueError, match="margin"):
        AllPairs(margin=-1.0)

"""Verdicts, preference levels, long2short pairs, and edits of advantages, by hand and by property."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import GroupBy
from hocket.core.errors import ConfigurationError
from hocket.credit.group import GroupRelative
from hocket.credit.pairs import ShortestAgainstLonger
from hocket.credit.verdicts import Verdicts
from hocket.lab.microscope import RecordedBatch
from hocket.methods.group_relative.group_relative_reinforce import (
    DropSurplusNegatives,
    ExponentialWeight,
    LoweredBaseline,
)
from hocket.methods.group_relative.kimi_k1_5 import SpreadLength, spread_length
from hocket.methods.group_relative.trpa import PreferenceLevels
from hocket.rewards.combine import WeightedSum

many = settings(max_examples=50, deadline=None)


def batch_of(rewards, *, groups=None, lengths=None, scores=None):
    """A batch of one answer per reward, combined."""
    rows = [
        {
            "id": f"{n}",
            "group": "g" if groups is None else str(groups[n]),
            "scores": {"reward": reward, **({} if scores is None else scores[n])},
            "logp": [-1.0] * (1 if lengths is None else lengths[n]),
        }
        for n, reward in enumerate(rewards)
    ]
    return WeightedSum()(RecordedBatch({"version": 1, "trajectories": rows}).batch, {})


def pairs_of(seen):
    return sorted(map(tuple, seen.pairs.tolist()))


def by_trajectory(batch, values):
    firsts = batch.last()
    return values[firsts].tolist()


@many
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=8))
def test_verdicts_of_binary_rewards_are_centred_rewards(rewards):
    batch = batch_of(rewards)
    found, wanted = Verdicts()(batch).advantage, GroupRelative(scale=None)(batch).advantage
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-15)


@many
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8))
def test_verdicts_tell_outcome_and_rate(rewards):
    advantage = Verdicts()(batch_of(rewards)).advantage
    if not advantage.any():
        return
    right = advantage > 0
    rate = right.double().mean()
    torch.testing.assert_close(advantage, right.double() - rate)
    mean = sum(rewards) / len(rewards)
    assert all(
        (reward > mean) == bool(verdict)
        for reward, verdict in zip(rewards, right, strict=True)
        if abs(reward - mean) > 1e-9
    )


def test_a_threshold_and_constant_groups():
    assert Verdicts(threshold=0.5)(batch_of([0.2, 0.9, 0.4, 0.8])).advantage.tolist() == [-0.5, 0.5, -0.5, 0.5]
    assert not Verdicts()(batch_of([0.1, 0.1, 0.1])).advantage.any()
    assert not Verdicts()(batch_of([0.7])).advantage.any()
    with pytest.raises(ValueError, match="turns"):
        Verdicts(by=GroupBy("agent"))


def test_weightless_trajectories_enter_no_rate():
    batch = batch_of([1.0, 0.0, 0.0])
    batch = batch.credited(weight=torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    assert Verdicts()(batch).advantage.tolist() == [0.5, -0.5, 0.0]


# ---------------------------------------------------------------- levels


def test_all_pairs_across_levels_and_the_sign_of_the_highest():
    batch = batch_of([1.0, 0.2, 0.0, 0.2])
    seen = PreferenceLevels()(batch)
    assert pairs_of(seen) == [(0, 1), (0, 2), (0, 3), (1, 2), (3, 2)]
    assert seen.advantage.tolist() == [1.0, -1.0, -1.0, -1.0]


@many
@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=2, max_size=7))
def test_levels_know_order_only(rewards):
    bent = [reward**3 * 7 - 2 for reward in rewards]
    one, other = PreferenceLevels()(batch_of(rewards)), PreferenceLevels()(batch_of(bent))
    assert pairs_of(one) == pairs_of(other)
    assert one.advantage.tolist() == other.advantage.tolist()


def test_named_scores_are_compared_one_after_the_other():
    scores = [{"right": 0.0, "bonus": 9.0}, {"right": 1.0, "bonus": 0.0}, {"right": 1.0, "bonus": 1.0}]
    batch = batch_of([9.0, 1.0, 2.0], scores=scores)
    assert pairs_of(PreferenceLevels(order=("right",))(batch)) == [(1, 0), (2, 0)]
    assert pairs_of(PreferenceLevels(order=("right", "bonus"))(batch)) == [(1, 0), (2, 0), (2, 1)]
    with pytest.raises(ConfigurationError, match="'judge'"):
        PreferenceLevels(order=("judge",))(batch)


def test_lone_trajectories_keep_their_weight_only_when_asked_and_known():
    batch = batch_of([1.0, 1.0, 0.0, 0.0], groups=[0, 0, 1, 1])
    seen = PreferenceLevels()(batch)
    assert len(seen.pairs) == 0
    assert seen.advantage.tolist() == [1.0, 1.0, -1.0, -1.0]
    assert seen.weight.tolist() == [1.0] * 4
    assert not PreferenceLevels(lone=False)(batch).weight.any()
    level = PreferenceLevels()(batch_of([1.0, 1.0]))
    assert not level.advantage.any()
    assert not level.weight.any()


def test_the_shortest_right_answer_against_wrong_and_much_longer_ones():
    batch = batch_of([1.0, 1.0, 1.0, 0.0], lengths=[4, 5, 6, 2])
    assert pairs_of(ShortestAgainstLonger()(batch)) == [(0, 2), (0, 3)]
    assert not len(ShortestAgainstLonger()(batch_of([0.0, 0.0])).pairs)


# ---------------------------------------------------------------- edits


def test_a_lowered_baseline_and_exponential_weights():
    batch = batch_of([1.0, 0.0])
    batch = batch.but(occurrences=GroupRelative(scale=None)(batch))
    assert LoweredBaseline(0.25)(batch).occurrences.advantage.tolist() == [0.75, -0.25]
    weighted = ExponentialWeight(0.5)(batch).occurrences.advantage
    torch.testing.assert_close(weighted, torch.tensor([0.5, -0.5]).double() * torch.tensor([1.0, -1.0]).double().exp())
    huge = batch.credited(advantage=torch.tensor([1e9, -1e9], dtype=torch.float64))
    assert bool(ExponentialWeight(1e-3)(huge).occurrences.advantage.isfinite().all())


def test_surplus_negatives_go_and_constant_groups_stay():
    batch = DropSurplusNegatives()(batch_of([1.0, 0.0, 0.0, 0.0]))
    assert int((batch.occurrences.weight != 0).sum()) == 2
    assert GroupRelative(scale=None)(batch).advantage.sum() == 0
    assert DropSurplusNegatives()(batch_of([0.0, 0.0])).occurrences.weight.tolist() == [1.0, 1.0]
    assert DropSurplusNegatives(ratio=2.0)(batch_of([1.0, 0.0, 0.0, 0.0])).occurrences.weight.sum() == 3


# ---------------------------------------------------------------- lengths


@many
@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=1, max_size=8))
def test_length_scores(members):
    length = torch.tensor([n for n, _ in members])
    solved = torch.tensor([right for _, right in members])
    score = spread_length(length, solved, torch.zeros(len(members), dtype=torch.long), 1)
    low, high = int(length.min()), int(length.max())
    for own, right, found in zip(length.tolist(), solved.tolist(), score.tolist(), strict=True):
        plain = 0.5 - (own - low) / (high - low) if high > low else 0.0
        assert found == pytest.approx(plain if right else min(0.0, plain))


def test_lengths_count_after_the_warm_up():
    batch = batch_of([1.0, 1.0], lengths=[2, 4])
    shape = SpreadLength(weight=1.0, warmup=0.25)
    assert by_trajectory(batch, GroupRelative(scale=None)(shape(batch.but(progress=0.2))).advantage) == [0.0, 0.0]
    assert by_trajectory(batch, GroupRelative(scale=None)(shape(batch.but(progress=0.3))).advantage) == [0.5, -0.5]

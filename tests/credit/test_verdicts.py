"""Verdicts, and the shortest right answer against longer ones, by hand and by property."""

import pytest
import torch
from credit_cases import answers_of, pairs_of
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import GroupBy
from hocket.credit.group import GroupRelative
from hocket.credit.pairs import ShortestAgainstLonger
from hocket.credit.verdicts import Verdicts

many = settings(max_examples=50, deadline=None)


@many
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=8))
def test_verdicts_of_binary_rewards_are_centred_rewards(rewards):
    batch = answers_of(rewards)
    found, wanted = Verdicts()(batch).advantage, GroupRelative(scale=None)(batch).advantage
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-15)


@many
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8))
def test_verdicts_tell_outcome_and_rate(rewards):
    advantage = Verdicts()(answers_of(rewards)).advantage
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
    assert Verdicts(threshold=0.5)(answers_of([0.2, 0.9, 0.4, 0.8])).advantage.tolist() == [-0.5, 0.5, -0.5, 0.5]
    assert not Verdicts()(answers_of([0.1, 0.1, 0.1])).advantage.any()
    assert not Verdicts()(answers_of([0.7])).advantage.any()
    with pytest.raises(ValueError, match="turns"):
        Verdicts(by=GroupBy("agent"))


def test_weightless_trajectories_enter_no_rate():
    batch = answers_of([1.0, 0.0, 0.0])
    batch = batch.credited(weight=torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    assert Verdicts()(batch).advantage.tolist() == [0.5, -0.5, 0.0]


# ---------------------------------------------------------------- lengths


def test_the_shortest_right_answer_against_wrong_and_much_longer_ones():
    batch = answers_of([1.0, 1.0, 1.0, 0.0], lengths=[4, 5, 6, 2])
    assert pairs_of(ShortestAgainstLonger()(batch)) == [(0, 2), (0, 3)]
    assert not len(ShortestAgainstLonger()(answers_of([0.0, 0.0])).pairs)

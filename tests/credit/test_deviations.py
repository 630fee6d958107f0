"""Deviations other than the group's, whitening over decisions, and masks that stay in the denominators."""

from __future__ import annotations

import math
import statistics

import pytest
import torch
from credit_cases import batch_of, by_trajectory, make, recorded

from hocket.core.batch import GroupBy
from hocket.credit.corrections import MaskedImportance, TruncatedImportance
from hocket.credit.deviations import OverOthersDeviation, OverRawDeviation
from hocket.credit.group import GroupRelative
from hocket.credit.kept_denominators import BoundedImportance, Counted
from hocket.credit.whitening import WhitenedTokens
from hocket.objectives.aggregate import weights

REWARDS = {"one": (1.0, 0.2, 0.7, 0.0), "two": (5.0, 4.0, 4.5), "pair": (1.0, 0.0), "lone": (1.0, 0.0, 0.0, 0.0)}
BATCH = batch_of([make(name, reward, length=2) for name, rewards in REWARDS.items() for reward in rewards])


def credit(stage):
    """Of each trajectory of `BATCH`, by scenario."""
    rows = iter(row[0] for row in by_trajectory(BATCH, stage(BATCH).advantage))
    return {name: [next(rows) for _ in rewards] for name, rewards in REWARDS.items()}


def test_the_others_mean_and_deviation():
    found = credit(GroupRelative(scale=None, leave_one_out=True, weigh=(OverOthersDeviation(epsilon=0.0),)))
    for name, rewards in REWARDS.items():
        for place, reward in enumerate(rewards):
            others = [*rewards[:place], *rewards[place + 1 :]]
            spread = statistics.stdev(others) if len(others) > 1 else 0.0
            wanted = (reward - statistics.fmean(others)) / (spread or 1.0)
            assert found[name][place] == pytest.approx(wanted, rel=1e-9), (name, place)


def test_a_lone_success_keeps_its_plain_lead():
    found = credit(GroupRelative(scale=None, leave_one_out=True, weigh=(OverOthersDeviation(),)))
    assert found["lone"][0] == 1.0
    assert found["lone"][1] == pytest.approx(-(1 / 3) / (3**-0.5 + 1e-6))


def test_raw_rewards_of_the_batch_have_the_deviation_of_prompts_in_them():
    every = [reward for rewards in REWARDS.values() for reward in rewards]
    raw = credit(GroupRelative(scale=None, weigh=(OverRawDeviation(epsilon=0.5),)))
    inner = credit(GroupRelative(scale_by=GroupBy(), epsilon=0.0))
    for name, rewards in REWARDS.items():
        mean, spread = statistics.fmean(rewards), statistics.stdev(every) + 0.5
        assert raw[name] == pytest.approx([(reward - mean) / spread for reward in rewards])
    assert abs(raw["one"][0]) < abs(inner["one"][0])


def test_whitening_counts_every_decision():
    rows = [make("s", 1.0, length=4), make("s", 0.0, length=1), make("s", 0.5, length=2, source="baseline")]
    batch = batch_of(rows)
    for ddof, spread in ((1, statistics.stdev), (0, statistics.pstdev)):
        stage = WhitenedTokens(of=GroupRelative(scale=None), ddof=ddof, epsilon=0.25)
        tokens = [0.5] * 4 + [-0.5]
        scale = math.sqrt(spread(tokens) ** 2 + 0.25)
        wanted = [(value - statistics.fmean(tokens)) / scale for value in tokens] + [0.0, 0.0]
        assert stage(batch).advantage.tolist() == pytest.approx(wanted)


def test_masked_decisions_stay_in_the_denominators_where_asked():
    batch = batch_of([make("s", 1.0, length=4)])
    ratios = torch.tensor([0.1, 1.0, 2.0, 9.0], dtype=torch.float64)
    logp = {"behaviour": recorded(torch.zeros(4)), "proximal": recorded(ratios.log())}
    batch = batch.but(logp=logp).credited(advantage=torch.ones(4, dtype=torch.float64))
    alone, kept = MaskedImportance(reweight=True), Counted(of=MaskedImportance(reweight=True))
    assert alone(batch).occurrences.weight.tolist() == pytest.approx([0.0, 1.0, 2.0, 0.0])
    found = kept(batch).occurrences
    assert found.weight.tolist() == pytest.approx([1.0, 1.0, 2.0, 1.0])
    assert found.advantage.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert weights(kept(batch), "token-mean")[1] == pytest.approx(1 / 4)
    assert weights(alone(batch), "token-mean")[1] == pytest.approx(1 / 2)
    assert kept.reads == alone.reads


def test_importance_weights_with_a_floor():
    batch = batch_of([make("s", 1.0, length=4)])
    ratios = torch.tensor([0.1, 0.7, 1.5, 9.0], dtype=torch.float64)
    batch = batch.but(logp={"behaviour": recorded(torch.zeros(4)), "proximal": recorded(ratios.log())})
    found = BoundedImportance(floor=0.5, cap=2.0)(batch).occurrences.weight
    assert found.tolist() == pytest.approx([0.5, 0.7, 1.5, 2.0])
    plain = TruncatedImportance(cap=2.0)(batch).occurrences.weight
    assert torch.equal(BoundedImportance(cap=2.0)(batch).occurrences.weight, plain)
    with pytest.raises(ValueError, match="floor"):
        BoundedImportance(floor=3.0, cap=2.0)

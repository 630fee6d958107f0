"""What holds for every credit that refines another: order, finiteness, neutral settings, and what it reads."""

from __future__ import annotations

import pytest
import torch
from credit_cases import LAW, annotated, batch_of, by_trajectory, experiences, make
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.credit.group import GroupRelative
from hocket.credit.pairs import BestAgainstWorst
from hocket.credit.reinforce import RunningMean
from hocket.methods.group_relative.aepo import RewardWhereTempered
from hocket.methods.group_relative.cppo import Pruned
from hocket.methods.group_relative.d3s import DownSampled
from hocket.methods.group_relative.edge_grpo import EntropyScaled
from hocket.methods.group_relative.fc_entropy_grpo import EntropyLifted
from hocket.methods.group_relative.gtpo_trajectory import ConflictTokens
from hocket.methods.group_relative.rank_grpo import RankRelative
from hocket.methods.group_relative.tw_grpo import DIVERGENCE, PlaceWeighted

PLAIN = GroupRelative()


REFINED = [
    EntropyScaled(),
    EntropyLifted(),
    ConflictTokens(),
    Pruned(rate=0.5),
    Pruned(rate=0.5, over="batch"),
    Pruned(rate=0.5, normaliser="all"),
    DownSampled(),
    RewardWhereTempered(),
    PlaceWeighted(),
    RankRelative(),
    RankRelative(gain="hit", length=2),
]


@LAW
@given(experiences(sources=("own", "own", "baseline")), st.sampled_from(REFINED))
def test_what_does_not_count_gets_no_credit_and_all_is_finite(trajectories, credit):
    batch = annotated(trajectories)
    seen = credit(batch)
    assert bool(torch.isfinite(seen.advantage).all())
    assert bool(torch.isfinite(seen.weight).all())
    assert bool((seen.weight[batch.occurrences.weight == 0] == 0).all())
    assert len(seen) == len(batch.occurrences)


@LAW
@given(experiences(), st.sampled_from(REFINED), st.randoms(use_true_random=False))
def test_the_order_of_trajectories_does_not_matter(trajectories, credit, shuffle):
    batch = annotated(trajectories)
    places = list(range(len(trajectories)))
    shuffle.shuffle(places)
    moved = annotated([trajectories[place] for place in places])
    moved = moved.but(order=torch.tensor(places))  # Their place in assignment order stays theirs.
    before, after = credit(batch), credit(moved)
    for column in ("advantage", "weight"):
        old, new = by_trajectory(batch, getattr(before, column)), by_trajectory(moved, getattr(after, column))
        for number, place in enumerate(places):
            assert new[number] == pytest.approx(old[place], rel=1e-9, abs=1e-9)


@LAW
@given(experiences())
def test_neutral_settings_leave_credit_as_it_is(trajectories):
    batch = annotated(trajectories)
    plain = PLAIN(batch)
    neutral = [
        EntropyScaled(low=1.0, high=1.0),
        EntropyLifted(gain=0.0),
        EntropyLifted(share=0.0),
        EntropyLifted(segment=7),
        Pruned(rate=0.0),
        DownSampled(samples=1.0, decisions=1.0),
        RewardWhereTempered(),
        PlaceWeighted(largest=1.0),
    ]
    for credit in neutral:
        seen = credit(batch)
        assert torch.equal(seen.advantage.double(), plain.advantage)
        assert torch.equal(seen.weight.double(), plain.weight.double())


def test_missing_columns_are_named():
    batch = batch_of([make("a", 1.0), make("a", 0.0)])
    with pytest.raises(ConfigurationError, match="EntropyScaled reads the entropy"):
        EntropyScaled()(batch)
    with pytest.raises(ConfigurationError, match="PlaceWeighted reads the divergence"):
        PlaceWeighted()(batch)


@pytest.mark.parametrize("inner", [BestAgainstWorst(), RunningMean()])
def test_pairs_and_memories_are_not_refined(inner):
    with pytest.raises(ValueError, match=type(inner).__name__):
        Pruned(of=inner)


def test_what_refined_credit_reads_and_compares_is_said():
    assert EntropyScaled().reads == {Column.ENTROPY}
    assert PlaceWeighted().reads == {DIVERGENCE}
    assert Pruned().reads == frozenset()
    assert Pruned().least_samples == 2

"""Slots filled with more scenarios, and the largest of each group."""

from __future__ import annotations

import math

import pytest
import torch
from credit_cases import LAW
from hypothesis import given
from hypothesis import strategies as st
from rollout_cases import Game, letter_world

from hocket.methods.group_relative.cppo import Refilled, largest_in_groups
from hocket.types import Assignment, Decoding


@pytest.mark.parametrize(("rate", "groups"), [(0.0, 2), (0.5, 4), (0.75, 8)])
def test_more_scenarios_fill_the_slots(rate, groups):
    game = Game(letter_world())

    def more(count):
        return [Assignment(game.task.scenario("train", 2), decoding=Decoding(max_tokens=6)) for _ in range(count)]

    assert len(game.collect(Refilled(samples=2, rate=rate), more=more).trajectories) == 2 * groups
    assert len(game.collect(Refilled(samples=2, rate=rate)).trajectories) == 4


@LAW
@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=12),
    st.sampled_from([0.01, 0.25, 0.5, 1.0]),
)
def test_the_largest_of_each_group_by_hand(members, share):
    group = torch.tensor([g for g, _ in members])
    size = torch.tensor([s for _, s in members], dtype=torch.float64)
    chosen = largest_in_groups(size, group, 3, share, torch.arange(len(members))).tolist()
    for own in range(3):
        here = [n for n, (g, _) in enumerate(members) if g == own]
        ranked = sorted(here, key=lambda n: (-members[n][1], n))
        wanted = set(ranked[: max(1, math.floor(share * len(here) + 1e-9))]) if here else set()
        assert {n for n in here if chosen[n]} == wanted

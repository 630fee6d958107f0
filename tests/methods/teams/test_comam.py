"""How consistently agents are ranked, and credit by it."""

from __future__ import annotations

import pytest
import torch
from credit_cases import LAW, batch_of, by_trajectory, counted_turns, experiences, mean
from hypothesis import given
from hypothesis import strategies as st

from hocket.methods.teams.comam import RankConsistent, consistency


@LAW
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=6), st.data())
def test_consistency_is_the_share_of_pairs_ordered_alike(overall, data):
    local = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=len(overall), max_size=len(overall)))
    pairs = [(a, b) for a in range(len(overall)) for b in range(len(overall)) if overall[a] > overall[b]]
    want = sum((local[a] > local[b]) - (local[a] < local[b]) for a, b in pairs) / max(len(pairs), 1)
    got = consistency(torch.tensor(local, dtype=torch.float64), torch.tensor(overall, dtype=torch.float64))
    assert float(got) == pytest.approx(want)


@LAW
@given(experiences())
def test_one_global_reward_alone_is_group_relative_by_agent(trajectories):
    trajectories = [t for t in trajectories if "verdict" in t.scores]
    for one in trajectories:
        one.scores = {"verdict": one.scores["verdict"]}
    if not trajectories:
        return
    batch = batch_of(trajectories)
    got = RankConsistent(weigh="equal", local=0.0, scale=None)(batch).advantage
    for n, row in enumerate(by_trajectory(batch, got)):
        trajectory, place = trajectories[n], 0
        group = [t for t in trajectories if t.scenario.id == trajectory.scenario.id]
        agents = {turn.agent for t in group for turn, c in zip(t.turns, counted_turns(t), strict=True) if c}
        for turn, counted in zip(trajectory.turns, counted_turns(trajectory), strict=True):
            having = [
                t
                for t in group
                if any(u.agent == turn.agent and c for u, c in zip(t.turns, counted_turns(t), strict=True))
            ]
            values = [t.scores["verdict"].value / len(agents) for t in having]
            want = trajectory.scores["verdict"].value / len(agents) - mean(values) if counted else 0.0
            assert row[place : place + len(turn)] == pytest.approx([want] * len(turn), abs=1e-9)
            place += len(turn)

"""How consistently agents are ranked, and credit by it."""

from __future__ import annotations

import pytest
from credit_cases import LAW, batch_of, by_trajectory, counted_turns, experiences, mean
from hypothesis import given

from hocket.methods.teams.comam import RankConsistent


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

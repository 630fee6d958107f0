"""Information gain: what a turn adds to a belief, and whose turns they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.packing import pack
from hocket.core.signals import REWARD
from hocket.methods.agents.igpo import InformationGain, gains
from hocket.rewards.combine import WeightedSum
from hocket.types import Scenario, Score, Trajectory, Turn

LAW = settings(max_examples=60, deadline=None, derandomize=True)


@LAW
@given(
    beliefs=st.lists(st.floats(0, 1), min_size=1, max_size=8),
    agents=st.lists(st.integers(0, 2), min_size=8, max_size=8),
)
def test_gains_of_each_agent_telescope(beliefs, agents):
    agents = agents[: len(beliefs)]
    found = gains(beliefs, agents)
    for agent in set(agents):
        own = [(held, gain) for held, gain, who in zip(beliefs, found, agents, strict=True) if who == agent]
        assert sum(gain for _, gain in own) == pytest.approx(own[-1][0] - own[0][0], abs=1e-12)
        assert own[-1][1] == 0.0


def test_unknown_beliefs_earn_nothing():
    assert gains([0.1, None, 0.5, 0.9], [0, 0, 0, 0]) == pytest.approx([0.0, 0.0, 0.4, 0.0])


def turn(agent="solo", parent=None):
    return Turn(agent, "solo", np.zeros(1, np.int64), np.zeros(2, np.int64), np.zeros(2, np.float32), parent=parent)


def shaped(trajectories):
    batch = InformationGain(weight=2.0)(WeightedSum()(pack(trajectories), {}))
    return batch.scores[REWARD[Level.TURN]].values.tolist()


def test_gains_join_what_turns_earn_already():
    turns = [turn(), turn(), turn()]
    one = Trajectory(Scenario("s"), turns, scores={"step": Score([1.0, 0.0, 0.0], Level.TURN)})
    one.info["beliefs"] = [0.25, 0.5, 0.25]
    assert shaped([one]) == pytest.approx([1.5, -0.5, 0.0])


def test_a_trajectory_without_beliefs_earns_nothing_and_a_shared_turn_is_the_firsts():
    stem = turn()
    one = Trajectory(Scenario("s"), [stem, turn(parent=stem)], info={"beliefs": [0.0, 0.5]})
    two = Trajectory(Scenario("s"), [stem, turn(parent=stem)], info={"beliefs": [0.0, 0.25]})
    none = Trajectory(Scenario("s"), [turn(), turn()], info={"beliefs": None})
    assert shaped([one, two, none]) == pytest.approx([1.0, 0.0, 0.0, 0.0, 0.0])


def test_without_the_column_it_says_what_is_missing():
    with pytest.raises(ConfigurationError, match="beliefs"):
        shaped([Trajectory(Scenario("s"), [turn()])])

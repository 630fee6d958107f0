"""The trajectory graph: which turns are one edge, and what merging them does to credit."""

from __future__ import annotations

import numpy as np
import pytest
from credit_cases import batch_of, make, make_turn

from hocket.agents.workflows.environment import PlayEnvironment
from hocket.credit.pairs import BestAgainstWorst
from hocket.credit.units import turn_units
from hocket.lab.talk import TalkBench
from hocket.methods.agents.salt import MergedEdges, edges
from hocket.recipes import find
from hocket.types import Scenario
from hocket.zoo.maze import DIRECTIONS, Mazes


def step(state, move, agent="solo"):
    turn = make_turn(2, state=state, agent=agent)
    turn.action = np.array([move, 7])
    return turn


def walk(reward, *steps, group="g", **more):
    return make(group, reward, turns=[step(*one) for one in steps], **more)


def codes(*trajectories):
    batch = batch_of(trajectories)
    return edges(batch, turn_units(batch))[0].tolist()


def test_an_edge_is_state_move_and_next_state():
    one = walk(1.0, ("a", 0), ("b", 0))
    assert codes(one, walk(0.0, ("a", 0), ("b", 0))) == [0, 1, 0, 1]
    assert codes(one, walk(0.0, ("a", 0), ("c", 0))) == [0, 1, 2, 3]
    assert codes(one, walk(0.0, ("a", 1), ("b", 0))) == [0, 1, 2, 1]


def test_scenarios_agents_and_unnamed_states_are_apart():
    one = walk(1.0, ("a", 0))
    assert codes(one, walk(0.0, ("a", 0), group="h")) == [0, 1]
    assert codes(one, walk(0.0, ("a", 0, "other"))) == [0, 1]
    assert codes(walk(1.0, (None, 0)), walk(0.0, (None, 0))) == [0, 1]
    assert len(set(codes(walk(1.0, ("a", 0), (None, 0)), walk(0.0, ("a", 0), (None, 0))))) == 4


def test_the_end_tells_last_steps_apart():
    whole, cut = walk(1.0, ("a", 0)), walk(0.0, ("a", 0), truncated=True)
    assert codes(whole, cut) == [0, 1]
    won, lost = walk(1.0, ("a", 0)), walk(0.0, ("a", 0))
    won.info["final_state"], lost.info["final_state"] = "prize", "pit"
    assert codes(won, lost) == [0, 1]
    lost.info["final_state"] = "prize"
    assert codes(won, lost) == [0, 0]


def test_the_next_state_is_the_same_agents():
    left = walk(1.0, ("a", 0, "x"), ("p", 1, "y"), ("b", 0, "x"))
    right = walk(0.0, ("a", 0, "x"), ("q", 1, "y"), ("b", 0, "x"))
    found = codes(left, right)
    assert found[0] == found[3]
    assert found[1] != found[4]


def test_moves_may_be_named():
    left, right = walk(1.0, ("a", 0)), walk(0.0, ("a", 5))
    assert codes(left, right) == [0, 1]
    left.info["actions"] = right.info["actions"] = ["go north"]
    assert codes(left, right) == [0, 0]


def test_environments_name_moves():
    flow = PlayEnvironment(Mazes(width=3, height=3, steps=6), memory=False, instruct=False)
    bench = TalkBench(flow, [Scenario("m", "?", metadata={"maze": 1})], DIRECTIONS, find("salt"))
    for one in bench.play(6):
        legal = [said if said in DIRECTIONS else "" for said in one.info["actions"]]
        assert [turn.text for turn, move in zip(one.turns, legal, strict=True) if move] == [m for m in legal if m]
        assert all(turn.state is not None for turn in one.turns)


def test_pairs_are_refused():
    with pytest.raises(ValueError, match="pairs"):
        MergedEdges(base=BestAgainstWorst())

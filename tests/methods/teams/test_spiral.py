"""`RoleBaselines` threads its state, and looks only at decisions that count."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from credit_cases import batch_of, by_trajectory, make_turn

from hocket.methods.teams.spiral import RoleBaselines
from hocket.stages import Stateful
from hocket.types import Level, Scenario, Score, Trajectory


def game(first, second, *, source="own"):
    """Two roles, a turn each of two decisions, paid at it."""
    turns = [replace(make_turn(2, agent=name), role=name) for name in ("first", "second")]
    return Trajectory(Scenario("g"), turns, scores={"won": Score([first, second], Level.TURN)}, source=source)


def test_baselines_go_on_from_step_to_step():
    stage = RoleBaselines(decay=0.5)
    assert isinstance(stage, Stateful)
    state = stage.init()
    seen, state = stage(batch_of([game(1.0, -2.0)]), state)
    assert seen.advantage.tolist() == [1.0, 1.0, -2.0, -2.0]
    assert state == {"baselines": {"first": 0.5, "second": -1.0}}
    batch = batch_of([game(1.0, 1.0), game(0.0, 0.0)])
    seen, later = stage(batch, state)
    assert by_trajectory(batch, seen.advantage) == [[0.5, 0.5, 2.0, 2.0], [-0.75, -0.75, 0.0, 0.0]]
    assert later == {"baselines": {"first": 0.375, "second": 0.0}}
    assert state == {"baselines": {"first": 0.5, "second": -1.0}}


def test_the_first_baseline_is_a_setting():
    seen, state = RoleBaselines(decay=0.0, start=0.25)(batch_of([game(1.0, 0.0)]), {"baselines": {}})
    assert seen.advantage.tolist() == [0.75, 0.75, -0.25, -0.25]
    assert state == {"baselines": {"first": 1.0, "second": 0.0}}
    with pytest.raises(ValueError, match="decay"):
        RoleBaselines(decay=1.0)


def test_decisions_without_weight_move_no_baseline():
    batch = batch_of([game(1.0, 1.0)])
    weight = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    seen, state = RoleBaselines()(batch.credited(weight=weight), {"baselines": {}})
    assert seen.advantage.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert list(state["baselines"]) == ["first"]

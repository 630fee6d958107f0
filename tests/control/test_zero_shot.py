"""Goals that are named after training: forward-backward representations, and the room that labels states."""

import numpy as np
import pytest
import torch

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.toys.drawn_rows import rows
from hocket.methods.generative.breeze.method import BREEZE, ForwardBackward, OccupancyLoss, WeightedDenoising
from hocket.methods.generative.breeze.world import GOALS, GoalRoom, moved, records
from hocket.methods.generative.claims.breeze import SMALL, small
from hocket.types import Quantity


def test_a_rows_losses_do_not_depend_on_which_rows_are_evaluated():
    policy, batch = small(0), rows(SMALL, discrete=False)
    complete = policy.evaluate(batch, SMALL.needs)
    part = torch.tensor([3, 4, 17])
    few = policy.evaluate(batch, SMALL.needs, part)
    for quantity in SMALL.needs:
        torch.testing.assert_close(few.get(quantity)[part], complete.get(quantity)[part], msg=quantity)


def test_other_rows_count_in_a_rows_loss():
    policy, batch = small(0), rows(SMALL, discrete=False)
    alone = next(iter(batch.deal([torch.arange(16)])))
    first = policy.evaluate(batch, SMALL.needs).get(Quantity.DYNAMICS)[:16]
    assert not torch.allclose(policy.evaluate(alone, SMALL.needs).get(Quantity.DYNAMICS)[:16], first)


def test_a_goal_labels_recorded_states_and_pays_near_it():
    for goal, place in GOALS.items():
        room = tasks.find(f"goals:point?goal={goal}")
        assert room == GoalRoom(goal)
        states, paid = room.labelled()
        near = np.linalg.norm(states - np.array(place), axis=1) < 0.3
        np.testing.assert_array_equal(paid, near)
        assert 10 < near.sum() < len(states) / 4
    point = GoalRoom().make()
    point.reset(1)
    point.place = np.array([0.5, 0.15])
    assert point.step(np.array([0.0, 2.0]))[1:] == (1.0, False, False)
    assert point.step(np.array([-1.0, 0.0]))[1:] == (1.0, False, False)
    assert point.step(np.array([0.0, -1.0]))[1:] == (0.0, False, False)
    np.testing.assert_allclose(moved(np.array([[0.95, 0.0]]), np.array([[1.0, 1.0]])), [[1.0, 0.15]])


def test_records_are_transitions_without_rewards():
    columns = records(3, Key.of(0))
    assert columns["truncations"].sum() == 3
    assert not columns["rewards"].any()
    after = moved(columns["observations"].astype(np.float64), columns["actions"].astype(np.float64))
    np.testing.assert_allclose(after, columns["next_observations"], atol=1e-6)


def test_settings_out_of_range_are_refused():
    wrong = (
        lambda: ForwardBackward(mixed=1.5),
        lambda: ForwardBackward(dimensions=0),
        lambda: OccupancyLoss(orthogonality=-1.0),
        lambda: WeightedDenoising(beta=-1.0),
    )
    for make in wrong:
        with pytest.raises(ValueError, match="at least"):
            make()
    with pytest.raises(ConfigurationError, match="choose northeast"):
        tasks.find("goals:point?goal=up")
    with pytest.raises(ConfigurationError, match="length = 0"):
        GoalRoom(length=0)
    assert BREEZE.store.noises * 2 == 2 + 1 + 3 * 5 * 2 + 32 + 1

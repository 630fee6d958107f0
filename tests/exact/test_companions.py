"""Worlds of an agent beside a partner."""

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.lab.exact.mdp import TabularMDP
from hocket.lab.exact.worlds import world
from hocket.methods.marl.rlhg.companions import Companion
from hocket.methods.marl.rlhg.method import HumanGain


@pytest.mark.parametrize(("horizon", "goals"), [(2, [0.5, 0.0]), (2, [-1.0, 0.0]), (2, [1.0]), (None, [1.0, 0.0])])
def test_goals_that_are_none_are_refused(horizon, goals):
    process = TabularMDP(
        np.full((2, 1, 2), 0.5), np.zeros((2, 1)), np.array([1.0, 0.0]), horizon, 1.0 if horizon else 0.9
    )
    with pytest.raises(ConfigurationError, match="whole numbers"):
        Companion(process, np.array(goals))


def test_the_solver_takes_no_other_world_and_nothing_below_zero():
    with pytest.raises(ConfigurationError, match="solves a Companion"):
        HumanGain().checked(world("chain:4"))
    HumanGain().checked(world("companion:2x5"))
    with pytest.raises(ConfigurationError, match="below 0"):
        HumanGain(share=-1)

"""Solvers of small worlds without a horizon: settings and worlds that they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.solver import Solver
from hocket.lab.exact.worlds import lock, random
from hocket.methods.control.mbma import ManyActions, gradient_variance
from hocket.methods.control.qarl.method import QuantalAdversary
from hocket.methods.control.qarl.world import gusts
from hocket.methods.control.uni_o4 import OfflineToOnline


@pytest.mark.parametrize("solver", [OfflineToOnline(), ManyActions()])
def test_a_world_with_a_horizon_is_refused(solver: Solver) -> None:
    with pytest.raises(ConfigurationError, match="take a world without one"):
        solver.checked(lock(4))
    solver.checked(random(3, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: OfflineToOnline(members=0),
        lambda: OfflineToOnline(clip=1.0),
        lambda: ManyActions(further=-1),
        lambda: ManyActions(pace=0.0),
        lambda: QuantalAdversary(cold=4.0),
        lambda: QuantalAdversary(eta=1.0),
        lambda: gusts(1),
    ],
)
def test_wrong_settings_are_named(make: object) -> None:
    assert callable(make)
    with pytest.raises(ConfigurationError, match=r"method\.|world gusts"):
        make()


def test_without_further_actions_nothing_is_judged() -> None:
    solver, world = ManyActions(further=0), random(4, 3)
    _, figures = solver.step(world, solver.init(world, Key.of(0)), Key.of(1))
    assert figures["judged"] == 0.0


def test_many_actions_leave_the_noise_of_states() -> None:
    world = random(5, 3)
    policy = np.full((5, 3), 1 / 3)
    noise = [gradient_variance(world, policy, 2, count) for count in (1, 4, 10_000)]
    assert noise[0] > noise[1] > noise[2] > 0

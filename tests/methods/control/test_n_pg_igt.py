"""Normalised ascent: the regulators that it climbs, and the worlds that it takes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.harness import below
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.panels import panel
from hocket.lab.exact.worlds import world
from hocket.methods.control.n_pg_igt.method import NormalisedAscent
from hocket.methods.control.n_pg_igt.regulators import Regulator, regulator


@pytest.mark.parametrize("horizon", [1, 3, 5])
def test_the_gains_of_the_riccati_recursion_are_the_best(horizon):
    one, draw = regulator(horizon), Key.of(horizon).derive("near").numpy()
    for place in np.ndindex(one.best.shape):
        moved = np.zeros_like(one.best)
        moved[place] = 1e-4
        assert abs(one.value(one.best + moved) - one.value(one.best - moved)) < 2e-12
    for size in (0.01, 0.1, 1.0):
        assert all(one.value(one.best + size * draw.normal(size=one.shape)) < one.optimum for _ in range(20))


def test_regulators_and_tables_with_a_horizon_are_taken_and_no_other_world():
    solver = NormalisedAscent()
    solver.checked(regulator(3))
    solver.checked(world("lock:3"))
    with pytest.raises(ConfigurationError, match="panel:9"):
        solver.checked(panel(9))


def _differences(world: Regulator, gains: Array, width: float = 1e-4) -> Array:
    found = np.zeros_like(gains)
    for place in np.ndindex(gains.shape):
        moved = np.zeros_like(gains)
        moved[place] = width
        found[place] = (world.value(gains + moved) - world.value(gains - moved)) / (2 * width)
    return found


def test_return_gradient_and_hessian_are_right_on_average():
    world, draw = Regulator(2, spread=0.7, noise=0.4), Key.of(4).derive("gains").numpy()
    gains, vector = draw.normal(0, 0.5, (2, 2)), draw.normal(size=(2, 2))
    places, weights = np.polynomial.hermite_e.hermegauss(4)
    earned, slope, bent = 0.0, np.zeros((2, 2)), np.zeros((2, 2))
    for chosen in itertools.product(range(4), repeat=6):
        told, chance = places[list(chosen)], float(np.prod(weights[list(chosen)] / np.sqrt(2 * np.pi)))
        drive = world.driven(gains, np.array([told[:2], told[2:4], [0, 0]]), told[4:])
        earned += chance * float(drive.rewards.sum())
        slope += chance * world.slope(drive)
        bent += chance * world.curvature(drive, vector)
    there = [_differences(world, gains + side * 0.001 * vector) for side in (1, 0, -1)]
    turned = np.abs(bent - (there[0] - there[2]) / 0.002).max()
    steep = np.abs(slope - there[1]).max()
    assert below(1e-05, value=abs(earned - world.value(gains)), gradient=float(steep), hessian=float(turned)).holds

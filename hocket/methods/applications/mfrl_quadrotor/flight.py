"""Flights of a quadrotor in a vertical plane: polynomials of least snap, and whether they can be flown.

A plan is the times of legs between waypoints. Its path is the polynomial of degree 7 on each leg, smooth to the third
derivative, that begins and ends at rest and has the least integral of squared snap (Mellinger and Kumar 2011).

Two levels say whether it can be flown. `ideal` inverts the equations of motion without drag: with `h = a + g` the
thrust is |h| along h, whose angle and its second derivative give what both rotors have to lift. `flown` follows the
path by a controller with drag, rotors that lag and in steps of 10 ms, which takes some 50 times as long to compute.

Lengths are in metres, times in seconds; forces are over mass, so lifts are in m/s^2.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

ORDER = 8
"""Coefficients of a leg's polynomial: position, velocity, acceleration and jerk at both of its ends."""

GRAVITY = 9.81
LIFT = 11.0
"""What one of both rotors lifts at most."""

LEVER = 20.0
"""The angular acceleration, in rad/s^2, for a difference of both rotors' lifts of 1 m/s^2."""

DRAG, LAG = 0.4, 0.05
"""The deceleration per speed, in 1/s, and the time constant of a rotor."""

TOLERANCE = 0.08
"""How far a flight may be off its path."""

STEP = 0.01
SAMPLES = 40
"""Points of a leg at which the ideal flight is looked at."""

STIFFNESS, DAMPING = 25.0, 9.0
"""Of the controller of the place; of that of the angle these are `TURN` and `CALM`."""
TURN, CALM = 400.0, 40.0


def powers(time: Array, derivative: int) -> Array:
    """The derivative of the powers of time, `[.., ORDER]`."""
    rows = [
        math.perm(power, derivative) * time ** max(power - derivative, 0) if power >= derivative else 0 * time
        for power in range(ORDER)
    ]
    return np.stack(rows, -1)


def _ends() -> Array:
    """The coefficients `[ORDER, ORDER]` of a leg of unit time from what is given at its ends."""
    conditions = [powers(np.array(float(end)), derivative) for end in (0, 1) for derivative in range(4)]
    return np.linalg.inv(np.stack(conditions))


def _snap() -> Array:
    """The integral of squared snap of a leg of unit time as a form of its coefficients, `[ORDER, ORDER]`."""
    form = np.zeros((ORDER, ORDER))
    for power in range(4, ORDER):
        for other in range(4, ORDER):
            form[power, other] = math.perm(power, 4) * math.perm(other, 4) / (power + other - 7)
    return form


ENDS = _ends()
SNAP = ENDS.T @ _snap() @ ENDS


def _forms(times: Array) -> Array:
    """The integral of squared snap as a form `[B, 4 (K + 1), 4 (K + 1)]` of what is given at waypoints."""
    count, legs = times.shape
    stacked = np.zeros((count, 4 * (legs + 1), 4 * (legs + 1)))
    for leg in range(legs):
        scale = np.tile(times[:, leg, None] ** np.arange(4), 2)
        part = slice(4 * leg, 4 * leg + 8)
        stacked[:, part, part] += SNAP * scale[:, :, None] * scale[:, None] / times[:, leg, None, None] ** 7
    return stacked


def _free(legs: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of what is given at waypoints is a place, and which is free: all else but that ends are at rest."""
    places = 4 * np.arange(legs + 1)
    free = np.setdiff1d(np.arange(4, 4 * legs), places)
    return places, free


def solved(points: Array, times: Array) -> tuple[Array, Array]:
    """What is given at waypoints `[B, K + 1, 4, 2]` on the path of least snap, and that snap, `[B]`.

    Args:
        points: waypoints `[B, K + 1, 2]`. times: of legs, `[B, K]`.
    """
    stacked, (places, free) = _forms(times), _free(times.shape[1])
    conditions = np.zeros((len(points), stacked.shape[1], 2))
    conditions[:, places] = points
    conditions[:, free] = -np.linalg.solve(stacked[:, free[:, None], free], stacked[:, free[:, None], places] @ points)
    snap = (conditions * (stacked @ conditions)).sum((1, 2))
    return conditions.reshape(len(points), -1, 4, 2), snap


def coefficients(points: Array, times: Array) -> Array:
    """Of the polynomials of least snap, in the time of a leg from 0 to 1, `[B, K, ORDER, 2]`."""
    conditions, _ = solved(points, times)
    scaled = conditions[:, None] * (times[:, :, None] ** np.arange(4))[:, :, None, :, None]
    legs = np.arange(times.shape[1])
    ends = np.concatenate([scaled[:, legs, legs], scaled[:, legs, legs + 1]], 2)
    return np.asarray(ENDS @ ends, np.float64)


def sampled(coefficient: Array, times: Array, leg: NDArray[np.int64], share: Array) -> list[Array]:
    """Place, velocity, acceleration, jerk and snap `[B, N, 2]` at shares `[B, N]` of legs `[B, N]`."""
    rows = np.arange(len(times))[:, None]
    chosen, long = coefficient[rows, leg], times[rows, leg]
    return [
        (powers(share, derivative)[..., None] * chosen).sum(2) / long[..., None] ** derivative
        for derivative in range(5)
    ]


def attitude(acceleration: Array, jerk: Array, snap: Array) -> tuple[Array, Array, Array, Array]:
    """Thrust, angle, its speed and its acceleration `[..]` with which a path is followed without drag."""
    x, z = acceleration[..., 0], acceleration[..., 1] + GRAVITY
    squared = np.maximum(x**2 + z**2, 1e-9)
    turn = (x * jerk[..., 1] - z * jerk[..., 0]) / squared
    more = (x * snap[..., 1] - z * snap[..., 0]) / squared
    more -= 2 * turn * (x * jerk[..., 0] + z * jerk[..., 1]) / squared
    return np.sqrt(squared), np.arctan2(-x, z), turn, more


def rotors(thrust: Array, turning: Array) -> Array:
    """The lift of both rotors `[.., 2]` for a thrust and an angular acceleration."""
    return np.stack([thrust - turning / LEVER, thrust + turning / LEVER], -1) / 2


def _all_along(points: Array, times: Array) -> list[Array]:
    """Acceleration, jerk and snap at `SAMPLES` points of every leg, `[B, K SAMPLES, 2]`."""
    legs = times.shape[1]
    leg = np.broadcast_to(np.repeat(np.arange(legs), SAMPLES), (len(times), legs * SAMPLES))
    share = np.broadcast_to(np.tile((np.arange(SAMPLES) + 0.5) / SAMPLES, legs), leg.shape)
    return sampled(coefficients(points, times), times, leg, share)[2:]


def _in_range(acceleration: Array, jerk: Array, snap: Array) -> Flags:
    """Whether both rotors stay in their range all along, `[B]`."""
    thrust, _, _, turning = attitude(acceleration, jerk, snap)
    lifts = rotors(thrust, turning)
    return np.asarray(((lifts >= 0) & (lifts <= LIFT)).all((1, 2)), np.bool_)


def ideal(points: Array, times: Array) -> Flags:
    """Whether both rotors stay in their range all along, without drag and lag, `[B]`."""
    return _in_range(*_all_along(points, times))


def least_scale(points: Array, times: Array) -> Array:
    """The least factor of times `[B, K]` from 0.5 to 32 with which an ideal flight can be flown, `[B]`, to 0.1 %."""
    moved = _all_along(points, times)
    low, high = (np.full(len(times), bound) for bound in (0.5, 32.0))
    for _ in range(13):
        middle = np.sqrt(low * high)
        slower = middle[:, None, None]
        flies = _in_range(*(part / slower**power for power, part in enumerate(moved, 2)))
        low, high = np.where(flies, low, middle), np.where(flies, middle, high)
    return np.asarray(high, np.float64)


def deviation(points: Array, times: Array, step: float = STEP) -> Array:
    """How far a flight with drag and lag is off its path at most, `[B]`."""
    coefficient, count = coefficients(points, times), len(times)
    begins = np.concatenate([np.zeros((count, 1)), times.cumsum(1)], 1)
    place, speed = points[:, 0].copy(), np.zeros((count, 2))
    angle, turn = np.zeros(count), np.zeros(count)
    lifts, worst = np.full((count, 2), GRAVITY / 2), np.zeros(count)
    for number in range(math.ceil(float(begins[:, -1].max()) / step)):
        moment = np.minimum(number * step, begins[:, -1])
        leg = np.minimum((moment[:, None] >= begins[:, 1:]).sum(1), times.shape[1] - 1)
        share = np.clip((moment - begins[np.arange(count), leg]) / times[np.arange(count), leg], 0, 1)
        wanted = [part[:, 0] for part in sampled(coefficient, times, leg[:, None], share[:, None])]
        flying = number * step < begins[:, -1]
        worst = np.where(flying, np.maximum(worst, np.linalg.norm(place - wanted[0], axis=1)), worst)
        steered = wanted[2] + STIFFNESS * (wanted[0] - place) + DAMPING * (wanted[1] - speed)
        _, aim, _, _ = attitude(steered, wanted[3], wanted[4])
        _, _, rate, more = attitude(*wanted[2:])
        up = np.stack([-np.sin(angle), np.cos(angle)], 1)
        thrust = (steered * up).sum(1) + GRAVITY * up[:, 1]
        off = (aim - angle + np.pi) % (2 * np.pi) - np.pi
        command = np.clip(rotors(thrust, more + TURN * off + CALM * (rate - turn)), 0, LIFT)
        lifts = lifts + (command - lifts) * (1 - math.exp(-step / LAG))
        # Speeds first, then what they change.
        force = lifts.sum(1)[:, None] * up - DRAG * speed
        speed = speed + step * (force - np.array([0, GRAVITY]))
        place = place + step * speed
        turn = turn + step * LEVER * (lifts[:, 1] - lifts[:, 0])
        angle = angle + step * turn
    return worst


def flown(points: Array, times: Array) -> Flags:
    """Whether a flight with drag and lag stays within `TOLERANCE` of its path, `[B]`."""
    return np.asarray(deviation(points, times) <= TOLERANCE, np.bool_)

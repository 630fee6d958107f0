"""Cars that cross and cars in lanes: best answers, plans, and what cannot be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.worlds import chain
from hocket.methods.marl.claims.igt_mpc import rolled
from hocket.methods.marl.igt_mpc.crossings import CHOICES, EFFORT, LATE, Crossing, crossing
from hocket.methods.marl.igt_mpc.lanes import ALONE, CRUISE, FASTEST, PUSH, TICK, Lanes, lanes
from hocket.methods.marl.igt_mpc.method import InteractionValue, settled
from hocket.methods.marl.igt_mpc.rendezvous import DISCOUNT, Rendezvous


def driven(world: Crossing, place: int, speed: int, plan: tuple[int, ...], taken: NDArray[np.bool_]) -> float:
    """What a plan costs, step by step; infinite where it meets the other."""
    total = 0.0
    for time, choice in enumerate(plan):
        if place < world.approach + 2:
            total += 1 + EFFORT * (choice != 1)
        speed = min(max(speed + int(CHOICES[choice]), 0), 2)
        place = min(place + speed, world.approach + 2)
        if taken[time + 1] and world.approach <= place < world.approach + 2:
            return float("inf")
    return total + LATE * (place < world.approach + 2)


def test_the_best_answer_is_the_cheapest_of_all_plans():
    world, draw, off = Crossing(3, steps=6), Key.of(0).numpy(), 0.0
    for _ in range(12):
        taken = draw.random(7) < 0.3
        place, speed = int(draw.integers(0, 4)), int(draw.integers(0, 3))
        least = min(driven(world, place, speed, plan, taken) for plan in itertools.product(range(3), repeat=6))
        answered = float(world.answered(taken)[0, place, speed])
        if np.isfinite(least) or np.isfinite(answered):
            off = max(off, abs(least - answered), abs(world.best_drive(place, speed, taken).costs[0] - least))
    assert off < 1e-12


def test_a_plan_is_the_cheapest_that_does_not_meet_the_forecast():
    world, draw, off, braked = Crossing(4, look=2), Key.of(5).numpy(), 0.0, 0
    rest = draw.uniform(0, 3, (world.through + 1, 3, world.through + 1, 3))
    states = draw.integers(0, (world.through, 3, world.through, 3), (300, 4))
    forecast = draw.integers(0, 3, (300, 2))
    for state, told, plan in zip(states, forecast, world.planned(rest, states, forecast), strict=True):
        costs = {}
        for tried in itertools.product(range(3), repeat=2):
            own, speed, other, going = (int(one) for one in state)
            total = 0.0
            for mine, theirs in zip(tried, told, strict=True):
                total += (1 + EFFORT * (mine != 1)) * (own < world.through)
                speed, going = (min(max(one, 0), 2) for one in (speed + 1 - mine, going + 1 - int(theirs)))
                own, other = min(own + speed, world.through), min(other + going, world.through)
                if 4 <= own < 6 and 4 <= other < 6:
                    total = np.inf
            costs[tried] = total + rest[own, speed, other, going]
        least = min(costs.values())
        braked += not np.isfinite(least)
        off += tuple(plan) != (2, 2) if not np.isfinite(least) else abs(costs[tuple(int(c) for c in plan)] - least)
    assert braked > 0
    assert float(off) < 1e-12


def test_a_car_alone_pays_by_its_speed():
    world, off = lanes(8), 0.0
    for speed in np.linspace(0, FASTEST, 9):
        motion = world.best_motion(0.0, float(speed))
        assert motion is not None
        off = max(off, float(np.abs(motion.costs - ALONE * (motion.speeds - CRUISE) ** 2).max()))
        off = max(off, float(np.abs(np.diff(motion.speeds) / TICK).max() >= PUSH))
    assert off < 1e-9


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Lanes(3), "approach = 3"),
        (lambda: Lanes(8, look=0), "look = 0"),
        (lambda: Lanes(8, steps=23), "steps = 23"),
        (lambda: Lanes(8, cases=0), "cases"),
        (lambda: Rendezvous(0), "look = 0"),
        (lambda: Rendezvous(together=-1.0), "together = -1"),
        (lambda: InteractionValue().checked(chain(3)), "chain"),
        (lambda: InteractionValue(games=-1), "games = -1"),
    ],
)
def test_what_cannot_be_is_refused(make, why):
    with pytest.raises(ConfigurationError, match=why):
        make()


@pytest.mark.parametrize("world", [Lanes(4, look=1, steps=12, cases=1), Rendezvous(1, together=0.0), crossing(2)])
def test_the_least_of_everything_is_taken(world):
    InteractionValue(games=0, fits=0, hidden=1, rate=0.0).checked(world)


def test_what_both_could_gain_is_what_best_linear_answers_save():
    world, draw = Rendezvous(), Key.of(6).numpy()
    gains = settled(world) + draw.normal(0, 0.1, (2, 4))

    def summed(player: int, used: Array) -> float:
        ways, total = np.eye(4), 0.0  # A way from each unit vector, in columns.
        for time in range(150):
            pushes = -used @ ways
            paid = np.trace(ways.T @ world.states[player] @ ways) + world.efforts[player] @ (pushes**2).sum(-1)
            total += DISCOUNT**time * float(paid)
            ways = world.move @ ways + world.push @ pushes
        return float(total)

    saved = 0.0
    for player in (0, 1):

        def tried(own: Array, player: int = player) -> float:
            used = gains.copy()
            used[player] = own
            return summed(player, used)

        saved += tried(gains[player]) - float(minimize(tried, gains[player], tol=1e-10).fun)
    off = abs(world.gain(gains) - saved)
    wild = world.gain(-3 * settled(world))
    assert off < 1e-6
    assert saved > 1e-3
    assert wild == float("inf")


def least(world: Lanes, place: float, speed: float, other: Array) -> float:
    """What the best answer to the other's places costs, by another solver, of both orders of passing."""
    times = np.flatnonzero(world.within(other))

    def cost(pushes: Array) -> float:
        _, speeds, costs = rolled(place, speed, pushes)
        return float(costs.sum() + ALONE * (speeds[-1] - CRUISE) ** 2)

    found = []
    for sign, time, edge in ((1, int(times[0]), world.through), (-1, int(times[-1]), world.approach)):

        def apart(pushes: Array, sign: int = sign, time: int = time, edge: float = edge) -> Array:
            places, speeds, _ = rolled(place, speed, pushes)
            return np.concatenate([speeds[1:], FASTEST - speeds[1:], [sign * (places[time] - edge)]])

        done = minimize(
            cost,
            np.zeros(world.steps),
            method="SLSQP",
            bounds=[(-PUSH, PUSH)] * world.steps,
            constraints={"type": "ineq", "fun": apart},
            options={"maxiter": 200, "ftol": 1e-12},
        )
        if done.success and apart(done.x).min() > -1e-6:
            found.append(float(done.fun))
    return min(found)


def test_drives_are_best_answers_by_another_solver():
    world, off, met, yielding = Lanes(4, steps=14), 0.0, False, 0
    for start in world.drawn(8, Key.of(2)):
        drives = world.equilibrium(start)
        assert drives is not None
        for car in (0, 1):
            own = drives[car]
            off = max(off, abs(own.costs[0] - least(world, start[2 * car], start[2 * car + 1], drives[1 - car].places)))
            places, speeds, costs = rolled(own.places[0], own.speeds[0], np.diff(own.speeds) / TICK)
            left = np.append(costs, ALONE * (speeds[-1] - CRUISE) ** 2)[::-1].cumsum()[::-1]
            off = max(off, float(np.abs(left - own.costs).max()), float(np.abs(places - own.places).max()))
            yielding += own.costs[0] > ALONE * (start[2 * car + 1] - CRUISE) ** 2 + 1e-3
        met |= bool((world.within(drives[0].places) & world.within(drives[1].places)).any())
    assert not met
    assert yielding > 2
    assert off < 1e-4

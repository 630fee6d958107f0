"""Claims about plans of flight that are paid by an estimate from cheap and dear evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad, solve_ivp
from scipy.optimize import minimize
from scipy.stats import norm

from hocket import tasks
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.claims.shipped_check import configured
from hocket.methods.applications.mfrl_quadrotor.estimator import HIGH, LOW, Estimator, Link
from hocket.methods.applications.mfrl_quadrotor.flight import (
    Array,
    attitude,
    coefficients,
    deviation,
    flown,
    ideal,
    rotors,
    sampled,
)
from hocket.methods.applications.mfrl_quadrotor.method import MFRL_QUADROTOR, EstimatedFlights, plans_of
from hocket.methods.applications.mfrl_quadrotor.world import Flights, features, of_least_snap, stretched, waypoints
from hocket.policies.control import ControlPolicy
from hocket.rollout.joint import JointPlayer
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.loop import RunContext, train_step

claim = Claims("mfrl-quadrotor", "arXiv:2403.08152 and the authors' code; the flights and the kernels are our own")

KEY = Key.of(0).derive("flights")


def _plans(name: str, count: int, first: int = 1) -> tuple[Array, Array, Array]:
    """Unseen waypoints, the times of least snap, and factors that are drawn evenly."""
    points = np.stack([waypoints(first + 2 * number) for number in range(count)])
    factors = stretched(KEY.derive(name).numpy().uniform(-1, 1, (count, 3)))
    return points, of_least_snap(points), factors


def _polynomials(points: Array, times: Array) -> Array:
    """The 24 coefficients `[3, 8, 2]` of least snap in seconds, by one system with a multiplier for each condition."""

    def row(leg: int, at: float, derivative: int) -> Array:
        system = np.zeros(24)
        for power in range(derivative, 8):
            system[8 * leg + power] = math.perm(power, derivative) * at ** (power - derivative)
        return system

    form = np.zeros((24, 24))
    for leg, long in enumerate(times):
        for item in range(4, 8):
            for other in range(4, 8):
                scale = math.perm(item, 4) * math.perm(other, 4) / (item + other - 7)
                form[8 * leg + item, 8 * leg + other] = scale * long ** (item + other - 7)
    rows, wanted = list[Array](), list[Array]()
    for leg in range(3):
        rows += [row(leg, 0, 0), row(leg, times[leg], 0)]
        wanted += [points[leg], points[leg + 1]]
    for derivative in (1, 2, 3):
        rows += [row(0, 0, derivative), row(2, times[2], derivative)]
        rows += [row(leg, times[leg], derivative) - row(leg + 1, 0, derivative) for leg in range(2)]
        wanted += [np.zeros(2)] * 4
    matrix = np.stack(rows)
    system = np.block([[2 * form, matrix.T], [matrix, np.zeros((len(rows), len(rows)))]])
    right = np.concatenate([np.zeros((24, 2)), np.stack(wanted)])
    return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0][:24].reshape(3, 8, 2), np.float64)


@claim("Paths are those of least snap: the polynomials of a quadratic programme with a multiplier for each condition.")
def paths_are_those_of_least_snap() -> Finding:
    points, times, factors = _plans("snap", 4)
    off = 0.0
    for number in range(4):
        mine = coefficients(points[[number]], (times * factors)[[number]])[0]
        theirs = _polynomials(points[number], (times * factors)[number])
        for leg, long in enumerate((times * factors)[number]):
            for share in np.linspace(0, 1, 7):
                place = sum(mine[leg, power] * share**power for power in range(8))
                other = sum(theirs[leg, power] * (share * long) ** power for power in range(8))
                off = max(off, float(np.abs(place - other).max()))
    return Finding(off < 1e-6, say(off=off))


def _along(points: Array, times: Array) -> Callable[[float], list[Array]]:
    """Place, velocity, acceleration, jerk and snap of one plan at a time, `[2]` each."""
    coefficient, ends = coefficients(points, times), times[0].cumsum()

    def along(moment: float) -> list[Array]:
        leg = min(int((moment >= ends).sum()), 2)
        share = (moment - (ends[leg] - times[0, leg])) / times[0, leg]
        return [part[0, 0] for part in sampled(coefficient, times, np.array([[leg]]), np.array([[share]]))]

    return along


def _lifted(moved: list[Array], state: Array) -> Array:
    """How a quadrotor's place, speed, angle and turning change whose rotors lift what an ideal flight asks of them."""
    thrust, _, _, turning = attitude(*moved[2:])
    left, right = rotors(thrust, turning)
    x, z = -np.sin(state[4]) * (left + right), np.cos(state[4]) * (left + right) - 9.81
    return np.array([state[2], state[3], x, z, state[5], 20.0 * (right - left)])


@claim(
    "Without drag and lag a quadrotor whose rotors lift what `ideal` asks of them follows the path, by another "
    "integrator, to a hundredth of a millimetre."
)
def the_ideal_flight_follows_its_path() -> Finding:
    points, times, _ = _plans("ideal", 3)
    off = 0.0
    for number in range(3):
        item, legs = points[[number]], times[[number]]
        along = _along(item, legs)
        begin = along(0.0)
        _, angle, turn, _ = attitude(*begin[2:])
        state = np.array([*begin[0], *begin[1], angle, turn])
        for leg, end in enumerate(legs[0].cumsum()):  # Snap jumps at waypoints, and no step may cross one.
            span = (end - legs[0, leg], end - 1e-9)
            path = solve_ivp(lambda moment, state: _lifted(along(moment), state), span, state, rtol=1e-10, atol=1e-12)  # noqa: B023
            state = path.y[:, -1]
            off = max(off, float(np.abs(state[:2] - item[0, leg + 1]).max()))
    return Finding(off < 1e-5, say(off=off))


def _by_hand(points: Array, times: Array) -> float:
    """How far one flight is off its path at most, moment by moment."""
    coefficient, ends = coefficients(points[None], times[None]), times.cumsum()
    (x, z), angle, turn, left, right, worst = points[0].tolist(), 0.0, 0.0, 9.81 / 2, 9.81 / 2, 0.0
    fast, rising = 0.0, 0.0
    for number in range(math.ceil(ends[-1] / 0.01)):
        moment = number * 0.01
        leg = min(int((moment >= ends).sum()), 2)
        share = (moment - (ends[leg] - times[leg])) / times[leg]
        parts = [part[0, 0] for part in sampled(coefficient, times[None], np.array([[leg]]), np.array([[share]]))]
        (px, pz), (vx, vz), (ax, az), (jx, jz), (sx, sz) = (tuple(part) for part in parts)
        worst = max(worst, math.hypot(x - px, z - pz))
        wx = ax + 25 * (px - x) + 9 * (vx - fast)
        wz = az + 25 * (pz - z) + 9 * (vz - rising) + 9.81
        size = ax**2 + (az + 9.81) ** 2
        rate = (ax * jz - (az + 9.81) * jx) / size
        more = (ax * sz - (az + 9.81) * sx) / size - 2 * rate * (ax * jx + (az + 9.81) * jz) / size
        off = math.remainder(math.atan2(-wx, wz) - angle, 2 * math.pi)
        thrust = -wx * math.sin(angle) + wz * math.cos(angle)
        push = (more + 400 * off + 40 * (rate - turn)) / 20
        share = 1 - math.exp(-0.01 / 0.05)
        left += share * (min(max((thrust - push) / 2, 0), 11) - left)
        right += share * (min(max((thrust + push) / 2, 0), 11) - right)
        fast += 0.01 * (-(left + right) * math.sin(angle) - 0.4 * fast)
        rising += 0.01 * ((left + right) * math.cos(angle) - 0.4 * rising - 9.81)
        x, z = x + 0.01 * fast, z + 0.01 * rising
        turn += 0.01 * 20 * (right - left)
        angle += 0.01 * turn
    return worst


@claim(
    "A dear flight is that of one quadrotor, moment by moment in plain words. Both levels agree on nine of ten plans; "
    "slower by half, nearly all can be flown."
)
def a_flight_is_that_of_one_quadrotor() -> Finding:
    points, first, factors = _plans("flown", 200)
    times, few = first * factors, slice(12)
    worst = np.array([_by_hand(*plan) for plan in zip(points[few], times[few], strict=True)])
    near = worst < 1  # A flight that tumbles depends on the last digit.
    off = float(np.abs(deviation(points[few], times[few]) - worst)[near].max())
    same = flown(points[few], times[few]) == (worst <= 0.08)
    agree = float((flown(points, times) == ideal(points, times)).mean())
    slow = float(flown(points[:100], 1.5 * first[:100]).mean())
    holds = off < 1e-6 and bool(same.all()) and 0.85 < agree < 0.95 and slow > 0.95
    return Finding(holds, say(off=off, agree=agree, slower=slow))


@claim("The prior of both levels is that of f_high = rho f_low + delta: blocks of two processes, put together.")
def the_prior_links_both_levels() -> Finding:
    rows, link = KEY.derive("rows").numpy().normal(size=(6, 9)), Link(rho=0.7)
    apart = np.array([[((item - other) ** 2).sum() for other in rows] for item in rows])
    linear = np.array([[item[6:] @ other[6:] for other in rows] for item in rows])
    low = 1 + 16 * linear + 16 * np.exp(-apart / 8)
    delta = np.exp(-apart / 18)
    mixed = np.block([[np.eye(6), np.zeros((6, 6))], [0.7 * np.eye(6), np.eye(6)]])
    wanted = mixed @ np.block([[low, np.zeros((6, 6))], [np.zeros((6, 6)), delta]]) @ mixed.T
    level = np.repeat([LOW, HIGH], 6)
    off = float(np.abs(link(np.tile(rows, (2, 1)), level, np.tile(rows, (2, 1)), level) - wanted).max())
    return Finding(off < 1e-10, say(off=off))


@claim(
    "The posterior is Laplace's: the mode that a search finds, the variance by the inverse of K + 1/W, the chance by "
    "integration; the doubt is -|m| / v."
)
def the_posterior_is_laplaces() -> Finding:
    draw, link = KEY.derive("posterior").numpy(), Link()
    rows, queried = draw.normal(size=(14, 9)), draw.normal(size=(5, 9))
    level, flies = draw.integers(0, 2, 14), draw.random(14) < 0.5
    prior, sign = link(rows, level, rows, level), np.where(flies, 1.0, -1.0)
    root = np.linalg.cholesky(prior)
    mode_search = minimize(
        lambda white: -norm.logcdf(sign * (root @ white)).sum() + white @ white / 2, np.zeros(14), tol=1e-12
    )
    mode, step = root @ mode_search.x, 1e-4
    slope = (norm.logcdf(sign * (mode + step)) - norm.logcdf(sign * (mode - step))) / (2 * step)
    second = norm.logcdf(sign * (mode + step)) + norm.logcdf(sign * (mode - step)) - 2 * norm.logcdf(sign * mode)
    estimator, high = Estimator(rows, level, flies), np.full(5, HIGH)
    across, off = link(rows, level, queried, high), 0.0
    inverse = np.linalg.inv(prior + np.diag(-(step**2) / second))
    variance = np.diag(link(queried, high, queried, high) - across.T @ inverse @ across)
    mean, spread = estimator.values(queried)
    off = max(float(np.abs(mean - across.T @ slope).max()), float(np.abs(spread / variance - 1).max()))
    for number in range(5):
        centre, deviating = mean[number], math.sqrt(spread[number])
        chance, _ = quad(lambda z: norm.cdf(centre + deviating * z) * norm.pdf(z), -9, 9)  # noqa: B023
        off = max(off, abs(chance - float(estimator.chance(queried)[number])))
    doubt = float(np.abs(estimator.doubt(queried) + np.abs(mean) / variance).max())
    return Finding(off < 1e-3 and doubt < 1e-2, say(off=off, doubt=doubt))


def _begun(seed: int = 0, **settings: Any) -> RunContext:
    """A run as `hocket train` configures it; `settings` are of the hook."""
    task = tasks.find("flights")
    changed = {"seed": seed, **{f"hooks.0.{name}": value for name, value in settings.items()}}
    return build_parts(configured(MFRL_QUADROTOR, "flights", task, changed), task)


@claim(
    "A step pays every plan P(flies) (0.2 + min(1 - T/T_0, 0.2)) / 0.2, and then evaluates 16 cheaply and 2 by a "
    "flight, those of the largest -|m| / v."
)
def a_step_pays_the_estimate_and_evaluates_what_is_in_doubt() -> Finding:
    parts = _begun()
    result = run_async(train_step(parts, 1))
    assert result.experience is not None
    played = list(result.experience.trajectories)
    after: Estimator = next(iter(parts.hooks.memories.values()))["estimator"]
    known = Estimator(after.features[:144], after.level[:144], after.flies[:144])
    points, first, factors = plans_of(played)
    read, saved = features(points, factors), 1 - (first * factors).sum(1) / first.sum(1)
    paid = np.array([float(np.sum(np.asarray(item.scores["reward"].value))) for item in played])
    off = float(np.abs(paid - known.chance(read) * (0.2 + np.minimum(saved, 0.2)) / 0.2).max())
    wrong, place = 0, 144
    for level, count, flies in ((LOW, 16, ideal), (HIGH, 2, flown)):
        mean, variance = known.values(read, level)
        chosen = np.argsort(np.abs(mean) / variance)[:count]
        new = slice(place, place + count)
        wrong += int((np.sort(after.features[new], 0) != np.sort(read[chosen], 0)).sum())
        labels = {row.tobytes(): fly for row, fly in zip(after.features[new], after.flies[new], strict=True)}
        truth = flies(points[chosen], (first * factors)[chosen])
        wrong += sum(labels[row.tobytes()] != fly for row, fly in zip(read[chosen], truth, strict=True))
        place += count
    return Finding(off < 1e-5 and wrong == 0 and place == len(after.level), say(off=off, wrong=wrong))


def _area(value: Array, flies: NDArray[np.bool_]) -> float:
    """Under the curve of hits over false alarms: how often what flies has the higher value."""
    return float((value[flies][:, None] > value[~flies]).mean())


@claim(
    "Of 300 unseen plans the linked estimator with 30 flights and 400 cheap evaluations tells what flies as well as "
    "one with 90 flights alone, and better than one with 30 (mean over 2 draws)."
)
def cheap_evaluations_are_worth_two_thirds_of_the_flights() -> Finding:
    areas = dict[str, list[float]]()
    points, first, factors = _plans("unseen", 300)
    read, flies = features(points, factors), flown(points, first * factors)
    for number in range(2):
        points, first, factors = _plans(f"known {number}", 400, 10_001 + 1000 * number)
        known, times = features(points, factors), first * factors
        for cheap, dear in ((400, 30), (0, 30), (0, 90)):
            estimator = Estimator(known[:0], np.zeros(0, np.int64), np.zeros(0, bool))
            estimator = (
                estimator.joined(known[:cheap], LOW, ideal(points[:cheap], times[:cheap])) if cheap else estimator
            )
            estimator = estimator.joined(known[:dear], HIGH, flown(points[:dear], times[:dear]))
            areas.setdefault(f"{dear} flights, {cheap} cheap", []).append(_area(estimator.values(read)[0], flies))
    mean = {name: float(np.mean(each)) for name, each in areas.items()}
    both, few, many = mean.values()
    return Finding(both > few and both > many - 0.01, say(**mean))


def _planned(parts: RunContext, points: Array, times: Array) -> Array:
    """The times that a policy plans greedily."""
    policy = cast(ControlPolicy, parts.lead.policy)
    course = Flights().open(len(points))
    course.points, course.times = points, times
    cold = np.zeros(len(points), np.float32)
    actions = policy.sample(course.seen()[0], np.full((len(points), policy.draws), 0.5), cold)[0]
    return np.asarray(times * stretched(np.asarray(actions, np.float64)), np.float64)


def _slowed(points: Array, first: Array, success: float) -> float:
    """The least factor, in steps of .04, with which as many plans of least snap can be flown; infinite without any."""
    scales = (float(scale) for scale in np.arange(0.88, 1.4, 0.04))
    return next((scale for scale in scales if flown(points, scale * first).mean() >= success), math.inf)


def _earned(flies: NDArray[np.bool_], times: Array, first: Array) -> Array:
    return np.asarray(flies * (1 + np.minimum(1 - times.sum(1) / first.sum(1), 0.2) / 0.2), np.float64)


@claim(
    "As shipped, after 24 steps with 64 flights, unseen plans earn more than at first, beyond two standard errors; at "
    "as many flights they earn less by an estimator of flights alone. Least snap, slowed until as many can be flown, "
    "takes longer (2 seeds).",
    slow=True,
    learns=True,
)
def two_levels_earn_more_than_one_at_as_many_flights() -> Finding:
    points, first, _ = _plans("learnt", 200)
    earned, success, shorter = dict[str, list[float]](), list[float](), list[float]()
    holds, begin = True, _earned(flown(points, first), first, first)
    for seed in range(2):
        for name, settings in (("linked", {}), ("flights alone", {"cheap": 0, "first": [0, 16]})):
            parts = _begun(seed, **settings)
            before = _planned(parts, points, first)
            for step in range(1, 25):
                run_async(train_step(parts, step))
            times = _planned(parts, points, first)
            flies = flown(points, times)
            later = _earned(flies, times, first)
            earned.setdefault(name, []).append(float(later.mean()))
            if name == "linked":
                gain = later - _earned(flown(points, before), before, first)
                holds &= bool(gain.mean() > 2 * gain.std() / len(gain) ** 0.5)
                success.append(float(flies.mean()))
                shorter.append(float(times.sum() / first.sum() / _slowed(points, first, success[-1])))
    holds &= min(earned["linked"]) > max(*earned["flights alone"], float(begin.mean())) and max(shorter) < 1
    return Finding(holds, say(**earned, least_snap=float(begin.mean()), success=success, time_over_least_snap=shorter))


@claim("A resumed run has the estimator's evaluations, to the last bit; evaluation flies.")
def a_resumed_run_has_the_evaluations() -> Finding:
    parts, hook = _begun(), cast(EstimatedFlights, MFRL_QUADROTOR.hooks[0])
    memory = hook.begin(parts, None)
    again = hook.restore(hook.state(memory, parts), parts)["estimator"]
    read = KEY.derive("resumed").numpy().normal(size=(7, 9))
    same = np.array_equal(again.chance(read), memory["estimator"].chance(read))
    seated = cast(JointPlayer, hook.seat(parts.player, parts, 1, memory))
    judged = cast(Flights, seated.world).judge is not None
    flies = cast(Flights, cast(JointPlayer, parts.player).world).judge is None
    return Finding(same and judged and flies, say(same=float(same), judged=float(judged), flies=float(flies)))


claim.shipped(MFRL_QUADROTOR, "hooks")

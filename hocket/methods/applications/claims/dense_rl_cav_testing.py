"""Claims about tests of a vehicle that are drawn where crashes are."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np

from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.methods.applications.dense_rl_cav_testing import (
    BEGIN,
    CLOSING,
    HABITS,
    MOMENTS,
    SURROGATES,
    UNDER_TEST,
    Actions,
    Array,
    Tests,
    Vehicle,
    chances,
    dense_values,
    drawn,
    driven,
    fitted_weights,
    likelihoods,
    nearest_on_simplex,
    proposal,
    weighed_crashes,
)

claim = Claims("dense-rl-cav-testing", "arXiv:2402.19275, the estimator; the programme's form is chosen here")

KEY = Key.of(0).derive("tests")
EVEN = np.full(len(SURROGATES), 1 / len(SURROGATES))


@functools.cache
def _every() -> tuple[Actions, Array]:
    """Everything that the car ahead may do, `[3^T, T]`, and how likely it is on the road."""
    actions = np.array(list(itertools.product(range(3), repeat=MOMENTS)), np.int64)
    return actions, np.array([np.prod([HABITS[action] for action in row]) for row in actions])


@functools.cache
def _surrogates() -> tuple[Array, Array]:
    """Their chances of a crash and their proposals."""
    probabilities = np.stack([chances(vehicle) for vehicle in SURROGATES])
    return probabilities, proposal(probabilities)


def _crashes(vehicle: Vehicle, actions: Sequence[int]) -> bool:
    """One test, moment by moment in plain words."""
    gap, closing = BEGIN
    for action in actions:
        ahead = {0: 0, 1: -2, 2: 1}[int(action)]
        if gap < vehicle.attention + vehicle.caution * closing:
            change = -vehicle.brake
        else:
            change = 1 if closing < 1 else 0
        closing = max(-5, min(5, closing + change - ahead))
        gap = min(10, gap - closing)
        if gap <= 0:
            return True
    return False


@functools.cache
def _chance(vehicle: Vehicle) -> float:
    """Of a crash, by all that the car ahead may do."""
    actions, likely = _every()
    return float(sum(chance for row, chance in zip(actions, likely, strict=True) if _crashes(vehicle, row)))


@claim("Dynamic programming gives the chance of a crash that enumeration of all 6,561 tests gives: 1.7e-4 a test.")
def dynamic_programming_gives_the_chance_of_a_crash() -> Finding:
    off = 0.0
    for vehicle in (UNDER_TEST, *SURROGATES):
        known = float(chances(vehicle)[0, BEGIN[0], BEGIN[1] + CLOSING] @ HABITS)
        off = max(off, abs(known / _chance(vehicle) - 1))
    return Finding(off < 1e-10 and 1e-4 < _chance(UNDER_TEST) < 2e-4, say(off=off, chance=_chance(UNDER_TEST)))


@claim(
    "Every proposal and every mixture is unbiased: over all tests the weighed crashes sum to the chance of one, and of "
    "20,000 drawn tests the mean is within four standard errors of it."
)
def every_proposal_is_unbiased() -> Finding:
    _, proposals = _surrogates()
    actions, chance = _every()[0], _chance(UNDER_TEST)
    tests, off, errors = driven(UNDER_TEST, actions), [], []
    for number, alpha in enumerate([*np.eye(3), EVEN, np.array([0.7, 0.1, 0.2])]):
        likely = alpha @ likelihoods(tests, proposals)
        off += [
            abs(float(likely.sum()) - 1),
            abs(float((likely * weighed_crashes(tests, proposals, alpha)).sum()) / chance - 1),
        ]
        if alpha.max() < 1:  # By a single surrogate the variance is finite and too large to see the mean.
            sample = drawn(UNDER_TEST, proposals, alpha, 20_000, KEY.derive("drawn", number))
            weighed = weighed_crashes(sample, proposals, alpha)
            errors.append(abs(weighed.mean() - chance) / (weighed.std() / len(weighed) ** 0.5))
    return Finding(max(off) < 1e-10 and max(errors) < 4, say(off=max(off), standard_errors=errors))


@claim("Proposals are by formula: p(a) Q(s, a) over its sum in nine cases of ten, and p where no crash is open.")
def proposals_are_by_formula() -> Finding:
    (values, shares), off = _surrogates(), 0.0
    draw = KEY.derive("states").numpy()
    for _ in range(300):
        place = tuple(int(draw.integers(size)) for size in values.shape[:-1])
        weighed = [habit * value for habit, value in zip((0.86, 0.04, 0.1), values[place], strict=True)]
        total = sum(weighed)
        wanted = [
            0.9 * (weight / total if total else habit) + 0.1 * habit
            for weight, habit in zip(weighed, (0.86, 0.04, 0.1), strict=True)
        ]
        off = max(off, float(np.abs(shares[place] - wanted).max()))
    return Finding(off < 1e-12, say(off=off))


@claim(
    "Dense values of 2,000 tests are the real vehicle's: of actions that were tried off by less than 0.02, by a tenth "
    "of what the surrogates' mean is off; no moment without an open crash is learnt from."
)
def dense_values_are_the_real_vehicles() -> Finding:
    values, proposals = _surrogates()
    tests = drawn(UNDER_TEST, proposals, EVEN, 2000, KEY.derive("first"))
    learnt, tried = dense_values(tests, values)
    real, open_ones = chances(UNDER_TEST), values.max((0, -1)) > 0
    met = tried > 0
    off, before = (float(np.abs(estimate - real)[met].max()) for estimate in (learnt, values.mean(0)))
    outside = float(tried[~open_ones].sum())
    dropped = 1 - float(tried.sum()) / tests.action.size
    return Finding(
        off < 0.02 and off < before / 10 and outside == 0 and dropped > 0.05,
        say(off=off, surrogates_off=before, outside=outside, dropped=dropped),
    )


@claim("The programme's weights are on the simplex, and no weights of a grid of hundredths fit better.")
def the_programmes_weights_are_on_the_simplex() -> Finding:
    draw, worst, sums = KEY.derive("programmes").numpy(), 0.0, 0.0
    grid = np.array([(a, b, 100 - a - b) for a in range(101) for b in range(101 - a)]) / 100
    inside = 0
    for _ in range(40):
        columns, target = draw.normal(size=(12, 3)), draw.normal(size=12)
        weights = nearest_on_simplex(columns, target)
        misses = ((grid @ columns.T - target) ** 2).sum(1)
        worst = max(worst, float(((columns @ weights - target) ** 2).sum() - misses.min()))
        sums = max(sums, abs(float(weights.sum()) - 1), -float(weights.min()))
        inside += bool(weights.min() > 0)
    return Finding(
        worst < 1e-9 and sums < 1e-12 and 0 < inside < 40, say(worse_than_grid=worst, off=sums, inside=inside)
    )


@functools.cache
def _all_tests() -> tuple[Tests, Array]:
    """All tests of the vehicle, and how likely each surrogate's proposal draws them, `[K, n]`."""
    tests = driven(UNDER_TEST, _every()[0])
    return tests, likelihoods(tests, _surrogates()[1])


def _needed(alpha: Array | None) -> float:
    """Tests for a relative half-width of 0.3 at 95 %, by the exact variance; None draws as on the road."""
    road, chance = _every()[1], _chance(UNDER_TEST)
    tests, of_each = _all_tests()
    likely = road if alpha is None else alpha @ of_each
    second = float((tests.crashed * road**2 / likely).sum())
    return (1.96 / 0.3) ** 2 * (second / chance**2 - 1)


@claim(
    "Weights from 2,000 first tests need fewer tests than equal ones, than any single surrogate and than the road as "
    "it is, and at most a tenth more than the best weights of a grid; in each of 3 seeds, by exact variances."
)
def weights_from_first_tests_need_fewer_tests() -> Finding:
    values, proposals = _surrogates()
    grid = [(a, b, 20 - a - b) for a in range(21) for b in range(21 - a)]
    best = min(_needed(np.array(weights) / 20) for weights in grid)
    singles, crude, even = [_needed(weights) for weights in np.eye(3)], _needed(None), _needed(EVEN)
    fitted = []
    for seed in range(3):
        tests = drawn(UNDER_TEST, proposals, EVEN, 2000, KEY.derive("first", seed))
        fitted.append(_needed(fitted_weights(tests, proposals, values)))
    holds = max(fitted) < min(even, min(singles), crude) and max(fitted) < 1.1 * best
    return Finding(holds, say(fitted=fitted, best=best, equal=even, singles=singles, crude=crude))

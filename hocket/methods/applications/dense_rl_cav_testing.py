"""How often a vehicle crashes, by tests that are drawn where crashes are: dense RL (arXiv:2402.19275).

A crash is so rare that tests as they come on the road, p(x), hardly show one. Tests are drawn instead from a mixture
of proposals, one for each surrogate of the vehicle under test, and weighed:

    q_alpha(x) = sum_k alpha_k q_k(x),   mu = mean( 1[crash] p(x) / q_alpha(x) ).

A surrogate k that is driven by formula gives `Q_k(s, a)`, its chance of a crash after what the other car does, and
`q_k(a | s)` is proportional to `p(a | s) Q_k(s, a)` where a crash is still open, to `p` elsewhere and in a share of
cases. Whatever the weights alpha the estimate is unbiased; they decide how many tests it takes. First tests x of the
real vehicle give its own `Q(s, a)`: moments in which no surrogate can crash any more are dropped, and the others linked
(dense learning). Then

    alpha = argmin over the simplex of  sum_x (q_alpha(x) - q*(x))^2 / (q_0(x) q(x)),   q*(x) = 1[crash] prod_t p Q / V,

with q_0 what they were drawn from and q the mixture so far: a quadratic programme, solved a few times. At its fixed
point it has the least variance on these tests. The abstract states the mixture, the programme and dense learning, not
what is regressed on what; the form above is chosen here, and the road is a small one with a car ahead that keeps its
speed, brakes or accelerates. There is no learner of policies, so this is no recipe.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.core.analyses import Analysis
from hocket.core.keys import Key

Array = NDArray[np.float64]
Actions = NDArray[np.int64]

HABITS = np.array([0.86, 0.04, 0.1])
"""How often the car ahead keeps its speed, brakes hard or accelerates in a moment, on the road."""

CHANGES = np.array([0, -2, 1])
"""What these do to its speed."""

MOMENTS = 8
GAPS, CLOSING = 10, 5
"""The largest gap, and the largest speed by which the vehicle under test closes in."""

BEGIN = (6, 0)
"""The gap and the closing speed at first."""

DEFENSIVE = 0.1
"""The share of cases in which a proposal draws as on the road."""


@dataclass(frozen=True)
class Vehicle:
    """A vehicle that follows: it slows by `brake` where the gap is below `attention` plus `caution` times its closing.

    Otherwise it speeds up by 1 while it does not close in.
    """

    attention: int
    caution: int
    brake: int

    def moved(self, gap: Actions, closing: Actions, action: Actions) -> tuple[Actions, Actions]:
        """Gap and closing speed after what the car ahead does; a gap of 0 is a crash, in which both stay."""
        brakes = gap < self.attention + self.caution * closing
        change = np.where(brakes, -self.brake, np.where(closing < 1, 1, 0))
        faster = np.clip(closing + change - CHANGES[action], -CLOSING, CLOSING)
        nearer = np.clip(gap - faster, 0, GAPS)
        crashed = gap <= 0
        return np.where(crashed, gap, nearer), np.where(crashed, closing, faster)


SURROGATES = (Vehicle(6, 2, 3), Vehicle(7, 1, 2), Vehicle(5, 3, 3))
UNDER_TEST = Vehicle(5, 2, 3)
"""The vehicle whose crashes are to be counted; nobody but its tests knows it."""


def chances(vehicle: Vehicle) -> Array:
    """The chance of a crash `[T + 1, gap, closing, action]` on the road with so many moments left after an action.

    By dynamic programming; `[t]` has T - t moments to come before the action.
    """
    gap, closing, action = np.meshgrid(
        np.arange(GAPS + 1), np.arange(-CLOSING, CLOSING + 1), np.arange(3), indexing="ij"
    )
    nearer, faster = vehicle.moved(gap, closing, action)
    value = np.zeros((MOMENTS + 1, GAPS + 1, 2 * CLOSING + 1, 3))
    value[MOMENTS] = (gap <= 0).astype(float)
    for moment in reversed(range(MOMENTS)):
        later = value[moment + 1] @ HABITS
        value[moment] = np.where(gap <= 0, 1.0, later[nearer, faster + CLOSING])
    return value


def proposal(value: Array) -> Array:
    """How likely each action is `[.., 3]` where actions lead to crashes with these chances `[.., 3]`."""
    weighed = HABITS * value
    total = weighed.sum(-1, keepdims=True)
    leaning = np.divide(weighed, total, out=np.broadcast_to(HABITS, value.shape).copy(), where=total > 0)
    return np.asarray((1 - DEFENSIVE) * leaning + DEFENSIVE * HABITS, np.float64)


@dataclass(frozen=True)
class Tests:
    """Tests of a vehicle: gaps and closing speeds before every action `[n, T]`, actions `[n, T]`, crashes `[n]`."""

    gap: Actions
    closing: Actions
    action: Actions
    crashed: NDArray[np.bool_]


def driven(vehicle: Vehicle, action: Actions) -> Tests:
    """The tests in which the car ahead does this, `[n, T]`."""
    gap, closing = (np.full(len(action), value) for value in BEGIN)
    gaps, speeds = [gap], [closing]
    for moment in range(action.shape[1]):
        gap, closing = vehicle.moved(gap, closing, action[:, moment])
        gaps.append(gap)
        speeds.append(closing)
    return Tests(np.stack(gaps[:-1], 1), np.stack(speeds[:-1], 1), action, gap <= 0)


def likelihoods(tests: Tests, proposals: Array) -> Array:
    """How likely each test is by proposals `[K, T + 1, gap, closing, 3]`, `[K, n]`."""
    moments = np.arange(tests.action.shape[1])
    steps = proposals[:, moments, tests.gap, tests.closing + CLOSING, tests.action]
    return np.asarray(steps.prod(-1), np.float64)


def drawn(vehicle: Vehicle, proposals: Array, alpha: Array, count: int, key: Key) -> Tests:
    """Tests of a vehicle by a mixture: a proposal is drawn for a test, and then all that the car ahead does."""
    draw = key.numpy()
    which = draw.choice(len(alpha), count, p=alpha)
    gap, closing = (np.full(count, value) for value in BEGIN)
    chosen = np.zeros((count, MOMENTS), np.int64)
    for moment in range(MOMENTS):
        share = proposals[which, moment, gap, closing + CLOSING].cumsum(-1)
        chosen[:, moment] = np.minimum((draw.random((count, 1)) > share).sum(-1), 2)
        gap, closing = vehicle.moved(gap, closing, chosen[:, moment])
    return driven(vehicle, chosen)


def weighed_crashes(tests: Tests, proposals: Array, alpha: Array) -> Array:
    """`1[crash] p(x) / q_alpha(x)` of each test, whose mean is the estimate, `[n]`."""
    road = HABITS[tests.action].prod(-1)
    return np.asarray(tests.crashed * road / (alpha @ likelihoods(tests, proposals)), np.float64)


def dense_values(tests: Tests, surrogates: Array) -> tuple[Array, Array]:
    """What tests say of the chance of a crash after an action, and how often it was tried, both like `chances`.

    Only moments are learnt from in which one of the `surrogates` `[K, T + 1, gap, closing, 3]`, in its chances, can
    still crash; what follows one is the next of them in the test, and where none follows the end of the test. Values
    are averages of `sum_a p(a) Q(s', a)` over what followed, and those of actions that were never tried the
    surrogates' mean.
    """
    critical, value = surrogates.max((0, -1)) > 0, surrogates.mean(0)
    tried = np.zeros_like(value)
    count, moments = tests.action.shape
    # From the last moment back, so that what follows is known when it is asked for.
    following = tests.crashed.astype(float)
    for moment in reversed(range(moments)):
        place = (np.full(count, moment), tests.gap[:, moment], tests.closing[:, moment] + CLOSING)
        used = critical[place] & (tests.gap[:, moment] > 0)
        at = tuple(part[used] for part in (*place, tests.action[:, moment]))
        total = np.zeros_like(value)
        np.add.at(total, at, following[used])
        np.add.at(tried, at, 1.0)
        known = tried[moment] > 0
        value[moment][known] = total[moment][known] / tried[moment][known]
        following = np.where(used, (value[moment] @ HABITS)[place[1], place[2]], following)
    return value, tried


def fitted_weights(tests: Tests, proposals: Array, surrogates: Array, rounds: int = 8) -> Array:
    """The weights `[K]` of the quadratic programme, by tests that were drawn with equal ones."""
    value, _ = dense_values(tests, surrogates)
    # Where no crash is known the car ahead does as on the road.
    weighed = HABITS * np.where((value > 0).any(-1, keepdims=True), value, 1.0)
    optimal = weighed / weighed.sum(-1, keepdims=True)
    chances_of = likelihoods(tests, proposals)
    target = tests.crashed * likelihoods(tests, optimal[None])[0]
    even = np.full(len(proposals), 1 / len(proposals))
    alpha, drawn_by = even, even @ chances_of
    for _ in range(rounds):
        scale = 1 / np.sqrt(drawn_by * (alpha @ chances_of))
        alpha = (alpha + nearest_on_simplex((chances_of * scale).T, target * scale)) / 2
    return np.asarray(alpha, np.float64)


def nearest_on_simplex(columns: Array, target: Array) -> Array:
    """The weights `[K]`, at least 0 and of sum 1, that minimise `|columns w - target|^2`, by trying every support."""
    count, best, least = columns.shape[1], np.zeros(columns.shape[1]), np.inf
    for bits in range(1, 2**count):
        held = [place for place in range(count) if bits >> place & 1]
        part = columns[:, held]
        # The normal equations with a multiplier for the sum.
        system = np.ones((len(held) + 1, len(held) + 1))
        system[:-1, :-1], system[-1, -1] = part.T @ part, 0.0
        solved = np.linalg.lstsq(system, np.append(part.T @ target, 1.0), rcond=None)[0][:-1]
        miss = float(((part @ solved - target) ** 2).sum())
        if solved.min() >= -1e-12 and miss < least - 1e-15:
            best, least = np.zeros(count), miss
            best[held] = np.maximum(solved, 0)
    return np.asarray(best / best.sum(), np.float64)


DENSE_RL_CAV_TESTING = Analysis(
    name="dense-rl-cav-testing",
    title="Adaptive testing environments for connected and automated vehicles with dense reinforcement learning",
    where="docs/applications.md",
    kind="application",
)

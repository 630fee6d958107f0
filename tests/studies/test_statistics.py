"""The statistics of studies beside rliable's, scipy's, and what they promise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from arch.bootstrap import IIDBootstrap, IndependentSamplesBootstrap
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rliable import library, metrics
from scipy import stats

from hocket.apps.studies import statistics
from hocket.apps.studies.statistics import (
    Array,
    Indices,
    area,
    difference,
    estimate,
    improvement,
    interquartile_mean,
    interval,
    probability_of_improvement,
    resample,
    resampled,
    smallest_difference,
    t_distribution,
    t_quantile,
)
from hocket.core.keys import Key

values = st.one_of(st.floats(-1e3, 1e3), st.integers(0, 3).map(float))
shapes = st.tuples(st.integers(1, 9), st.integers(1, 4))
scores = shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=values))


@st.composite
def two_methods(draw: st.DrawFn) -> tuple[Array, Array]:
    """Scores of two methods on the same tasks, with runs of their own number and many ties."""
    tasks = draw(st.integers(1, 3))
    runs = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    x, y = (draw(arrays(np.float64, (n, tasks), elements=values)) for n in runs)
    return x, y


def normal(path: str, runs: int, tasks: int) -> Array:
    return Key.of(5).derive(path).numpy().normal(size=(runs, tasks))


# ---------------------------------------------------------------- beside rliable


@given(scores)
def test_the_interquartile_mean_is_rliables(found: Array) -> None:
    expected = metrics.aggregate_iqm(found)
    assert float(interquartile_mean(found)) == pytest.approx(expected, rel=1e-12, abs=1e-9)


@given(two_methods())
def test_the_probability_of_improvement_is_rliables(both: tuple[Array, Array]) -> None:
    x, y = both
    assert float(probability_of_improvement(x, y)) == pytest.approx(metrics.probability_of_improvement(x, y), abs=1e-12)


class Given(library.StratifiedBootstrap):  # type: ignore[misc]
    """rliable's bootstrap of one method on resamples that were drawn elsewhere.

    Its own constructor does not get on with the current version of arch, which it is built on.
    """

    def __init__(self, found: Array, indices: Indices | None = None) -> None:
        IIDBootstrap.__init__(self, found)
        self._args_shape, self._num_tasks, self._task_bootstrap = found.shape, found.shape[1], False
        self._strata_indices = self._get_strata_indices()
        self._given: Iterator[Any] | None = None if indices is None else iter(indices)

    def update_indices(self) -> Any:
        return super().update_indices() if self._given is None else (next(self._given), *self._strata_indices)


class GivenPair(library.StratifiedIndependentBootstrap):  # type: ignore[misc]
    """The same for two methods."""

    def __init__(self, x: Array, y: Array, left: Indices, right: Indices) -> None:
        IndependentSamplesBootstrap.__init__(self, x, y)
        self._args_shapes, self._kwargs_shapes = [x.shape, y.shape], {}
        self._args_strata_indices = [self._get_strata_indices(shape) for shape in self._args_shapes]
        self._kwargs_strata_indices: dict[str, Any] = {}
        self._given = iter(zip(left, right, strict=True))

    def update_indices(self) -> Any:
        drawn = zip(next(self._given), self._args_strata_indices, strict=True)
        return [(indices, *strata) for indices, strata in drawn], {}


@settings(max_examples=15, deadline=None)
@given(scores.filter(lambda found: len(found) > 1), st.integers(0, 99))
def test_intervals_are_rliables_on_the_same_resamples(found: Array, seed: int) -> None:
    indices = resampled(Key.of(seed), *found.shape, draws=200)
    ours = interval(interquartile_mean(resample(found, indices)))
    theirs = Given(found, indices).conf_int(lambda one: np.array([metrics.aggregate_iqm(one)]), 200, "percentile")
    assert ours == pytest.approx(tuple(theirs[:, 0]), rel=1e-9, abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(two_methods(), st.integers(0, 99))
def test_intervals_of_improvement_are_rliables_on_the_same_resamples(both: tuple[Array, Array], seed: int) -> None:
    x, y = both
    left, right = (resampled(Key.of(seed).derive(name), *s.shape, draws=100) for name, s in (("x", x), ("y", y)))
    ours = interval(probability_of_improvement(resample(x, left), resample(y, right)))

    def improved(one: Array, other: Array) -> Array:
        return np.array([metrics.probability_of_improvement(one, other)])

    theirs = GivenPair(x, y, left, right).conf_int(improved, 100, "percentile")
    assert ours == pytest.approx(tuple(theirs[:, 0]), rel=1e-9, abs=1e-9)


@pytest.mark.global_rng
def test_intervals_agree_with_rliables_own_resampling() -> None:
    found = normal("one", 8, 3)
    theirs = Given(found).conf_int(lambda one: np.array([metrics.aggregate_iqm(one)]), 5000, "percentile")[:, 0]
    ours = estimate(found, Key.of(1))
    width = theirs[1] - theirs[0]
    assert abs(ours.low - theirs[0]) < 0.1 * width
    assert abs(ours.high - theirs[1]) < 0.1 * width


# ---------------------------------------------------------------- what they promise


@given(scores, st.integers(0, 99))
def test_resamples_stay_within_their_task(found: Array, seed: int) -> None:
    drawn = resample(found, resampled(Key.of(seed), *found.shape, draws=20))
    assert drawn.shape == (20, *found.shape)
    for task in range(found.shape[1]):
        assert set(drawn[:, :, task].ravel()) <= set(found[:, task])


@given(scores, st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_an_estimate_lies_among_the_scores_and_is_the_same_again(found: Array, seed: int) -> None:
    one = estimate(found, Key.of(seed))
    slack = 1e-9 * (1 + np.abs(found).max())
    assert found.min() - slack <= one.low <= one.high <= found.max() + slack
    assert one == estimate(found, Key.of(seed))


@given(two_methods())
def test_the_two_probabilities_of_improvement_add_up_to_one(both: tuple[Array, Array]) -> None:
    x, y = both
    assert float(probability_of_improvement(x, y) + probability_of_improvement(y, x)) == pytest.approx(1.0)


def test_a_method_that_always_wins() -> None:
    x, y = normal("x", 5, 2) + 100, normal("y", 4, 2)
    assert improvement(x, y, Key.of(0)).to_json() == {"value": 1.0, "low": 1.0, "high": 1.0}
    found = difference(x, y, Key.of(0))
    assert found.low > 95
    assert found.value == pytest.approx(float(interquartile_mean(x) - interquartile_mean(y)))


def test_intervals_cover_about_as_often_as_they_say() -> None:
    """Of the mean of 20 normal runs; the percentile interval of few runs is known to be a little short."""
    covered = 0
    for number in range(300):
        found = Key.of(number).derive("cover").numpy().normal(size=(20, 1))
        low, high = interval(resample(found, resampled(Key.of(number), 20, 1, draws=400)).mean((1, 2)))
        covered += low <= 0 <= high
    assert 0.88 < covered / 300 < 0.98


@given(st.integers(1, 60), st.floats(0.0, 20.0), st.floats(0.5, 0.999))
def test_students_distribution_and_quantiles_are_scipys(freedom: int, t: float, share: float) -> None:
    assert t_distribution(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), abs=1e-12)
    assert t_quantile(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("runs", "tasks"), [(5, 2), (10, 1), (4, 3)])
def test_a_smallest_difference_is_found_as_often_as_it_says(runs: int, tasks: int) -> None:
    """A t test on runs whose means differ by what the formula gives for their true variance."""
    unit = np.tile(np.arange(runs, dtype=np.float64)[:, None], (1, tasks))
    unit /= unit.std(0, ddof=1)  # so that the sample variance is 1 on every task, as the true one below
    delta = smallest_difference(unit, unit)
    freedom = 2 * tasks * (runs - 1)
    rng = Key.of(2).derive("power", runs, tasks).numpy()
    x, y = rng.normal(size=(2, 4000, runs, tasks)) + np.array([delta, 0.0])[:, None, None, None]
    spread = np.sqrt((x.var(1, ddof=1) + y.var(1, ddof=1)).sum(-1) / runs) / tasks
    found = np.abs(x.mean((1, 2)) - y.mean((1, 2))) / spread > t_quantile(0.975, freedom)
    assert found.mean() == pytest.approx(statistics.POWER, abs=0.035)


def test_one_run_resolves_nothing_that_could_be_named() -> None:
    assert np.isnan(smallest_difference(normal("x", 1, 2), normal("y", 5, 2)))
    assert smallest_difference(np.ones((3, 1)), np.zeros((3, 1))) == 0.0


# ---------------------------------------------------------------- the area under a curve

curves = st.lists(st.tuples(st.floats(0, 1.3), st.floats(-5, 5)), min_size=1, max_size=9, unique_by=lambda p: p[0]).map(
    sorted
)


@given(curves)
def test_an_area_is_a_mean_height(points: list[tuple[float, float]]) -> None:
    heights = [y for _, y in points]
    assert min(heights) - 1e-9 <= area(points) <= max(heights) + 1e-9
    raised = [(x, y + 1.0) for x, y in points]
    assert area(raised) == pytest.approx(area(points) + 1.0)


def test_areas_that_are_known() -> None:
    assert area([(0.0, 0.0), (1.0, 1.0)]) == pytest.approx(0.5)
    assert area([(0.0, 0.0), (0.5, 1.0)]) == pytest.approx(0.75)  # level after the last point
    assert area([(0.0, 0.0), (2.0, 2.0)]) == pytest.approx(0.5)  # cut off at the budget
    assert area([(0.4, 0.3)]) == pytest.approx(0.3)

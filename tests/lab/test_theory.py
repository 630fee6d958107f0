"""Closed forms and stale experience of the laboratory."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.lab.bench import Bench
from hocket.lab.stale import run_stale
from hocket.lab.theory import fixed_points, slope, success_map, tilted
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO

many = settings(max_examples=40, deadline=None)


@many
@given(st.lists(st.floats(0.05, 1), min_size=2, max_size=6), st.floats(0.2, 5))
def test_nothing_near_the_tilt_is_better(weights, temperature):
    reference = torch.tensor(weights, dtype=torch.float64)
    reference = reference / reference.sum()
    gain = torch.arange(len(weights), dtype=torch.float64)

    def objective(policy):
        return float((policy * gain).sum() - temperature * (policy * (policy / reference).log()).sum())

    best = tilted(reference, gain, temperature)
    for place in range(len(weights)):
        moved = best.clone()
        moved[place] *= 1.01
        assert objective(moved / moved.sum()) <= objective(best) + 1e-12


@many
@given(st.floats(0.01, 0.9), st.floats(0.5, 10), st.floats(0.01, 0.2), st.floats(0.05, 0.95))
def test_the_slope_is_the_derivative(reference, beta, epsilon, rate):
    step = 1e-6
    ends = [success_map(rate + sign * step, reference, beta=beta, epsilon=epsilon) for sign in (1, -1)]
    assert slope(rate, reference, beta=beta, epsilon=epsilon) == pytest.approx(
        (ends[0] - ends[1]) / (2 * step), abs=1e-5
    )


@many
@given(st.floats(0.01, 0.9), st.floats(0.5, 10), st.floats(0.01, 0.2))
def test_fixed_points_are_fixed(reference, beta, epsilon):
    for point in fixed_points(reference, beta=beta, epsilon=epsilon, grid=500):
        assert success_map(point, reference, beta=beta, epsilon=epsilon) == pytest.approx(point, abs=1e-9)


def test_stale_samples_come_from_the_policy_of_so_many_steps_ago():
    world = World(1, 3, 1, reward=lambda question, answer: float(answer[0] == 0))
    gaps = []

    def after(policy, batch):
        gaps.append(batch.logp["behaviour"].values.double())

    bench = Bench(world, GRPO, lr=0.5)
    run_stale(bench, 4, lag=2, after=after)
    # Steps 1 to 3 sample from the uniform policy at the start, step 4 from the one after step 1.
    uniform = torch.log(torch.tensor(1 / 3, dtype=torch.float64))
    assert all(torch.allclose(logp, uniform.expand(len(logp)), atol=1e-6) for logp in gaps[:3])
    assert not torch.allclose(gaps[3], uniform.expand(len(gaps[3])), atol=1e-3)

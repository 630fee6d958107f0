"""Noise laws against the formulas of public code, and against what they are to leave unchanged."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hocket.core.noise_laws import (
    CPS,
    DDIM,
    DDPM,
    Consistency,
    ConstantSDE,
    FlowODE,
    FlowSDE,
    NoiseLaw,
    Window,
    flow_schedule,
    steps_of,
)

RNG = np.random.default_rng(0)
STATE, PREDICTION = RNG.standard_normal((2, 7))
SIGMAS = flow_schedule(10, shift=3.0)
ALPHAS = np.append(np.cumprod(1 - np.linspace(1e-4, 0.02, 1000))[[981, 801, 601, 401, 201, 1]], 1.0)


def flow_grpo(place: int, level: float) -> tuple[np.ndarray, float]:
    """`sde_step_with_logprob` of flow_grpo, `sde_type = sde`."""
    sigma, before, largest = SIGMAS[place], SIGMAS[place + 1], SIGMAS[1]
    dt = before - sigma
    std = math.sqrt(sigma / (1 - (largest if sigma == 1 else sigma))) * level
    mean = STATE * (1 + std**2 / (2 * sigma) * dt) + PREDICTION * (1 + std**2 * (1 - sigma) / (2 * sigma)) * dt
    return mean, std * math.sqrt(-dt)


def flow_grpo_cps(place: int, level: float) -> tuple[np.ndarray, float]:
    """The same with `sde_type = cps`."""
    sigma, before = SIGMAS[place], SIGMAS[place + 1]
    std = before * math.sin(level * math.pi / 2)
    clean, noise = STATE - sigma * PREDICTION, STATE + PREDICTION * (1 - sigma)
    return clean * (1 - before) + noise * math.sqrt(before**2 - std**2), std


def dance_grpo(place: int, eta: float) -> tuple[np.ndarray, float]:
    """`flux_step` of DanceGRPO."""
    sigma, dsigma = SIGMAS[place], SIGMAS[place + 1] - SIGMAS[place]
    mean = STATE + dsigma * PREDICTION
    clean = STATE - sigma * PREDICTION
    score = -(STATE - clean * (1 - sigma)) / sigma**2
    return mean + -0.5 * eta**2 * score * dsigma, eta * math.sqrt(-dsigma)


def ddpo_pytorch(place: int, eta: float) -> tuple[np.ndarray, float]:
    """`ddim_step_with_logprob` of ddpo-pytorch, with the scheduler's `_get_variance`."""
    now, before = ALPHAS[place], ALPHAS[place + 1]
    variance = (1 - before) / (1 - now) * (1 - now / before)
    std = eta * math.sqrt(variance)
    clean = (STATE - math.sqrt(1 - now) * PREDICTION) / math.sqrt(now)
    return math.sqrt(before) * clean + math.sqrt(1 - before - std**2) * PREDICTION, std


def dppo(place: int, floor: float) -> tuple[np.ndarray, float]:
    """`p_mean_var` of dppo's `VPGDiffusion` without its cut of actions."""
    now, before = ALPHAS[place], ALPHAS[place + 1]
    alpha = now / before
    beta = 1 - alpha
    clean = math.sqrt(1 / now) * STATE - math.sqrt(1 / now - 1) * PREDICTION
    mean = beta * math.sqrt(before) / (1 - now) * clean + (1 - before) * math.sqrt(alpha) / (1 - now) * STATE
    variance = max(beta * (1 - before) / (1 - now), 1e-20)
    return mean, max(math.exp(0.5 * math.log(variance)), floor)


def of(law: NoiseLaw, schedule: np.ndarray, place: int) -> tuple[np.ndarray, float]:
    step = law.step(schedule, place)
    return step.state * STATE + step.prediction * PREDICTION, step.deviation


@pytest.mark.parametrize("place", [0, 1, 5, 9])
def test_flow_laws_are_those_of_flow_grpo_and_dance_grpo(place: int) -> None:
    for law, (mean, std) in (
        (FlowSDE(0.7), flow_grpo(place, 0.7)),
        (CPS(0.6), flow_grpo_cps(place, 0.6)),
        (ConstantSDE(0.3), dance_grpo(place, 0.3)),
    ):
        ours, deviation = of(law, SIGMAS, place)
        np.testing.assert_allclose(ours, mean, rtol=0, atol=1e-12)
        assert deviation == pytest.approx(std, abs=1e-12)


@pytest.mark.parametrize("place", range(5))
def test_diffusion_laws_are_those_of_ddpo_pytorch_and_dppo(place: int) -> None:
    for law, (mean, std) in ((DDIM(1.0), ddpo_pytorch(place, 1.0)), (DDPM(0.1), dppo(place, 0.1))):
        ours, deviation = of(law, ALPHAS, place)
        np.testing.assert_allclose(ours, mean, rtol=0, atol=1e-12)
        assert deviation == pytest.approx(std, abs=1e-12)


def test_a_floor_is_the_least_deviation_of_ancestral_sampling() -> None:
    assert of(DDPM(0.1), ALPHAS, 5)[1] == 0.1
    assert of(DDPM(), ALPHAS, 5)[1] == 0.0


def marginal(law: NoiseLaw, steps: int, mean: float, spread: float) -> tuple[float, float]:
    """Mean and deviation of samples of Gaussian data by the exact velocity, from noise to data, in closed form."""
    schedule = flow_schedule(steps)
    centre, variance = 0.0, 1.0
    for place, step in enumerate(steps_of(law, schedule)):
        s = schedule[place]
        # E[z - x0 | x] of x = (1 - s) x0 + s z with x0 ~ N(mean, spread^2).
        total = (1 - s) ** 2 * spread**2 + s**2
        slope = (s - (1 - s) * spread**2) / total
        offset = -mean - slope * (1 - s) * mean
        factor = step.state + step.prediction * slope
        centre, variance = factor * centre + step.prediction * offset, factor**2 * variance + step.deviation**2
    return centre, math.sqrt(variance)


def error(law: NoiseLaw, steps: int) -> float:
    return float(np.abs(np.subtract(marginal(law, steps, 1.5, 0.4), (1.5, 0.4))).max())


@pytest.mark.parametrize(
    ("law", "within"), [(FlowODE(), 2e-3), (ConstantSDE(0.5), 2e-3), (FlowSDE(0.7), 0.03)], ids=str
)
def test_marginals_of_gaussian_data_approach_those_of_the_ode(law: NoiseLaw, within: float) -> None:
    assert error(law, 2000) < min(within, error(law, 20) / 2)


def test_marginals_of_cps_do_so_only_as_its_level_falls_with_the_steps() -> None:
    assert error(CPS(0.7), 2000) > 0.05
    assert error(CPS(0.7 * math.sqrt(20 / 2000)), 2000) < 0.01


def test_consistency_adds_noise_between_steps() -> None:
    schedule = np.array([80.0, 5.0, 0.002])
    first, last = steps_of(Consistency(0.002), schedule)
    assert (first.state, first.prediction) == (0.0, 1.0)
    assert first.deviation == pytest.approx(math.sqrt(25 - 0.002**2))
    assert not last.decides


def test_only_the_window_decides_and_a_late_one_is_moved_back() -> None:
    decide = [step.decides for step in steps_of(FlowSDE(0.7), flow_schedule(6), Window(1, 2))]
    assert decide == [False, True, True, False, False, False]
    assert list(Window(9, 2).of(6)) == [4, 5]
    assert list(Window(2).of(6)) == [2, 3, 4, 5]
    ours = steps_of(FlowSDE(0.7), flow_schedule(6), Window(1, 2))[3]
    assert ours == FlowODE().step(flow_schedule(6), 3)


@pytest.mark.parametrize("wrong", [lambda: FlowSDE(-1), lambda: CPS(1.5), lambda: DDIM(math.nan), lambda: Window(0, 0)])
def test_wrong_settings_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        wrong()  # type: ignore[operator]

"""A sampler as a policy: bits, densities, gradients, guidance."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.noise_laws import CPS, DDIM, ConstantSDE, FlowSDE, Window, flow_schedule, log_density, steps_of
from hocket.core.packing import pack
from hocket.nano.flow import quarters
from hocket.policies.denoising.denoiser import BLOCK, Denoiser
from hocket.policies.denoising.network import FlowShape
from hocket.rollout.denoising import DenoisingPlayer
from hocket.rollout.noisy_sampling import NoisySampling, Sampling
from hocket.types import Assignment, Decoding, Quantity, Scenario, Trajectory

SHAPE = FlowShape(8, 4, 16, 2, 2, ("0", "1", "top", "bottom", "left", "right"), 2, 3, quarters(8, 4), steps=4)


def sampler(shape: FlowShape = SHAPE) -> Denoiser:
    policy = Denoiser(shape, Key.of(3))
    with torch.no_grad():
        policy.module.write.normal_(0.0, 0.3, generator=Key.of(4).torch())
    return policy


THREE = Sampling(window=Window(0, 3))


def asked(number: int, samples: int, option: Sampling = THREE, **decoding: Any) -> Assignment:
    scenario = Scenario(f"s{number}", f"{number % 2} top left")
    return Assignment(scenario, samples, Decoding(**decoding), options=(option,))


def played(policy: Denoiser, assignments: list[Assignment]) -> list[Trajectory]:
    return asyncio.run(DenoisingPlayer(policy).play(assignments, key=Key.of(5)))


def test_rows_have_the_same_bits_in_batches_of_1_7_and_128() -> None:
    policy = sampler()
    drawn = Key.of(6).torch()
    state, level = torch.randn(128, 64, generator=drawn), torch.rand(128, generator=drawn, dtype=torch.float64)
    words = torch.randint(0, 7, (128, 2, 3), generator=drawn)
    scale = torch.where(torch.arange(128) % 3 == 0, 2.5, 1.0)
    with torch.inference_mode():
        whole = policy.predictions(state, level, words, scale)
        for start, end in ((0, 1), (60, 61), (127, 128), (3, 10), (90, 97)):
            part = policy.predictions(state[start:end], level[start:end], words[start:end], scale[start:end])
            assert torch.equal(part, whole[start:end])
    assert BLOCK < 128


@pytest.mark.parametrize("law", [FlowSDE(0.7), ConstantSDE(0.4), CPS(0.5)], ids=str)
@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_sampler_and_learner_agree_to_the_last_bit(law: Any, guidance: float) -> None:
    policy = sampler()
    found = played(policy, [asked(n, 3, Sampling(law, Window(0, 3)), guidance=guidance) for n in range(3)])
    batch = pack(found)
    now = policy.evaluate(batch, {Quantity.LOGP})
    assert batch.logp["behaviour"].values.dtype == torch.float64
    assert torch.equal(now.logp.detach(), batch.logp["behaviour"].values)
    some = torch.tensor([4, 11, 17])
    assert torch.equal(policy.evaluate(batch, {Quantity.LOGP}, some).logp[some].detach(), now.logp[some].detach())
    part = batch.take(some)
    assert torch.equal(policy.evaluate(part, {Quantity.LOGP}).logp.detach(), now.logp[some].detach())


def test_a_sample_depends_on_its_key_alone() -> None:
    policy = sampler()
    alone = played(policy, [asked(1, 2)])
    beside = played(policy, [asked(0, 5), asked(1, 2), asked(2, 1)])[5:7]
    for one, other in zip(alone, beside, strict=True):
        assert np.array_equal(one.final_state, other.final_state)  # type: ignore[arg-type]
    assert not np.array_equal(alone[0].final_state, alone[1].final_state)  # type: ignore[arg-type]


def test_samples_may_begin_with_the_same_noise() -> None:
    apart, alike = (
        played(sampler(), [asked(1, 2, Sampling(window=Window(0, 3), same_noise=on))]) for on in (False, True)
    )
    first = [[one.turns[0].observation["state"][0] for one in found] for found in (apart, alike)]
    assert not np.array_equal(*first[0])
    assert np.array_equal(*first[1])
    assert not np.array_equal(alike[0].final_state, alike[1].final_state)  # type: ignore[arg-type]


def test_without_noise_nothing_is_decided_and_a_picture_is_made() -> None:
    one = played(sampler(), [asked(0, 1, temperature=0.0)])[0]
    assert one.length == 0
    assert one.final_state is not None
    assert one.final_state.shape == (64,)


def test_a_linear_chain_has_its_joint_density_and_the_gradient_of_it() -> None:
    """Predictions w x make the states jointly normal; that density by linear algebra, its derivative by differences."""
    steps = steps_of(FlowSDE(0.7), flow_schedule(4))
    drawn = Key.of(7).numpy()
    begin, weight = drawn.standard_normal(), 0.3
    states = [begin, *drawn.standard_normal(4)]

    def chain(w: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for step, now, then in zip(steps, states, states[1:], strict=False):
            mean = (step.state + step.prediction * w) * now
            deviation = torch.tensor([step.deviation], dtype=torch.float64)
            total = total + log_density(torch.tensor([[then]], dtype=torch.float64), mean.reshape(1, 1), deviation)[0]
        return total

    def joint(w: float) -> float:
        factors = [step.state + step.prediction * w for step in steps]
        inverse = np.eye(4) - np.diag(factors[1:], -1)
        spread = np.linalg.inv(inverse) @ np.diag([step.deviation for step in steps])
        covariance = spread @ spread.T
        gap = np.array(states[1:]) - np.cumprod(factors) * begin
        _, size = np.linalg.slogdet(2 * math.pi * covariance)
        return float(-0.5 * (gap @ np.linalg.solve(covariance, gap) + size))

    w = torch.tensor(weight, dtype=torch.float64, requires_grad=True)
    value = chain(w)
    assert float(value.detach()) == pytest.approx(joint(weight), abs=1e-10)
    (slope,) = torch.autograd.grad(value, w)
    assert float(slope) == pytest.approx((joint(weight + 1e-5) - joint(weight - 1e-5)) / 2e-5, rel=1e-6)


def test_guidance_moves_away_from_the_prediction_without_a_prompt() -> None:
    policy = sampler()
    state, level = torch.randn(2, 64, generator=Key.of(8).torch()), torch.full((2,), 0.5)
    words = torch.from_numpy(np.stack([SHAPE.encode("0 top left"), SHAPE.encode("1 bottom")]))
    at = {scale: policy.predictions(state, level, words, torch.full((2,), scale)).detach() for scale in (0.0, 1.0, 3.0)}
    free = policy.predictions(state, level, torch.zeros_like(words), torch.ones(2)).detach()
    torch.testing.assert_close(at[0.0], free)
    torch.testing.assert_close(at[3.0], free + 3 * (at[1.0] - free))


def test_learning_unguided_from_guided_samples_leaves_log_probs_to_the_learner() -> None:
    option = Sampling(window=Window(0, 2), unguided=True)
    (one,) = played(sampler(), [asked(0, 1, option, guidance=2.0)])
    assert one.turns[0].logp is None
    assert (one.turns[0].observation["guidance"] == 1.0).all()


def test_kl_to_a_reference_is_that_of_two_normals() -> None:
    policy = sampler()
    reference = policy.frozen_copy()
    with torch.no_grad():
        policy.module.write.mul_(1.1)
    batch = pack(played(policy, [asked(0, 2)]))
    now = policy.evaluate(batch, {Quantity.KL_EXACT}, reference=reference)
    rows = np.concatenate(list(batch.observation))
    gap = (policy.means(rows) - reference.means(rows)).detach().double().numpy()
    expected = (gap**2).sum(1) / (2 * rows["coefficients"][:, 2] ** 2)
    np.testing.assert_allclose(now.kl_exact.detach().numpy(), expected, rtol=1e-6)  # type: ignore[union-attr]
    assert (expected > 0).all()


def test_a_saved_sampler_is_the_same(tmp_path: Path) -> None:
    policy = sampler()
    policy.save(tmp_path)
    again = Denoiser.from_folder(tmp_path)
    assert again.shape == policy.shape
    assert all(torch.equal(a, b) for a, b in zip(policy.module.parameters(), again.module.parameters(), strict=True))
    (tmp_path / "config.json").write_text('{"model_type": "llava"}')
    with pytest.raises(ConfigurationError, match="describes no sampler of pictures"):
        Denoiser.from_folder(tmp_path)


def test_a_picture_that_is_not_finite_has_failed() -> None:
    policy = sampler()
    with torch.no_grad():
        policy.module.write.fill_(math.nan)
    (one,) = played(policy, [asked(0, 1, temperature=0.0)])
    assert one.failure == "sampler: the picture has numbers that are not finite"


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        (asked(0, 1, Sampling(FlowSDE(0.0))), "rollout.law adds no noise"),
        (asked(0, 1, Sampling(steps=1)), "rollout.steps = 1 leaves no step"),
        (asked(0, 1, Sampling(DDIM())), "rollout.law = DDIM goes with a schedule of diffusion"),
        (asked(0, 1, top_p=0.9), "leave decoding.top_k, top_p"),
        (replace(asked(0, 1), scenario=Scenario("s", "a cat")), "knows the words 0, 1, top"),
        (replace(asked(0, 1), scenario=Scenario("s", "0, 1, 0")), "reads 2 phrases of 3 words"),
    ],
)
def test_what_cannot_be_sampled_is_refused(assignment: Assignment, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        played(sampler(), [assignment])


def test_guidance_needs_a_base_that_knows_no_prompt() -> None:
    with pytest.raises(ConfigurationError, match="never trained without prompts"):
        played(sampler(replace(SHAPE, unprompted=False)), [asked(0, 1, guidance=2.0)])


def test_values_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="gives no value"):
        sampler().require(frozenset({Quantity.VALUE}))


def test_a_window_slides_and_begins_anew() -> None:
    rollout = NoisySampling(window=Window(0, 4), moving=2, every=3, steps=10)
    firsts = [rollout.at(step).window.first for step in range(1, 14)]
    assert firsts == [0, 0, 0, 2, 2, 2, 4, 4, 4, 6, 6, 6, 0]

"""Action distributions against torch.distributions, in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Independent, Normal, kl_divergence

from hocket.core.keys import Key, uniforms
from hocket.policies.control_heads import Categorical, DiagonalGaussian

seeds = st.integers(0, 2**32)


def random(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(Key.of(seed).numpy().normal(size=shape)) * 2


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 5), st.integers(1, 6))
def test_categorical_is_torchs(seed, rows, size):
    ours, other = Categorical(random(seed, rows, size)), Categorical(random(seed + 1, rows, size))
    theirs, reference = TorchCategorical(logits=ours.logits), TorchCategorical(logits=other.logits)
    action = torch.arange(rows) % size
    torch.testing.assert_close(ours.logp(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    torch.testing.assert_close(ours.kl(other), kl_divergence(theirs, reference))


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 5), st.integers(1, 4))
def test_gaussian_is_torchs(seed, rows, size):
    ours = DiagonalGaussian(random(seed, rows, size), 0.3 * random(seed + 1, rows, size))
    other = DiagonalGaussian(random(seed + 2, rows, size), 0.3 * random(seed + 3, rows, size))
    theirs, reference = (Independent(Normal(h.mean, h.log_std.exp()), 1) for h in (ours, other))
    action = random(seed + 4, rows, size)
    torch.testing.assert_close(ours.logp(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    torch.testing.assert_close(ours.kl(other), kl_divergence(theirs, reference))


def test_draws_follow_the_categorical():
    head = Categorical(torch.log(torch.tensor([[0.1, 0.2, 0.0, 0.7]])).expand(40_000, 4))
    words = np.full((40_000, 1), Key.of(1).word, np.uint64)
    drawn = head.draw(torch.from_numpy(uniforms(words, np.arange(40_000, dtype=np.uint64)[:, None])))
    shares = torch.bincount(drawn, minlength=4) / 40_000
    assert shares[2] == 0
    torch.testing.assert_close(shares, torch.tensor([0.1, 0.2, 0.0, 0.7]), atol=0.01, rtol=0)


def test_extreme_uniforms_stay_inside():
    head = Categorical(torch.zeros(2, 3))
    assert head.draw(torch.tensor([[1e-17], [1 - 1e-16]])).tolist() == [0, 2]


def test_gaussian_draws_have_their_moments_and_are_monotone():
    mean, log_std = torch.full((20_000, 2), 3.0), torch.full((20_000, 2), -0.7)
    words = np.full((20_000, 1), Key.of(2).word, np.uint64)
    counters = np.arange(40_000, dtype=np.uint64).reshape(-1, 2)
    drawn = DiagonalGaussian(mean, log_std).draw(torch.from_numpy(uniforms(words, counters)))
    torch.testing.assert_close(drawn.mean(0), torch.full((2,), 3.0), atol=0.02, rtol=0)
    torch.testing.assert_close(drawn.std(0), torch.full((2,), -0.7).exp(), atol=0.02, rtol=0)
    assert abs(float(torch.corrcoef(drawn.T)[0, 1])) < 0.03
    middle = DiagonalGaussian(mean[:1], log_std[:1]).draw(torch.full((1, 2), 0.5, dtype=torch.float64))
    torch.testing.assert_close(middle, mean[:1])


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_raises_the_density_to_a_power(temperature):
    temperatures = torch.full((4,), temperature, dtype=torch.float64)
    logits = random(5, 4, 3)
    powered = torch.softmax(logits, -1) ** (1 / temperature)
    expected = (powered / powered.sum(-1, keepdim=True)).log()[:, 1]
    torch.testing.assert_close(Categorical(logits).tempered(temperatures).logp(torch.ones(4).long()), expected)
    # For a density the power is known up to its normaliser, so differences between actions are compared.
    head = DiagonalGaussian(random(6, 4, 2), 0.2 * random(7, 4, 2))
    one, two = random(8, 4, 2), random(9, 4, 2)
    warm = head.tempered(temperatures)
    torch.testing.assert_close(warm.logp(one) - warm.logp(two), (head.logp(one) - head.logp(two)) / temperature)

"""Optimisers that hold less: their steps against torch's, what their state takes, and that it comes back exactly."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.train.optimisers import BLOCK, LeanOptimiser, Moment8, fitted, orthogonal, rounded_at_random
from hocket.train.settings import OptimiserSettings

INPUTS = torch.randn(128, 64, generator=Key.of(1).torch())
TARGETS = INPUTS @ (torch.randn(96, 64, generator=Key.of(2).torch()) / 8).t()


def fresh(dtype: torch.dtype = torch.float32) -> nn.Parameter:
    return nn.Parameter((torch.randn(96, 64, generator=Key.of(3).torch()) / 8).to(dtype))


def lean(weight: nn.Parameter, settings: OptimiserSettings, lr: float = 3e-3, seed: int = 0) -> LeanOptimiser:
    group = {"params": [weight], "lr": lr, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    return LeanOptimiser([group], settings, Key.of(seed))


def steps(weight: nn.Parameter, optimiser: torch.optim.Optimizer, count: int) -> float:
    for _ in range(count):
        loss = (INPUTS @ weight.float().t() - TARGETS).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return float(loss.detach())


def test_in_fp32_it_makes_the_steps_of_adamw() -> None:
    ours, theirs = fresh(), fresh()
    steps(ours, lean(ours, OptimiserSettings()), 20)
    steps(theirs, torch.optim.AdamW([theirs], lr=3e-3, weight_decay=0.01), 20)
    assert torch.allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("rounding", ["stochastic", "masters"])
def test_small_steps_are_not_lost_in_bf16(rounding) -> None:
    """At this rate plain rounding to bf16 would leave almost every weight as it is."""
    whole, half = fresh(), fresh(torch.bfloat16)
    start = steps(fresh(), lean(fresh(), OptimiserSettings()), 1)
    due = steps(whole, lean(whole, OptimiserSettings(), lr=1e-4), 150)
    loss = steps(half, lean(half, OptimiserSettings(rounding=rounding), lr=1e-4), 150)
    assert start - loss == pytest.approx(start - due, rel=0.05)
    assert half.dtype is torch.bfloat16


def test_random_rounding_is_exact_on_average_and_follows_the_key() -> None:
    value = torch.full((40_000,), 1.0 + 2**-9)  # A quarter of the way between two numbers of bf16.
    found = rounded_at_random(value, Key.of(0).torch())
    assert set(found.tolist()) == {1.0, 1.0 + 2**-7}
    assert float(found.double().mean()) == pytest.approx(1.0 + 2**-9, abs=2e-4)
    assert torch.equal(found, rounded_at_random(value, Key.of(0).torch()))
    assert not torch.equal(found, rounded_at_random(value, Key.of(1).torch()))
    assert rounded_at_random(torch.tensor([float("inf"), -float("inf")]), Key.of(0).torch()).isinf().all()


def test_moments_in_a_byte_keep_their_order_of_size() -> None:
    generator = Key.of(4).torch()
    value = torch.randn(3, 1000, generator=generator) * torch.logspace(-4, 0, 1000)
    signed = Moment8.unpack(*Moment8.pack(value, signed=True), value.shape)
    squares = Moment8.unpack(*Moment8.pack(value.square(), signed=False), value.shape)
    assert (signed.sign() * value.sign() >= 0).all()
    blocks = nn.functional.pad(value.flatten(), (0, -value.numel() % BLOCK)).view(-1, BLOCK).abs().amax(1)
    largest = blocks.repeat_interleave(BLOCK)[: value.numel()].view(value.shape)
    assert ((signed - value).abs() <= largest * 0.008 + 1e-7).all()
    assert (squares >= value.square() * (1 - 1e-5)).all()  # A second moment that is too small would make steps explode.
    assert torch.equal(
        Moment8.unpack(*Moment8.pack(torch.zeros(300), signed=True), torch.Size([300])), torch.zeros(300)
    )


def test_eight_bits_learn_as_well_and_take_a_quarter() -> None:
    whole, small = fresh(), fresh()
    due, optimiser = steps(whole, lean(whole, OptimiserSettings()), 150), lean(small, OptimiserSettings("adamw8bit"))
    assert steps(small, optimiser, 150) < 1.5 * due + 1e-3
    held = sum(value.nbytes for value in optimiser.state[small].values() if isinstance(value, torch.Tensor))
    assert held <= small.numel() * (2 + 2 * 4 / BLOCK) + 64


def test_muon_steps_are_orthogonal_matrices() -> None:
    weight = fresh()
    before = weight.detach().clone()
    optimiser = lean(weight, OptimiserSettings("muon"), lr=0.1)
    optimiser.param_groups[0]["weight_decay"] = 0.0
    steps(weight, optimiser, 1)
    scale = 0.1 * 0.2 * 96**0.5
    values = torch.linalg.svdvals((weight.detach() - before) / scale)
    assert 0.6 < float(values.min()) <= float(values.max()) < 1.3
    assert torch.allclose(orthogonal(before.t()), orthogonal(before).t(), atol=1e-5)
    theirs, ours = fresh(), fresh()
    steps(theirs, torch.optim.Muon([theirs], lr=0.03, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"), 5)
    steps(ours, lean(ours, OptimiserSettings("muon"), lr=0.03), 5)
    assert (ours - theirs).norm() < 0.05 * (ours - fresh()).norm()  # Torch's iteration is in bf16.


@pytest.mark.parametrize("kind", ["adamw", "adamw8bit", "muon"])
@pytest.mark.parametrize("rounding", ["stochastic", "masters"])
def test_a_restored_state_goes_on_to_the_last_bit(kind, rounding) -> None:
    settings = OptimiserSettings(kind, rounding)
    one = fresh(torch.bfloat16)
    optimiser = lean(one, settings)
    steps(one, optimiser, 3)
    other = nn.Parameter(one.detach().clone())
    resumed = lean(other, settings)
    resumed.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    steps(one, optimiser, 3)
    steps(other, resumed, 3)
    assert torch.equal(one, other)


class Tower:
    """A policy as far as optimisers look at it."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        layers = [nn.utils.skip_init(nn.Linear, 8, 8) for _ in range(2)]
        self.module = nn.ModuleDict({"embed": nn.utils.skip_init(nn.Embedding, 9, 8), "layers": nn.ModuleList(layers)})
        for weight in self.module.parameters():
            weight.data = torch.ones_like(weight).to(dtype)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("host", [True, False])
def test_the_state_is_where_it_is_to_be(kind, host) -> None:
    """On an accelerator without numbers: types, shapes and places are computed, nothing else."""
    with FakeTensorMode():
        weight = nn.Parameter(torch.empty(96, 64, device="cuda"))
        weight.grad = torch.empty_like(weight)
        optimiser = lean(weight, OptimiserSettings(kind=kind, host=host))
        for _ in range(2):  # The second step reads what the first has put away.
            optimiser.step()
        restored = lean(weight, OptimiserSettings(kind=kind, host=host))
        restored.load_state_dict(optimiser.state_dict())
        for made in (optimiser, restored):
            places = {value.device.type for value in made.state[weight].values() if isinstance(value, torch.Tensor)}
            assert places == {"cpu" if host else "cuda"}
        restored.step()
        assert weight.device.type == "cuda"


def test_the_recipes_own_optimiser_stays_where_nothing_is_set() -> None:
    policy = Tower()
    made = torch.optim.AdamW(policy.module.parameters(), lr=1e-3)
    assert fitted(made, policy, OptimiserSettings(), Key.of(0)) is made
    half = Tower(torch.bfloat16)
    made = torch.optim.AdamW(half.module.parameters(), lr=1e-3)
    assert isinstance(fitted(made, half, OptimiserSettings(), Key.of(0)), LeanOptimiser)


def test_muon_leaves_embeddings_and_vectors_to_adamw() -> None:
    policy = Tower()
    made = torch.optim.AdamW(policy.module.parameters(), lr=1e-3)
    groups = fitted(made, policy, OptimiserSettings("muon"), Key.of(0)).param_groups
    assert [sorted(weight.ndim for weight in group["params"]) for group in groups] == [[2, 2], [1, 1, 2]]
    assert [group.get("vectors", False) for group in groups] == [False, True]


def test_steps_of_another_kind_are_refused() -> None:
    policy = Tower()
    made = torch.optim.SGD(policy.module.parameters(), lr=1e-3)
    with pytest.raises(ConfigurationError, match="SGD"):
        fitted(made, policy, OptimiserSettings("muon"), Key.of(0))
    paced = torch.optim.AdamW(policy.module.parameters(), lr=1e-3)
    paced.register_step_pre_hook(lambda *_: None)
    with pytest.raises(ConfigurationError, match="paces"):
        fitted(paced, policy, OptimiserSettings("adamw8bit"), Key.of(0))

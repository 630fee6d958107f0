"""Products with adapters row by row, against dense merged weights and against themselves alone."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hocket.core.keys import Key
from hocket.policies.family import AdaptedLayers
from hocket.policies.lowrank import JoinedLinear, LowRank, MixedLinear, Owners, low_rank

torch.set_num_threads(1)
WIDTHS, INPUT = (24, 8, 40), 48


def drawn(*shape, key, scale=1.0):
    return torch.randn(shape, generator=key.torch()) * scale


def layer(number, bias, key):
    made = nn.utils.skip_init(nn.Linear, INPUT, WIDTHS[number], bias=bias)
    with torch.no_grad():
        made.weight.copy_(drawn(WIDTHS[number], INPUT, key=key.derive("w"), scale=INPUT**-0.5))
        if bias:
            made.bias.copy_(drawn(WIDTHS[number], key=key.derive("b")))
    return made


def adapted(base, rank, key, dora=False):
    """What peft makes of a layer, as far as the library looks at it."""
    down, up = drawn(rank, INPUT, key=key.derive("a"), scale=0.1), drawn(base.out_features, rank, key=key.derive("u"))
    magnitude = SimpleNamespace(weight=1 + drawn(base.out_features, key=key.derive("m"), scale=0.2))
    return SimpleNamespace(
        lora_variant={"default": None} if dora else {},
        lora_magnitude_vector={"default": magnitude},
        base_layer=base,
        lora_A={"default": SimpleNamespace(weight=down)},
        lora_B={"default": SimpleNamespace(weight=up)},
        scaling={"default": 1.5},
        disable_adapters=False,
    )


def dense(layers, scale):
    """The merged weights, in float64."""
    found = []
    for one in layers:
        base = getattr(one, "base_layer", one)
        weight = base.weight.double()
        if base is not one:
            weight = weight + 1.5 * one.lora_B["default"].weight.double() @ one.lora_A["default"].weight.double()
            if one.lora_variant:
                magnitude = one.lora_magnitude_vector["default"].weight.double()
                weight = weight * (magnitude / weight.norm(dim=1))[:, None]
        found.append(weight)
    weight = torch.cat(found)
    return weight if scale is None else weight * scale.double()


@given(
    seed=st.integers(0, 999),
    owners=st.lists(st.integers(0, 3), min_size=1, max_size=90),
    ranks=st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=4, max_size=4),
    sort=st.booleans(),
    bias=st.booleans(),
    scaled=st.booleans(),
    large=st.booleans(),
    bf16=st.booleans(),
    dora=st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_each_row_has_its_owners_weights(seed, owners, ranks, sort, bias, scaled, large, bf16, dora):
    """`ranks` per policy and layer; 0 is no adapter."""
    key, dtype = Key.of(seed), torch.bfloat16 if bf16 else torch.float32
    large = large and not bf16
    scale = 1 + drawn(INPUT, key=key.derive("s"), scale=0.2) if scaled else None
    plain = [layer(number, bias, key.derive(number)) for number in range(3)]
    teams = [
        [
            adapted(one, rank, key.derive(p, n), dora and n != p) if rank else one
            for n, (one, rank) in enumerate(zip(plain, row, strict=True))
        ]
        for p, row in enumerate(ranks)
    ]
    owner = np.array(sorted(owners) if sort else owners, np.int32)
    x = drawn(len(owner), INPUT, key=key.derive("x")).to(dtype)
    with torch.no_grad():
        base = JoinedLinear(plain, scale, dtype, large=large)
        alone = [low_rank(layers, scale, dtype) for layers in teams]
        who = Owners()
        who.say(owner)
        found = MixedLinear(base, alone, who)(x)
        biases = torch.cat([one.bias for one in plain]).double() if bias else 0.0
        for number, layers in enumerate(teams):
            rows = np.flatnonzero(owner == number)
            if not len(rows):
                continue
            due = x[rows].double() @ dense(layers, scale).t() + biases
            tolerance = {"atol": 0.1, "rtol": 0.05} if bf16 else {"atol": 1e-5, "rtol": 1e-5}
            torch.testing.assert_close(found[rows].double(), due, **tolerance)
            one = alone[number]
            itself = base(x[rows]) if one is None else AdaptedLayers(base, one)(x[rows])
            assert torch.equal(found[rows], itself)


def test_a_sum_is_rounded_once():
    """In bf16 an update far below the spacing of the sums shows on average, as it would not if it were added after."""
    key = Key.of(3)
    plain = [layer(0, False, key)]
    one = adapted(plain[0], 4, key)
    one.lora_B["default"].weight.fill_(2e-5)
    one.lora_A["default"].weight.copy_(one.lora_A["default"].weight.abs())
    x = drawn(4000, INPUT, key=key.derive("x")).abs().bfloat16()
    with torch.no_grad():
        base, own = JoinedLinear(plain, None, torch.bfloat16, large=False), low_rank([one], None, torch.bfloat16)
        due = own(x, None).double()
        seen = base(x, own(x, None)).double() - base(x).double()
        after = (base(x) + own(x, None)).double() - base(x).double()
    assert float(seen.mean() / due.mean()) == pytest.approx(1, abs=0.15)
    assert float(after.mean() / due.mean()) < 0.5


@pytest.mark.parametrize("scaled", [False, True])
def test_gradients_are_those_of_the_formula(scaled):
    key = Key.of(4)
    scale = 1 + drawn(INPUT, key=key.derive("s"), scale=0.2).double() if scaled else None
    plain = [layer(number, True, key.derive(number)).double().requires_grad_(False) for number in range(3)]
    own = [adapted(plain[0], 3, key), plain[1], adapted(plain[2], 2, key.derive(2))]
    weights = []
    for one in (own[0], own[2]):
        for side in (one.lora_A, one.lora_B):
            side["default"].weight = side["default"].weight.double().requires_grad_()
            weights.append(side["default"].weight)
    x = drawn(20, INPUT, key=key.derive("x")).double().requires_grad_()
    cotangent = drawn(20, sum(WIDTHS), key=key.derive("c")).double()

    def gradients(y):
        return torch.autograd.grad(y, [x, *weights], cotangent)

    base, added = JoinedLinear(plain, scale, torch.float64, large=False), low_rank(own, scale, torch.float64)
    assert isinstance(added, LowRank)
    found = gradients(base(x, added(x, base.bias)))
    z = x if scale is None else x * scale
    parts = []
    for one in own:
        inner = getattr(one, "base_layer", one)
        y = z @ inner.weight.t() + inner.bias
        if inner is not one:
            y = y + 1.5 * (z @ one.lora_A["default"].weight.t()) @ one.lora_B["default"].weight.t()
        parts.append(y)
    for one, other in zip(found, gradients(torch.cat(parts, -1)), strict=True):
        torch.testing.assert_close(one, other)


def test_what_is_off_adds_nothing():
    key = Key.of(5)
    one = adapted(layer(0, False, key), 4, key)
    assert low_rank([one], None, torch.float32) is not None
    one.disable_adapters = True
    assert low_rank([one], None, torch.float32) is None

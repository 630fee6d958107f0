"""Products of groups of rows: routed experts against fp64, whatever was chosen, on either way of making them."""

import pytest
import tiny_forms
import torch

from hocket.core.keys import Key
from hocket.policies.family import layer_of
from hocket.policies.fused_operations import gated_silu
from hocket.policies.kernels import products
from hocket.policies.row_groups import grouped_linear, grouped_outer, routed, sorted_choices

torch.set_num_threads(1)
EXPERTS, EACH, WIDTH, INNER = 5, 2, 24, 12
NATIVE = pytest.mark.skipif(products.address() is None, reason="torch's product is not offered here")
WAYS = [pytest.param(True, marks=NATIVE, id="one call"), pytest.param(False, id="one by one")]
CHOICES = {
    "even": torch.stack([torch.arange(40) % 5, (torch.arange(40) + 2) % 5], 1),
    "empty experts": torch.tensor([[0, 3]]).expand(33, 2),
    "one token": torch.tensor([[1, 4]]),
    "all on one": torch.full((21, 2), 2),
    "few": torch.tensor([[0, 1], [1, 2], [0, 4]]),
}


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(products, "address", lambda: None)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=Key.of(seed).derive(*shape).torch())


def parts(rows, *, across, biased, dtype=torch.float32):
    """States, shares, and both weights with their biases."""
    flat = [drawn(rows, WIDTH), drawn(rows, EACH, seed=1).softmax(-1)]
    for outputs, inputs in ((2 * INNER, WIDTH), (WIDTH, INNER)):
        weight = drawn(EXPERTS, outputs, inputs, seed=2) * inputs**-0.5
        flat += [weight.transpose(1, 2).contiguous() if across else weight]
        flat += [drawn(EXPERTS, outputs, seed=3) if biased else None]
    return [None if one is None else one.to(dtype).requires_grad_() for one in flat]


def found(chosen, given, *, across):
    x, share, opening, opening_bias, closing, closing_bias = given
    pairs = (opening, opening_bias), (closing, closing_bias)
    return routed(x, share, *pairs, chosen, gated_silu, across=across)


def one_by_one(chosen, given, *, across):
    """Every token by itself."""
    x, share, opening, opening_bias, closing, closing_bias = given
    rows = []
    for row, experts in enumerate(chosen.tolist()):
        total = torch.zeros(WIDTH, dtype=x.dtype)
        for place, expert in enumerate(experts):
            first, second = ((w[expert].t() if across else w[expert]) for w in (opening, closing))
            gate, up = (first @ x[row] + (0 if opening_bias is None else opening_bias[expert])).chunk(2)
            out = second @ (torch.nn.functional.silu(gate) * up)
            total = total + share[row, place] * (out + (0 if closing_bias is None else closing_bias[expert]))
        rows.append(total)
    return torch.stack(rows)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("name", CHOICES)
def test_values_and_gradients_are_those_of_fp64(name, across, biased):
    chosen = CHOICES[name].contiguous()
    given = parts(len(chosen), across=across, biased=biased)
    exact = [None if one is None else one.detach().double().requires_grad_() for one in given]
    weight = drawn(len(chosen), WIDTH, seed=4)
    values = found(chosen, given, across=across)
    due = one_by_one(chosen, exact, across=across)
    torch.testing.assert_close(values.double(), due, rtol=1e-4, atol=1e-5)
    (values * weight).sum().backward()
    (due * weight.double()).sum().backward()
    for one, other in zip(given, exact, strict=True):
        if one is not None:
            torch.testing.assert_close(one.grad.double(), other.grad, rtol=1e-3, atol=1e-4)


def test_fp64_gradients_are_exact():
    chosen = CHOICES["few"]
    given = parts(3, across=False, biased=True, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *given: found(chosen, given, across=False), given, fast_mode=True)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_has_its_bits_in_any_company(dtype):
    chosen = CHOICES["even"].contiguous()
    with torch.no_grad():
        given = parts(len(chosen), across=False, biased=False, dtype=dtype)
        together = found(chosen, given, across=False)
        for row in (0, 17, 39):
            alone = [given[0][row : row + 1], given[1][row : row + 1], *given[2:]]
            assert torch.equal(found(chosen[row : row + 1], alone, across=False)[0], together[row])


@NATIVE
def test_both_ways_give_the_same_bits(monkeypatch):
    chosen = CHOICES["even"].contiguous()
    given = parts(len(chosen), across=False, biased=True)
    start = sorted_choices(chosen, EXPERTS).start
    rows = drawn(chosen.numel(), WIDTH)
    values, outer = found(chosen, given, across=False), grouped_outer(rows, rows, start)
    native = grouped_linear(rows, given[2], None, start)
    monkeypatch.setattr(products, "address", lambda: None)
    assert torch.equal(found(chosen, given, across=False), values)
    assert torch.equal(grouped_linear(rows, given[2], None, start), native)
    torch.testing.assert_close(grouped_outer(rows, rows, start), outer)


@pytest.mark.usefixtures("way")
def test_no_expert_is_read_that_nobody_chose():
    chosen = CHOICES["empty experts"][:4].contiguous()
    given = parts(4, across=False, biased=False)
    with torch.no_grad():
        given[2][[1, 2, 4]] = torch.nan
        given[4][[1, 2, 4]] = torch.nan
    values = found(chosen, given, across=False)
    values.sum().backward()
    assert values.isfinite().all()
    assert given[0].grad.isfinite().all()
    assert not given[2].grad[[1, 2, 4]].any()


def test_rows_that_fill_a_place_are_sent_nowhere():
    experts = layer_of(tiny_forms.model("qwen3_moe"), "fp32", 0).experts
    x = drawn(16, 32)
    with torch.no_grad():
        whole, few = experts(x, lambda routing: routing), experts(x, lambda routing: routing, 3)
    assert torch.equal(few[:3], whole[:3])
    assert not few[3:].any()
    assert few.shape == whole.shape

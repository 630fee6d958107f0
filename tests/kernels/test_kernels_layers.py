"""Norm, gate and rotary positions, forward and backward, against float64."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_oracle import (
    NOISE,
    TYPES,
    Heads,
    assert_close,
    drawn,
    rms_normal,
    rotary_tables,
    same,
    subsets,
    threads,
    turned,
)

from hocket.policies import kernels

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not kernels.available(), reason="no kernels here")
EXAMPLES = settings(max_examples=30, deadline=None)
SEEDS = st.integers(0, 10**6)
DTYPES = st.sampled_from(TYPES)
HEADS = st.builds(Heads, st.sampled_from([1, 2, 3, 4, 8, 12]), st.sampled_from([1, 2, 3]), st.sampled_from([16, 32]))


# ---------------------------------------------------------------- norm


@EXAMPLES
@given(
    seed=SEEDS,
    rows=st.integers(1, 20),
    width=st.integers(1, 150),
    dtype=DTYPES,
    joined=st.booleans(),
    scale=st.sampled_from([1e-4, 1.0, 300.0]),
)
def test_norm(seed, rows, width, dtype, joined, scale):
    x = drawn(seed, rows, width, scale=scale)
    delta = drawn(seed + 1, rows, width, dtype=dtype, scale=scale) if joined else None
    sums, normal, inverse = kernels.add_norm(x, delta, 1e-6, dtype)
    assert same(sums, x if delta is None else x + delta.float())
    due, due_inverse = rms_normal(sums.double(), 1e-6)
    assert normal.dtype is dtype
    assert_close(normal, due, due.abs())
    assert_close(inverse, due_inverse, due_inverse)


@EXAMPLES
@given(
    seed=SEEDS,
    rows=st.integers(1, 20),
    width=st.integers(1, 150),
    dtype=DTYPES,
    delta=st.booleans(),
    joined=st.booleans(),
)
def test_norm_backward(seed, rows, width, dtype, delta, joined):
    x, gradient = drawn(seed, rows, width), drawn(seed + 1, rows, width, dtype=dtype)
    more = drawn(seed + 2, rows, width) if joined else None
    _, normal, inverse = kernels.add_norm(x, None, 1e-6, dtype)
    for_x, for_delta = kernels.add_norm_backward(gradient, normal, inverse, more, delta=delta)
    g, n, i = gradient.double(), normal.double(), inverse.double()[:, None]
    # From the normal as it was rounded; its rounding is looked at below.
    due = i * (g - n * (g * n).mean(-1, keepdim=True)) + (0 if more is None else more.double())
    scale = i * (g.abs() + n.abs() * (g * n).abs().mean(-1, keepdim=True)) + (0 if more is None else more.abs())
    assert for_x.dtype is torch.float32
    assert_close(for_x, due, scale)
    leaf = x.double().requires_grad_()
    (rms_normal(leaf, 1e-6)[0] * g).sum().backward()
    exact = leaf.grad + (0 if more is None else more.double())
    # In bf16 each of two factors is off by a rounding.
    assert_close(for_x, exact, scale, NOISE if dtype is torch.float32 else 2 * 2.0**-8)
    assert (for_delta is not None) == delta
    if for_delta is not None:
        assert same(for_delta, for_x.to(dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_norm_of_rows_apart(dtype):
    x, delta = drawn(1, 301, 100), drawn(2, 301, 100, dtype=dtype)
    gradient, more = drawn(3, 301, 100, dtype=dtype), drawn(4, 301, 100)
    whole = kernels.add_norm(x, delta, 1e-6, dtype)
    back = kernels.add_norm_backward(gradient, whole[1], whole[2], more, delta=True)
    for rows in subsets(5, 301):
        some = kernels.add_norm(x[rows], delta[rows], 1e-6, dtype)
        assert all(same(one[rows], other) for one, other in zip(whole, some, strict=True))
        there = kernels.add_norm_backward(gradient[rows], some[1], some[2], more[rows], delta=True)
        assert all(same(one[rows], other) for one, other in zip(back, there, strict=True))
    with threads(2):
        again = kernels.add_norm(x, delta, 1e-6, dtype)
        assert all(same(one, other) for one, other in zip(whole, again, strict=True))
        there = kernels.add_norm_backward(gradient, whole[1], whole[2], more, delta=True)
        assert all(same(one, other) for one, other in zip(back, there, strict=True))


@pytest.mark.parametrize("dtype", TYPES)
def test_norm_of_extreme_rows(dtype):
    rows = [torch.zeros(50), torch.full((50,), 1e-40), torch.full((50,), -1e4), F.one_hot(torch.tensor(7), 50) * 1e15]
    rows.append(drawn(1, 50) * 1e-12)
    x = torch.stack([row.float() for row in rows])
    sums, normal, inverse = kernels.add_norm(x, torch.zeros(5, 50, dtype=dtype), 1e-6, dtype)
    due, due_inverse = rms_normal(x.double(), 1e-6)
    assert same(sums, x)
    # What is below the smallest normal number of fp32 may be lost.
    assert_close(normal, due, due.abs() + 1e-30)
    assert_close(inverse, due_inverse, due_inverse)
    for_x, _ = kernels.add_norm_backward(torch.ones(5, 50, dtype=dtype), normal, inverse, None, delta=False)
    assert for_x.isfinite().all()
    assert_close(for_x[0], torch.full((50,), 1e3).double(), 1e3)


def test_subnormal_numbers_live_on():
    """A library compiled with "fast" arithmetic would flush them to zero in the whole process."""
    assert kernels.available()
    assert float(torch.tensor([1e-40]) * torch.tensor([0.5])) > 0


# ---------------------------------------------------------------- gate


@EXAMPLES
@given(seed=SEEDS, rows=st.integers(1, 20), width=st.integers(1, 100), dtype=DTYPES, scale=st.sampled_from([1.0, 10.0]))
def test_gate(seed, rows, width, dtype, scale):
    both, gradient = drawn(seed, rows, 2 * width, dtype=dtype, scale=scale), drawn(seed + 1, rows, width, dtype=dtype)
    leaf = both.double().requires_grad_()
    opened, up = leaf.chunk(2, -1)
    due = F.silu(opened) * up
    found = kernels.gate(both)
    assert found.dtype is dtype
    assert_close(found, due.detach(), (opened * up).detach().abs())
    due.backward(gradient.double())
    there = kernels.gate_backward(gradient, both)
    assert there.dtype is dtype
    size = (leaf.detach().abs() + 1) * gradient.double().abs().repeat(1, 2)
    assert_close(there, leaf.grad, size * (1 + both.double().abs().max()))


@pytest.mark.parametrize("dtype", TYPES)
def test_gate_of_extreme_numbers(dtype):
    opened = torch.tensor([0.0, -0.0, 1e4, -1e4, 88.0, -88.0, 104.0, -104.0, 3e38, -3e38, 1e-40, -20.0, 20.0, -95.0])
    both = torch.cat((opened, torch.full_like(opened, 0.5)))[None].to(dtype)
    found, back = kernels.gate(both), kernels.gate_backward(torch.ones(1, len(opened), dtype=dtype), both)
    x = both[0, : len(opened)].double()
    assert_close(found[0], F.silu(x) * 0.5, F.silu(x).abs() + 1e-30)
    sigmoid = x.sigmoid()
    # x s (1 - s) cancels nothing: 1 - s is sigmoid(-x).
    slope = (sigmoid + x * sigmoid * (-x).sigmoid()) * 0.5
    assert_close(back[0], torch.cat((slope, F.silu(x))), torch.cat((torch.ones_like(x), F.silu(x).abs() + 1e-30)))


@pytest.mark.parametrize("dtype", TYPES)
def test_gate_of_rows_apart(dtype):
    both, gradient = drawn(1, 301, 2 * 77, dtype=dtype), drawn(2, 301, 77, dtype=dtype)
    whole, back = kernels.gate(both), kernels.gate_backward(gradient, both)
    for rows in subsets(5, 301):
        assert same(kernels.gate(both[rows]), whole[rows])
        assert same(kernels.gate_backward(gradient[rows], both[rows]), back[rows])
    with threads(2):
        assert same(kernels.gate(both), whole)
        assert same(kernels.gate_backward(gradient, both), back)


# ---------------------------------------------------------------- rotary positions


def rotary_inputs(seed, rows, heads, dtype, normed):
    qkv = drawn(seed, rows, heads.width, dtype=dtype)
    weight = 1 + drawn(seed + 1, heads.count + heads.shared, heads.size, scale=0.3) if normed else None
    cosine, sine = rotary_tables(90, heads.size)
    depth = (drawn(seed + 2, rows).abs() * 30).int().clamp(max=89)
    return qkv, weight, cosine, sine, depth


@EXAMPLES
@given(seed=SEEDS, rows=st.integers(1, 12), heads=HEADS, dtype=DTYPES, normed=st.booleans())
def test_rotate(seed, rows, heads, dtype, normed):
    inputs = rotary_inputs(seed, rows, heads, dtype, normed)
    found, inverse = kernels.apply_rope(*inputs, 1e-5, heads.shared)
    due, due_inverse = turned(*inputs, 1e-5, heads.shared)
    assert found.dtype is dtype
    assert_close(found, due.flatten(1), 4.0)
    if normed:
        assert_close(inverse, due_inverse, due_inverse)


@EXAMPLES
@given(seed=SEEDS, rows=st.integers(1, 12), heads=HEADS, dtype=DTYPES, normed=st.booleans())
def test_apply_rope_backward(seed, rows, heads, dtype, normed):
    qkv, weight, *rest = rotary_inputs(seed, rows, heads, dtype, normed)
    _, inverse = kernels.apply_rope(qkv, weight, *rest, 1e-5, heads.shared)
    gradient = drawn(seed + 3, rows, heads.width)
    found, for_weight = kernels.apply_rope_backward(gradient, qkv, weight, *rest, inverse, heads.shared)
    leaf = qkv.double().requires_grad_()
    scales = None if weight is None else weight.double().requires_grad_()
    due, due_inverse = turned(leaf, scales, *rest, 1e-5, heads.shared)
    values = heads.parts(leaf)[1]
    (torch.cat((due, values), 1).flatten(1) * gradient.double()).sum().backward()
    assert found.dtype is dtype
    size = torch.cat((due_inverse if normed else torch.ones_like(due_inverse), torch.ones(rows, heads.shared)), 1)
    assert_close(found, leaf.grad, size.detach().repeat_interleave(heads.size, 1) * 20)
    assert (for_weight is None) == (weight is None)
    if for_weight is not None:
        assert_close(for_weight, scales.grad, 10.0 * rows)


@pytest.mark.parametrize("dtype", TYPES)
def test_rotate_of_rows_apart(dtype):
    heads = Heads(2, 2, 16)
    qkv, weight, cosine, sine, depth = rotary_inputs(1, 301, heads, dtype, True)
    gradient = drawn(3, 301, heads.width)
    whole = kernels.apply_rope(qkv, weight, cosine, sine, depth, 1e-5, 2)
    back, for_weight = kernels.apply_rope_backward(gradient, qkv, weight, cosine, sine, depth, whole[1], 2)
    for rows in subsets(5, 301):
        some = kernels.apply_rope(qkv[rows], weight, cosine, sine, depth[rows], 1e-5, 2)
        assert all(same(one[rows], other) for one, other in zip(whole, some, strict=True))
        there, _ = kernels.apply_rope_backward(gradient[rows], qkv[rows], weight, cosine, sine, depth[rows], some[1], 2)
        assert same(there, back[rows])
    with threads(2):
        again = kernels.apply_rope(qkv, weight, cosine, sine, depth, 1e-5, 2)
        assert all(same(one, other) for one, other in zip(whole, again, strict=True))
        there, weights = kernels.apply_rope_backward(gradient, qkv, weight, cosine, sine, depth, whole[1], 2)
        assert same(there, back)
        assert same(weights, for_weight)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_head_of_zeros(dtype):
    heads = Heads(2, 1, 16)
    qkv, weight, *rest = rotary_inputs(1, 3, heads, dtype, True)
    qkv[1, 16:32] = 0
    found, inverse = kernels.apply_rope(qkv, weight, *rest, 1e-6, 1)
    assert torch.equal(found[1, 16:32], torch.zeros(16, dtype=dtype))
    back, for_weight = kernels.apply_rope_backward(drawn(2, 3, heads.width), qkv, weight, *rest, inverse, 1)
    assert found.isfinite().all()
    assert back.isfinite().all()
    assert for_weight.isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("size", [48, 64, 80, 128])
@pytest.mark.parametrize("dtype", TYPES)
def test_rotate_other_sizes(size, dtype):
    if not kernels.available(size):
        pytest.skip(str(kernels.reason(size)))
    heads = Heads(3, 2, size)
    inputs = rotary_inputs(1, 9, heads, dtype, True)
    found, inverse = kernels.apply_rope(*inputs, 1e-5, 2)
    assert_close(found, turned(*inputs, 1e-5, 2)[0].flatten(1), 4.0)
    leaf, gradient = inputs[0].double().requires_grad_(), drawn(3, 9, heads.width)
    due = torch.cat((turned(leaf, *inputs[1:], 1e-5, 2)[0], heads.parts(leaf)[1]), 1)
    (due.flatten(1) * gradient.double()).sum().backward()
    assert_close(kernels.apply_rope_backward(gradient, *inputs, inverse, 2)[0], leaf.grad, 20.0)


# ---------------------------------------------------------------- nothing at all, and refusals


@pytest.mark.parametrize("dtype", TYPES)
def test_no_rows(dtype):
    sums, normal, inverse = kernels.add_norm(torch.zeros(0, 20), drawn(1, 0, 20, dtype=dtype), 1e-6, dtype)
    assert sums.shape == normal.shape == (0, 20)
    assert kernels.add_norm_backward(drawn(1, 0, 20, dtype=dtype), normal, inverse, None, delta=True)[0].shape == (
        0,
        20,
    )
    assert kernels.gate_backward(drawn(1, 0, 10, dtype=dtype), drawn(1, 0, 20, dtype=dtype)).shape == (0, 20)
    heads = Heads(2, 1, 16)
    inputs = rotary_inputs(1, 0, heads, dtype, True)
    found, inverse = kernels.apply_rope(*inputs, 1e-6, 1)
    assert found.shape == (0, 48)
    back, for_weight = kernels.apply_rope_backward(torch.zeros(0, heads.width), *inputs, inverse, 1)
    assert back.shape == (0, heads.width)
    assert torch.equal(for_weight, torch.zeros(3, 16))
    logits, whole = torch.zeros(0, 9, dtype=dtype), torch.zeros(0, dtype=torch.int64)
    assert all(one.shape == (0,) for one in kernels.token_logprobs(logits, whole, torch.ones(0), entropy=True))


def test_other_types_are_refused():
    with pytest.raises(ValueError, match="float64"):
        kernels.gate(torch.zeros(2, 4, dtype=torch.float64))


def test_scattered_tensors_are_refused_or_read_right():
    both = drawn(1, 8, 20).T
    assert same(kernels.gate(both), kernels.gate(both.contiguous()))
    with pytest.raises(ValueError, match="contiguous"):
        kernels.token_logprobs(drawn(1, 8, 20).T, torch.zeros(20, dtype=torch.int64), torch.ones(20), entropy=False)

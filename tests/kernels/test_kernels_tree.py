"""Attention along trees, forward and backward, against float64."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_oracle import (
    ROUNDING,
    TYPES,
    Forest,
    Heads,
    assert_close,
    attention,
    drawn,
    forest,
    same,
    threads,
)

from hocket.core.keys import Key
from hocket.policies import kernels
from hocket.policies.kernels import ScoreBounds
from hocket.policies.prefix_tree import tree_of
from hocket.policies.sequences import Row
from hocket.policies.tree_attention import TreeAttention

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not kernels.available(), reason="no kernels here")
SEEDS = st.integers(0, 10**6)
HEADS = st.builds(Heads, st.sampled_from([1, 2, 3, 4, 8, 12]), st.sampled_from([1, 2, 3]), st.sampled_from([16, 32]))
FORESTS = st.builds(
    forest, SEEDS, st.integers(1, 12), st.sampled_from([1, 3, 20, 60]), deep=st.booleans(), shuffled=st.booleans()
)


def inputs(seed, tokens, heads, dtype, scale=1.0):
    """Turned queries and keys, and the queries, keys and values of which only the values are read."""
    turned = drawn(seed, tokens, (heads.count + heads.shared) * heads.size, dtype=dtype, scale=scale)
    qkv = drawn(seed + 1, tokens, heads.width, dtype=dtype)
    qkv[:, : turned.shape[1]] = torch.nan
    return turned, qkv


def due(turned, qkv, trees, heads, scale):
    """Leaves of queries and keys and of values, and what attention makes of them."""
    qk = turned.double().unflatten(1, (-1, heads.size)).requires_grad_()
    values = heads.parts(qkv.double())[1].clone().requires_grad_()
    return qk, values, *attention(qk, values, trees.visible(), scale, heads.shared)


def assert_right(seed, trees, heads, dtype, cut=False):
    scale = heads.size**-0.5
    turned, qkv = inputs(seed, trees.tokens, heads, dtype)
    paths = trees.paths(seed, cut=cut)
    out, sums = kernels.tree_attention(turned, qkv, paths, scale, heads.size, heads.shared)
    qk, values, mixed, log_sums = due(turned, qkv, trees, heads, scale)
    assert out.dtype is dtype
    assert_close(out, mixed.detach().flatten(1), 4.0)
    assert_close(sums, log_sums.detach(), 4.0)

    gradient = drawn(seed + 2, trees.tokens, heads.count * heads.size, dtype=dtype)
    found = kernels.tree_attention_backward(turned, qkv, out, gradient, sums, paths, scale, heads.size, heads.shared)
    g = gradient.double().unflatten(1, (-1, heads.size))
    # The gradient of scores reads `out` as it was rounded: p (g v - g out), which is to say the log-sum has a gradient.
    rounding = (out.double().unflatten(1, (-1, heads.size)) - mixed).detach()
    assert (rounding.abs() <= ROUNDING[dtype] * 1.01 * mixed.abs() + 1e-5).all()
    ((g * mixed).sum() - ((g * rounding).sum(-1) * log_sums).sum()).backward()
    exact = torch.cat((qk.grad, values.grad), 1).flatten(1)
    assert found.dtype is torch.float32
    assert_close(found, exact, exact.abs().max() + 4.0)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, trees=FORESTS, heads=HEADS, dtype=st.sampled_from(TYPES), cut=st.booleans())
def test_random_forests(seed, trees, heads, dtype, cut):
    assert_right(seed, trees, heads, dtype, cut)


CASES = {
    "one token": Forest([-1], [0], [1]),
    "one long path": Forest([-1], [0], [150]),
    "a chain of single tokens": Forest(list(range(-1, 69)), list(range(70)), [1] * 70),
    "many roots": Forest([-1] * 30, list(range(30)), [1] * 30),
    "a long prompt and short answers": Forest([-1, 0, 0, 0, 0], [0, 65, 66, 83, 84], [65, 1, 17, 1, 16]),
    "children before parents": Forest([1, 2, -1], [0, 16, 33], [16, 17, 49]),
    "whole pages": Forest([-1, 0, 1, 1], [0, 16, 48, 64], [16, 32, 16, 16]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("repeat", [1, 3, 8])
def test_forests_that_stand_out(name, dtype, repeat):
    assert_right(3, CASES[name], Heads(repeat, 2, 16), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("size", [48, 64, 80, 128])
@pytest.mark.parametrize("dtype", TYPES)
def test_other_sizes(size, dtype):
    if not kernels.available(size):
        pytest.skip(str(kernels.reason(size)))
    for repeat in (1, 2, 3, 4, 8, 12):
        assert_right(repeat, forest(repeat, 7, 30), Heads(repeat, 2, size), dtype)


# ---------------------------------------------------------------- what a token does not depend on


def both(turned, qkv, trees, paths, heads, gradient):
    """Results, log-sums and gradients."""
    scale = heads.size**-0.5
    out, sums = kernels.tree_attention(turned, qkv, paths, scale, heads.size, heads.shared)
    back = kernels.tree_attention_backward(turned, qkv, out, gradient, sums, paths, scale, heads.size, heads.shared)
    return out, sums, back


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, trees=FORESTS, heads=HEADS, dtype=st.sampled_from(TYPES))
def test_arrangement_changes_no_bit(seed, trees, heads, dtype):
    """Nodes in another order at other places, and paths in other pieces; other trees beside, or not."""
    turned, qkv = inputs(seed, trees.tokens, heads, dtype)
    scale = heads.size**-0.5
    out, sums = kernels.tree_attention(turned, qkv, trees.paths(), scale, heads.size, heads.shared)
    cut = kernels.tree_attention(turned, qkv, trees.paths(seed, cut=True), scale, heads.size, heads.shared)
    assert same(out, cut[0])
    assert same(sums, cut[1])
    # Each path alone, all of it in one node.
    for leaf in trees.leaves[:4]:
        path = trees.path(leaf)
        alone = Forest([-1], [0], [len(path)]).paths()
        lone = kernels.tree_attention(turned[path], qkv[path], alone, scale, heads.size, heads.shared)
        assert same(lone[0], out[path])
        assert same(lone[1], sums[path])


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, heads=HEADS, dtype=st.sampled_from(TYPES))
def test_other_trees_change_no_bit(seed, heads, dtype):
    """Forward and backward: a forest beside another, of garbage, and by itself."""
    trees, other = forest(seed, 6, 30), forest(seed + 1, 5, 30)
    m, more = trees.tokens, other.tokens
    joined = Forest(
        [*other.parent, *(p + len(other.parent) if p >= 0 else -1 for p in trees.parent)],
        [*other.start, *(s + more for s in trees.start)],
        [*other.own, *trees.own],
    )
    turned, qkv = inputs(seed, m + more, heads, dtype)
    gradient = drawn(seed + 2, m + more, heads.count * heads.size, dtype=dtype)
    turned[:more] = torch.nan
    whole = both(turned, qkv, joined, joined.paths(), heads, gradient)
    part = both(turned[more:], qkv[more:], trees, trees.paths(), heads, gradient[more:])
    for one, found in zip(part, whole, strict=True):
        assert found[more:].isfinite().all()
        assert same(one, found[more:])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("heads", [Heads(2, 2, 16), Heads(8, 1, 32)])
def test_threads_change_no_bit(dtype, heads):
    trees = forest(7, 40, 30)
    turned, qkv = inputs(1, trees.tokens, heads, dtype)
    gradient = drawn(2, trees.tokens, heads.count * heads.size, dtype=dtype)
    one = both(turned, qkv, trees, trees.paths(), heads, gradient)
    for number in (1, 2, 2, 3):
        with threads(number):
            found = both(turned, qkv, trees, trees.paths(), heads, gradient)
        assert all(same(a, b) for a, b in zip(one, found, strict=True))


# ---------------------------------------------------------------- extreme scores


def one_sided(tokens, heads, dtype, strength):
    """Keys whose scores with every query are exactly -strength, or +strength at every fifth token."""
    turned = torch.zeros(tokens, heads.count + heads.shared, heads.size)
    turned[:, : heads.count, 0] = 64.0
    turned[:, heads.count :, 0] = -strength / 64.0
    turned[2::5, heads.count :, 0] = strength / 64.0
    return turned.flatten(1).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("strength", [128.0, 8192.0, 65536.0])
def test_extreme_scores(dtype, strength):
    heads, trees = Heads(2, 2, 16), Forest([-1, 0, 0], [0, 21, 55], [21, 34, 40])
    turned = one_sided(trees.tokens, heads, dtype, strength)
    qkv = inputs(1, trees.tokens, heads, dtype)[1]
    gradient = drawn(2, trees.tokens, heads.count * heads.size, dtype=dtype)
    out, sums = kernels.tree_attention(turned, qkv, trees.paths(), 1.0, 16, 2)
    _, values, mixed, log_sums = due(turned, qkv, trees, heads, 1.0)
    assert_close(out, mixed.detach().flatten(1), 4.0)
    assert_close(sums, log_sums.detach(), log_sums.detach().abs())
    found = kernels.tree_attention_backward(turned, qkv, out, gradient, sums, trees.paths(), 1.0, 16, 2)
    assert found.isfinite().all()
    values_found = heads.parts(found)[1]
    (gradient.double().unflatten(1, (-1, 16)) * mixed).sum().backward()
    # fp32 knows a log-sum of 65536 to 0.004, hence each weight to as much.
    assert_close(values_found, values.grad, 60.0, 2e-6 + strength * 2.0**-23)


@pytest.mark.parametrize("dtype", TYPES)
def test_equal_scores_average(dtype):
    heads, trees = Heads(3, 1, 16), Forest([-1, 0], [0, 40], [40, 30])
    turned = torch.zeros(70, 4 * 16, dtype=dtype)
    qkv = inputs(1, 70, heads, dtype)[1]
    out, sums = kernels.tree_attention(turned, qkv, trees.paths(), 1.0, 16, 1)
    counts = torch.arange(1, 71).double()
    mean = qkv[:, 64:].double().cumsum(0) / counts[:, None]
    assert_close(out, mean.repeat(1, 3), 4.0)
    assert_close(sums, counts.log()[:, None].expand(70, 3), 5.0)


def test_gradients_that_cancel():
    """With all values equal no score matters: gradients of queries and keys are rounding only."""
    heads, trees = Heads(2, 1, 16), forest(1, 8, 30)
    turned, qkv = inputs(1, trees.tokens, heads, torch.float32)
    qkv[:, -16:] = drawn(5, 16)
    gradient = drawn(2, trees.tokens, 32)
    out, sums = kernels.tree_attention(turned, qkv, trees.paths(), 0.25, 16, 1)
    found = kernels.tree_attention_backward(turned, qkv, out, gradient, sums, trees.paths(), 0.25, 16, 1)
    assert found[:, :48].abs().max() < 2e-4


BOUNDS = {
    "plain": (0, 0.0, False),
    "window": (19, 0.0, False),
    "cap": (0, 1.5, False),
    "sinks": (0, 0.0, True),
    "all": (35, 2.0, True),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounded_scores_are_those_of_torch_in_double(name):
    """Outputs and gradients over a tree whose shared prefix is longer than the windows."""
    window, cap, sinking = BOUNDS[name]
    prefix = list(range(3, 43))
    rows = [[*prefix, *range(50, 50 + length)] for length in (3, 20, 33)]
    tree = tree_of([Row(np.array(row), np.array([len(row) - 1]), np.array([n])) for n, row in enumerate(rows)])
    draw = Key.of(6).torch()
    heads, shared, size, total = 6, 2, 16, len(tree.token)
    qkv = torch.randn(total, (heads + 2 * shared) * size, generator=draw)
    sinks = torch.randn(heads, generator=draw) if sinking else None
    factor = torch.randn(total, heads * size, generator=draw)
    angle = torch.randn(80, size // 2, generator=draw)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    found = []
    for dtype in (torch.float32, torch.float64):
        tables = {"": (torch.cat((cosine, cosine), -1).to(dtype), torch.cat((-sine, sine), -1).to(dtype))}
        depth = torch.from_numpy(tree.depth)
        like = torch.zeros(1, dtype=dtype)
        attention = TreeAttention(tree.nodes, depth, tables, [(heads, shared, size)], like)
        assert (attention._functions is kernels) == (dtype is torch.float32)
        inputs = [one.to(dtype).clone().requires_grad_() for one in (qkv, sinks) if one is not None]
        bounds = ScoreBounds(window, cap, inputs[1] if sinking else None)
        layer = SimpleNamespace(
            turn=None, turn_epsilon=0.0, scale=0.6, rotary="", bounds=bounds, shaping=None, shared=shared
        )
        out = attention(inputs[0], layer)
        found.append((out, *torch.autograd.grad((out * factor.to(dtype)).sum(), inputs)))
    for one, due in zip(*found, strict=True):
        torch.testing.assert_close(one.double(), due, atol=3e-5, rtol=1e-4)


@pytest.mark.parametrize("opening", ["silu", "gelu"])
def test_gates_are_those_of_torch(opening):
    both = (
        torch.linspace(-9, 9, 2 * 37 * 5).view(5, 74)[:, torch.randperm(74, generator=Key.of(0).torch())].contiguous()
    )
    gradient = torch.randn(5, 37, generator=Key.of(1).torch())
    wide = both.double().requires_grad_()
    gate, up = wide.chunk(2, -1)
    due = (F.silu(gate) if opening == "silu" else F.gelu(gate, approximate="tanh")) * up
    (due * gradient).sum().backward()
    torch.testing.assert_close(kernels.gate(both, opening).double(), due.detach(), atol=2e-6, rtol=2e-6)
    torch.testing.assert_close(kernels.gate_backward(gradient, both, opening).double(), wide.grad, atol=1e-5, rtol=1e-5)

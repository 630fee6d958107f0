"""The gated delta rule: kernels and torch's operators against a loop over tokens, along a tree."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from hocket.core.keys import Key
from hocket.policies import kernels, recurrence
from hocket.policies.forms import DeltaForm, NormForm
from hocket.policies.prefix_tree import tree_of
from hocket.policies.recurrence import TreeHistories
from hocket.policies.sequences import Row

torch.set_num_threads(1)
SHAPES = {"two columns of registers": (2, 4, 16, 32), "one": (1, 2, 32, 16), "a head for each key": (2, 2, 16, 16)}


def grown():
    """Sequences of which some share beginnings, and some of these end where others go on."""
    draw = Key.of(0).numpy()
    stem = draw.integers(0, 40, 30).tolist()
    found = [stem + draw.integers(0, 40, length).tolist() for length in (5, 40, 17)]
    found += [found[1][:50] + draw.integers(0, 40, 20).tolist(), draw.integers(0, 40, 9).tolist()]
    return [Row(np.array(one, np.int64), np.arange(len(one)), np.arange(len(one))) for one in found]


def token_by_token(form, x, a, b, rate, bias):
    """The rule as its paper writes it, of one sequence."""
    sizes = (form.keys * form.size, form.keys * form.size, form.heads * form.values)
    q, k, v = (
        part.unflatten(-1, (heads, -1))
        for part, heads in zip(torch.split(F.silu(x), sizes, -1), (form.keys, form.keys, form.heads), strict=True)
    )
    q, k = (part / (part.square().sum(-1, keepdim=True) + 1e-6).sqrt() for part in (q, k))
    q, k = (part.repeat_interleave(form.heads // form.keys, 1) for part in (q * form.size**-0.5, k))
    state, out = x.new_zeros(form.heads, form.size, form.values), []
    for t in range(len(x)):
        state = state * torch.exp(-rate.exp() * F.softplus(a[t] + bias))[:, None, None]
        rest = v[t] - torch.einsum("hdv,hd->hv", state, k[t])
        state = state + torch.einsum("hd,hv->hdv", k[t], torch.sigmoid(b[t])[:, None] * rest)
        out.append(torch.einsum("hdv,hd->hv", state, q[t]).flatten())
    return torch.stack(out)


def inputs(form, tokens, dtype):
    draw = Key.of(1).torch()
    width = form.window[1]
    shapes = (tokens, width), (tokens, form.heads), (tokens, form.heads), (form.heads,), (form.heads,)
    return [torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def kernel_rule(form, x, a, b, rate, bias, histories):
    memory = histories.memory(0, form.memory)
    return recurrence._DeltaRule.apply(x, a, b, rate, bias, histories.runs, memory, form.keys)


def operators(form, x, a, b, rate, bias, histories):
    return recurrence._by_operators(form, x, a, b, rate, bias, histories.levels)


@pytest.mark.parametrize("way", ["operators", "kernels"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_tree_has_the_numbers_and_gradients_of_its_sequences(shape, way, monkeypatch):
    if way == "kernels" and not kernels.available():
        pytest.skip("no kernels here")
    monkeypatch.setattr(recurrence, "CHUNK", 8)
    keys, heads, size, values = SHAPES[shape]
    form = DeltaForm((), "", "", NormForm("", "rms", 1e-6), False, keys, heads, size, values, 4)
    tree = tree_of(grown())
    histories = TreeHistories(tree.nodes, torch.device("cpu"))
    rule, dtype, close = (kernel_rule, torch.float32, 2e-6) if way == "kernels" else (operators, torch.float64, 1e-12)
    own, due = inputs(form, len(tree.token), dtype), inputs(form, len(tree.token), torch.float64)
    found = rule(form, *own, histories)
    factor = torch.randn(found.shape, generator=Key.of(2).torch(), dtype=torch.float64)
    (found * factor).sum().backward()
    counted = torch.zeros(len(tree.token), dtype=torch.bool)
    for path in map(torch.from_numpy, tree.paths):
        per_token = [part[path] for part in due[:3]]
        out, fresh = token_by_token(form, *per_token, *due[3:]), ~counted[path]
        assert (found[path] - out).abs().max() < close
        (out * factor[path])[fresh].sum().backward()
        counted[path] = True
    assert counted.all()
    for one, other in zip(own, due, strict=True):
        assert (one.grad - other.grad).abs().max() <= close * other.grad.abs().max()

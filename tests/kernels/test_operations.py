"""Every column of operations against float64 on random shapes, forward and backward, on a device where there is one.

Elsewhere Triton's kernels run in its interpreter, in a process with `TRITON_INTERPRET=1`; see the last test.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernel_oracle
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from kernel_oracle import TYPES, rms_normal, rotary_tables, same, softmax_facts, softmax_gradient, turned
from torch import Tensor

from hocket.core.keys import Key
from hocket.policies.kernels import PAGE, ScoreBounds
from hocket.policies.operations import COLUMNS, OPERATIONS, OperationColumn, column_of
from hocket.policies.operations.flat_tree import FlatTree
from hocket.policies.prefix_tree import TokenRun, tree_of
from hocket.policies.sequences import Row

torch.set_num_threads(1)
CPU = torch.device("cpu")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")
ROUNDED = {torch.float32: 3e-6, torch.bfloat16: 2.0**-7, torch.float64: 1e-12}
"""Errors allowed, relative to the largest number: some roundings of the type."""
BY_NAME = {column.name: column for column in COLUMNS}
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name == "triton")) for name in BY_NAME]
KINDS = [*TYPES, torch.float64]


def column_for(name: str, dtype: torch.dtype, head: int = 32, group: int = 1) -> OperationColumn:
    """A column, unless it says that it cannot compute these operations."""
    if name == "c++" and head not in (16, 32):
        pytest.skip("the slow tests of the kernels compile other sizes")
    column = BY_NAME[name]
    refusals = (column.refusal(operation, DEVICE, dtype, head, group) for operation in OPERATIONS)
    why = next((why for why in refusals if why is not None), None)
    if why is not None:
        pytest.skip(why)
    return column


@pytest.fixture(autouse=True)
def on_the_device() -> Iterator[None]:
    with torch.device(DEVICE):
        yield


def drawn(seed: int, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    """Normal numbers on the device."""
    return kernel_oracle.drawn(seed, *shape, dtype=dtype, scale=scale).to(DEVICE)


def logits_of(seed: int, rows: int, vocabulary: int, dtype: torch.dtype) -> Tensor:
    """Logits, some of which are -inf, on the device."""
    with CPU:
        return kernel_oracle.logits_of(seed, rows, vocabulary, dtype, banned=0.3).to(DEVICE)


def close(result: Tensor, due: Tensor, dtype: torch.dtype, factor: float = 1.0) -> None:
    """Within the rounding of `dtype`, relative to the largest number due."""
    assert result.shape == due.shape
    bound = factor * ROUNDED[dtype] * (1.0 + float(due.abs().max()) if due.numel() else 1.0)
    assert result.numel() == 0 or float((result.double() - due).abs().max()) <= bound


def double(x: Tensor) -> Tensor:
    return x.detach().double().requires_grad_()


# ---------------------------------------------------------------- norms, the gate, rotary turns


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("rows", "width"), [(1, 16), (5, 33), (7, 100), (0, 24)])
def test_norm_and_add(name: str, dtype: torch.dtype, rows: int, width: int) -> None:
    functions = column_for(name, dtype).functions()
    stream = torch.float64 if dtype is torch.float64 else torch.float32
    x, delta = drawn(1, rows, width, dtype=stream), drawn(2, rows, width, dtype=dtype)
    g, more = drawn(3, rows, width, dtype=dtype), drawn(4, rows, width, dtype=stream)
    for added in (None, delta):
        leaf, other = double(x), double(delta)
        sums = leaf if added is None else leaf + other
        normal = rms_normal(sums, 1e-5)[0]
        ((normal * g.double()).sum() + (sums * more.double()).sum()).backward()
        found = functions.add_norm(x, added, 1e-5, dtype)
        close(found[0], sums.detach(), stream)
        close(found[1], normal.detach(), dtype)
        for_x, for_delta = functions.add_norm_backward(g, found[1], found[2], more, delta=added is not None)
        close(for_x, leaf.grad, dtype, 4.0)
        assert (for_delta is None) == (added is None)
        if for_delta is not None:
            close(for_delta, other.grad, dtype, 4.0)
    bare, _ = functions.add_norm_backward(g, found[1], found[2], None, delta=False)
    close(bare + more, for_x.double(), stream)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("opening", ["silu", "gelu", "sigmoid"])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (4, 75), (0, 16)])
def test_gate(name: str, dtype: torch.dtype, opening: Any, rows: int, width: int) -> None:
    functions = column_for(name, dtype).functions()
    both, g = drawn(1, rows, 2 * width, dtype=dtype, scale=2.0), drawn(2, rows, width, dtype=dtype)
    leaf = double(both)
    opened, up = leaf.chunk(2, -1)
    by_name = {"silu": F.silu(opened), "gelu": F.gelu(opened, approximate="tanh"), "sigmoid": opened.sigmoid()}
    due = by_name[opening] * up
    (due * g.double()).sum().backward()
    close(functions.gate(both, opening), due.detach(), dtype, 2.0)
    close(functions.gate_backward(g, both, opening), leaf.grad, dtype, 2.0)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("repeat", "shared", "size"), [(1, 1, 32), (3, 2, 48), (2, 1, 256), (1, 2, 64)])
@pytest.mark.parametrize("normed", [False, True])
def test_rotary_turn(name: str, dtype: torch.dtype, repeat: int, shared: int, size: int, normed: bool) -> None:
    functions = column_for(name, dtype, size).functions()
    stream, heads, rows = torch.float64 if dtype is torch.float64 else torch.float32, repeat * shared, 5
    qkv = drawn(1, rows, (heads + 2 * shared) * size, dtype=dtype)
    weight = 1 + 0.1 * drawn(2, heads + shared, size, dtype=stream) if normed else None
    cosine, sine = (table.to(stream) for table in rotary_tables(9, size))
    depth = torch.tensor([0, 8, 3, 3, 1], dtype=torch.int32)
    leaf, by = double(qkv), None if weight is None else double(weight)
    due, inverse = turned(leaf, by, cosine, sine, depth, 1e-5, shared)
    found = functions.apply_rope(qkv, weight, cosine, sine, depth, 1e-5, shared)
    close(found[0], due.detach().flatten(1), dtype)
    close(found[1], inverse.detach() if normed else torch.ones_like(inverse), stream)
    gradient = drawn(3, rows, qkv.shape[1], dtype=stream)
    each = gradient.double().unflatten(1, (-1, size))
    values = leaf.unflatten(1, (-1, size))[:, heads + shared :]
    ((due * each[:, : heads + shared]).sum() + (values * each[:, heads + shared :]).sum()).backward()
    back, for_weight = functions.apply_rope_backward(gradient, qkv, weight, cosine, sine, depth, found[1], shared)
    close(back, leaf.grad, dtype, 2.0)
    assert (for_weight is None) == (by is None)
    if by is not None:
        close(for_weight, by.grad, stream, 4.0)


# ---------------------------------------------------------------- attention


def ragged(seed: int, kind: str) -> list[TokenRun]:
    """Nodes of the tree of some rows."""
    draw = Key.of(seed).numpy()
    prompt, more = list(range(3, 3 + int(draw.integers(20, 70)))), list(range(200, 235))
    rows = {
        "one token": [[7]],
        "one row": [[*prompt, *more]],
        "answers": [[*prompt, *draw.integers(100, 120, length).tolist()] for length in (1, 40, 3, 19)],
        "turns": [[*prompt, *more[:cut], *draw.integers(100, 120, 9).tolist()] for cut in (12, 12, 25, 35, 35)],
        "apart": [[start, *draw.integers(0, 9, length).tolist()] for start, length in ((1, 30), (2, 1), (5, 66))],
    }[kind]
    return tree_of([Row(np.array(row), np.array([len(row) - 1]), np.array([n])) for n, row in enumerate(rows)]).nodes


def seen_by(nodes: list[TokenRun]) -> tuple[Tensor, Tensor]:
    """Which tokens each token attends to `[M, M]`, and its depth."""
    total = sum(node.own for node in nodes)
    seen, depth = torch.zeros(total, total, dtype=torch.bool), torch.zeros(total, dtype=torch.long)
    for node in nodes:
        for place in range(len(node.path) - node.own, len(node.path)):
            seen[node.path[place], node.path[: place + 1]] = True
            depth[node.path[place]] = place
    return seen, depth


def attention(qk: Tensor, values: Tensor, seen: Tensor, depth: Tensor, scale: float, shared: int, bounds: ScoreBounds):
    """`[M, H, D]` and log-sums `[M, H]`, in float64 straight from the formulas."""
    heads = qk.shape[1] - shared
    scores = scale * torch.einsum("ihd,jhd->hij", qk[:, :heads], qk[:, heads:].repeat_interleave(heads // shared, 1))
    if bounds.cap:
        scores = bounds.cap * torch.tanh(scores / bounds.cap)
    if bounds.window:
        seen = seen & (depth[None, :] > depth[:, None] - bounds.window)
    scores = scores.masked_fill(~seen, -torch.inf)
    if bounds.sinks is not None:
        scores = torch.cat((scores, bounds.sinks[:, None, None].expand(-1, len(depth), 1)), -1)
    sums = scores.logsumexp(-1)
    chances = (scores - sums[..., None]).exp()[..., : len(depth)]
    return torch.einsum("hij,jhd->ihd", chances, values.repeat_interleave(heads // shared, 1)), sums.T


BOUNDS = {
    "plain": (0, 0.0, False),
    "window": (17, 0.0, False),
    "cap": (0, 1.5, False),
    "sinks": (0, 0.0, True),
    "all": (35, 2.0, True),
}
SHAPES = [(1, 1, 32), (4, 2, 32), (3, 1, 48), (2, 2, 64), (1, 1, 128), (8, 1, 256)]


def bounds_of(name: str, heads: int, dtype: torch.dtype) -> ScoreBounds:
    window, cap, sinking = BOUNDS[name]
    return ScoreBounds(window, cap, drawn(9, heads, dtype=dtype) if sinking else None)


def check_tree(name: str, dtype: torch.dtype, kind: str, bounded: str, shape: tuple[int, int, int]) -> None:
    repeat, shared, size = shape
    column = column_for(name, dtype, size, repeat)
    functions, stream, heads = (
        column.functions(),
        torch.float64 if dtype is torch.float64 else torch.float32,
        repeat * shared,
    )
    nodes = ragged(5, kind)
    seen, depth = seen_by(nodes)
    total, bounds = len(depth), bounds_of(bounded, heads, stream)
    turns = drawn(1, total, (heads + shared) * size, dtype=dtype)
    qkv = drawn(2, total, (heads + 2 * shared) * size, dtype=dtype)
    qkv[:, : turns.shape[1]] = torch.nan
    qk, v = double(turns.unflatten(1, (-1, size))), double(qkv.unflatten(1, (-1, size))[:, heads + shared :])
    scale = size**-0.5
    exact = bounds._replace(sinks=None if bounds.sinks is None else bounds.sinks.double())
    mixed, sums = attention(qk, v, seen, depth, scale, shared, exact)
    paths = column.paths(nodes, DEVICE)
    out, log_sums = functions.tree_attention(turns, qkv, paths, scale, size, shared, bounds)
    assert out.dtype is dtype
    close(out, mixed.detach().flatten(1), dtype, 2.0)
    close(log_sums, sums.detach(), stream, 2.0)
    g = drawn(3, total, heads * size, dtype=dtype)
    (mixed * g.double().unflatten(1, (-1, size))).sum().backward()
    found = functions.tree_attention_backward(turns, qkv, out, g, log_sums, paths, scale, size, shared, bounds)
    close(found, torch.cat((qk.grad, v.grad), 1).flatten(1), dtype, 6.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("bounded", BOUNDS)
def test_attention_over_a_tree_with_bounds(name: str, dtype: torch.dtype, bounded: str) -> None:
    check_tree(name, dtype, "turns", bounded, (2, 2, 32))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["one token", "one row", "answers", "apart"])
def test_attention_over_ragged_trees(name: str, kind: str) -> None:
    check_tree(name, torch.float32, kind, "all", (3, 1, 32))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_attention_over_a_tree_with_other_heads(name: str, dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    check_tree(name, dtype, "answers", "plain", shape)


@pytest.mark.parametrize("name", ["torch"])
def test_tiles_change_nothing_beyond_rounding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries and keys in parts that are much shorter than the paths."""
    from hocket.policies.operations import plain

    monkeypatch.setattr(plain, "QUERIES", 7)
    monkeypatch.setattr(plain, "SCORES", 500)
    for kind in ("answers", "turns", "apart"):
        check_tree(name, torch.float64, kind, "all", (2, 2, 16))
    check_pages(name, torch.float64, "all", (2, 2, 16))


def test_nodes_in_another_order_are_refused() -> None:
    """Children before parents, and a parent that others stand between."""
    root, child = TokenRun(np.arange(3), 3), TokenRun(np.array([0, 1, 2, 5]), 1)
    other = TokenRun(np.array([3, 4]), 2)
    with pytest.raises(ValueError, match="a node, then all below it"):
        FlatTree.of([root, other, child], CPU)
    flat = FlatTree.of([root, TokenRun(np.array([0, 1, 2, 3]), 1), TokenRun(np.array([4]), 1)], CPU)
    assert flat.end.tolist() == [4, 4, 4, 4, 5]


def check_pages(name: str, dtype: torch.dtype, bounded: str, shape: tuple[int, int, int]) -> None:
    """Rows that begin, go on by several tokens, and by one, beside tokens that only fill a place."""
    repeat, shared, size = shape
    column = column_for(name, dtype, size, repeat)
    functions, stream, heads = (
        column.functions(),
        torch.float64 if dtype is torch.float64 else torch.float32,
        repeat * shared,
    )
    lengths, bounds = [50, 21, 1], bounds_of(bounded, heads, stream)
    cosine, sine = (table.to(stream) for table in rotary_tables(64, size))
    weight = 1 + 0.1 * drawn(4, heads + shared, size, dtype=stream)
    qkv = [drawn(10 + row, length, (heads + 2 * shared) * size, dtype=dtype) for row, length in enumerate(lengths)]
    due = []
    for x in qkv:
        depth = torch.arange(len(x))
        qk, _ = turned(x, weight, cosine, sine, depth.int(), 1e-5, shared)
        qk = qk.to(dtype).double()
        v = x.double().unflatten(1, (-1, size))[:, heads + shared :]
        exact = bounds._replace(sinks=None if bounds.sinks is None else bounds.sinks.double())
        due.append(attention(qk, v, torch.ones(len(x), len(x)).tril().bool(), depth, size**-0.5, shared, exact))
    keys = torch.zeros(12, shared, size, PAGE, dtype=dtype)
    values = torch.zeros(12, shared, PAGE, size, dtype=dtype)
    table = torch.tensor([[11, 2, 5, 7], [3, 8, 0, 0], [6, 0, 0, 0]], dtype=torch.int32)
    # In each pass: row, first position, number of tokens.
    for runs in ([(0, 0, 20), (1, 0, 20)], [(0, 20, 29), (2, 0, 1), (1, 20, 1)], [(0, 49, 1)]):
        position = torch.cat([torch.arange(start, start + count) for _, start, count in runs]).int()
        row = torch.cat([torch.full((count,), row) for row, _, count in runs])
        slot = table[row, position // PAGE] * PAGE + position % PAGE
        x = torch.cat([qkv[row][start : start + count] for row, start, count in runs])
        fill = torch.zeros(3, dtype=torch.int32)
        x = torch.cat((x, torch.zeros(3, x.shape[1], dtype=dtype)))
        starts = torch.from_numpy(np.cumsum([0, *(count for *_, count in runs)]).astype(np.int32))
        rows = torch.tensor([row for row, *_ in runs], dtype=torch.int32, device=CPU)
        placed = functions.placed(table.cpu(), starts, rows, position.cpu(), DEVICE, repeat)
        sums = torch.zeros(len(x), heads, dtype=stream)
        out = functions.paged_attention(
            x,
            keys,
            values,
            position=torch.cat((position, fill)),
            slot=torch.cat((slot, fill - 1)),
            table=placed[0],
            run_start=placed[1],
            run_row=placed[2],
            weight=weight,
            epsilon=1e-5,
            cosine=cosine,
            sine=sine,
            scale=size**-0.5,
            heads=heads,
            shared=shared,
            bounds=bounds,
            sums=sums,
        )
        mixed, log_sums = (torch.cat([due[row][part][s : s + n] for row, s, n in runs]) for part in (0, 1))
        close(out[: len(mixed)], mixed.flatten(1), dtype, 2.0)
        close(sums[: len(mixed)], log_sums, dtype, 2.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("bounded", ["plain", "all"])
@pytest.mark.parametrize("shape", [(2, 2, 32), (5, 1, 16)])
def test_attention_over_pages(name: str, dtype: torch.dtype, bounded: str, shape: tuple[int, int, int]) -> None:
    check_pages(name, dtype, bounded, shape)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", [NAMES[0], NAMES[1]])
def test_pages_and_tree_give_the_same_bits(name: str, dtype: torch.dtype) -> None:
    """What a token mixes does not depend on where its keys are read, nor on how many are read at once."""
    repeat, shared, size = 3, 1, 16
    column, heads = column_for(name, dtype, size, repeat), repeat * shared
    functions, nodes = column.functions(), ragged(5, "answers")
    node = max(nodes, key=lambda one: len(one.path))
    path = torch.from_numpy(node.path).to(DEVICE)
    total, length = sum(one.own for one in nodes), len(path)
    cosine, sine = rotary_tables(256, size)
    qkv, depth = drawn(1, total, (heads + 2 * shared) * size, dtype=dtype), seen_by(nodes)[1].int().to(DEVICE)
    turns, _ = functions.apply_rope(qkv, None, cosine, sine, depth, 0.0, shared)
    due, due_sums = functions.tree_attention(turns, qkv, column.paths(nodes, DEVICE), 0.25, size, shared)
    keys = torch.zeros(16, shared, size, PAGE, dtype=dtype)
    values = torch.zeros(16, shared, PAGE, size, dtype=dtype)
    table = torch.arange(16, dtype=torch.int32)[None].flip(1)
    for first, last in ((0, 30), (30, length - 1), (length - 1, length)):
        position = torch.arange(first, last, dtype=torch.int32)
        starts, rows = (torch.tensor(x, dtype=torch.int32, device=CPU) for x in ([0, last - first], [0]))
        placed = functions.placed(table.cpu(), starts, rows, position.cpu(), DEVICE, repeat)
        sums = torch.zeros(last - first, heads)
        out = functions.paged_attention(
            qkv[path[first:last]],
            keys,
            values,
            position=position,
            slot=table[0, position // PAGE] * PAGE + position % PAGE,
            table=placed[0],
            run_start=placed[1],
            run_row=placed[2],
            weight=None,
            epsilon=0.0,
            cosine=cosine,
            sine=sine,
            scale=0.25,
            heads=heads,
            shared=shared,
            sums=sums,
        )
        assert same(out, due[path[first:last]])
        assert same(sums, due_sums[path[first:last]])


# ---------------------------------------------------------------- choices


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("rows", "vocabulary"), [(1, 2), (6, 70), (3, 1100)])
def test_log_prob_and_entropy(name: str, dtype: torch.dtype, rows: int, vocabulary: int) -> None:
    functions = column_for(name, dtype).functions()
    stream = torch.float64 if dtype is torch.float64 else torch.float32
    logits = logits_of(3, rows, vocabulary, dtype)
    action, temperature = logits.argmax(1), (0.5 + drawn(5, rows, dtype=stream).abs()).contiguous()
    logp, peaks, totals, spread = functions.token_logprobs(logits, action, temperature, entropy=True)
    due, _, _, entropy = softmax_facts(logits, temperature)
    close(logp, due.gather(1, action[:, None]).squeeze(1), stream)
    close(spread, entropy, stream)
    g, h = drawn(1, rows, dtype=stream), drawn(2, rows, dtype=stream)
    for more in (None, h):
        found = logits.clone()
        functions.token_logprobs_backward(found, action, temperature, peaks, totals, spread, g, more)
        close(found, softmax_gradient(logits, action, temperature, g, more), dtype, 4.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("rows", "vocabulary"), [(1, 2), (40, 70), (9, 1100)])
def test_sampling(name: str, rows: int, vocabulary: int) -> None:
    functions = column_for(name, torch.float32).functions()
    logits, draw = logits_of(3, rows, vocabulary, torch.float32), Key.of(8).numpy()
    uniform = torch.from_numpy(draw.random(rows)).to(DEVICE)
    temperature = torch.from_numpy(draw.uniform(0.5, 2.0, rows)).float().to(DEVICE)
    kind = torch.from_numpy(draw.integers(0, 3, rows)).to(DEVICE)
    greedy, forced = kind == 1, torch.where(kind == 2, logits.argmin(1), -1)
    token, logp = functions.draw(logits, uniform, temperature, greedy, forced)
    warm = torch.where(greedy, torch.ones_like(temperature), temperature)
    due, *_ = softmax_facts(logits, warm)
    cumulative = due.exp().cumsum(1)
    clear = (cumulative - uniform[:, None]).abs().min(1).values > 1e-5
    expected = (cumulative < uniform[:, None]).sum(1)
    expected = torch.where(greedy, logits.argmax(1), expected)
    expected = torch.where(forced >= 0, forced, expected)
    assert torch.equal(token[clear], expected[clear])
    chosen = due.gather(1, token[:, None]).squeeze(1)
    finite = chosen.isfinite()
    assert torch.equal(logp.isfinite(), finite)
    close(logp[finite], chosen[finite], torch.float32)


# ---------------------------------------------------------------- the table


def test_a_column_refuses_in_a_sentence() -> None:
    attention_over_a_tree, gate = OPERATIONS[3], OPERATIONS[2]
    compiled, triton, plain = COLUMNS
    assert compiled.refusal(gate, CPU, torch.float16) == "the c++ column has gate in float32, bfloat16, not in float16"
    why = compiled.refusal(attention_over_a_tree, CPU, torch.float32, 24)
    assert why == "the c++ column has attention over a tree for heads of a multiple of 16 numbers up to 512, not of 24"
    assert compiled.refusal(gate, torch.device("cuda"), torch.float32) == "the c++ column computes on cpu, not on cuda"
    why = triton.refusal(attention_over_a_tree, torch.device("cuda"), torch.bfloat16, 64, 71)
    assert why == "the triton column lets 64 query heads share a key head, not 71"
    assert plain.refusal(attention_over_a_tree, torch.device("mps"), torch.bfloat16, 80) is None
    assert column_of(CPU, torch.float64).name == "torch"
    assert column_of(CPU, torch.float32, 24).name == "torch"


def test_every_column_has_every_function() -> None:
    for column in COLUMNS:
        if column.absent(0) is None and (column.name != "triton" or INTERPRETED):
            functions = column.functions()
            assert all(callable(getattr(functions, name)) for operation in OPERATIONS for name in operation.functions)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(INTERPRETED or importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_triton_in_its_interpreter() -> None:
    """The same tests with the column of Triton, whose kernels read the environment when they are imported."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "triton", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout

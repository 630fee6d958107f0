"""Weights sent as what changed: the same to the last bit, in a quarter of the bytes where layers multiply in bf16."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import CONTROL, REWARDS, TEAM, TINY, call, rows, train, weights
from torch import Tensor

from hocket.core.keys import Key
from hocket.distributed.cluster import weight_deltas
from hocket.distributed.cluster.sampler import Sampler, TargetWeights
from hocket.distributed.cluster.sampler_worker import Load
from hocket.distributed.cluster.weight_deltas import (
    Damaged,
    Difference,
    applied,
    difference,
    products_of,
    used,
    weights_for,
)
from hocket.distributed.cluster.weights import PackedWeights, packed, packed_of, put
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies.causal_lm import CausalLM
from hocket.policies.family import Precision
from hocket.train.models import model_path
from hocket.types import Decoding

KINDS = (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8)


def bits_of(weights: PackedWeights) -> bytes:
    return weights.data.tobytes()


PARTS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 40)), max_size=6)


@given(PARTS, st.integers(0, 2**32), st.booleans())
def test_any_bits_become_any_other_bits(parts: list[tuple[torch.dtype, int]], seed: int, near: bool) -> None:
    random = np.random.default_rng(seed)
    layout = [(str(number), (count,), kind) for number, (kind, count) in enumerate(parts)]
    size = sum(kind.itemsize * count for kind, count in parts)
    one, other = (PackedWeights(layout, random.integers(0, 256, size).astype(np.uint8)) for _ in range(2))
    if near:
        other = PackedWeights(layout, np.where(random.random(size) < 0.9, one.data, other.data))
    assert bits_of(applied(one, difference(one, other))) == bits_of(other)


def small(seed: int, size: int = 5000) -> PackedWeights:
    random = np.random.default_rng(seed)
    return packed({"a": torch.from_numpy(random.normal(size=size).astype(np.float32)), "b": torch.ones(3)})


def test_a_chunk_that_comes_damaged_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_deltas, "CHUNK", 2**12)
    one, other = small(1), small(2)
    change = difference(one, other)
    assert len(change.chunks) == 5
    for byte in (0, 1, 5, 100, len(change.chunks[3].data) - 1):
        with pytest.raises(Damaged, match="chunk 4 of 5"):
            applied(one, flipped(change, 3, byte))
    with pytest.raises(Damaged, match="chunk 1 of 5 that is not what its digest says"):
        applied(small(3), change)
    with pytest.raises(Damaged, match="another layout"):
        applied(small(1, 4999), change)
    with pytest.raises(Damaged, match="another layout"):
        applied(one, Difference(change.layout, change.chunks[1:]))


def flipped(change: Difference, number: int, byte: int) -> Difference:
    """A difference with one bit of a chunk turned."""
    data = bytearray(change.chunks[number].data)
    data[byte] ^= 4
    chunks = [replace(one, data=bytes(data)) if n == number else one for n, one in enumerate(change.chunks)]
    return Difference(change.layout, chunks)


# ---------------------------------------------------------------- what is sampled with


def nano(precision: Precision) -> CausalLM:
    return CausalLM.from_pretrained(model_path("nano"), name="policy", precision=precision, key=Key.of(0))


def moved(policy: CausalLM, share: float, seed: int) -> None:
    """Moves every trained weight by about this share of its size."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.module.parameters():
            weight.mul_(1 + share * torch.randn(weight.shape, generator=noise))


def drawn(policy: CausalLM) -> list[tuple[list[int], bytes]]:
    requests = [Request(tuple(range(5, 9 + n)), Decoding(max_tokens=8), Key.of(n)) for n in range(20)]
    return [(list(one.tokens), np.asarray(one.logp).tobytes()) for one in LocalEngine(policy).sample(requests)]


@pytest.mark.parametrize("share", [3e-4, 0.3])
def test_in_bf16_other_weights_give_the_same_samples(share: float) -> None:
    """Products of linear layers are all that bf16 makes of their weights, the norm's before them included."""
    first, there = (nano("bf16") for _ in range(2))
    products = products_of(first)
    assert len(products) == 7 * first.model.config.num_hidden_layers
    assert {scale is None for scale in products.values()} == {True, False}
    for seed in (1, 2):
        before = used(packed_of(there, whole=False), products)
        moved(first, share, seed)
        use = used(packed_of(first, whole=False), products)
        found = weights_for(applied(before, difference(before, use)), products_of(there))
        assert found is not None
        put(there.module, found)
        assert bits_of(used(packed_of(there, whole=False), products)) == bits_of(use)
        assert drawn(there) == drawn(first)
    assert not matrix(there).equal(matrix(first))
    assert products_of(nano("fp32")) == {}


def matrix(policy: CausalLM) -> Tensor:
    found: Tensor = policy.model.model.layers[0].mlp.down_proj.weight
    return found


def test_a_norm_of_zeros_has_no_weights_that_are_easily_found() -> None:
    policy = nano("bf16")
    with torch.no_grad():
        policy.model.model.layers[0].input_layernorm.weight[3] = 0
    assert weights_for(used(packed_of(policy, whole=False), products_of(policy)), products_of(policy)) is None


# ---------------------------------------------------------------- runs

AWAY = ["--cluster", "local", "--samplers", "2"]
CASES: dict[str, tuple[list[str], list[str], list[str]]] = {
    "fp32": (TINY, ["--precision", "fp32"], []),
    "bf16": (TINY, ["--precision", "bf16", "--recipe", "grpo-kl"], ["--verify", "1"]),
    "lora": (TINY, ["--precision", "bf16", "--lora.rank", "2"], []),
    "team": (TINY, [*TEAM, "--recipe", "ppo"], []),
    "late": (TINY, ["--recipe", "grpo-tis", "--lag", "1"], []),
    "shares": (TINY, ["--precision", "bf16", "--leaves", "2"], ["--learners", "2", "--shard", "true"]),
    "control": (CONTROL, ["--recipe", "ppo"], []),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_run_with_differences_is_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny, more, there = CASES[name]
    if name != "control":
        (tmp_path / "mine.py").write_text(REWARDS)
        more = [*more, "--reward", f"{tmp_path}/mine.py:spread"]
    away = [*AWAY, *there]
    train(tmp_path, "one", *more, *(AWAY if name == "late" else []), steps=4, tiny=tiny)
    sent, ask = list[bool](), Sampler.ask

    def noting(sampler: Sampler, message: Any) -> Any:
        if isinstance(message, Load):
            sent.extend(isinstance(one, Difference) for one in message.weights.values())
        return ask(sampler, message)

    monkeypatch.setattr(Sampler, "ask", noting)
    train(tmp_path, "two", *more, *away, "--differences", "true", steps=4, tiny=tiny)
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    assert rows(tmp_path / "one") == rows(tmp_path / "two")
    if name != "control":  # There a step changes nearly all bits, as does the first one of an adapter.
        assert sum(sent) >= 3 * 2
        assert sent.count(False) == (2 * 2 if name in ("team", "lora") else 2)


@pytest.mark.slow
def test_what_came_damaged_or_late_is_sent_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(REWARDS)
    more = ["--reward", f"{tmp_path}/mine.py:spread"]
    train(tmp_path, "one", *more, steps=4)
    sent, ask = list[str](), Sampler.ask

    def disturbed(sampler: Sampler, message: Any) -> Any:
        if isinstance(message, Load):
            changes = {name: one for name, one in message.weights.items() if isinstance(one, Difference)}
            sent.append("differences" if changes else "all")
            if sent.count("differences") == 1 and changes:
                message = replace(message, weights={name: flipped(one, 0, 200) for name, one in changes.items()})
            if sent.count("differences") == 4 and changes:
                sampler.line.close()
        return ask(sampler, message)

    monkeypatch.setattr(Sampler, "ask", disturbed)
    train(tmp_path, "two", *more, *AWAY, "--differences", "true", steps=4)
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    said = (tmp_path / "two" / "messages.txt").read_text()
    assert re.search(r"was sent chunk \d of \d that is .* and took nothing; it is sent all weights", said), said
    assert sent.count("all") == 4  # Two that begin, one whose differences were damaged, one that began late.


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "most"), [("bf16", 0.25), ("fp32", 0.55)])
def test_bytes_of_a_step_at_the_learning_rate_as_shipped(
    precision: str, most: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares, compared = list[float](), TargetWeights._compared

    def noting(goal: TargetWeights, before: Any, after: Any) -> Any:
        found = compared(goal, before, after)
        assert found is not None
        whole = sum(one.data.nbytes for one in goal.trained.values())
        shares.append(sum(one.size for one in found.values()) / whole)
        return found

    monkeypatch.setattr(TargetWeights, "_compared", noting)
    flags = ["--precision", precision, *AWAY, "--differences", "true", "--threads", "1"]
    train(tmp_path, "run", *flags, steps=6, tiny=["--evaluation.n", "4", "--evaluation.between", "2"])
    assert len(shares) == 6
    assert max(shares) <= most, shares


def test_differences_need_samplers(tmp_path: Path) -> None:
    said = call("train", *TINY, "--runs", tmp_path, "--steps", "1", "--differences", "true", "--quiet")
    assert said.code == 2
    assert "add --cluster local --samplers 1" in said.err

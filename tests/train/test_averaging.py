"""Weights of several nodes brought together: the formula, what bits leave out, faults, and `hocket swarm --average`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from tiny_runs import call
from torch import Tensor, nn

from hocket.core.compression import Blocks, Unreadable
from hocket.core.errors import ConfigurationError
from hocket.distributed.swarm.averaging import Averaging, flat, set_flat
from hocket.update.outer import OuterStep

EXACT = Blocks(None)


def policy(width: int = 5, kind: torch.dtype = torch.float64, seed: int = 0) -> Any:
    """Something with weights."""
    module = nn.utils.skip_init(nn.Linear, width, 2, dtype=kind)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for one in module.parameters():
            one.copy_(torch.randn(one.shape, generator=rng, dtype=kind))
    return SimpleNamespace(name="policy", module=module, version=0)


def nodes(count: int = 3, **how: Any) -> dict[str, dict[str, Any]]:
    return {f"node-{number}": {"policy": policy(seed=number, **how)} for number in range(count)}


# ---------------------------------------------------------------- bits


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6), max_size=70),
    st.sampled_from([8, 4]),
    st.sampled_from([2, 16, 64]),
)
def test_what_is_read_is_within_half_a_step_of_what_was_written(values: list[float], bits: Any, block: int) -> None:
    blocks, given = Blocks(bits, block), torch.tensor(values, dtype=torch.float64)
    data = blocks.encoded(given)
    assert len(data) == blocks.size(len(values))
    found = blocks.decoded(data, len(values), torch.float64)
    for start in range(0, len(values), block):
        part = slice(start, start + block)
        largest = float(given[part].abs().max())
        step = largest / (127 if bits == 8 else 7)
        assert float((found[part] - given[part]).abs().max()) <= step / 2 + 1e-6 * largest + 1e-40


def test_without_bits_nothing_changes_and_bad_bytes_are_refused() -> None:
    values = torch.randn(33, generator=torch.Generator().manual_seed(0))
    assert torch.equal(EXACT.decoded(EXACT.encoded(values), 33), values)
    with pytest.raises(Unreadable, match="no finite number"):
        Blocks().encoded(torch.tensor([1.0, float("nan")]))
    with pytest.raises(Unreadable, match="7 bytes where 2 values"):
        Blocks().decoded(b"1234567", 2)
    forged = np.float32("inf").tobytes() + bytes(1024)
    with pytest.raises(Unreadable, match="no finite number"):
        Blocks().decoded(forged, 2)


# ---------------------------------------------------------------- the formula


def test_one_whole_step_at_each_is_the_step_of_all_data_together() -> None:
    """Federated averaging with n_k / n after one full-batch step: equal to gradient descent on everything."""
    rng = torch.Generator().manual_seed(1)
    data = [
        (torch.randn(n, 5, generator=rng, dtype=torch.float64), torch.randint(2, (n,), generator=rng))
        for n in (3, 8, 5)
    ]

    def step(module: nn.Module, inputs: Tensor, labels: Tensor) -> None:
        loss = nn.functional.cross_entropy(module(inputs), labels)
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for one, gradient in zip(module.parameters(), gradients, strict=True):
                one -= 0.3 * gradient

    together = nodes()
    averaging = Averaging(together, blocks=EXACT)
    alone = policy()
    set_flat(alone, averaging.shared.values["policy"])
    for _ in range(10):
        for (name, held), part in zip(together.items(), data, strict=True):
            step(held["policy"].module, *part)
            assert not torch.equal(flat(held["policy"]), averaging.shared.values["policy"]), name
        averaging.exchange({name: len(part[1]) for name, part in zip(together, data, strict=True)})
        step(alone.module, torch.cat([x for x, _ in data]), torch.cat([y for _, y in data]))
    for held in together.values():
        assert float((flat(held["policy"]) - flat(alone)).abs().max()) < 1e-13


def test_the_outer_step_is_nesterovs() -> None:
    weights = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    public = torch.optim.SGD([weights], lr=0.7, momentum=0.9, nesterov=True)
    mine, velocity = weights.detach().clone(), torch.zeros(2, dtype=torch.float64)
    for change in torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64):
        weights.grad = -change
        public.step()
        mine, velocity = OuterStep(0.7, 0.9)(mine, change, velocity)
        assert torch.allclose(mine, weights.detach(), rtol=0, atol=1e-14)


def test_what_the_bits_leave_out_is_told_later() -> None:
    """With error feedback the shared weights and what is left make up everything that all nodes ever changed."""
    together = nodes(2)
    averaging = Averaging(together, blocks=Blocks(4, 4))
    begun, changed = averaging.shared.values["policy"].clone(), torch.zeros(12, dtype=torch.float64)
    rng = torch.Generator().manual_seed(2)
    for _ in range(12):
        for held in together.values():
            change = torch.randn(12, generator=rng, dtype=torch.float64)
            set_flat(held["policy"], flat(held["policy"]) + change)
            changed += change / 2
        averaging.exchange(dict.fromkeys(together, 1))
    left = sum(node.left["policy"] for node in averaging.nodes.values()) / 2
    assert float(left.abs().max()) > 1e-3
    assert torch.allclose(averaging.shared.values["policy"] + left, begun + changed, rtol=0, atol=1e-12)


# ---------------------------------------------------------------- faults


@dataclass
class Network:
    """Does to the first message of `node-1` what it is told."""

    fault: str

    def __call__(self, sender: str, receiver: str, data: bytes) -> Sequence[bytes]:
        told = msgspec.msgpack.decode(data)
        if sender != "node-1" or self.fault == "nothing":
            return (data,)
        changed: Mapping[str, Mapping[str, Any]] = {
            "forged": {"node": "node-0"},
            "late": {"since": "0" * 32},
            "malformed": {"data": {"policy": told["data"]["policy"][:-1]}},
        }
        if self.fault == "lost":
            return ()
        return (data, data) if self.fault == "duplicate" else (msgspec.msgpack.encode(told | changed[self.fault]),)


@pytest.mark.parametrize("fault", ["lost", "forged", "late", "malformed", "duplicate"])
def test_a_change_that_does_not_arrive_is_told_the_next_time(fault: str) -> None:
    together = nodes(2)
    network = Network(fault)
    averaging = Averaging(together, blocks=EXACT, deliver=network)
    begun = averaging.shared.values["policy"].clone()
    for number, held in enumerate(together.values()):
        set_flat(held["policy"], begun + number + 1.0)
    found = averaging.exchange(dict.fromkeys(together, 1))
    there = 1.0 if fault != "duplicate" else 1.5
    assert torch.allclose(averaging.shared.values["policy"], begun + there)
    assert found["average/nodes"] == (1 if fault != "duplicate" else 2)
    assert fault == "lost" or averaging.counts[fault] == 1
    for held in together.values():
        assert torch.equal(flat(held["policy"]), averaging.shared.values["policy"])
    if fault != "duplicate":
        network.fault = "nothing"
        averaging.exchange(dict.fromkeys(together, 1))
        assert torch.allclose(averaging.shared.values["policy"], begun + there + 1.0)


def test_a_node_with_no_numbers_left_takes_the_others_weights() -> None:
    together = nodes(2)
    averaging = Averaging(together)
    begun = averaging.shared.values["policy"].clone()
    set_flat(together["node-0"]["policy"], torch.full((12,), float("nan"), dtype=torch.float64))
    set_flat(together["node-1"]["policy"], begun + 1.0)
    averaging.exchange(dict.fromkeys(together, 1))
    assert averaging.counts["unsendable"] == 1
    assert averaging.counts["malformed"] == 0
    for held in together.values():
        assert torch.allclose(flat(held["policy"]), begun + 1.0, atol=1e-6)
    averaging.exchange(dict.fromkeys(together, 1))
    assert bool(averaging.shared.values["policy"].isfinite().all())


def test_models_of_other_shapes_have_no_mean() -> None:
    with pytest.raises(ConfigurationError, match="node-1 trains other weights than node-0"):
        Averaging({"node-0": {"policy": policy(5)}, "node-1": {"policy": policy(6)}})


# ---------------------------------------------------------------- the command

TINY = ["--task", "sums", "--own", "1", "--steps", "3", "--quiet", "--json"]
TINY += ["--evaluation.n", "4", "--evaluation.between", "2", "--rollout.samples", "2", "--decoding.max_tokens", "8"]


def test_nodes_end_with_the_same_weights(tmp_path: Path) -> None:
    said = call("swarm", "--nodes", "2", *TINY, "--average", "2", "--recipe", "dr-grpo", "--out", tmp_path / "swarm")
    assert said.code == 0, said.err
    told = said.json["averaging"]
    assert told["messages"] == {"received": 4}
    assert told["bytes"] < 4 * (told["weights"] * 1.01)
    held = [load_file(next((tmp_path / "swarm" / name).rglob("model.safetensors"))) for name in ("node-0", "node-1")]
    for name, one in held[0].items():
        assert torch.equal(one, held[1][name]), name


REFUSED = {
    "a step of nobody": (["--outer-lr", "0.7"], "add --average 10"),
    "attackers": (["--average", "2", "--attackers", "1"], "averaging believes what nodes send"),
    "no such step": (["--average", "2", "--outer-momentum", "1"], "momentum in [0, 1)"),
    "no such bits": (["--average", "2", "--compress", "int3"], "compress 'int3' is unknown"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str, tmp_path: Path) -> None:
    more, words = REFUSED[case]
    said = call("swarm", "--nodes", "2", *more, "--out", tmp_path / "swarm")
    assert said.code == 2
    assert words in " ".join(said.err.split())
    assert not (tmp_path / "swarm").exists()

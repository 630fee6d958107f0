"""Threads and precision are chosen by what was measured, recorded, and found again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.train import machine as room
from hocket.train.machine import Machine, MachineChange
from hocket.train.memory import MemoryPlan
from hocket.train.models import configured_models
from hocket.train.probe import LayerShapes, ProductRate, measure
from hocket.train.settings import Config

QWEN = SimpleNamespace(model_type="qwen3", hidden_size=64, num_attention_heads=2, intermediate_size=96)
GPT2 = SimpleNamespace(model_type="gpt2", hidden_size=64, num_attention_heads=2)
Pretend = Callable[..., None]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """A machine of so many cores, of which others take a share, with so long probes by precision and threads."""

    def made(cores: int = 2, others: float = 0.0, *, half: bool = True, **seconds: float) -> None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setattr(room, "available_cores", lambda: cores)
        monkeypatch.setattr(room, "has_bf16", lambda device: half)
        monkeypatch.setattr(room, "CoreWatch", lambda: SimpleNamespace(others=lambda: others))
        asked: list[str] = []

        def probed(shapes: LayerShapes, precision: str, threads: int, device: torch.device) -> ProductRate:
            asked.append(f"{precision}_{threads}")
            taken = seconds[asked[-1]]
            return ProductRate(taken, 10 * taken, 1e9, 1e9)

        monkeypatch.setattr(room, "measure", probed)

    return made


@pytest.mark.parametrize(
    ("cores", "others", "seconds", "threads", "why"),
    [
        (2, 0.02, {"fp32_1": 1.0, "fp32_2": 0.55}, 2, "the cores are quiet, and 2 threads take 55% of the time of 1"),
        (2, 0.02, {"fp32_1": 1.0, "fp32_2": 0.9}, 1, "2 threads take 90% of the time of 1, not 75% or less"),
        (2, 0.4, {"fp32_1": 1.0}, 1, "other programs take 40% of the 2 cores"),
        (8, 0.3, {"fp32_1": 1.0, "fp32_2": 0.5, "fp32_4": 0.3}, 4, "other programs take 30% of the 8 cores"),
        (4, 0.0, {"fp32_1": 1.0, "fp32_2": 0.5, "fp32_4": 0.45}, 2, "4 threads take 90% of the time of 2"),
        (6, 0.0, {"fp32_1": 1.0, "fp32_2": 0.5, "fp32_4": 0.3}, 4, "4 threads take 60% of the time of 2"),
        (1, 0.0, {}, 1, "there is one core"),
    ],
)
def test_threads(
    pretend: Pretend, cores: int, others: float, seconds: dict[str, float], threads: int, why: str
) -> None:
    pretend(cores, others, **seconds)
    chosen = Machine.chosen(Config(precision="fp32"), [QWEN])
    assert chosen.threads == threads
    assert why in chosen.why["threads"]
    assert why in chosen.briefly
    assert set(chosen.rates) == {name.replace("_", ", ") for name in seconds}


def test_threads_that_were_chosen_beforehand(pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(8)  # Without a probe.
    assert Machine.chosen(Config(threads=3), [QWEN]).threads == 3
    assert Machine.chosen(Config(), []).threads == 1
    assert Machine.chosen(Config(), [QWEN], torch.device("cuda")).threads == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert Machine.chosen(Config(), [QWEN]).threads == 5
    assert Machine.chosen(Config(threads=3), [QWEN]).threads == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "no number")
    assert room.environment_threads() is None


def test_bf16_wherever_it_can_be_and_never_by_a_clock(pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(1)
    monkeypatch.setattr(room.kernels, "reason", lambda head: None)
    chosen = Machine.chosen(Config(threads=1), [QWEN])
    assert chosen.precision == "bf16"
    assert chosen.rates == {}
    monkeypatch.setattr(room.kernels, "reason", lambda head: "no C++ compiler found; install g++")
    chosen = Machine.chosen(Config(threads=1), [QWEN])
    assert chosen.precision == "fp32"
    assert "install g++" in chosen.why["precision"]


def test_where_bf16_is_not_for(pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(1, half=False)
    monkeypatch.setattr(room.kernels, "reason", lambda head: None)
    one = {"threads": 1}
    assert "instructions" in Machine.chosen(Config(**one), [QWEN]).why["precision"]
    assert "gpt2 model" in Machine.chosen(Config(**one), [QWEN, GPT2]).why["precision"]
    unknown = SimpleNamespace(**vars(QWEN) | {"rope_parameters": {"rope_type": "new"}, "max_position_embeddings": 64})
    assert f"{QWEN.model_type} model" in Machine.chosen(Config(**one), [unknown]).why["precision"]
    assert Machine.chosen(Config(**one), []).precision == "fp32"
    # Asked for, it is given; whether a model can is the policy's to say.
    assert Machine.chosen(Config(**one, precision="bf16"), [QWEN]).precision == "bf16"


def test_a_precision_the_model_lacks_is_refused(tmp_path: Path) -> None:
    from hocket.run import Trainer
    from hocket.tasks import find
    from hocket.train.config import configure

    with pytest.raises(ConfigurationError, match="precision"):
        configure([("precision", "fp16")], find("sums"))
    config = configure([("precision", "bf16"), ("threads", 1), ("runs", str(tmp_path))], find("sums"))
    trainer = Trainer(config)
    assert trainer.parts.lead.policy.precision == "bf16"
    assert json.loads((trainer.folder.machine).read_text())["precision"] == "bf16"
    trainer.folder.release()


changes = st.builds(
    MachineChange,
    step=st.integers(1, 20),
    why=st.just("because"),
    threads=st.none() | st.integers(1, 8),
    token_budget=st.none() | st.integers(256, 9999),
    checkpointing=st.none() | st.booleans(),
)


@given(changes=st.lists(changes, max_size=5), step=st.integers(0, 25))
def test_changes_hold_from_their_step_on(changes: list[MachineChange], step: int) -> None:
    machine = Machine(4, "bf16", memory=MemoryPlan(None, False, "there is plenty", {"free_gib": 1.5}))
    for change in changes:
        machine = machine.changed(change)
    past = sorted((change for change in changes if change.step <= step), key=lambda change: change.step)

    def last(name: str, first: object) -> object:
        return next((getattr(one, name) for one in reversed(past) if getattr(one, name) is not None), first)

    now = machine.at(step)
    assert now.threads == last("threads", 4)
    assert now.memory.token_budget == last("token_budget", None)
    assert now.memory.checkpointing == last("checkpointing", False)


@given(changes=st.lists(changes, max_size=5))
def test_what_was_recorded_is_found_again(
    tmp_path_factory: pytest.TempPathFactory, changes: list[MachineChange]
) -> None:
    machine = Machine(2, "bf16", why={"threads": "set by threads"}, rates={"fp32, 1": {"decode": 1.5, "train": 2.0}})
    for change in changes:
        machine = machine.changed(change)
    file = tmp_path_factory.mktemp("run") / "machine.json"
    file.write_text(json.dumps(machine.to_json()))
    assert Machine.recorded(file) == machine


def test_runs_of_before_are_read(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_text('{"threads": 2, "seconds": {"1": 0.1}, "precision": "float32", "compiled": false, "cores": 2}')
    assert Machine.recorded(file) == Machine(2)


def test_applied_to_policies() -> None:
    before = torch.get_num_threads()
    policy = SimpleNamespace(token_budget=16_384, checkpointing=False)
    machine = Machine(1).changed(MachineChange(3, "memory ran out", token_budget=4096, checkpointing=True))
    machine.apply([policy, SimpleNamespace()], step=2)
    assert (policy.token_budget, policy.checkpointing) == (16_384, False)
    machine.apply([policy], step=3)
    assert (policy.token_budget, policy.checkpointing) == (4096, True)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)


def test_the_shipped_model_is_measured() -> None:
    (config,) = configured_models(Config())
    shapes = LayerShapes.of(config)
    assert shapes.matrices == ((128, 256), (128, 128), (128, 768), (384, 128))
    rate = measure(shapes, "fp32", 1, torch.device("cpu"))
    assert rate.against(rate) == 1
    assert all(value > 0.01 for value in rate.to_json().values())
    huge = LayerShapes.of(SimpleNamespace(hidden_size=8192, num_attention_heads=64, intermediate_size=28_672))
    assert huge.decode_rows == huge.train_rows == 32

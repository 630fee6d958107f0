"""What the learner may hold is chosen by what a pass really takes, and only where memory is short."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_models

from hocket import tasks
from hocket.core.keys import Key
from hocket.policies.causal_lm import CausalLM
from hocket.policies.lora import add_adapter
from hocket.policies.sequences import TOKEN_BUDGET
from hocket.policies.settings import LoraSettings
from hocket.train import cores, memory
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.memory import Cost, MemoryPlan
from hocket.train.settings import Config, MemorySettings

CPU = torch.device("cpu")
AUTO = MemorySettings()


def nano() -> CausalLM:
    from hocket.nano import BASE

    return CausalLM.from_pretrained(BASE, key=Key.of(0))


def plan(policy: CausalLM, told: MemorySettings = AUTO, *, length: int = 100) -> MemoryPlan:
    return memory.plan_memory(policy, told, held=0.0, longest=lambda: length, responses=20)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch):
    """Pretends that so many bytes are free, and that a pass costs so much with and without checkpointing."""

    def made(room: float | None, held: Cost | None = None, again: Cost | None = None) -> None:
        monkeypatch.setattr(memory, "available_memory", lambda device: room)
        costs = {False: held, True: again}
        monkeypatch.setattr(memory, "measured_cost", lambda *_, checkpointing: costs[checkpointing])

    return made


@pytest.mark.parametrize(("adapted", "large", "due"), [(True, True, 2), (True, False, 0), (False, True, 0)])
def test_blocks_go_back_where_an_adapter_is_around_a_large_model(adapted, large, due, monkeypatch) -> None:
    calls: list[tuple[int, int]] = []
    library = SimpleNamespace(mallopt=lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(memory, "WORTH", 1 if large else 10**9)
    model = tiny_models.model("qwen3", 40)
    if adapted:
        add_adapter(model, LoraSettings(rank=2), Key.of(0))
    policy = CausalLM(model, tiny_models.tokenizer())
    memory.return_large_blocks([SimpleNamespace(policy=policy), SimpleNamespace(policy=object())])
    assert len(calls) == due
    assert dict(calls).get(memory.M_MMAP_THRESHOLD, memory.LARGE) == memory.LARGE


# ---------------------------------------------------------------- decisions


def test_plenty_is_not_measured(free) -> None:
    policy = tiny_models.policy()
    free(1e12)  # Measuring would find no cost to work with.
    found = plan(policy)
    assert (found.token_budget, found.checkpointing, found.why) == (policy.token_budget, False, "there is plenty")


def test_short_memory_is_measured(free) -> None:
    policy = tiny_models.policy()
    free(1e8, Cost(1e6, 20_000.0))
    found = plan(policy)
    assert found.token_budget == (0.8 * 1e8 - 1e6) // 20_000 // 256 * 256
    assert not found.checkpointing
    assert "20 KiB a token" in found.why


def test_checkpointing_where_a_long_sequence_would_not_fit(free) -> None:
    policy = tiny_models.policy()
    free(1e8, Cost(1e6, 1e6), Cost(1e6, 40_000.0))
    found = plan(policy, length=200)
    assert (found.token_budget, found.checkpointing) == (1792, True)
    found = plan(policy, MemorySettings(checkpointing=False), length=200)
    assert (found.token_budget, found.checkpointing) == (256, False)
    assert "short for sequences of 200 tokens" in found.why
    assert "memory is short for sequences of 200 tokens" in found.warning
    fits = int(found.warning.split(": ")[1].split()[0])
    assert memory._cost_of(1, fits) <= (0.8 * 1e8 - 1e6) / 1e6 < memory._cost_of(1, fits + 2)


def test_what_is_set_is_taken(free) -> None:
    policy = tiny_models.policy()
    free(1e3, Cost(1e6, 1e6), Cost(1e6, 1e6))
    assert plan(policy, MemorySettings(token_budget=777)).token_budget == 777
    assert plan(policy, MemorySettings(token_budget=777, checkpointing=True)).checkpointing
    free(None)
    assert plan(policy).token_budget == policy.token_budget
    free(1e3)  # Too little, and no way to see how much a pass takes.
    found = plan(policy)
    assert found.token_budget == policy.token_budget
    assert "cannot be measured" in found.why


@given(fixed=st.floats(0, 1e9), per_token=st.floats(1, 1e6), room=st.floats(0, 1e12))
def test_a_budget_fits(fixed: float, per_token: float, room: float) -> None:
    budget = Cost(fixed, per_token).budget(room)
    assert budget >= 0
    assert budget % 256 == 0
    assert budget == 0 or fixed + per_token * budget <= room * (1 + 1e-9)
    assert fixed + per_token * (budget + 256) > room * (1 - 1e-9)


# ---------------------------------------------------------------- what is measured


def test_a_peak_is_seen() -> None:
    size = 2**26

    def work() -> None:
        held = torch.zeros(size // 4).add_(1)
        del held

    for _ in range(2):  # Freed memory is seen again.
        found = memory.peak_of(work, CPU)
        assert found is not None
        assert 0.95 * size < found < 1.3 * size


@pytest.mark.parametrize("length", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_a_real_pass_takes_what_was_measured_and_no_more_than_the_bound(length: int) -> None:
    policy = nano()
    before = {name: weight.clone() for name, weight in policy.module.named_parameters()}
    budget = policy.token_budget
    cost = memory.measured_cost(policy, length, 30, checkpointing=False)
    assert cost is not None
    assert policy.token_budget == budget
    assert all(weight.equal(before[name]) for name, weight in policy.module.named_parameters())
    assert all(weight.grad is None for weight in policy.module.parameters())
    rows = 4000 // length
    policy.token_budget = float("inf")
    taken = memory.peak_of(lambda: memory._pass(policy, rows, length, 30), CPU)
    tokens = memory._cost_of(rows, length)
    assert taken is not None
    assert taken == pytest.approx(cost.fixed + cost.per_token * tokens, rel=0.25)
    gradients = memory.held_bytes(policy, references=0, policies=1, rows=0, length=0)
    assert taken <= memory.bound_bytes(policy, tokens) + gradients


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=pytest.mark.slow) for kind in ("gpt2", "gemma2")), "llama"]
)
@settings(max_examples=5, deadline=None)
@given(rows=st.integers(1, 12), length=st.integers(4, 250))
def test_the_bound_holds_for_any_architecture(kind: str, rows: int, length: int) -> None:
    policy = tiny_models.policy(kind)
    tokens = memory._cost_of(rows, length)
    taken = memory.peak_of(lambda: memory._pass(policy, rows, length, length // 2), CPU)
    assert taken is not None
    assert taken <= memory.bound_bytes(policy, tokens)


def test_what_a_run_holds_counts() -> None:
    policy = tiny_models.policy()
    weights = sum(weight.numel() for weight in policy.module.parameters())
    none = {"references": 0, "policies": 0, "rows": 0, "length": 0}
    assert memory.held_bytes(policy, **none) == 0
    assert memory.held_bytes(policy, **{**none, "references": 1}) == 4 * weights
    assert memory.held_bytes(policy, **{**none, "policies": 1}) == 12 * weights
    # Two layers of two heads of 16 numbers, keys and values.
    assert memory.held_bytes(policy, **{**none, "rows": 3, "length": 5}) == 4 * 2 * 3 * 5 * 2 * 2 * 16


def test_rows_of_one_turn_are_no_longer_than_their_prompts_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    monkeypatch.setattr(memory, "held_bytes", lambda policy, *, length, **_: held.append(length) or 0.0)
    task = tasks.find("sums")
    config = configure([("threads", 1), ("decoding.max_tokens", 24)], task)
    learners = build_parts(config, task).learners.values()
    memory.planned(config, task, learners, several_turns=False)
    memory.planned(config, task, learners, several_turns=True)
    assert 24 < held[0] < 200
    assert held[1] == 1024  # Of a model that reads 8,192 tokens, the whole context would crowd out the learner.


def test_a_run_is_planned_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, int] = {}

    def cost(policy: CausalLM, length: int, responses: int, *, checkpointing: bool) -> Cost:
        asked.update(length=length, responses=responses)
        return Cost(0.0, 30_000.0)

    task = tasks.find("sums")
    config = configure([("recipe", "grpo-kl"), ("threads", 1), ("decoding.max_tokens", 24)], task)
    learners = build_parts(config, task).learners.values()
    assert memory.planned(config, task, learners, several_turns=False).why == "there is plenty"
    monkeypatch.setattr(memory, "measured_cost", cost)
    monkeypatch.setattr(memory, "available_memory", lambda device: 2**28)
    found = memory.planned(config, task, learners, several_turns=False)
    assert 24 < asked["length"] < 200
    assert asked["responses"] == 24
    assert found.token_budget is not None
    assert found.token_budget < TOKEN_BUDGET
    memory.planned(config, task, learners, several_turns=True)
    assert asked["length"] == 1024  # The context of the shipped model.
    assert memory.planned(Config(), task, [], several_turns=False) == MemoryPlan(why="a small network")


# ---------------------------------------------------------------- what there is


def test_the_least_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(cores, "PROC", tmp_path / "proc")
    monkeypatch.setattr(cores, "CGROUPS", tmp_path / "cgroup")
    files = {
        "proc/meminfo": "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n",
        "proc/self/cgroup": "4:memory:/job\n0::/pod/job\n",
        "cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712\n",
        "cgroup/memory/job/memory.usage_in_bytes": "500000000\n",
        "cgroup/memory/job/memory.stat": "cache 5\ntotal_inactive_file 1000\n",
        "cgroup/pod/memory.max": "3000000000\n",
        "cgroup/pod/memory.current": "1000000000\n",
        "cgroup/pod/memory.stat": "anon 7\ninactive_file 250000000\n",
        "cgroup/pod/job/memory.max": "max\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory.available_memory(CPU) == 2_250_000_000
    (tmp_path / "cgroup/pod/memory.max").write_text("max\n")
    assert memory.available_memory(CPU) == 8_000_000 * 1024
    (tmp_path / "proc/meminfo").unlink()
    (tmp_path / "proc/self/cgroup").unlink()
    found = memory.available_memory(CPU)
    assert found is not None  # Part of what is built in.
    monkeypatch.setattr(memory.os, "sysconf_names", {})
    assert memory.available_memory(CPU) is None
    assert memory.peak_of(lambda: None, CPU) is None


def test_this_machine_has_memory() -> None:
    assert isinstance(ctypes.CDLL(None), ctypes.CDLL)
    assert (memory.available_memory(CPU) or 0) > 2**20


def test_tokens_far_into_a_sequence_cost_no_more_where_no_scores_are_held(free) -> None:
    policy, cost = tiny_models.policy(), Cost(0.0, 1000.0, length=512)
    assert cost.row(512) == memory._cost_of(1, 512)
    assert cost.row(5120) == 10 * cost.row(512)
    assert cost.longest(1000 * cost.row(5120)) == 5120
    assert cost.longest(1000 * cost.row(300)) in (299, 300)
    free(1000 * cost.row(5120) / 0.8 * 1.01, cost)
    found = plan(policy, length=5000)
    assert (found.checkpointing, found.warning) == (False, "")
    free(1000 * cost.row(5120) / 0.8, cost, cost)
    assert ": 5120 fit" in plan(policy, length=7000).warning


@pytest.mark.parametrize(("kind", "ways"), [("cpu", [False, True]), ("cuda", [False, True, "host"])])
def test_checkpoints_go_to_the_host_last_and_from_an_accelerator_alone(kind, ways, free, monkeypatch) -> None:
    policy, tried = tiny_models.policy(), []

    def cost(*_, checkpointing):
        tried.append(checkpointing)
        return Cost(1e6, 40_000.0 if checkpointing == "host" else 1e6)

    free(1e8)
    monkeypatch.setattr(memory, "measured_cost", cost)
    monkeypatch.setattr(type(policy), "device", property(lambda self: torch.device(kind)))
    found = plan(policy, length=200)
    assert tried == ways
    assert found.checkpointing == ways[-1]
    assert found.why.count("checkpoint") == 1
    assert bool(found.warning) == (kind == "cpu")

"""Runs on a CUDA device, through the command line. Where there is none, all of this is skipped."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load
from tiny_runs import REWARDS, TINY, last_checkpoint, rows, train, weights

from hocket.distributed.cluster import ranks
from hocket.distributed.cluster.ranks import RankProcess

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

ON = ["--device", "cuda"]
FP32 = ["--precision", "fp32"]
OWN = [*TINY[:4], *TINY[6:]]
"""For rollouts that have no number of samples to set."""

CASES: dict[str, list[str]] = {
    "grpo": [],
    "grpo-fp32": FP32,
    "grpo-kl": ["--recipe", "grpo-kl", "--update.epochs", "2", "--update.minibatches", "2"],
    "dapo": ["--recipe", "dapo"],
    "ppo": ["--recipe", "ppo", "--rollout.samples", "2", "--update.epochs", "2"],
    "trpo": ["--recipe", "trpo"],
    "gvpo": ["--recipe", "gvpo"],
    "sdpo": ["--recipe", "sdpo"],
    "lora": ["--recipe", "grpo-kl", "--lora.rank", "2"],
    "sft": ["--recipe", "sft"],
    "online-dpo": ["--recipe", "online-dpo"],
    "reward-model": ["--recipe", "reward-model"],
    "replays": ["--recipe", "repo-replay", "--curriculum.pool", "2", "--rollout.samples", "3"],
    "leaves": ["--leaves", "2"],
    "overlap": ["--overlap", "1"],
    "tools": ["--task", "calculator", "--decoding.max_tokens", "24"],
    "team": ["--workflow", "planner-worker", "--roles.planner.policy", "planner", "--roles.worker.policy", "worker"],
    "judge": ["--recipe", "qwen3-korean", "--judge", "nano"],
    "tree": ["--recipe", "tree-grpo"],
}
"""What passes through code that places tensors: engines, reference models, value heads, scorers, packed trees."""

UNSAMPLED = ("reward-model", "sdpo", "tree")


@pytest.fixture(scope="module")
def reward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rewards") / "mine.py"
    file.write_text(REWARDS)
    return file


def named(run: Path) -> dict[str, torch.Tensor]:
    """All weights of the last checkpoint."""
    found: dict[str, torch.Tensor] = {}
    for place, data in weights(run).items():
        found |= {f"{place}:{name}": tensor for name, tensor in load(data).items()}
    return found


def last(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    return found


# Seen on a device's machine: its search by words moves Python's global generator there, as it does not elsewhere.
DRAWING = {"tree": [pytest.mark.global_rng]}


@pytest.mark.parametrize("name", [pytest.param(name, marks=DRAWING.get(name, ())) for name in CASES])
def test_a_run_goes_to_its_end(name: str, tmp_path: Path) -> None:
    train(tmp_path, "run", *CASES[name], *ON, steps=2, tiny=OWN if name in UNSAMPLED else TINY)
    assert last(tmp_path / "run")["memory/accelerator"] > 0
    assert all(bool(torch.isfinite(tensor).all()) for tensor in named(tmp_path / "run").values())


@pytest.mark.parametrize(("precision", "bound"), [("fp32", 1e-4), ("bf16", 0.2)])
def test_sampler_and_learner_agree(precision: str, bound: float, tmp_path: Path, reward: Path) -> None:
    train(tmp_path, "run", *ON, "--precision", precision, "--reward", f"{reward}:spread", steps=3)
    assert last(tmp_path / "run")["agreement/largest"] < bound


def test_in_fp32_a_step_is_that_of_the_processor(tmp_path: Path, reward: Path) -> None:
    more = [*FP32, "--reward", f"{reward}:spread", "--update.lr", "1e-3"]
    for device in ("cpu", "cuda"):
        train(tmp_path, device, *more, "--device", device, steps=1)
    here, there = named(tmp_path / "cpu"), named(tmp_path / "cuda")
    assert here.keys() == there.keys()
    start = named_start(tmp_path)
    moved = sum(float((here[name] - start[name]).double().norm() ** 2) for name in here) ** 0.5
    apart = sum(float((here[name] - there[name]).double().norm() ** 2) for name in here) ** 0.5
    assert moved > 0
    assert apart < 0.02 * moved, "Adam's first step is a sign, so tiny gradients may differ"


def named_start(folder: Path) -> dict[str, torch.Tensor]:
    """The weights that a run begins with: one step at a rate of nothing."""
    train(folder, "start", *FP32, "--device", "cpu", "--update.lr", "1e-30", steps=1)
    return named(folder / "start")


def test_the_same_command_gives_the_same_weights(tmp_path: Path, reward: Path) -> None:
    more = [*ON, "--reward", f"{reward}:spread", "--update.lr", "1e-3"]
    for run in ("one", "two"):
        train(tmp_path, run, *more, steps=4)
    assert rows(tmp_path / "one") == rows(tmp_path / "two")
    assert weights(tmp_path / "one") == weights(tmp_path / "two")


def test_what_was_trained_there_is_read_where_there_is_none(tmp_path: Path, reward: Path) -> None:
    train(tmp_path, "run", *ON, "--reward", f"{reward}:spread", steps=2)
    train(tmp_path, "next", "--model", last_checkpoint(tmp_path / "run") / "policy", "--device", "cpu", steps=1)
    assert last(tmp_path / "next")["step"] == 1


TOGETHER = ["--leaves", "4", "--cluster", "local"]
"""Several processes. What they exchange goes by way of the host where they have one device, which NCCL refuses."""

GROUPS: dict[str, tuple[list[str], list[str]]] = {
    "two": ([], ["--learners", "2"]),
    "four": ([], ["--learners", "4"]),
    "fp32": (FP32, ["--learners", "2"]),
    "shares": ([], ["--learners", "2", "--shard", "true"]),
    "lora": (["--lora.rank", "2"], ["--learners", "2"]),
    "ppo": (CASES["ppo"], ["--learners", "2"]),
    "team": (CASES["team"], ["--roles.planner.learners", "1", "--roles.worker.learners", "2"]),
}


@pytest.mark.parametrize("name", GROUPS)
def test_several_learners_learn_what_one_learns(name: str, tmp_path: Path, reward: Path) -> None:
    more, learners = GROUPS[name]
    more = [*more, *ON, "--reward", f"{reward}:spread", "--update.lr", "1e-3"]
    train(tmp_path, "one", *more, "--leaves", "4", steps=2)
    train(tmp_path, "more", *more, *TOGETHER, *learners, steps=2)
    assert weights(tmp_path / "one") == weights(tmp_path / "more")
    assert rows(tmp_path / "one") == rows(tmp_path / "more")


@pytest.mark.parametrize("shard", ["false", "true"])
def test_learners_that_nccl_joins_learn_the_same(
    shard: str, tmp_path: Path, reward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # NCCL wants a device for each rank, and takes the same one for two if their hosts have other names.
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['NCCL_HOSTID'] = str(os.getpid())\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("NCCL_HOSTID", "first")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "lo")
    joins: list[RankProcess] = []
    monkeypatch.setattr(
        ranks, "RankProcess", lambda *given, **named: joins.append(RankProcess(*given, **named)) or joins[-1]
    )
    more = [*ON, "--reward", f"{reward}:spread", "--update.lr", "1e-3"]
    train(tmp_path, "one", *more, "--leaves", "4", steps=2)
    train(tmp_path, "nccl", *more, *TOGETHER, "--learners", "2", "--shard", shard, steps=2)
    assert joins[-1].direct
    assert weights(tmp_path / "one") == weights(tmp_path / "nccl")
    assert rows(tmp_path / "one") == rows(tmp_path / "nccl")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_samplers_agree_with_the_learner(precision: str, tmp_path: Path, reward: Path) -> None:
    more = [*ON, "--precision", precision, "--reward", f"{reward}:spread", "--cluster", "local"]
    train(tmp_path, "run", *more, "--samplers", "2", steps=3)
    assert last(tmp_path / "run")["agreement/largest"] < {"fp32": 1e-4, "bf16": 0.2}[precision]

"""Roles with adapters of their own in one run: one base in memory, one batch, and the numbers of policies apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import TINY, assert_same, call, last_checkpoint, resume, rows, train, weights

from hocket import tasks
from hocket.apps.cli.parser import split_settings
from hocket.engine.scheduler import Scheduler
from hocket.nano import BASE
from hocket.policies.loading import read_model
from hocket.policies.lora import is_adapters
from hocket.policies.shared_base import SharedBaseCache
from hocket.train import engines
from hocket.train.config import configure
from hocket.train.trainer import Trainer

FLOW = """
from hocket.agents.workflows import Outcome, Workflow


class Pair(Workflow):
    roles = ("planner", "worker")

    async def play(self, scenario, team):
        plan = await team.planner(scenario.prompt)
        answer = await team.worker([scenario.prompt, plan])
        return Outcome(answer=str(answer), rewards={"team": float(sum(map(ord, str(plan) + str(answer))) % 7)})


class Both(Pair):
    async def play(self, scenario, team):
        import asyncio

        plan, answer = await asyncio.gather(team.planner(scenario.prompt), team.worker(scenario.prompt))
        return Outcome(answer=str(answer), rewards={"team": float(sum(map(ord, str(plan) + str(answer))) % 7)})
"""
ADAPTED = ["--lora.rank", "2", "--update.lr", "1e-2", "--recipe", "grpo-kl"]
BOTH = [*ADAPTED, "--roles.planner.policy", "planner", "--roles.worker.policy", "worker"]
PLAN = "plan:\n  - {recipe: grpo, steps: 2}\n  - {recipe: grpo-kl, steps: 2}\n"


@pytest.fixture
def flow(tmp_path: Path) -> str:
    (tmp_path / "flow.py").write_text(FLOW)
    return f"{tmp_path / 'flow.py'}:Both"


def trainer(runs: Path, name: str, *more: str) -> Trainer:
    words = [*TINY, *more, "--runs", str(runs), "--run", name]
    task = tasks.find("sums")
    return Trainer(configure(split_settings(words, set())[1], task), task=task)


def parameters(made: Trainer) -> dict[str, dict[str, torch.nn.Parameter]]:
    return {name: dict(learner.policy.module.named_parameters()) for name, learner in made.parts.learners.items()}


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_a_run_equals_one_whose_policies_are_apart(
    precision: str, tmp_path: Path, flow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--workflow", flow, *BOTH, "--precision", precision]
    batches: list[set[int]] = []
    real = Scheduler.step

    def watched(self: Scheduler) -> list[int]:
        batches.append({owner for _, owner in self._asked_of.values()})
        return real(self)

    monkeypatch.setattr(Scheduler, "step", watched)
    train(tmp_path, "together", *flags, steps=3)
    # Requests of both policies are in the one batch, until the last of one's has ended.
    assert {0, 1} in batches
    assert sum(batch == {0, 1} for batch in batches) > len(batches) / 2
    batches.clear()
    monkeypatch.setattr(engines, "batch_together", lambda one, other: False)
    monkeypatch.setattr(SharedBaseCache, "model", lambda self, where, dtype, weights: read_model(where, dtype))
    train(tmp_path, "apart", *flags, steps=3)
    assert all(len(batch) == 1 for batch in batches)
    assert_same(tmp_path / "together", tmp_path / "apart")
    found = rows(tmp_path / "together")
    for row in found[1:]:
        assert row["planner/agreement/largest"] == row["worker/agreement/largest"] == 0
    assert found[3]["worker/kl/reference"] > 0
    adapters = {name: data for name, data in weights(tmp_path / "together").items() if "adapter/" in name}
    assert len(adapters) == len(set(adapters.values())) == 2
    episodes = max((tmp_path / "together" / "rollouts").glob("*.jsonl")).read_text().splitlines()
    assert {turn["policy"] for turn in json.loads(episodes[0])["turns"]} == {"planner", "worker"}


def test_the_base_is_in_memory_once(tmp_path: Path, flow: str) -> None:
    made = trainer(tmp_path, "run", "--workflow", flow, *BOTH)
    found = parameters(made)
    places = [{p.data_ptr() for n, p in own.items() if not is_adapters(n)} for own in found.values()]
    adapters = [{p.data_ptr() for n, p in own.items() if is_adapters(n)} for own in found.values()]
    assert places[0] == places[1]
    assert adapters[0]
    assert not adapters[0] & adapters[1]
    references = [learner.reference.module for learner in made.parts.learners.values() if learner.reference is not None]
    everything = {
        id(p): p for own in (*found.values(), *(dict(r.named_parameters()) for r in references)) for p in own.values()
    }
    base = sum(tensor.numel() for tensor in load_file(BASE / "model.safetensors").values())
    own = [sum(p.numel() for n, p in parts.items() if is_adapters(n)) for parts in found.values()]
    assert len(references) == 2
    assert sum(p.numel() for p in everything.values()) == base + sum(own)
    made.folder.release()


@pytest.mark.parametrize("way", ["frozen", "idle"])
def test_training_one_adapter_leaves_everything_else(way: str, tmp_path: Path, flow: str) -> None:
    frozen = ["--roles.worker.frozen", "true"] if way == "frozen" else []
    made = trainer(tmp_path, "run", "--workflow", flow, *BOTH, *frozen)
    before = {who: {n: p.detach().clone() for n, p in own.items()} for who, own in parameters(made).items()}
    if way == "idle":
        made.parts.learners["worker"].frozen = True
    for _ in range(3):
        made.step()
    after = parameters(made)
    worker = made.parts.learners["worker"].policy
    assert worker.adapted is (way == "idle")  # type: ignore[attr-defined]
    assert all(torch.equal(p, before["worker"][n]) for n, p in after["worker"].items())
    changed = {n for n, p in after["planner"].items() if not torch.equal(p, before["planner"][n])}
    assert changed
    assert all(is_adapters(n) for n in changed)
    folder = tmp_path / "saved"
    worker.save(folder)
    base = load_file(BASE / "model.safetensors")
    saved = load_file(folder / "model.safetensors")
    assert saved.keys() == base.keys()
    assert all(torch.equal(saved[name], base[name]) for name in base)
    made.folder.release()


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([], id="both"),
        pytest.param(["--roles.worker.frozen", "true"], id="frozen"),
        pytest.param(["--overlap", "1"], id="overlap"),
    ],
)
@pytest.mark.slow
def test_a_team_of_adapters_resumes_to_equal_numbers(more: list[str], tmp_path: Path, flow: str) -> None:
    from one_process import one_process

    flags = ["--workflow", flow, *BOTH, *more]
    with one_process():
        train(tmp_path, "whole", *flags, steps=3)
        train(tmp_path, "parts", *flags, steps=2)
        resume(tmp_path, "parts", "--steps", "3")
    assert rows(tmp_path / "whole")[3] == rows(tmp_path / "parts")[3]
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")


@pytest.mark.slow
def test_a_reference_with_its_adapter_off_comes_back(tmp_path: Path, flow: str) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    flags = ["--workflow", flow, "--lora.rank", "2", "--update.lr", "1e-2", "--quiet", "--runs", str(tmp_path)]
    flags += ["--roles.planner.policy", "planner", "--roles.worker.policy", "worker", *TINY]
    said = call("train", tmp_path / "plan.yaml", *flags, "--run", "run")
    assert said.code == 0, said.err
    base, kept = load_file(BASE / "model.safetensors"), last_checkpoint(tmp_path / "run") / "policy-planner-reference"
    assert not (kept / "adapter").exists()
    assert all(torch.equal(value, base[name]) for name, value in load_file(kept / "model.safetensors").items())
    resume(tmp_path, "run", "--steps", "5")
    assert rows(tmp_path / "run")[5]["planner/kl/reference"] > 0


def test_a_saved_adapter_is_read_by_peft(tmp_path: Path, flow: str) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    train(tmp_path, "run", "--workflow", flow, *BOTH, steps=2)
    ids = torch.arange(20)[None]
    for name in ("planner", "worker"):
        folder = last_checkpoint(tmp_path / "run") / f"policy-{name}"
        base = AutoModelForCausalLM.from_pretrained(str(BASE), dtype=torch.float32)
        with torch.random.fork_rng():  # peft draws weights before it reads them
            wrapped = PeftModel.from_pretrained(base, str(folder / "adapter")).eval()
        merged = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
        with torch.no_grad():
            torch.testing.assert_close(wrapped(ids).logits, merged(ids).logits, atol=1e-4, rtol=1e-4)

"""Several methods one after another, and several policies side by side, in one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_runs import REWARDS, TINY, call, last_checkpoint, resume, rows, train, weights

from hocket.nano import BASE

FLOW = """
from hocket.agents.workflows import Outcome, Workflow


class Pair(Workflow):
    roles = ("planner", "worker")

    async def play(self, scenario, team):
        plan = await team.planner(scenario.prompt)
        answer = await team.worker([scenario.prompt, plan])
        return Outcome(answer=str(answer), rewards={"team": float(sum(map(ord, str(plan) + str(answer))) % 7)})
"""
BOTH = ["--roles.planner.policy", "planner", "--roles.worker.policy", "worker"]


@pytest.fixture
def flow(tmp_path: Path) -> str:
    (tmp_path / "flow.py").write_text(FLOW)
    return f"{tmp_path / 'flow.py'}:Pair"


def at_start(name: str) -> bytes:
    return (BASE / name).read_bytes()


def test_two_phases_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(REWARDS)
    file = tmp_path / "plan.yaml"
    file.write_text("plan:\n  - {recipe: sft, steps: 2}\n  - {recipe: grpo-kl, steps: 2}\n")
    train(tmp_path, "two", file, "--reward", f"{tmp_path / 'mine.py'}:spread", "--update.lr", "1e-3")
    found = rows(tmp_path / "two")
    assert [row["step"] for row in found] == [0, 1, 2, 3, 4]
    assert [row["kl/reference"] is None for row in found] == [True, True, True, False, False]
    assert found[3]["kl/reference"] == pytest.approx(0, abs=1e-6), "the reference is what the first phase made"
    assert found[4]["kl/reference"] > 1e-6
    assert [row["tokens/generated"] for row in found[1:3]] == [0, 0]
    assert json.loads((tmp_path / "two" / "summary.json").read_text())["recipe"] == "sft then grpo-kl"


def test_settings_reach_the_phases_that_have_them(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("plan:\n  - {recipe: sft, steps: 1}\n  - {recipe: ppo, steps: 1}\n")
    said = call("train", file, "--credit.lam", "0.5", "--runs", tmp_path, "--run", "x", *TINY, "--quiet")
    assert said.code == 0, said.err
    import yaml

    plan = yaml.safe_load((tmp_path / "x" / "config.yaml").read_text())["plan"]
    assert plan[1]["recipe"]["credit"]["lam"] == 0.5
    assert [phase["recipe"]["curriculum"]["prompts"] for phase in plan] == [2, 2]
    said = call("train", file, "--credit.lambda", "0.5", "--runs", tmp_path, "--run", "y", "--quiet")
    assert said.code == 2
    assert "credit.lambda" in said.err


def test_two_policies_learn_in_one_run(tmp_path: Path, flow: str) -> None:
    train(tmp_path, "team", "--workflow", flow, *BOTH, "--roles.worker.recipe", "grpo-kl", steps=2)
    found = rows(tmp_path / "team")
    for row in found[1:]:
        for role in ("planner", "worker"):
            assert row[f"{role}/loss"] is not None
            assert row[f"{role}/groups/with_signal"] == 2
            assert abs(row[f"{role}/kl/behaviour"]) < 1e-6
        assert row["worker/kl/reference"] is not None
        assert row.get("planner/kl/reference") is None
        assert row["reward/mean"] is not None
    after = weights(tmp_path / "team")
    assert set(after) == {"policy-planner/model.safetensors", "policy-worker/model.safetensors"}
    assert len({*after.values(), at_start("model.safetensors")}) == 3, "both changed, and differ"
    episodes = max((tmp_path / "team" / "rollouts").glob("*.jsonl")).read_text().splitlines()
    turns = json.loads(episodes[0])["turns"]
    assert [(turn["role"], turn["policy"]) for turn in turns] == [("planner", "planner"), ("worker", "worker")]


def test_roles_may_share_one_policy(tmp_path: Path, flow: str) -> None:
    train(tmp_path, "team", "--workflow", flow, steps=1)
    assert set(weights(tmp_path / "team")) == {"policy/model.safetensors"}
    assert rows(tmp_path / "team")[1]["loss"] is not None


@pytest.mark.parametrize("recipe", ["grpo", "grpo-kl", "ppo"])
def test_a_frozen_role_acts_and_does_not_change(recipe: str, tmp_path: Path, flow: str) -> None:
    import torch
    from safetensors.torch import load_file

    flags = ["--workflow", flow, "--recipe", recipe, "--roles.worker.frozen", "true"]
    flags += ["--update.epochs", "1", "--update.minibatches", "1"]
    train(tmp_path, "team", *flags, steps=2)
    folder = last_checkpoint(tmp_path / "team")
    base = load_file(BASE / "model.safetensors")
    worker = load_file(folder / "policy-worker" / "model.safetensors")
    learnt = load_file(folder / "policy" / "model.safetensors")
    assert all(torch.equal(base[name], worker[name]) for name in base)
    assert any(not torch.equal(base[name], learnt[name]) for name in base)
    row = rows(tmp_path / "team")[1]
    assert row["policy/loss"] is not None
    assert row.get("worker/loss") is None


def test_a_team_resumes_to_equal_numbers(tmp_path: Path, flow: str) -> None:
    flags = ["--workflow", flow, *BOTH, "--roles.worker.recipe", "grpo-kl"]
    train(tmp_path, "whole", *flags, steps=3)
    train(tmp_path, "parts", *flags, steps=2)
    resume(tmp_path, "parts", "--steps", "3")
    assert rows(tmp_path / "whole")[3] == rows(tmp_path / "parts")[3]
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")


def test_a_workflow_that_always_fails_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(FLOW.replace("plan = await", "1 / 0\n        plan = await"))
    said = call(
        "train", *TINY, "--workflow", f"{tmp_path / 'flow.py'}:Pair", "--runs", tmp_path, "--steps", "1", "--quiet"
    )
    assert said.code == 1
    assert "ZeroDivisionError" in said.err
    assert "play() line 9" in said.err

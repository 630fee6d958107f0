"""What a run leaves behind, as other programs read it."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import REWARDS, TINY, call, last_checkpoint, train

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.policies.causal_lm import CausalLM
from hocket.train.config import configure, read_pairs
from hocket.train.tracking import KEYS
from hocket.types import Quantity, Scenario, Trajectory, Turn

CONTRACT = {
    "step", "reward/mean", "loss", "entropy", "kl/reference", "kl/behaviour", "groups/total", "groups/with_signal",
    "eval/accuracy", "eval/n", "tokens/generated", "ratio/saturated", "time/rollout", "time/update",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    (runs / "mine.py").write_text(REWARDS)
    train(runs, "one", "--recipe", "grpo-kl", "--reward", f"{runs / 'mine.py'}:spread", "--reward", "task", steps=3)
    return runs / "one"


def metrics(run: Path) -> list[dict[str, float | None]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_everything_named_in_the_contract_is_there(run: Path) -> None:
    files = {"config.yaml", "machine.json", "metrics.jsonl", "rollouts", "checkpoints", "summary.json", "report.html"}
    assert files <= {path.name for path in run.iterdir()}
    machine = json.loads((run / "machine.json").read_text())
    assert {"threads", "precision", "compiled"} <= machine.keys()
    assert machine["threads"] == 1


def test_every_row_has_every_key_and_null_where_nothing_was_measured(run: Path) -> None:
    assert set(KEYS) == CONTRACT
    rows = metrics(run)
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    for row in rows:
        assert row.keys() >= CONTRACT
        assert all(value is None or math.isfinite(value) for value in row.values())
    first, last = rows[0], rows[-1]
    assert first["eval/accuracy"] is not None
    assert first["eval/n"] == 8
    assert first["loss"] is None
    assert first["tokens/generated"] is None
    for row in rows[1:]:
        assert {"throughput/tokens", "memory/peak"} <= row.keys()
        measured = CONTRACT - {"eval/accuracy", "eval/n"}
        assert [name for name in measured if row[name] is None] == []
        assert row["groups/total"] == 2
        assert row["groups/with_signal"] == 2
    assert rows[1]["eval/accuracy"] is None
    assert last["eval/n"] == 8
    assert rows[1]["kl/reference"] == pytest.approx(0.0, abs=1e-6)
    assert rows[1]["kl/behaviour"] == pytest.approx(0.0, abs=1e-6)


def test_the_saved_configuration_is_complete_and_runs_again(run: Path, tmp_path: Path) -> None:
    from hocket import tasks

    pairs = read_pairs(run / "config.yaml")
    config = configure(pairs, tasks.find("sums"))
    assert config.steps == 3
    assert config.recipe.rollout.samples == 4  # type: ignore[attr-defined]
    assert config.decoding.max_tokens == 10
    said = call("train", run / "config.yaml", "--run", "again", "--runs", tmp_path, "--quiet")
    assert said.code == 0, said.err
    again = metrics(tmp_path / "again")
    assert [row["loss"] for row in again] == [row["loss"] for row in metrics(run)]


def test_episodes_have_the_fields_of_the_contract(run: Path) -> None:
    files = sorted((run / "rollouts").glob("step-*.jsonl"))
    assert files[0].name == "step-000001.jsonl"
    episodes = [json.loads(line) for line in files[-1].read_text().splitlines()]
    assert len(episodes) == 8
    for episode in episodes:
        assert {"scenario", "turns", "scores"} <= episode.keys()
        assert set(episode["scores"]) == {"spread", "correct"}
        for turn in episode["turns"]:
            assert {"agent", "role", "tokens", "text", "logp", "advantage"} <= turn.keys()
            assert len(turn["tokens"]) == len(turn["logp"]) == len(turn["advantage"]) > 0


def test_a_checkpoint_lists_the_digest_of_every_file(run: Path) -> None:
    folder = last_checkpoint(run)
    assert folder.name == "step-000003"
    files = json.loads((folder / "COMPLETE").read_text())["files"]
    there = {f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file()} - {"COMPLETE"}
    assert set(files) == there
    for name, digest in files.items():
        assert digest["sha256"] == hashlib.sha256((folder / name).read_bytes()).hexdigest()


def test_the_summary_tells_what_was_gained(run: Path) -> None:
    found = json.loads((run / "summary.json").read_text())
    rows = metrics(run)
    assert found["before"]["accuracy"] == rows[0]["eval/accuracy"]
    assert found["after"]["accuracy"] == rows[-1]["eval/accuracy"]
    assert found["gain"] == pytest.approx(found["after"]["accuracy"] - found["before"]["accuracy"])
    assert found["after"]["low"] <= found["after"]["accuracy"] <= found["after"]["high"]
    assert found["reason"] == "finished"
    assert found["steps"] == 3
    assert found["samples"][0].keys() == {"prompt", "answer", "before", "after", "right_before", "right_after"}


def test_the_saved_policy_is_a_plain_transformers_model(run: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = last_checkpoint(run) / "policy"
    plain = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "What is 1 + 2?"}], add_generation_prompt=True)
    prompt = list(prompt["input_ids"] if hasattr(prompt, "keys") else prompt)
    answer = tokenizer("3</answer>", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = plain(torch.tensor([prompt + answer])).logits[0]
    places = torch.arange(len(prompt) - 1, len(prompt) + len(answer) - 1)
    expected = torch.log_softmax(logits[places].double(), -1)[torch.arange(len(answer)), torch.tensor(answer)]

    policy = CausalLM.from_pretrained(folder, key=Key.of(0))
    turn = Turn("policy", "policy", np.array(prompt), np.array(answer))
    found = policy.evaluate(pack([Trajectory(Scenario("s"), [turn])]), {Quantity.LOGP}).logp
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)


def test_a_lora_checkpoint_holds_the_merged_model(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    import hocket

    (tmp_path / "mine.py").write_text(REWARDS)
    settings = {"rollout.samples": 4, "curriculum.prompts": 2, "evaluation.n": 4, "decoding.max_tokens": 8}
    settings |= {"lora.rank": 2, "update.lr": 0.01, "runs": str(tmp_path), "threads": 1}
    run = hocket.train("sums", steps=2, reward=f"{tmp_path / 'mine.py'}:spread", **settings)  # type: ignore[operator]
    folder = last_checkpoint(run.path) / "policy"
    assert (folder / "adapter" / "adapter_model.safetensors").is_file()
    merged = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    ids = torch.arange(20)[None]
    with torch.no_grad():
        torch.testing.assert_close(merged(ids).logits, run.policy.model(ids).logits, atol=1e-4, rtol=1e-4)


def test_an_existing_run_is_refused_and_left_alone(run: Path) -> None:
    before = (run / "metrics.jsonl").read_bytes()
    said = call("train", *TINY, "--runs", run.parent, "--run", run.name, "--steps", "1")
    assert said.code == 2
    assert "--resume" in said.err
    assert (run / "metrics.jsonl").read_bytes() == before

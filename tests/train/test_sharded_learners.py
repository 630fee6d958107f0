"""Runs whose learners hold shares: weights, metrics and checkpoints are those of learners that hold everything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_learner_group import TOGETHER, flags, made, struck
from tiny_runs import TINY, call, in_child, resume, rows, train, weights

from hocket.apps.cli.parser import main

SHARES = [*TOGETHER, "--shard", "true", "--learners"]
CASES = [("grpo", "2"), ("bf16", "2"), ("ppo", "2"), ("lora", "2"), ("team", "2"), ("gvpo", "2"), ("dapo", "2")]
CASES += [("dpo", "2"), ("grpo", "4"), ("bf16", "4"), ("ppo", "4"), ("lora", "4")]
QUICK = ("grpo", "2")


def equal(left: Path, right: Path) -> None:
    assert weights(left) == weights(right)
    assert weights(left)
    assert rows(left) == rows(right)


@pytest.mark.parametrize(
    ("name", "learners"), [pytest.param(*one, marks=[] if one == QUICK else pytest.mark.slow) for one in CASES]
)
def test_learners_with_shares_learn_what_one_learns(name: str, learners: str, tmp_path: Path) -> None:
    tiny, more = flags(name, tmp_path / "mine.py")
    train(tmp_path, "one", *more, "--leaves", "4", steps=3, tiny=tiny)
    train(tmp_path, "shares", *more, *SHARES, learners, steps=3, tiny=tiny)
    equal(tmp_path / "one", tmp_path / "shares")
    learnt = [value for row in rows(tmp_path / "one") for key, value in row.items() if key.endswith("gradient/norm")]
    assert any(learnt), "a run without gradients would prove nothing"


BESIDE = {
    "samplers": ["--samplers", "1"],
    "ahead": ["--samplers", "1", "--lag", "1"],
    "one base": ["--workflow", "planner-worker", "--lora.rank", "2", "--roles.planner.policy", "planner"],
    "small parts": ["--memory.token_budget", "64"],
    "made again": ["--memory.checkpointing", "true", "--memory.token_budget", "1000"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BESIDE)
def test_shares_change_nothing_of_what_else_a_run_does(name: str, tmp_path: Path) -> None:
    _, more = flags("grpo", tmp_path / "mine.py")
    more = [*more, *BESIDE[name], *TOGETHER, "--learners", "2"]
    train(tmp_path, "whole", *more, steps=3)
    train(tmp_path, "shares", *more, "--shard", "true", steps=3)
    equal(tmp_path / "whole", tmp_path / "shares")


# ---------------------------------------------------------------- checkpoints


@pytest.mark.slow
@pytest.mark.parametrize(("learners", "then"), [("2", ("4", "true")), ("4", ("1", "false")), ("2", ("2", "false"))])
def test_a_killed_run_goes_on_with_other_numbers(learners: str, then: tuple[str, str], tmp_path: Path) -> None:
    """Shares to more shares, to one process, to learners that hold everything; over the end of a phase."""
    _, more = flags("grpo", tmp_path / "mine.py")
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan: [{recipe: grpo-kl, steps: 2}, {recipe: ppo, steps: 3}]")
    more = [str(plan), *more[2:], "--update.minibatches", "2", "--checkpoint.steps", "1"]
    train(tmp_path, "one", *more, "--leaves", "4", steps=5)
    words = [*TINY, *more, *SHARES, learners, "--steps", "5", "--runs", str(tmp_path), "--run", "parts", "--quiet"]
    kept = tmp_path / "parts" / "checkpoints"
    ended = in_child(lambda: main(["train", *map(str, words)]), until=lambda: any(kept.glob("step-*3")))
    assert ended == -9
    file = tmp_path / "parts" / "config.yaml"
    text = file.read_text().replace(f"learners: {learners}", f"learners: {then[0]}")
    file.write_text(text.replace("shard: true", f"shard: {then[1]}"))
    resume(tmp_path, "parts")
    equal(tmp_path / "one", tmp_path / "parts")


@pytest.mark.slow
def test_learners_that_held_everything_go_on_with_shares(tmp_path: Path) -> None:
    _, more = flags("ppo", tmp_path / "mine.py")
    train(tmp_path, "one", *more, "--leaves", "4", steps=4)
    train(tmp_path, "parts", *more, *TOGETHER, "--learners", "2", steps=2)
    file = tmp_path / "parts" / "config.yaml"
    file.write_text(file.read_text().replace("shard: false", "shard: true"))
    resume(tmp_path, "parts", "--steps", "4")
    assert weights(tmp_path / "one") == weights(tmp_path / "parts")


@pytest.mark.slow
@pytest.mark.parametrize("learners", ["2", "4"])
def test_a_run_goes_on_without_a_rank_that_was_killed(learners: str, tmp_path: Path) -> None:
    _, more = flags("grpo", tmp_path / "mine.py")
    trainer = made(tmp_path, "parts", *more, *SHARES, learners, "--checkpoint.steps", "1")
    trainer.step()
    trainer.step()
    struck(trainer)
    trainer.run()
    said = (tmp_path / "parts" / "messages.txt").read_text()
    assert re.search(r"learner \d ended by SIGKILL.*; the run continues from step 1 with new processes", said), said
    train(tmp_path, "one", *more, "--leaves", "4", steps=3)
    equal(tmp_path / "one", tmp_path / "parts")


@pytest.mark.slow
def test_a_run_with_shares_is_replayed_in_one_process(tmp_path: Path) -> None:
    _, more = flags("grpo", tmp_path / "mine.py")
    train(tmp_path, "parts", *more, *SHARES, "2", steps=2)
    said = call("replay", "parts", "--runs", tmp_path)
    assert said.code == 0, said.err


# ---------------------------------------------------------------- what cannot be

REFUSED = {
    "alone": (["--shard", "true"], "add --leaves 4 --cluster local --learners 2"),
    "an update of its own": ([*SHARES, "2", "--recipe", "trpo"], "recipe trpo needs the weights whole"),
    "a hook": ([*SHARES, "2", "--recipe", "past-selves"], "leave shard out"),
    "no language model": ([*SHARES, "2", "--task", "gym:CartPole-v1"], "shard = true is for language models"),
    "beside without samplers": ([*SHARES, "2", "--overlap", "1"], "--samplers 1"),
    "another engine": ([*SHARES, "2", "--engine.kind", "vllm"], "with engine.kind local, not vllm"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_divided_is_refused(case: str, tmp_path: Path) -> None:
    more, words = REFUSED[case]
    said = call("train", *TINY, *more, "--runs", tmp_path, "--run", "run", "--quiet")
    assert said.code == 2
    assert re.search(words, " ".join(said.err.split())), said.err
    assert not (tmp_path / "run").exists()

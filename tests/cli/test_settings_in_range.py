"""Settings that could only waste a run are refused before it begins, in a sentence that names the choices."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from tiny_runs import TINY, call, rows, train

CARTPOLE = ["--task", "gym:CartPole-v1"]
REFUSED = {
    "no such precision": (["--precision", "fp8"], "precision = 'fp8': choose from auto, fp32, bf16"),
    "no such body": (
        [*CARTPOLE, "--network.body", "cnn"],
        "network.body = 'cnn': choose from perceptron, recurrent, attention, convolution, sets, equivariant",
    ),
    "no such aggregate": (["--objective.aggregate", "mean"], "objective.aggregate = 'mean': choose from token-mean,"),
    "no list of numbers": ([*CARTPOLE, "--network.hidden", "64,many"], "network.hidden"),
    "time runs backwards": (["--checkpoint.seconds", "-1"], "checkpoint: seconds must be at least 0, not -1"),
    "never": (["--checkpoint.steps", "0"], "checkpoint: steps must be at least 1, not 0"),
    "evaluations backwards": (["--evaluation.every", "-1"], "evaluation: every must be at least 0, not -1"),
    "a step without end": (["--curriculum.prompts", "99999999999"], "799,999,999,992 responses in one step"),
    "samples without end": (["--rollout.samples", "99999999"], "1,599,999,984 responses in one step"),
    "more threads than cores": (["--threads", "100000"], f"this machine has {os.cpu_count()} cores"),
    "no number": (["--update.lr", "nan"], "update.lr = nan: give a number"),
    "uphill": (["--update.clip_norm", "-1"], "update.clip_norm must be above 0, not -1"),
    "weights that grow": (["--update.weight_decay", "-0.1"], "update.weight_decay must be at least 0, not -0.1"),
    "hot": (["--decoding.temperature", "inf"], "decoding: temperature must be at least 0 and finite, not inf"),
    "no probability": (["--decoding.top_p", "2"], "decoding: top_p and min_p must be probabilities, not 2.0 and 0.0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_run_can_have_is_refused(case: str, tmp_path: Path) -> None:
    flags, words = REFUSED[case]
    said = call("train", *flags, "--steps", "1", "--runs", tmp_path)
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "flags",
    [
        ["eval", "nano", "--n", "0"],
        ["eval", "nano", "--n", "-1"],
        ["eval", "nano", "--n", "few"],
        ["eval", "nano", "--samples", "0"],
        ["train", "--steps", "-1"],
        ["train", "--lessons", "-2"],
        ["tasks", "sums", "--n", "0"],
        ["study", "--seeds", "0"],
        ["arena", "--task", "dilemma:prisoners", "--temperature", "nan"],
        ["serve", "nano", "--max-tokens", "0"],
    ],
)
def test_numbers_of_flags_have_a_range(flags: list[str]) -> None:
    said = call(*flags)
    assert said.code == 2
    assert f"argument {flags[-2]}: {flags[-1]!r} is not a " in said.err


@pytest.mark.parametrize(("typed", "due"), [("8,4", [8, 4]), ("8", [8]), ("[8, 4]", [8, 4])])
def test_a_list_is_typed_with_commas(typed: str, due: list[int], tmp_path: Path) -> None:
    words = [*CARTPOLE, "--network.hidden", typed, "--evaluation.n", "1", "--steps", "0", "--threads", "1"]
    said = call("train", *words, "--runs", tmp_path, "--run", "small", "--quiet")
    assert said.code == 0, said.err
    assert yaml.safe_load((tmp_path / "small" / "config.yaml").read_text())["network"]["hidden"] == due


def test_a_learning_rate_without_end_is_refused(tmp_path: Path) -> None:
    said = call("train", "--update.lr", "inf", "--steps", "0", "--runs", tmp_path, "--quiet")
    assert said.code == 2
    assert "update.lr must be a finite number, not inf" in said.err


def test_an_evaluation_without_end_is_refused(tmp_path: Path) -> None:
    said = call("train", "--evaluation.n", "99999999999", "--steps", "0", "--runs", tmp_path, "--quiet")
    assert said.code == 2
    assert "n must be at most 1,048,576, not 99,999,999,999" in said.err


def test_a_length_beyond_the_context_is_announced(tmp_path: Path) -> None:
    train(tmp_path, "long", "--decoding.max_tokens", "100000", steps=0)
    context = "but the model's context holds 1,024 tokens"
    assert context in (tmp_path / "long" / "messages.txt").read_text()
    train(tmp_path, "short", steps=0)
    assert TINY[-1] == "10"
    assert context not in (tmp_path / "short" / "messages.txt").read_text()


def test_mini_batches_without_signal_raise_no_alarm_and_more_than_responses_are_announced(tmp_path: Path) -> None:
    """The first mini-batches hold no decision that is learnt from, so the first evaluation is a later one."""
    (tmp_path / "one.py").write_text("def one(completions, **columns):\n    return [1.0] + [0.0] * 3 + [0.5] * 4\n")
    words = ["--update.minibatches", "16", "--update.lr", "1e-2", "--reward", f"{tmp_path / 'one.py'}:one"]
    train(tmp_path, "parts", *words, steps=3)
    found = rows(tmp_path / "parts")[1:]
    assert all(row["gradient/norm"] > 0 for row in found)
    assert max(row["agreement/largest"] for row in found) < 1e-5
    assert "16, but a step has 8 responses" in (tmp_path / "parts" / "messages.txt").read_text()

"""Samplers of pictures and masked language models are trained, resumed, measured and reported like all others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import call, resume, rows, summary, train

from hocket.core.keys import Key
from hocket.nano import SHIPPED
from hocket.nano.mdlm import MaskedPretraining, masked_tokenizer, new_masked_model
from hocket.policies.denoising.denoiser import Denoiser
from hocket.policies.masked_lm import MaskedLM
from hocket.stages import Reward

SMALL = ["--evaluation.n", "4", "--evaluation.between", "4", "--threads", "1", "--curriculum.prompts", "2"]
SMALL += ["--rollout.samples", "2"]
PICTURES = ["--task", "drawn-digits", "--rollout.window.count", "1"]


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model that was never trained."""
    folder, tokenizer = tmp_path_factory.mktemp("masked"), masked_tokenizer()
    MaskedLM(new_masked_model(MaskedPretraining(width=16, layers=1, heads=2), tokenizer), tokenizer).save(folder)
    return folder


@pytest.fixture(scope="module")
def sampler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sampler of the task's pictures that was never trained."""
    folder = tmp_path_factory.mktemp("sampler")
    shape = replace(Denoiser.from_folder(SHIPPED["nano-flow"]).shape, width=16, heads=2, layers=1, steps=4)
    policy = Denoiser(shape, Key.of(0))
    with torch.no_grad():
        policy.module.write.normal_(0.0, 0.1, generator=Key.of(1).torch())
    policy.save(folder)
    return folder


class Ink(Reward):
    """How bright a picture is, since nothing is read in those of a sampler that was never trained."""

    name, weight = "ink", 1.0

    async def __call__(self, trajectories, *, key):  # type: ignore[no-untyped-def]
        return [float(one.final_state.mean()) for one in trajectories]


def interrupted(tmp_path: Path, *words: str | Path) -> None:
    """A run of two steps beside one that was left after its first."""
    every = [*words, "--checkpoint.steps", "1"]
    train(tmp_path, "whole", *every, steps=2, tiny=SMALL)
    train(tmp_path, "parts", *every, steps=1, tiny=SMALL)
    resume(tmp_path, "parts", "--steps", "2")
    assert (tmp_path / "parts" / "report.html").is_file()
    for run in ("whole", "parts"):
        assert rows(tmp_path / run)[2]["agreement/largest"] == 0.0
    for name in ("policy/model.safetensors",):
        found = [
            next((tmp_path / run / "checkpoints").glob(f"step-000002/{name}")).read_bytes()
            for run in ("whole", "parts")
        ]
        assert found[0] == found[1]


def test_a_sampler_learns_and_resumes_to_the_same_bits(tmp_path: Path, sampler: Path) -> None:
    words = ["--recipe", "flow-grpo-kl", "--decoding.guidance", "1.5", "--model", sampler]
    interrupted(tmp_path, *PICTURES, *words, "--reward", f"{__file__}:Ink")
    before = load_file(sampler / "model.safetensors")
    after = load_file(next((tmp_path / "whole" / "checkpoints").glob("step-000002/policy/model.safetensors")))
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert summary(tmp_path / "whole")["measure"] == "accuracy"
    said = call("eval", tmp_path / "whole", "--n", "4", "--json")
    assert said.code == 0, said.err
    lines = [file.read_text().splitlines() for file in sorted((tmp_path / "whole" / "pictures").glob("step-*.jsonl"))]
    earned = [[json.loads(line)["reward"] for line in of] for of in lines]
    assert earned[0] != earned[-1]  # A reward of one's own judges the pictures as they are, not as they were.


def test_probes_of_the_bases_pictures_train(tmp_path: Path, sampler: Path) -> None:
    words = ["--task", "drawn-digits", "--recipe", "diffusion-dpo", "--rollout.base", "true", "--model", sampler]
    train(tmp_path, "run", *words, "--reward", f"{__file__}:Ink", steps=1, tiny=SMALL)
    row = rows(tmp_path / "run")[1]
    assert row["pairs/total"] == 2
    assert row.get("kl/reference") is None


def test_the_model_makes_the_kind(tmp_path: Path, masked: Path) -> None:
    interrupted(tmp_path, "--task", "sums", "--model", masked, "--recipe", "cj-grpo")
    said = call("eval", tmp_path / "whole", "--n", "4", "--samples", "2", "--json")
    assert said.code == 0, said.err


@pytest.mark.parametrize("recipe", ["diffu-grpo", "coupled-grpo", "gdpo-diffusion", "dmpo-dllm"])
def test_likelihoods_of_a_masked_model_train(tmp_path: Path, masked: Path, recipe: str) -> None:
    train(tmp_path, "run", "--task", "sums", "--model", masked, "--recipe", recipe, steps=1, tiny=SMALL)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--task", "drawn-digits", "--model", "nano"], "model = 'nano' is no sampler of pictures"),
        (["--task", "sums", "--model", "nano-flow"], "makes pictures, and task sums is in words"),
        (
            ["--task", "sums", "--recipe", "cj-grpo", "--model", "nano"],
            "samples from policies of the kind masked, and nano on task sums is text",
        ),
        (["--task", "sums", "--recipe", "flow-grpo"], "samples from policies of the kind pictures"),
        (["--task", "gym:CartPole-v1", "--recipe", "flow-grpo"], "on task gym:CartPole-v1 is control"),
        (["--task", "sums", "--decoding.guidance", "2"], "has no guidance; leave it at 1"),
        (["--task", "drawn-digits", "--recipe", "flow-grpo", "--rollout.law.level", "0"], "rollout.law adds no noise"),
        (
            ["--task", "drawn-digits", "--recipe", "flow-grpo", "--rollout.steps", "1"],
            "rollout.steps = 1 leaves no step",
        ),
        (["--task", "drawn-digits", "--decoding.top_p", "0.9"], "drop decoding.top_k, top_p"),
        (["--task", "drawn-digits", "--recipe", "ppo"], "gives no value; use flow-grpo"),
        (["--task", "drawn-digits", "--lora.rank", "2"], "--lora, --workflow and --engine are for language models"),
    ],
)
def test_what_does_not_fit_is_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    said = call("train", "--runs", tmp_path, "--steps", "1", "--evaluation.n", "1", "--threads", "1", *words)
    assert said.code == 2, said.err
    assert sentence in " ".join(said.err.split())


def test_a_policy_that_cannot_save_itself_ends_a_run_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampler: Path
) -> None:
    def fails(self: Denoiser, folder: Path) -> None:
        raise RuntimeError("\nSome tensors share memory")

    monkeypatch.setattr(Denoiser, "save", fails)
    said = call(
        "train", "--runs", tmp_path, "--steps", "1", *PICTURES, "--model", sampler, "--recipe", "flow-grpo", *SMALL
    )
    assert said.code != 0
    assert "policy 'policy' could not be saved (RuntimeError: Some tensors share memory)" in " ".join(said.err.split())

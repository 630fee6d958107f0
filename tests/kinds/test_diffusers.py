"""Pipelines of diffusers itself, with tiny random weights: bits, adapters, whole runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_pipelines
import torch
from tiny_runs import call, last_checkpoint, resume, rows, train, weights

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.noise_laws import Window
from hocket.core.packing import pack
from hocket.policies.denoising.pipelines import PipelineSampler, read_form
from hocket.policies.settings import LoraSettings
from hocket.rollout.noisy_sampling import Sampling
from hocket.rollout.pipeline_sampling import PipelinePlayer
from hocket.types import Assignment, Decoding, Quantity, Scenario, Trajectory

diffusers = pytest.importorskip("diffusers", reason="needs diffusers: pip install 'hocket[diffusion]'")
pytestmark = pytest.mark.slow

CPU, BLOCK = torch.device("cpu"), 4
MAKERS = {
    "sd3": tiny_pipelines.stable_diffusion_3,
    "flux-dev": lambda folder: tiny_pipelines.flux(folder, guided=True),
    "flux-schnell": lambda folder: tiny_pipelines.flux(folder, guided=False),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: make(tmp_path_factory.mktemp("pipelines") / name) for name, make in MAKERS.items()}


def sampler(place: Path, lora: LoraSettings | None = None, dtype: torch.dtype = torch.float32) -> PipelineSampler:
    policy = PipelineSampler(read_form(str(place), CPU, dtype, size=16), str(place), Key.of(0), lora=lora, dtype=dtype)
    policy.block = policy.chunk = BLOCK
    policy.form.pipeline.set_progress_bar_config(disable=True)
    return policy


def played(policy: PipelineSampler, prompts: list[str], **decoding: Any) -> Any:
    option = Sampling(window=Window(0, 3), steps=4)
    scenarios = [Scenario(f"s{number}", prompt) for number, prompt in enumerate(prompts)]
    requests = [Assignment(scenario, 1, Decoding(**decoding), options=(option,)) for scenario in scenarios]
    return asyncio.run(PipelinePlayer(policy).play(requests, key=Key.of(5)))


def drawn_by_the_pipeline(policy: PipelineSampler, begin: Any, prompts: list[str], guidance: float) -> Any:
    """The finished states of the pipeline's own loop from the same noise."""
    form, guides = policy.form, policy.form.name == "StableDiffusion3Pipeline" or policy.reads_guidance
    inputs = [torch.cat(part) for part in zip(*(form.encoded(prompt) for prompt in prompts), strict=True)]
    away = [torch.cat([part] * len(prompts)) for part in form.encoded("")]
    free = (
        {}
        if policy.reads_guidance
        else dict(zip(("negative_prompt_embeds", "negative_pooled_prompt_embeds"), away, strict=True))
    )
    return form.pipeline(
        prompt_embeds=inputs[0],
        pooled_prompt_embeds=inputs[1],
        latents=begin.reshape(-1, *form.latent),
        num_inference_steps=4,
        height=16,
        width=16,
        output_type="latent",
        return_dict=False,
        **{"guidance_scale" if guides else "true_cfg_scale": guidance},
        **free,
    )[0].flatten(1).detach().numpy()  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_without_noise_the_loop_is_the_pipelines_bit_for_bit(
    folders: dict[str, Path], name: str, guidance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = sampler(folders[name])
    prompts, states = ["a red cat", "blue dog", "night sign", "red"], list[Any]()
    first, means = list[Any](), policy.means
    monkeypatch.setattr(policy, "means", lambda rows: (first.append(rows["state"].copy()), means(rows))[1])
    monkeypatch.setattr(policy, "picture", lambda state: states.append(state))
    played(policy, prompts, temperature=0.0, guidance=guidance)
    theirs = drawn_by_the_pipeline(policy, torch.from_numpy(first[0]), prompts, guidance)
    assert np.array_equal(np.stack(states), theirs)
    assert np.abs(theirs - first[0]).max() > 0.1


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sampler_and_learner_agree_and_adapters_are_diffusers(
    folders: dict[str, Path], name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    policy = sampler(folders[name], LoraSettings(rank=2), dtype)
    found: list[Trajectory] = played(policy, ["a red cat", "blue dog", "night", "", "sign red"], guidance=2.0)
    batch = pack(found)
    now, reference = policy.evaluate(batch, {Quantity.LOGP}), policy.frozen_copy()
    assert torch.equal(now.logp.detach(), batch.logp["behaviour"].values)
    torch.autograd.backward(now.logp.sum())
    trained = {name: weight for name, weight in policy.module.named_parameters() if weight.requires_grad}
    assert all(".lora_" in name and weight.grad is not None for name, weight in trained.items())
    assert any(bool(weight.grad.abs().max() > 0) for weight in trained.values())  # type: ignore[union-attr]
    generator = Key.of(1).torch()
    with torch.no_grad():
        for weight in trained.values():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.1)
    shift = policy.evaluate(batch, {Quantity.LOGP, Quantity.KL_EXACT}, reference=reference)
    assert shift.kl_exact is not None
    assert shift.kl_exact.min() > 0
    policy.save(tmp_path)
    again = sampler(folders[name], LoraSettings(rank=2), dtype)
    again.load(tmp_path)
    assert torch.equal(again.evaluate(batch, {Quantity.LOGP}).logp, shift.logp)
    with pytest.raises(ConfigurationError, match="another rank than this policy's"):
        sampler(folders[name], LoraSettings(rank=3), dtype).load(tmp_path)
    if dtype != torch.float32:
        return
    pipeline = diffusers.DiffusionPipeline.from_pretrained(str(folders[name]))
    pipeline.load_lora_weights(str(tmp_path))
    other = sampler(folders[name])
    other._module = pipeline.transformer
    assert torch.equal(other.evaluate(batch, {Quantity.LOGP}).logp, shift.logp)


def test_activations_that_are_computed_again_give_the_same_gradient(folders: dict[str, Path]) -> None:
    gradients = []
    for again in (False, True):
        policy = PipelineSampler(
            read_form(str(folders["sd3"]), CPU, torch.float32, size=16), "", Key.of(0), checkpointing=again
        )
        assert policy.module.gradient_checkpointing == again
        batch = pack(played(policy, ["a red cat", "blue dog"]))
        torch.autograd.backward(policy.evaluate(batch, {Quantity.LOGP}).logp.sum())
        gradients.append([weight.grad for weight in policy.module.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True) if one is not None)  # type: ignore[arg-type]


def test_the_whole_transformer_is_saved_as_diffusers_reads_it(folders: dict[str, Path], tmp_path: Path) -> None:
    policy = sampler(folders["sd3"])
    with torch.no_grad():
        for weight in policy.module.parameters():
            weight.add_(0.01)
    policy.save(tmp_path)
    read = diffusers.SD3Transformer2DModel.from_pretrained(tmp_path / "transformer").state_dict()
    state = policy.module.state_dict()
    assert list(read) == list(state)
    assert all(torch.equal(read[name], value) for name, value in state.items())
    with pytest.raises(ConfigurationError, match="these weights were trained without an adapter; drop --lora"):
        sampler(folders["sd3"], LoraSettings(rank=2)).load(tmp_path)


REWARD = """
def redness(trajectories, **columns):
    pictures = [trajectory.final_state for trajectory in trajectories]
    assert all(picture.shape == (16, 16, 3) for picture in pictures)
    return [float(picture[..., 0].mean() - picture[..., 2].mean()) / 255 for picture in pictures]
"""


def test_a_run_learns_resumes_to_the_same_bits_and_is_gone_on_with(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(REWARD)
    prompts = [
        {"prompt": f"{first} {second}"} for first in ("red", "blue", "night") for second in ("cat", "dog", "sign")
    ]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in prompts))
    model, runs = f"{folders['sd3']}?size=16&steps=4", tmp_path / "runs"
    usual = ["--task", str(tmp_path / "prompts.jsonl"), "--reward", f"{tmp_path / 'my.py'}:redness", "--lora.rank", "2"]
    usual += ["--recipe", "flow-grpo-kl", "--rollout.window.count", "2", "--decoding.guidance", "2"]
    usual += ["--checkpoint.steps", "1", "--threads", "1", "--curriculum.prompts", "2", "--rollout.samples", "3"]
    train(runs, "whole", *usual, "--model", model, steps=2, tiny=[])
    train(runs, "parts", *usual, "--model", model, steps=1, tiny=[])
    resume(runs, "parts", "--steps", "2")
    assert weights(runs / "whole") == weights(runs / "parts")
    assert rows(runs / "whole")[2] == rows(runs / "parts")[2]
    assert [row["agreement/largest"] for row in rows(runs / "whole")[1:]] == [0.0, 0.0]
    assert "data:image/png" in (runs / "whole" / "report.html").read_text()
    recorded = (runs / "whole" / "rollouts" / "step-000002.jsonl").read_text()
    assert '"digest"' in recorded
    assert len(recorded) < 40_000
    said = call("eval", runs / "whole", "--json")
    assert said.code == 0, said.err
    train(runs, "more", *usual, "--model", str(runs / "whole"), steps=1, tiny=[])
    config = json.loads((last_checkpoint(runs / "more") / "policy" / "config.json").read_text())
    assert config["base"] == str(folders["sd3"])


def test_probes_of_a_pipeline_train(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(REWARD)
    (tmp_path / "prompts.jsonl").write_text("".join(f'{{"prompt": "{word}"}}\n' for word in tiny_pipelines.WORDS[3:]))
    words = ["--task", str(tmp_path / "prompts.jsonl"), "--reward", f"{tmp_path / 'my.py'}:redness", "--threads", "1"]
    words += ["--model", f"{folders['flux-schnell']}?size=16&steps=3", "--curriculum.prompts", "2"]
    train(tmp_path, "run", *words, "--recipe", "dgpo", "--rollout.samples", "3", steps=1, tiny=[])
    assert rows(tmp_path / "run")[1]["loss"] is not None

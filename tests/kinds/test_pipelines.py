"""Pipelines of diffusers as samplers: what needs no diffusers, and what is refused."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import call
from torch import Tensor, nn

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.noise_laws import CPS, FlowSDE, ScheduledSteps, Window, flow_schedule
from hocket.core.packing import pack
from hocket.policies.denoising import pipelines
from hocket.policies.denoising.pipeline_forms import Encoded, PipelineForm
from hocket.policies.denoising.pipelines import WORDS, EncodedPrompts, PipelineSampler, PipelineShape, described
from hocket.rollout.noisy_sampling import Sampling
from hocket.rollout.pipeline_sampling import PipelinePlayer
from hocket.train.kinds.pipelines import PipelineName
from hocket.types import Assignment, Decoding, Quantity, Scenario, Trajectory

PARTS = ("transformer", "scheduler", "vae", "text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2")
LEVELS = np.array([1.0, 0.9, 0.4, 0.0])


class Mixer(nn.Module):
    """Velocities of states `[B, 2, 2, 2]`, of everything that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k = (nn.utils.skip_init(nn.Linear, size, 8) for size in (8, 3))
        with torch.no_grad():
            for place, weight in enumerate(self.parameters()):
                weight.normal_(0.0, 0.5, generator=Key.of(place).torch())

    def forward(self, state: Tensor, level: Tensor, prompt: Tensor) -> Tensor:
        mixed = torch.tanh(self.to_q(state.flatten(1)) + self.to_k(prompt.mean(1)))
        return (mixed * level[:, None]).reshape(state.shape)


class Own(PipelineForm):
    """A form of one's own: two methods, beside what the base class reads from a pipeline."""

    name = "OwnPipeline"
    steps = 3

    def __init__(self) -> None:
        config = SimpleNamespace(patch_size=1, in_channels=2)
        network = Mixer()
        network.config = config  # type: ignore[assignment]
        held = SimpleNamespace(transformer=network, components={"transformer": network}, vae_scale_factor=1)
        super().__init__(held, 2, 2)
        self.calls: list[str] = []

    def encoded(self, prompt: str) -> Encoded:
        self.calls.append(prompt)
        return (torch.full((1, 4, 3), float(len(prompt))),)

    def velocities(self, network: Any, state: Tensor, level: Tensor, prompts: Encoded, guidance: Tensor) -> Tensor:
        result: Tensor = network(state=state, level=level, prompt=prompts[0])
        return result

    def levels(self, steps: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return LEVELS if steps == 3 else np.linspace(1.0, 0.0, steps + 1) ** 2

    def picture(self, state: Tensor) -> Tensor:
        return state.reshape(2, 4)[:1].expand(3, 4).reshape(3, 2, 2)


def sampler() -> PipelineSampler:
    return PipelineSampler(Own(), "somewhere", Key.of(0), budget=24)


def played(policy: PipelineSampler, option: Sampling, samples: int = 3, **decoding: Any) -> list[Trajectory]:
    scenarios = [Scenario(f"s{number}", "a cat" * number) for number in (1, 2)]
    requests = [Assignment(scenario, samples, Decoding(**decoding), options=(option,)) for scenario in scenarios]
    return asyncio.run(PipelinePlayer(policy).play(requests, key=Key.of(5)))


@pytest.mark.parametrize("law", [FlowSDE(0.7), CPS(0.5)], ids=str)
@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_sampler_and_learner_agree_to_the_last_bit(law: Any, guidance: float) -> None:
    policy = sampler()
    assert policy.block == 3
    batch = pack(played(policy, Sampling(law, Window(0, 2)), guidance=guidance))
    now = policy.evaluate(batch, {Quantity.LOGP})
    assert torch.equal(now.logp.detach(), batch.logp["behaviour"].values)


def test_a_frozen_copy_goes_on_with_the_weights_as_they_were() -> None:
    policy = sampler()
    batch = pack(played(policy, Sampling(window=Window(0, 2))))
    reference = policy.frozen_copy()
    assert reference.module is policy.module
    with torch.no_grad():
        for weight in policy.module.parameters():
            weight.add_(1.0)
    now = policy.evaluate(batch, {Quantity.LOGP, Quantity.KL_EXACT}, reference=reference)
    before = reference.evaluate(batch, {Quantity.LOGP})
    assert torch.equal(before.logp.detach(), batch.logp["behaviour"].values)
    assert now.kl_exact is not None
    assert now.kl_exact.min() > 1e-3


def test_steps_are_those_of_the_pipelines_own_schedule() -> None:
    assert np.array_equal(flow_schedule(ScheduledSteps.at(LEVELS)), LEVELS)
    policy = sampler()
    usual = played(policy, Sampling(window=Window(0, 2)))[0].turns[0].observation
    assert usual["level"].tolist() == LEVELS[:2].tolist()
    five = played(policy, Sampling(window=Window(0, 2), steps=5))[0].turns[0].observation
    assert five["level"].tolist() == [1.0, 0.8**2]
    law = FlowSDE(0.7).step(LEVELS, 1)
    assert usual["coefficients"][1].tolist() == [law.state, law.prediction, law.deviation]


def test_pictures_are_bytes_and_what_is_not_finite_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = sampler()
    one = played(policy, Sampling(), 1, temperature=0.0)[0]
    assert one.failure is None
    assert one.final_state is not None
    assert (one.final_state.shape, one.final_state.dtype) == ((2, 2, 3), np.uint8)
    monkeypatch.setattr(policy.form, "picture", lambda state: torch.full((3, 2, 2), torch.nan))
    one = played(policy, Sampling(), 1, temperature=0.0)[0]
    assert one.failure == "sampler: the decoded picture has numbers that are not finite"
    assert one.final_state is None


def test_prompts_are_recorded_as_bytes_and_encoded_once() -> None:
    shape = PipelineShape(8, ScheduledSteps.at(LEVELS))
    words = torch.from_numpy(np.stack([shape.encode(text) for text in ("a \U0001f408", "", "x" * 4 * WORDS)])).long()
    assert pipelines._texts(words) == ["a \U0001f408", "", "x" * 4 * WORDS]
    with pytest.raises(ConfigurationError, match="longer than 2048 bytes; shorten it"):
        shape.encode("x" * 4 * WORDS + "x")
    policy = sampler()
    played(policy, Sampling(window=Window(0, 2)), guidance=2.0)
    form: Any = policy.form
    assert sorted(form.calls) == ["", "a cat", "a cata cat"]


def test_only_the_latest_prompts_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "CACHED", 100)
    form: Any = Own()
    prompts = EncodedPrompts(form)
    for text in ("one", "two", "two", "three", "one"):  # 48 bytes each, so two fit.
        assert prompts.of(text)[0][0, 0, 0] == len(text)
    assert form.calls == ["one", "two", "three", "one"]


# ---------------------------------------------------------------- refusals


def folder(tmp_path: Path, **changes: Any) -> Path:
    """A folder that looks like a pipeline and has no weights."""
    index: dict[str, Any] = {"_class_name": "StableDiffusion3Pipeline", **{part: ["x", "X"] for part in PARTS}}
    index |= {"scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"], **changes}
    (tmp_path / "pipe").mkdir()
    (tmp_path / "pipe" / "model_index.json").write_text(json.dumps(index))
    for part in PARTS:
        (tmp_path / "pipe" / part).mkdir()
    return tmp_path / "pipe"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"scheduler": [None, None]}, "this StableDiffusion3Pipeline has no scheduler, which sampling needs; copy"),
        ({"text_encoder": [None, None]}, "has no text encoder, which sampling needs"),
        ({"scheduler": ["diffusers", "DDIMScheduler"]}, "its scheduler is a DDIMScheduler, and noise laws of flows"),
        ({"_class_name": "StableDiffusionPipeline"}, "class StableDiffusionPipeline cannot be trained; choose one of"),
    ],
)
def test_pipelines_that_cannot_be_trained(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        described(str(folder(tmp_path, **changes)))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_that_lacks_a_part(tmp_path: Path) -> None:
    place = folder(tmp_path)
    (place / "text_encoder_2").rmdir()
    with pytest.raises(ConfigurationError, match="has no text encoder 2, which sampling needs"):
        described(str(place))


def test_settings_in_a_models_name() -> None:
    assert PipelineName.read("a/b?size=512&steps=10") == PipelineName("a/b", 512, 10)
    with pytest.raises(ConfigurationError, match="model a/b has no setting 'sise'; did you mean 'size'"):
        PipelineName.read("a/b?sise=512")
    form: Any = Own()
    form.pipeline.vae_scale_factor = 2
    with pytest.raises(ConfigurationError, match="size = 7: pictures of a OwnPipeline have sides that 2 divides"):
        form._latent_side(7)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--recipe", "flow-grpo"], "pip install 'hocket[diffusion]'"),
        (["--recipe", "flow-grpo", "--task", "drawn-digits"], "task drawn-digits is of nano-flow's pictures"),
        (["--recipe", "flow-grpo", "--task", "sums"], "task sums has answers in words, and"),
        (["--recipe", "flow-grpo", "--weights", "bf16"], "weights = 'bf16' is for language models"),
        (["--recipe", "cj-grpo"], "samples from policies of the kind masked"),
        (["--recipe", "flow-grpo", "--model", "LLAVA"], "samples from policies of the kind pictures"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    place, llava = folder(tmp_path), tmp_path / "llava"
    llava.mkdir()
    described_as = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}
    (llava / "config.json").write_text(json.dumps(described_as))
    (tmp_path / "prompts.jsonl").write_text("".join(f'{{"prompt": "cat {number}"}}\n' for number in range(8)))
    (tmp_path / "my.py").write_text("def ink(trajectories):\n    return [1.0] * len(trajectories)\n")
    usual = {"--model": str(place), "--task": str(tmp_path / "prompts.jsonl"), "--reward": f"{tmp_path / 'my.py'}:ink"}
    chosen = {**usual, **dict(zip(words[::2], words[1::2], strict=True))}
    chosen["--model"] = str(llava) if chosen["--model"] == "LLAVA" else chosen["--model"]
    pairs = [word for pair in chosen.items() for word in pair]
    said = call("train", "--runs", tmp_path, "--steps", "1", "--threads", "1", *pairs)
    assert said.code == 2, said.err
    assert sentence in " ".join(said.err.split())

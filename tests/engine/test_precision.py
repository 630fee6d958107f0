"""Products in bf16: sampler and learner still compute the same function, and fp32 holds the weights."""

import numpy as np
import pytest
import tiny_models
import torch

from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.nano import BASE
from hocket.policies.causal_lm import CausalLM
from hocket.policies.settings import LoraSettings
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

torch.set_num_threads(1)


def sampled(policy, prompts, max_tokens=40):
    asked = [Request(p, Decoding(max_tokens=max_tokens), Key.of(3).derive(n)) for n, p in enumerate(prompts)]
    turns = [
        Turn("a", "policy", np.array(request.tokens), sample.tokens, sample.logp, decoding=request.decoding)
        for request, sample in zip(asked, LocalEngine(policy).sample(asked), strict=True)
    ]
    return pack([Trajectory(Scenario(str(n)), [turn]) for n, turn in enumerate(turns)])


def gaps(policy, batch):
    with torch.no_grad():
        return (policy.evaluate(batch, [Quantity.LOGP]).logp - batch.logp["behaviour"].values).abs()


@pytest.fixture(scope="module")
def nano():
    policy = CausalLM.from_pretrained(BASE, precision="bf16", key=Key.of(0))
    chat = Chat(policy.tokenizer)
    policy.end_of_turn = chat.stops
    sums = [f"What is {n} + {3 * n + 5}?" for n in range(20)]
    return policy, sampled(policy, [tuple(chat.opening([{"role": "user", "content": text}])) for text in sums] * 12)


def test_sampler_and_learner_agree_in_bf16(nano):
    policy, batch = nano
    gap = gaps(policy, batch)
    assert len(gap) > 1500
    assert torch.quantile(gap, 0.999) < 0.02
    assert gap.median() < 1e-4


def test_bf16_is_near_fp32_and_not_the_same(nano):
    policy, batch = nano
    exact = CausalLM.from_pretrained(BASE, key=Key.of(0))
    with torch.no_grad():
        found, due = (one.evaluate(batch, [Quantity.LOGP]).logp for one in (policy, exact))
    assert 1e-4 < (found - due).abs().max() < 0.2
    assert (found - due).abs().mean() < 0.01


def test_bf16_gradients_are_near_fp32_ones(nano):
    policy, batch = nano
    exact = CausalLM.from_pretrained(BASE, key=Key.of(0))
    found = []
    for one in (policy, exact):
        one.evaluate(batch, [Quantity.LOGP]).logp.mean().backward()
        found.append(torch.cat([parameter.grad.flatten() for parameter in one.module.parameters()]))
    assert found[0].dtype == torch.float32
    assert torch.cosine_similarity(*found, dim=0) > 0.999


def test_adapted_layers_agree_in_bf16(tmp_path):
    tiny_models.policy("qwen3", scale=0.1).save(tmp_path)
    adapter = LoraSettings(rank=3, alpha=6.0, targets=("q_proj", "gate_proj"))
    policy = CausalLM.from_pretrained(tmp_path, lora=adapter, precision="bf16", key=Key.of(0))
    with torch.no_grad():
        for parameter in policy.parameter_groups()["policy"]:
            parameter.add_(0.05)
    assert gaps(policy, sampled(policy, [(5, 6, 7), (8, 9), (5, 6, 7)] * 8)).quantile(0.99) < 0.02
    assert policy.frozen_copy().precision == "bf16"


def test_what_cannot_be_computed_in_bf16_is_refused():
    def made(kind, precision="bf16", dtype=torch.float32, **more):
        words = tiny_models.tokenizer()
        return CausalLM(tiny_models.model(kind, len(words), **more).to(dtype), words, precision=precision)

    assert made("qwen2").frozen_copy().precision == "bf16"
    with pytest.raises(ConfigurationError, match=r"precision = 'bf16' is for .*not for a gpt2 model"):
        made("gpt2")
    assert made("mistral", sliding_window=16).precision == "bf16"
    with pytest.raises(ConfigurationError, match=r"in torch\.bfloat16; use 'fp32'"):
        made("qwen3", dtype=torch.bfloat16)
    with pytest.raises(ConfigurationError, match="choose one of fp32, bf16"):
        made("qwen3", precision="fp8")

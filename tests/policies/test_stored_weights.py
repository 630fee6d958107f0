"""Weights in fewer bits: what they take, what is computed with them, and what is saved."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_models

from hocket.core.batch import Batch
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import kernels
from hocket.policies.causal_lm import CausalLM
from hocket.policies.settings import LoraSettings
from hocket.policies.shared_base import SharedBaseCache
from hocket.policies.stored_weights import (
    CodedLinear,
    CodedMatrix,
    coded_product,
    decode,
    encode,
    freeze_in,
    stored_sizes,
    weight_count,
)
from hocket.policies.support import supports
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

CODES = ["bf16", "int8", "nf4"]
ERRORS = {"bf16": 0.004, "int8": 0.01, "nf4": 0.12}
"""The largest relative error of a normal matrix, as a whole."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models on disk."""
    found = {}
    for kind in ("qwen3", "gemma2", "llama"):
        found[kind] = tmp_path_factory.mktemp(kind)
        words = tiny_models.tokenizer()
        words.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
        tiny_models.model(kind, len(words), scale=0.15).save_pretrained(str(found[kind]))
        words.save_pretrained(str(found[kind]))
    return found


def batch() -> Batch:
    rows = [np.arange(3, 3 + length) for length in (9, 14, 20)]
    turns = [Turn("a", "policy", row[:5], row[5:], logp=np.zeros(len(row) - 5, np.float32)) for row in rows]
    return pack([Trajectory(Scenario(str(number)), [turn]) for number, turn in enumerate(turns)])


def loaded(folder: Path, weights: str, precision: str = "fp32", lora: bool = True) -> CausalLM:
    policy = CausalLM.from_pretrained(
        folder, lora=LoraSettings(rank=4) if lora else None, weights=weights, precision=precision, key=Key.of(0)
    )
    generator = Key.of(5).torch()
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if "lora_B" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
    return policy


def logp(policy: CausalLM) -> torch.Tensor:
    return policy.evaluate(batch(), {Quantity.LOGP}).get(Quantity.LOGP)


@pytest.mark.parametrize("storage", CODES)
@pytest.mark.parametrize("shape", [(40, 64), (7, 100), (3, 1)])
def test_codes_are_near_the_weights(storage, shape) -> None:
    weight = torch.randn(shape, generator=Key.of(1).torch())
    whole = decode(*encode(weight, storage), shape, storage, torch.float32)
    assert whole.shape == weight.shape
    assert (whole - weight).norm() <= ERRORS[storage] * weight.norm()
    assert torch.equal(decode(*encode(whole, storage), shape, storage, torch.float32), whole) or storage != "bf16"
    assert (decode(*encode(torch.zeros(shape), storage), shape, storage, torch.float32) == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(40, 64), (7, 100), (3, 1)])
def test_the_kernel_decodes_to_the_same_bits(shape, dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    codes, scale = encode(torch.randn(shape, generator=Key.of(1).torch()), "nf4")
    found = decode(codes, scale, shape, "nf4", dtype)
    monkeypatch.setattr(kernels, "available", lambda: False)
    assert torch.equal(found, decode(codes, scale, shape, "nf4", dtype))


@pytest.mark.parametrize("storage", CODES)
def test_a_product_with_codes_is_that_with_the_decoded_matrix(storage) -> None:
    generator = Key.of(2).torch()
    weight, x = torch.randn(24, 100, generator=generator), torch.randn(33, 100, generator=generator, requires_grad=True)
    more, bias = torch.randn(33, 24, generator=generator, requires_grad=True), torch.randn(24, generator=generator)
    codes = CodedMatrix(weight, storage)
    whole = codes.whole(torch.float32)
    for arguments, due in (({"bias": bias}, x @ whole.t() + bias), ({"more": more}, x @ whole.t() + more)):
        found = coded_product(x, codes, **arguments)
        assert torch.allclose(found, due, atol=1e-5)
        ours, theirs = (torch.autograd.grad(out.square().sum(), [x])[0] for out in (found, due))
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-3)
        first = {name: value[:1] if name == "more" else value for name, value in arguments.items()}
        assert torch.equal(coded_product(x[:1], codes, **first), found[:1])


@pytest.mark.parametrize("kind", ["qwen3", "gemma2"])
@pytest.mark.parametrize("storage", ["int8", "nf4"])
def test_gradients_of_an_adapter_are_those_over_the_decoded_weights(folders, kind, storage) -> None:
    coded = loaded(folders[kind], storage)
    plain = loaded(folders[kind], "fp32")
    plain.model.load_state_dict(coded.model.state_dict())
    with torch.no_grad():  # What is saved is in bf16, and what is computed with is not.
        for name, module in coded.model.named_modules():
            if isinstance(module, CodedLinear):
                plain.model.get_submodule(name).weight.copy_(module.coded.whole(torch.float32))
    for policy in (coded, plain):
        logp(policy).sum().backward()
    ours, theirs = (dict(policy.model.named_parameters()) for policy in (coded, plain))
    for name, weight in ours.items():
        if ".lora_" in name:
            assert (weight.grad - theirs[name].grad).norm() <= 0.01 * theirs[name].grad.norm()
    assert torch.allclose(logp(coded), logp(plain), atol=1e-4)


@pytest.mark.parametrize(("storage", "precision"), [("nf4", "fp32"), ("int8", "bf16"), ("bf16", "bf16")])
@pytest.mark.parametrize("kind", ["qwen3", "gemma2"])
def test_sampler_and_learner_agree(folders, kind, storage, precision) -> None:
    policy = loaded(folders[kind], storage, precision)
    assert supports(policy.model, 64)
    request = Request(tokens=(5, 6, 7, 8), decoding=Decoding(max_tokens=6), key=Key.of(3))
    sample = LocalEngine(policy).sample([request])[0]
    turn = Turn(
        "a", "policy", np.array(request.tokens), np.array(sample.tokens), logp=np.array(sample.logp, np.float32)
    )
    found = policy.evaluate(pack([Trajectory(Scenario("0"), [turn])]), {Quantity.LOGP}).get(Quantity.LOGP)
    assert torch.allclose(found.detach(), torch.as_tensor(sample.logp), atol=1e-5 if kind == "qwen3" else 0.03)


@pytest.mark.parametrize("storage", CODES)
def test_a_merged_model_is_an_ordinary_one(folders, storage, tmp_path: Path) -> None:
    policy = loaded(folders["qwen3"], storage, "bf16" if storage == "bf16" else "fp32")
    before = logp(policy).detach()
    policy.save(tmp_path)
    read = CausalLM.from_pretrained(tmp_path, key=Key.of(0))
    assert (logp(read).detach() - before).abs().max() < 0.1
    other = loaded(folders["qwen3"], storage, policy.precision)
    with torch.no_grad():
        for name, weight in other.model.named_parameters():
            weight.mul_(2.0 if ".lora_" in name else 1.0)
    other.load(tmp_path)
    assert torch.equal(logp(other), before)


@pytest.mark.global_rng  # The model draws its own weights.
def test_a_base_in_four_bits_takes_a_third() -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4}
    made = AutoModelForCausalLM.from_config(LlamaConfig(**sizes, vocab_size=100), dtype=torch.float32)
    whole, count = sum(weight.nbytes for weight in made.parameters()), weight_count(made)
    freeze_in(made, "nf4")
    assert weight_count(made) == count
    assert sum(size for _, _, size in stored_sizes(made)) <= whole / 3


def test_policies_on_one_base_share_its_codes(folders) -> None:
    cache = SharedBaseCache()
    one, two = (
        CausalLM.from_pretrained(
            folders["llama"], name=name, lora=LoraSettings(rank=2), weights="nf4", base_cache=cache, key=Key.of(0)
        )
        for name in ("a", "b")
    )
    codes = [
        [module.coded.codes.data_ptr() for module in policy.model.modules() if isinstance(module, CodedLinear)]
        for policy in (one, two)
    ]
    assert codes[0] == codes[1]
    assert codes[0]


def test_all_weights_in_bf16_train_and_come_back_exactly(folders, tmp_path: Path) -> None:
    policy = loaded(folders["qwen3"], "bf16", "bf16", lora=False)
    assert policy.model.model.layers[0].mlp.up_proj.weight.dtype is torch.bfloat16
    assert policy.model.model.embed_tokens.weight.dtype is torch.float32
    whole = CausalLM.from_pretrained(folders["qwen3"], precision="bf16", key=Key.of(0))
    assert policy.default_lr == whole.default_lr
    assert (logp(policy) - logp(whole)).abs().max() < 0.1
    logp(policy).sum().backward()
    assert all(weight.grad is not None for weight in policy.model.parameters())
    before = logp(policy).detach()
    policy.save(tmp_path)
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.mul_(1.5)
    policy.load(tmp_path)
    assert torch.equal(logp(policy), before)


def test_what_codes_cannot_do_is_refused(folders) -> None:
    with pytest.raises(ConfigurationError, match="cannot be trained"):
        CausalLM.from_pretrained(folders["qwen3"], weights="nf4", key=Key.of(0))
    with pytest.raises(ConfigurationError, match="dora"):
        CausalLM.from_pretrained(folders["qwen3"], weights="nf4", lora=LoraSettings(dora=True), key=Key.of(0))


def test_bf16_is_for_every_architecture(folders) -> None:
    """Logits stay in fp32, so log-probs differ from those in fp32 by the rounding of states alone."""
    narrow, whole = (
        CausalLM.from_pretrained(folders["gemma2"], precision=precision, key=Key.of(0))
        for precision in ("bf16", "fp32")
    )
    gap = float((logp(narrow) - logp(whole)).abs().max().detach())
    assert 0 < gap < 0.2
    assert logp(narrow).dtype is torch.float32
    assert isinstance(narrow.model.lm_head, nn.Linear)

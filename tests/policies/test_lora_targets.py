"""What an adapter stands around, what it leaves out, and that a merged model computes what the adapted one does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.initialization import no_init_weights

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import matrix
import tiny_models

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.policies.causal_lm import CausalLM
from hocket.policies.lora import add_adapter, load_adapter, merged_state, not_joined, save_adapter, without_adapter
from hocket.policies.lora_targets import coverage
from hocket.policies.settings import LoraSettings

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "vocab_size": 40,
}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
IDS = torch.arange(14).view(2, 7) * 5 % 40


def model(kind: str, seed: int = 0):
    config = AutoConfig.for_model(kind, **SIZES, **EXPERTS, bos_token_id=None, eos_token_id=1, pad_token_id=0)
    if kind == "gpt_oss":
        config.rope_parameters = {"rope_type": "default", "rope_theta": 1e4}
    with no_init_weights():
        made = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    generator = Key.of(seed).derive(kind).torch()
    with torch.no_grad():
        for name, weight in made.named_parameters():
            drawn = torch.randn(weight.shape, generator=generator) * 0.2
            weight.copy_(drawn + ("norm" in name))
    return made.eval()


def disturb(adapted) -> None:
    """Makes the adapter one that acts."""
    generator = Key.of(7).torch()
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
            if "magnitude" in name:
                weight.mul_(1 + 0.1 * torch.rand(weight.shape, generator=generator))


def logits(made) -> torch.Tensor:
    with torch.no_grad():
        return made(input_ids=IDS).logits


CASES = [
    ("llama", None, {}),
    ("llama", ("q_proj", "*mlp*"), {"rslora": True}),
    ("llama", None, {"dora": True}),
    ("gpt_oss", ("all-linear", "*experts*", "*router*"), {}),
    ("qwen3_moe", ("*experts*", "*.mlp.gate.weight"), {"rslora": True}),
    ("qwen3_moe", ("experts.down_proj",), {}),
]


@pytest.mark.parametrize(("kind", "targets", "more"), CASES)
def test_a_merged_model_is_the_adapted_one(kind, targets, more, tmp_path: Path) -> None:
    made = model(kind)
    before = logits(made)
    add_adapter(made, LoraSettings(rank=3, targets=targets, **more), Key.of(0))
    assert torch.allclose(logits(made), before, atol=1e-6)
    disturb(made)
    after = logits(made)
    assert (after - before).abs().max() > 0.01
    with without_adapter(made):
        assert torch.equal(logits(made), before)
        assert all(torch.equal(value, model(kind).state_dict()[name]) for name, value in merged_state(made).items())
    merged = model(kind)
    merged.load_state_dict(merged_state(made))
    assert torch.allclose(logits(merged), after, atol=1e-5)
    save_adapter(made, tmp_path)
    other = model(kind)
    add_adapter(other, LoraSettings(rank=3, targets=targets, **more), Key.of(1))
    load_adapter(other, tmp_path)
    assert torch.equal(logits(other), after)


@pytest.mark.global_rng  # peft draws weights that it then overwrites.
@pytest.mark.parametrize(("kind", "targets", "more"), [CASES[1], CASES[2], CASES[3]])
def test_peft_reads_what_is_saved(kind, targets, more, tmp_path: Path) -> None:
    from peft import PeftModel

    made = model(kind)
    add_adapter(made, LoraSettings(rank=3, targets=targets, **more), Key.of(0))
    disturb(made)
    save_adapter(made, tmp_path)
    read = PeftModel.from_pretrained(model(kind), str(tmp_path)).eval()
    assert torch.allclose(logits(read), logits(made), atol=1e-5)


def test_the_share_counts_weights_with_an_adapter() -> None:
    made = model("gpt_oss")
    sizes = {name: weight.numel() for name, weight in made.named_parameters()}
    add_adapter(made, LoraSettings(rank=2), Key.of(0))
    reach = coverage(made)
    attention = sum(size for name, size in sizes.items() if name.endswith("_proj.weight"))
    assert (reach.reached, reach.total) == (attention, sum(sizes.values()))
    assert next(iter(reach.left_out)) == "mlp.experts.gate_up_proj"
    assert "mlp.experts.gate_up_proj (" in reach.sentence()
    assert reach.trained == sum(weight.numel() for weight in made.parameters() if weight.requires_grad)


def test_a_small_reach_is_a_warning_with_what_to_type() -> None:
    made = model("gpt_oss")
    add_adapter(made, LoraSettings(rank=2, targets=("k_proj",)), Key.of(0))
    reach = coverage(made)
    assert reach.small
    assert "*experts*" in reach.advice()
    whole = model("gpt_oss")
    add_adapter(whole, LoraSettings(rank=2, targets=("all-linear", "*experts*")), Key.of(0))
    assert not coverage(whole).small
    assert coverage(whole).share > 0.8


def test_routers_that_choose_have_no_adapter() -> None:
    """Their output is not a product alone, which an adapter could add to."""
    for kind, router in (("phimoe", "mlp.router"), ("llama4_text", "feed_forward.router")):
        adapted = matrix.policy_of(kind, adapted=True).model
        assert not hasattr(adapted.model.layers[-1].get_submodule(router), "lora_A")
        assert adapted(input_ids=IDS).logits.isfinite().all()
        with pytest.raises(ConfigurationError, match="no linear layer and no weight is called 'router'"):
            add_adapter(matrix.policy_of(kind).model, LoraSettings(targets=("router",)), Key.of(0))


def test_layers_that_peft_refuses_are_left_out() -> None:
    """A state space's kernels read `out_proj` past the layer."""
    config = AutoConfig.for_model(
        "falcon_h1", **SIZES, mamba_d_ssm=16, mamba_n_heads=2, mamba_d_head=8, mamba_d_state=4, mamba_chunk_size=4
    )
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(config)
    add_adapter(made, LoraSettings(rank=2), Key.of(0))
    assert "mamba.out_proj" in coverage(made).left_out
    assert "self_attn.q_proj" not in coverage(made).left_out


@pytest.mark.parametrize("name", ["q_pro", "*norm*"])
def test_a_target_that_nothing_is_called_is_refused(name: str) -> None:
    """Norms are vectors, and have no adapters."""
    with pytest.raises(ConfigurationError, match=r"no linear layer and no weight"):
        add_adapter(model("llama"), LoraSettings(rank=2, targets=("q_proj", name)), Key.of(0))


@pytest.mark.parametrize(("targets", "more"), [(None, {"dora": True}), (None, {"rslora": True}), (("*experts*",), {})])
def test_only_adapters_around_stacks_leave_the_fast_pass(targets, more) -> None:
    made = model("qwen3_moe" if targets else "qwen3")
    add_adapter(made, LoraSettings(rank=2, targets=targets, **more), Key.of(0))
    policy = CausalLM(made, tiny_models.tokenizer())
    assert policy._shares([]) is (not_joined(made) is None) is (targets is None)

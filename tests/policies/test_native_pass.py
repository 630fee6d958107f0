"""Architectures without a form, by their own forward pass: padded rows, heads in parts, and what trials find out."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import heads, native_pass
from hocket.policies.causal_lm import CausalLM
from hocket.policies.heads import finished
from hocket.policies.lora import add_adapter
from hocket.policies.native_pass import NativeHead, cache_traits, native_head, native_states, steady_length
from hocket.policies.scorer import Scorer, over_trunk
from hocket.policies.sequences import blocks_of, padded, rows_of
from hocket.policies.settings import LoraSettings
from hocket.policies.stored_weights import freeze_in
from hocket.policies.support import trusted
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))
import tiny_models

KINDS = ["gpt_neox", "falcon", "nanochat"]
WANTED = [Quantity.LOGP, Quantity.ENTROPY]


def batch_of(lengths=((5, 7), (11, 3), (23, 9), (4, 1))):
    draws = Key.of(1).numpy()
    turns = [
        Turn("a", "policy", draws.integers(3, 40, prompt), draws.integers(3, 40, answer)) for prompt, answer in lengths
    ]
    return pack([Trajectory(Scenario(str(number)), [turn]) for number, turn in enumerate(turns)])


def unpadded(model, batch):
    """Log-probs and entropies `[T]` in float64, of each turn alone, and the logits of each."""
    logp, entropy = [], []
    for turn in range(batch.turns):
        action = batch.action[batch.turn == turn]
        observed = torch.as_tensor(np.asarray(batch.observation[turn]))
        logits = model(input_ids=torch.cat((observed, action))[None], use_cache=False).logits[0, len(observed) - 1 : -1]
        all_logp = torch.log_softmax(logits, -1)
        logp.append(all_logp.gather(1, action[:, None])[:, 0])
        entropy.append(-(all_logp.exp() * all_logp).sum(1))
    return torch.cat(logp), torch.cat(entropy)


def exact(policy):
    model = copy.deepcopy(policy.model).double()
    model.set_attn_implementation("eager")
    return model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_padded_rows_and_logits_in_parts_give_the_unpadded_pass(kind, checkpointing, monkeypatch):
    policy, batch = tiny_models.policy(kind), batch_of()
    assert not trusted(policy.model)
    policy.checkpointing = checkpointing
    assert len(policy.parts(rows_of(batch, torch.arange(batch.decisions)))) == 1
    monkeypatch.setattr(heads, "LOGIT_BUDGET", 7 * policy.model.config.vocab_size)
    weights = torch.from_numpy(Key.of(2).numpy().normal(size=(2, batch.decisions))).float()
    read = policy.evaluate(batch, WANTED)
    due_model = exact(policy)
    due = unpadded(due_model, batch)
    for found, exact_values in zip((read.logp, read.entropy), due, strict=True):
        assert (found - exact_values).abs().max() <= 1e-5 * exact_values.abs().max()
    (weights[0] * read.logp + weights[1] * read.entropy).sum().backward()
    (weights[0] * due[0] + weights[1] * due[1]).sum().backward()
    for (name, mine), exact_weight in zip(policy.model.named_parameters(), due_model.parameters(), strict=True):
        assert (mine.grad - exact_weight.grad).abs().max() <= 2e-5 * exact_weight.grad.abs().max(), name


@pytest.mark.parametrize("kind", KINDS)
def test_in_float64_states_and_head_are_those_of_the_unpadded_pass(kind):
    model = exact(tiny_models.policy(kind))
    rows = rows_of(batch_of(), torch.arange(batch_of().decisions))
    with torch.no_grad():
        states = native_states(model, padded(rows).ids)
        head = native_head(model)
        assert isinstance(head, NativeHead) == (kind == "nanochat")  # It caps its logits.
        for row, mine in zip(rows, states, strict=True):
            due = model(input_ids=torch.from_numpy(row.tokens)[None], use_cache=False).logits[0]
            assert (head(mine[: len(row.tokens)]) - due).abs().max() < 1e-9


def test_activations_are_made_again_with_checkpointing():
    policy, batch = tiny_models.policy("gpt_neox"), batch_of()
    policy.evaluate(batch, WANTED)
    layer = policy.model.base_model.layers[0]
    calls = []
    hook = layer.mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    for checkpointing, count in ((False, 1), (True, 2)):
        policy.checkpointing, calls[:] = checkpointing, []
        policy.evaluate(batch, WANTED).logp.sum().backward()
        assert len(calls) == count
    hook.remove()
    assert "forward" not in vars(layer)


def test_attention_is_fused_where_that_gives_the_same_numbers(monkeypatch):
    for kind in ("gpt_neox", "nanochat"):
        policy = tiny_models.policy(kind)
        policy.evaluate(batch_of(), WANTED)
        assert policy.model.config._attn_implementation == "sdpa"
    scorer = Scorer(over_trunk(tiny_models.model("gpt_neox", 40), 1, Key.of(0)), tiny_models.tokenizer())
    scorer.evaluate(batch_of(), [Quantity.SCORE])
    assert scorer.model.config._attn_implementation == "sdpa"
    other = tiny_models.policy("gpt_neox")
    monkeypatch.setattr(native_pass, "_close", lambda *_: False)
    other.evaluate(batch_of(), WANTED)
    assert other.model.config._attn_implementation == "eager"


def test_a_model_without_a_separate_head_is_read_as_a_whole(monkeypatch):
    policy, batch = tiny_models.policy("gpt_neox"), batch_of()
    due = policy.evaluate(batch, WANTED)
    due.logp.sum().backward()
    before = policy.model.base_model.layers[0].mlp.dense_h_to_4h.weight.grad.clone()
    policy.module.zero_grad()
    monkeypatch.setattr(native_pass._trials[policy.model], "split", False)
    assert policy.head is finished
    monkeypatch.setattr(heads, "LOGIT_BUDGET", 7 * policy.model.config.vocab_size)
    read = policy.evaluate(batch, WANTED)
    torch.testing.assert_close(read.logp, due.logp, atol=1e-5, rtol=1e-5)
    read.logp.sum().backward()
    found = policy.model.base_model.layers[0].mlp.dense_h_to_4h.weight.grad
    torch.testing.assert_close(found, before, atol=1e-4, rtol=1e-4)


def test_a_head_that_disagrees_is_not_used(monkeypatch):
    policy = tiny_models.policy("nanochat")
    original = NativeHead.__call__
    monkeypatch.setattr(NativeHead, "__call__", lambda self, states: original(self, states) * 1.01)
    assert native_head(policy.model) is None


def test_narrow_products_stay_near(monkeypatch):
    batch, due = batch_of(), tiny_models.policy("gpt_neox").evaluate(batch_of(), WANTED).logp
    policy = CausalLM(tiny_models.policy("gpt_neox").model, tiny_models.tokenizer(), precision="bf16")
    read = policy.evaluate(batch, WANTED)
    assert native_head(policy.model) is not None
    assert cache_traits(policy.model).pads
    assert 0 < (read.logp - due).abs().max() < 0.3
    read.logp.sum().backward()
    assert all(weight.grad is not None for weight in policy.model.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_on_codes_samples_and_learns(kind):
    """Falcon's linear layers stay in bf16, and nanochat has no weights outside its codes."""
    model = tiny_models.model(kind, 45)
    freeze_in(model, "nf4")
    add_adapter(model, LoraSettings(rank=2), Key.of(0))
    policy = CausalLM(model, tiny_models.tokenizer(), precision="bf16")
    asked = [Request(tuple(range(3, 8 + 4 * n)), Decoding(max_tokens=5), Key.of(n)) for n in range(3)]
    samples = LocalEngine(policy).sample(asked)
    turns = [
        Turn("a", "policy", np.array(request.tokens), sample.tokens)
        for request, sample in zip(asked, samples, strict=True)
    ]
    logp = policy.evaluate(pack([Trajectory(Scenario("s"), [turn]) for turn in turns]), [Quantity.LOGP]).logp
    assert np.abs(logp.detach().numpy() - np.concatenate([sample.logp for sample in samples])).max() < 0.2
    logp.sum().backward()
    trained = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert trained
    assert all("lora_" in name for name in trained)


def test_rows_beyond_the_length_at_which_positions_change_are_padded_to_no_other():
    policy = tiny_models.policy("gpt_neox")
    assert steady_length(policy.model) is None
    policy.model.config.rope_parameters = {
        "rope_type": "dynamic",
        "factor": 2.0,
        "original_max_position_embeddings": 16,
    }
    assert steady_length(policy.model) == 16
    batch = batch_of(((5, 7), (11, 3), (23, 9), (23, 9), (24, 9)))
    rows = rows_of(batch, torch.arange(batch.decisions))
    assert [[len(row.tokens) for row in part] for part in policy.parts(rows)] == [[32], [31, 31], [13, 11]]
    assert len(blocks_of(rows, policy.token_budget)) == 1

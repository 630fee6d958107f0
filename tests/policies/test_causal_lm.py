"""The language model as a policy: exact log-probs under any packing, copies, adapters and heads on disk."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_models

from hocket.core.divergences import DivergencePart, JensenShannon, SkewedForward
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import heads
from hocket.policies.causal_lm import CausalLM
from hocket.policies.settings import LoraSettings
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

torch.set_num_threads(1)
EVERYTHING = (Quantity.LOGP, Quantity.ENTROPY, Quantity.VALUE, Quantity.KL_EXACT)
KINDS = ("qwen3", "llama", "gpt2", "gemma2")


def turn(draw, parent=None, length=None):
    seen = draw.integers(3, 40, draw.integers(1, 9))
    acted = draw.integers(3, 40, length or draw.integers(1, 7))
    decoding = Decoding(temperature=float(draw.choice([0.7, 1.0, 1.4])))
    return Turn("a", "policy", seen, acted, parent=parent, decoding=decoding)


def tree(seed=0):
    """Trajectories with shared ancestors, forks and chains of several lengths."""
    draw = Key.of(seed).numpy()
    trajectories = []
    for number in range(4):
        root = turn(draw)
        middle = turn(draw, root)
        paths = [[root, middle, turn(draw, middle)], [root, middle, turn(draw, middle)], [root, turn(draw, root)]]
        paths.append([turn(draw)])
        for path in paths[: 2 + number % 3]:
            cut = bool(draw.integers(2))
            trajectories.append(Trajectory(Scenario(str(number)), path, terminated=not cut, truncated=cut))
    return pack(trajectories)


def spoken(policy, batch, number):
    """The whole sequence up to and including turn `number`, and where its own actions begin."""
    parent = int(batch.parent[number])
    before = spoken(policy, batch, parent)[0] if parent >= 0 else []
    acted = batch.action[batch.turn == number].tolist()
    return [*before, *batch.observation[number].tolist(), *acted], len(before) + len(batch.observation[number])


def plain(policy, batch, reference=None):
    """Every quantity of every decision, one unpadded sequence per turn, straight from the model."""
    columns = {quantity.value: [] for quantity in EVERYTHING}
    for number in range(batch.turns):
        sequence, start = spoken(policy, batch, number)
        out = policy.model(torch.tensor([sequence]), output_hidden_states=True)
        temperature = batch.temperature[number]
        logp = torch.log_softmax(out.logits[0, start - 1 : -1] / temperature, -1)
        columns["logp"].append(logp.gather(1, torch.tensor(sequence[start:])[:, None])[:, 0])
        columns["entropy"].append(-(logp.exp() * logp).sum(-1))
        head = policy.module.value_head
        columns["value"].append(out.hidden_states[-1][0, start - 1 : -1] @ head.weight + head.bias)
        if reference is not None:
            with torch.no_grad():
                other = reference.model(torch.tensor([sequence])).logits[0, start - 1 : -1]
            columns["kl_exact"].append((logp.exp() * (logp - torch.log_softmax(other / temperature, -1))).sum(-1))
    return {name: torch.cat(parts) for name, parts in columns.items() if parts}


def valued(kind, seed=0):
    policy = tiny_models.policy(kind, seed)
    policy.require(frozenset({Quantity.VALUE}))
    with torch.no_grad():
        policy.module.value_head.weight.copy_(torch.randn(32, generator=Key.of(9).torch()))
        policy.module.value_head.bias.fill_(0.3)
    return policy


def gradients(policy, loss):
    policy.module.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in policy.module.named_parameters()}


def coefficients(batch):
    return torch.from_numpy(Key.of(4).numpy().normal(size=(4, batch.decisions))).float()


def total(evaluation, weights, columns=("logp", "entropy", "value", "kl_exact")):
    return sum((weight * getattr(evaluation, name)).sum() for weight, name in zip(weights, columns, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_evaluate_is_exact(kind):
    policy, reference, batch = valued(kind), tiny_models.policy(kind, 1), tree()
    now = policy.evaluate(batch, EVERYTHING, reference=reference)
    expected = plain(policy, batch, reference)
    for name, values in expected.items():
        assert (getattr(now, name) - values).abs().max() < 1e-5 * values.abs().max().clamp(min=1.0), name
    weights = coefficients(batch)
    found = gradients(policy, total(now, weights))
    due = gradients(policy, sum((w * expected[q.value]).sum() for w, q in zip(weights, EVERYTHING, strict=True)))
    for name, gradient in due.items():
        scale = gradient.abs().max().clamp(min=1.0)
        assert (found[name] - gradient).abs().max() / scale < 2e-5, name


@pytest.mark.parametrize("budget", [1, 40, 90, 10_000])
def test_chunks_and_order_change_nothing(budget):
    policy, reference, batch = valued("qwen3"), tiny_models.policy("qwen3", 1), tree(1)
    weights = coefficients(batch)
    whole = policy.evaluate(batch, EVERYTHING, reference=reference)
    due = gradients(policy, total(whole, weights))
    policy.token_budget = budget
    asked = torch.from_numpy(Key.of(budget).numpy().permutation(batch.decisions))
    parts = policy.chunks(batch, asked)
    assert sorted(torch.cat(parts).tolist()) == list(range(batch.decisions))
    assert len(parts) > 1 or budget == 10_000
    policy.module.zero_grad()
    for part in parts:
        now = policy.evaluate(batch, EVERYTHING, part, reference=reference)
        torch.testing.assert_close(now.logp[part], whole.logp[part].detach(), atol=1e-5, rtol=1e-5)
        total(now, weights).backward()
    for name, parameter in policy.module.named_parameters():
        scale = due[name].abs().max().clamp(min=1.0)
        assert (parameter.grad - due[name]).abs().max() / scale < 2e-5, name


def test_only_asked_decisions_are_evaluated():
    policy, batch = tiny_models.policy("qwen3"), tree(2)
    whole = policy.evaluate(batch, [Quantity.LOGP]).logp
    asked = torch.arange(0, batch.decisions, 3)
    now = policy.evaluate(batch, [Quantity.LOGP], asked)
    torch.testing.assert_close(now.logp[asked], whole[asked], atol=1e-5, rtol=1e-5)
    rest = torch.ones(batch.decisions, dtype=torch.bool)
    rest[asked] = False
    assert not now.logp[rest].any()
    assert now.entropy is None
    nothing = policy.evaluate(batch, [Quantity.LOGP], torch.zeros(0, dtype=torch.long))
    assert nothing.logp.shape == (batch.decisions,)


def test_a_shared_turn_is_read_once_where_sequences_are_padded(monkeypatch):
    policy, batch = tiny_models.policy("qwen3"), tree()
    policy.share_prefixes = False
    policy.evaluate(batch, [Quantity.LOGP])  # Trials of the model's own pass are over.
    read = []
    original = policy.model.model.forward
    monkeypatch.setattr(
        policy.model.model, "forward", lambda *a, **k: (read.append(k["input_ids"].shape[0]), original(*a, **k))[1]
    )
    policy.evaluate(batch, [Quantity.LOGP])
    parents = set(batch.parent.tolist())
    assert sum(read) == sum(number not in parents for number in range(batch.turns))


def test_many_logits_are_made_in_parts(monkeypatch):
    policy, reference, batch = valued("qwen3"), tiny_models.policy("qwen3", 1), tree()
    weights = coefficients(batch)
    whole = policy.evaluate(batch, EVERYTHING, reference=reference)
    due = gradients(policy, total(whole, weights))
    monkeypatch.setattr(heads, "LOGIT_BUDGET", 7 * policy.model.config.vocab_size)
    parts = policy.evaluate(batch, EVERYTHING, reference=reference)
    torch.testing.assert_close(parts.kl_exact, whole.kl_exact, atol=1e-6, rtol=1e-6)
    for name, gradient in gradients(policy, total(parts, weights)).items():
        torch.testing.assert_close(gradient, due[name], atol=1e-4, rtol=1e-4)


def test_final_values():
    policy, batch = valued("llama"), tree(3)
    found = policy.final_values(batch)
    policy.module.requires_grad_(False)
    assert batch.truncated.any()
    assert not batch.truncated.all()
    for number in range(batch.trajectories):
        last = int(batch.turn[batch.occurrences.decision[batch.last()[number]]])
        states = policy.model(torch.tensor([spoken(policy, batch, last)[0]]), output_hidden_states=True).hidden_states
        head = policy.module.value_head
        due = states[-1][0, -1] @ head.weight + head.bias if batch.truncated[number] else torch.tensor(0.0)
        assert abs(float(found[number]) - float(due)) < 1e-4


def test_a_divergence_is_computed_beside_the_exact_kl():
    """The reverse form is that KL; another one is counted from whole logits."""
    policy, reference, batch = tiny_models.policy("qwen3"), tiny_models.policy("qwen3", seed=7), tree(2)
    wanted = [Quantity.KL_EXACT, Quantity.DIVERGENCE]
    DivergencePart(JensenShannon(1.0)).install(policy)
    found = policy.evaluate(batch, wanted, reference=reference)
    torch.testing.assert_close(found.divergence, found.kl_exact)
    assert float(found.kl_exact.max()) > 1e-3
    policy.divergence = SkewedForward(0.1)
    found = policy.evaluate(batch, wanted, reference=reference)
    everything, every = torch.arange(batch.decisions), torch.arange(batch.decisions)
    tables = [one.distributions(batch, everything)(every).double() for one in (policy, reference)]
    torch.testing.assert_close(found.divergence.double(), policy.divergence(*tables), atol=1e-6, rtol=1e-5)
    with pytest.raises(HocketError, match="needs a reference"):
        policy.evaluate(batch, [Quantity.DIVERGENCE])


def test_refusals():
    policy, batch = tiny_models.policy("qwen3"), tree()
    with pytest.raises(HocketError, match="no value head"):
        policy.evaluate(batch, [Quantity.VALUE])
    with pytest.raises(HocketError, match="needs a reference"):
        policy.evaluate(batch, [Quantity.KL_EXACT])
    silent = Turn("a", "policy", np.zeros(0, np.int64), np.array([4, 5]))
    with pytest.raises(HocketError, match="agent 'a' begins without any context"):
        policy.evaluate(pack([Trajectory(Scenario("s"), [silent])]), [Quantity.LOGP])
    endless = Turn("a", "policy", np.full(300, 5), np.array([4, 5]))
    with pytest.raises(HocketError, match="301 tokens exceeds the context"):
        policy.evaluate(pack([Trajectory(Scenario("s"), [endless])]), [Quantity.LOGP])


def test_frozen_copy_stands_still():
    policy, batch = valued("qwen2"), tree()
    reference = policy.frozen_copy()
    before = policy.evaluate(batch, [Quantity.LOGP]).logp.detach()
    assert not any(parameter.requires_grad for parameter in reference.module.parameters())
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.mul_(1.1)
    assert torch.equal(reference.evaluate(batch, [Quantity.LOGP]).logp, before)
    assert (policy.evaluate(batch, [Quantity.LOGP]).logp - before).abs().max() > 0.01


def test_default_learning_rate_falls_with_size():
    policy = tiny_models.policy("qwen3")
    size = sum(parameter.numel() for parameter in policy.model.parameters())
    assert policy.default_lr == pytest.approx(min(1e-3, 1e-4 * (1e6 / size) ** 0.5))


# ---------------------------------------------------------------- on disk


def saved(tmp_path, kind="qwen3", **more):
    policy = tiny_models.policy(kind, **more)
    policy.save(tmp_path / "base")
    return tmp_path / "base"


def log_probs(model, sequence):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([sequence])).logits[0], -1)


@pytest.mark.parametrize("kind", ["qwen3", "qwen2", "gpt2"])
def test_saved_weights_come_back_exactly(tmp_path, kind):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    before = torch.get_rng_state()
    policy = valued(kind)
    policy.save(tmp_path / "a")
    again = CausalLM.from_pretrained(tmp_path / "a", key=Key.of(0))
    other = tiny_models.policy(kind, 5)
    other.load(tmp_path / "a")
    due = policy.module.state_dict()
    for found in (again, other):
        state = found.module.state_dict()
        assert state.keys() == due.keys()
        assert all(torch.equal(state[name], due[name]) for name in due)
    fresh = AutoModelForCausalLM.from_pretrained(tmp_path / "a").eval()
    assert torch.allclose(log_probs(fresh, [5, 6, 7, 8]), log_probs(policy.model, [5, 6, 7, 8]), atol=1e-5)
    assert AutoTokenizer.from_pretrained(tmp_path / "a").decode([5, 6]) == policy.tokenizer.decode([5, 6])
    assert torch.equal(before, torch.get_rng_state())


def adapted(folder, rank=3, seed=0):
    """A policy whose adapter is far from zero."""
    policy = CausalLM.from_pretrained(folder, lora=LoraSettings(rank=rank, alpha=6.0), key=Key.of(seed))
    generator = Key.of(8).torch()
    with torch.no_grad():
        for parameter in policy.parameter_groups()["policy"]:
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return policy


@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_an_adapter_acts_in_sampler_and_learner_alike(tmp_path, kind):
    folder, batch = saved(tmp_path, kind), tree()
    before = torch.get_rng_state()
    new = CausalLM.from_pretrained(folder, lora=LoraSettings(rank=3), key=Key.of(0))
    base = CausalLM.from_pretrained(folder, key=Key.of(0))
    found, due = (policy.evaluate(batch, [Quantity.LOGP]).logp for policy in (new, base))
    torch.testing.assert_close(found, due, atol=1e-5, rtol=1e-5)  # B is zero at first
    policy = adapted(folder)
    assert torch.equal(before, torch.get_rng_state())
    decoding = Decoding(max_tokens=20)
    asked = [Request((5, 6, 7 + n), decoding, Key.of(n)) for n in range(6)]
    samples, plain_samples = LocalEngine(policy).sample(asked), LocalEngine(base).sample(asked)
    assert any(one.tokens.tolist() != other.tokens.tolist() for one, other in zip(samples, plain_samples, strict=True))
    turns = [
        Turn("a", "policy", np.array(r.tokens), s.tokens, s.logp, decoding=decoding)
        for r, s in zip(asked, samples, strict=True)
    ]
    packed = pack([Trajectory(Scenario(str(n)), [one]) for n, one in enumerate(turns)])
    now = policy.evaluate(packed, [Quantity.LOGP])
    assert (now.logp - packed.logp["behaviour"].values).abs().max() < 1e-4
    now.logp.sum().backward()
    trained = {name for name, parameter in policy.module.named_parameters() if parameter.grad is not None}
    assert trained
    assert all("lora_" in name for name in trained)


def test_an_adapters_reference_is_its_base(tmp_path):
    folder, batch = saved(tmp_path), tree()
    policy, base = adapted(folder), CausalLM.from_pretrained(folder, key=Key.of(0))
    reference = policy.frozen_copy()
    due = base.evaluate(batch, [Quantity.LOGP]).logp
    assert reference.model is policy.model
    torch.testing.assert_close(reference.evaluate(batch, [Quantity.LOGP]).logp, due, atol=1e-5, rtol=1e-5)
    now = policy.evaluate(batch, [Quantity.LOGP, Quantity.KL_EXACT], reference=reference)
    assert (now.logp - due).abs().max() > 0.05
    apart = policy.evaluate(batch, [Quantity.KL_EXACT], reference=base)
    torch.testing.assert_close(now.kl_exact, apart.kl_exact, atol=1e-5, rtol=1e-5)
    asked = [Request((5, 6, 7), Decoding(max_tokens=9), Key.of(n)) for n in range(4)]
    for one, other in zip(LocalEngine(reference).sample(asked), LocalEngine(base).sample(asked), strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()


@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_an_adapter_comes_back_exactly_and_merged(tmp_path, kind):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    folder = saved(tmp_path, kind)
    policy = adapted(folder)
    policy.require(frozenset({Quantity.VALUE}))
    policy.save(tmp_path / "trained")
    again = CausalLM.from_pretrained(folder, lora=LoraSettings(rank=3, alpha=6.0), key=Key.of(77))
    again.load(tmp_path / "trained")
    due = policy.module.state_dict()
    assert all(torch.equal(value, due[name]) for name, value in again.module.state_dict().items())
    expected = log_probs(policy.model, [5, 6, 7, 8, 9])
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "trained").eval()
    assert torch.allclose(log_probs(merged, [5, 6, 7, 8, 9]), expected, atol=1e-4)
    base = AutoModelForCausalLM.from_pretrained(folder)
    with torch.random.fork_rng():  # peft draws weights before it reads them
        wrapped = PeftModel.from_pretrained(base, str(tmp_path / "trained" / "adapter")).eval()
    assert torch.allclose(log_probs(wrapped, [5, 6, 7, 8, 9]), expected, atol=1e-5)
    with pytest.raises(ConfigurationError, match="another rank"):
        CausalLM.from_pretrained(folder, lora=LoraSettings(rank=4), key=Key.of(0)).load(tmp_path / "trained")
    with pytest.raises(ConfigurationError, match="without LoRA"):
        again.load(folder)


def test_adapters_depend_on_their_key_alone(tmp_path):
    folder = saved(tmp_path)
    one, same, other = (
        CausalLM.from_pretrained(folder, lora=LoraSettings(rank=2), key=Key.of(seed)).module.state_dict()
        for seed in (1, 1, 2)
    )
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_lora_refusals(tmp_path):
    folder = saved(tmp_path)
    with pytest.raises(ConfigurationError, match=r"lora\.targets"):
        CausalLM.from_pretrained(folder, lora=LoraSettings(targets=("nowhere",)), key=Key.of(0))
    with pytest.raises(ConfigurationError, match="dropout"):
        CausalLM.from_pretrained(folder, lora=LoraSettings(dropout=0.1), key=Key.of(0))
    settings = dataclasses.replace(LoraSettings(), targets=("q_proj",))
    policy = CausalLM.from_pretrained(folder, lora=settings, key=Key.of(0))
    assert policy.default_lr > 9 * CausalLM.from_pretrained(folder, key=Key.of(0)).default_lr
    assert len(policy.parameter_groups()["policy"]) == 4


# ---------------------------------------------------------------- what cannot be loaded


def test_loading_refusals(tmp_path, monkeypatch):
    def load(place, **more):
        return CausalLM.from_pretrained(place, key=Key.of(0), **more)

    with pytest.raises(ConfigurationError, match=r"there is no model folder '/nowhere/at/all'"):
        load("/nowhere/at/all")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match=r"no config\.json"):
        load(tmp_path / "empty")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigurationError, match="neither a folder here nor in the local hub cache"):
        load("nobody/no-such-model")
    folder = saved(tmp_path)
    (folder / "chat_template.jinja").rename(tmp_path / "template.jinja")
    with pytest.raises(ConfigurationError, match="no chat template; name one"):
        load(folder)
    assert load(folder, chat_template=str(tmp_path / "template.jinja")).tokenizer.chat_template
    with pytest.raises(ConfigurationError, match="there is no such file"):
        load(folder, chat_template="absent.jinja")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load(folder, chat_template=str(tmp_path / "template.jinja"))


def test_a_tokenizer_without_padding_pads_with_its_end(tmp_path):
    policy = tiny_models.policy("qwen3")
    policy.tokenizer.pad_token = None
    policy.save(tmp_path / "a")
    assert CausalLM.from_pretrained(tmp_path / "a", key=Key.of(0)).tokenizer.pad_token == "<end>"
    policy.tokenizer.eos_token = None
    policy.tokenizer.pad_token = "<pad>"
    policy.save(tmp_path / "b")
    with pytest.raises(ConfigurationError, match="no end-of-text token"):
        CausalLM.from_pretrained(tmp_path / "b", key=Key.of(0))

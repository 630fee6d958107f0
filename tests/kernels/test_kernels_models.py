"""Whole models by the kernels: log-probs, entropies and gradients against `transformers`; checkpointing; bits."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_models
from kernel_oracle import same, threads

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import family, kernels
from hocket.policies.causal_lm import CausalLM
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not kernels.available(), reason="no kernels here")
BOTH = (Quantity.LOGP, Quantity.ENTROPY)
BASE = Path(__file__).parents[2] / "hocket" / "nano" / "base"
TEXTS = ("12+35=", "What is 7 times 8?", "the quick brown fox jumps over the lazy dog. " * 3)


@pytest.fixture(scope="module")
def nano():
    return CausalLM.from_pretrained(BASE, key=Key.of(0))


@pytest.fixture(params=["tiny", "nano"])
def policy(request, nano):
    """A model of random weights, or the shipped one; both attend by the kernels."""
    found = tiny_models.policy("qwen3") if request.param == "tiny" else nano
    config = found.model.config
    assert kernels.available(config.head_dim)
    found.module.zero_grad()
    return found


def batch(policy, seed=0, *, answers=3, length=12, temperature=None):
    """Answers of random tokens to prompts of text, and a second turn after one of them."""
    draw = Key.of(seed).numpy()
    vocabulary = len(policy.tokenizer)
    trajectories = []
    for number, text in enumerate(TEXTS):
        prompt = np.array(policy.tokenizer(text.lower())["input_ids"])
        for _ in range(answers):
            decoding = Decoding(temperature=temperature or float(draw.choice([0.6, 1.0, 1.4])))
            turns = [
                Turn("a", "policy", prompt, draw.integers(3, vocabulary, draw.integers(1, length)), decoding=decoding)
            ]
            if number == 1:
                more = draw.integers(3, vocabulary, 5)
                turns.append(
                    Turn("a", "policy", more, draw.integers(3, vocabulary, 7), parent=turns[0], decoding=decoding)
                )
            trajectories.append(Trajectory(Scenario(str(number)), turns))
    return pack(trajectories)


def plain(model, read):
    """Log-probs and entropies of every decision by the model's own forward pass, one sequence per turn, unpadded."""

    def spoken(number):
        parent = int(read.parent[number])
        before = spoken(parent)[0] if parent >= 0 else []
        acted = read.action[read.turn == number].tolist()
        return [*before, *read.observation[number].tolist(), *acted], len(before) + len(read.observation[number])

    logps, entropies = [], []
    for number in range(read.turns):
        sequence, start = spoken(number)
        logits = model(torch.tensor([sequence])).logits[0, start - 1 : -1]
        logp = torch.log_softmax(logits / read.temperature[number].to(logits.dtype), -1)
        logps.append(logp.gather(1, torch.tensor(sequence[start:])[:, None])[:, 0])
        entropies.append(-(logp.exp() * logp).sum(-1))
    return torch.cat(logps), torch.cat(entropies)


def answered(policy, temperature):
    """The policy's own answers, and the log-probs they were sampled with."""
    asked = [
        Request(
            tuple(policy.tokenizer(text.lower())["input_ids"]),
            Decoding(temperature=temperature, max_tokens=24),
            Key.of(i),
        )
        for i, text in enumerate(TEXTS * 3)
    ]
    turns = [
        Turn("a", "policy", np.array(r.tokens), s.tokens, logp=s.logp, decoding=r.decoding)
        for r, s in zip(asked, LocalEngine(policy).sample(asked), strict=True)
    ]
    return pack([Trajectory(Scenario(str(i)), [turn]) for i, turn in enumerate(turns)])


def test_log_probs_are_those_of_transformers(policy):
    """On the policy's likeliest words; on words that it finds unlikely see below."""
    read = answered(policy, 0.0)
    with torch.no_grad():
        now = policy.evaluate(read, BOTH)
        logp, entropy = plain(policy.model, read)
    assert (now.logp - logp).abs().max() < 1e-5
    assert (now.entropy - entropy).abs().max() < 1e-5


@pytest.mark.parametrize("seed", range(3))
def test_log_probs_are_as_exact_as_those_of_transformers(policy, seed):
    """Random tokens have log-probs down to -35, where one rounding is 2e-6: measured against float64, both."""
    read = batch(policy, seed)
    with torch.no_grad():
        now = policy.evaluate(read, BOTH)
        found = torch.stack((now.logp, now.entropy))
        other = torch.stack(plain(policy.model, read))
        due = torch.stack(plain(copy.deepcopy(policy.model).double(), read))
    assert (found - due).norm() < 2 * (other - due).norm()
    assert ((found - due).abs() < 2e-6 * (10 + due.abs())).all()


def gradients(policy, read, weights):
    policy.module.zero_grad()
    now = policy.evaluate(read, BOTH)
    (weights[0] * now.logp + weights[1] * now.entropy).sum().backward()
    return {name: p.grad.clone() for name, p in policy.model.named_parameters() if p.grad is not None}


def weights_of(read):
    return torch.from_numpy(Key.of(4).numpy().normal(size=(2, read.decisions))).float()


def test_gradients_are_those_of_float64(policy):
    read = batch(policy)
    weights = weights_of(read)
    found = gradients(policy, read, weights)
    double = copy.deepcopy(policy.model).double()
    double.zero_grad()
    # Rotary angles are made in fp32 whatever the weights are.
    logp, entropy = plain(double, read)
    (weights[0] * logp + weights[1] * entropy).sum().backward()
    due = {name: p.grad for name, p in double.named_parameters() if p.grad is not None}
    assert found.keys() == due.keys()
    for name, gradient in due.items():
        error = (found[name] - gradient).norm() / gradient.norm()
        assert error < 1e-5, f"{name}: {error:.2g}"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_checkpointing_changes_no_bit_and_holds_less(policy, precision):
    read = batch(policy)
    weights = weights_of(read)
    found, held = [], []
    before = policy.precision
    try:
        policy.precision = precision
        for policy.checkpointing in (False, True):
            sizes = {}

            def pack_one(tensor, sizes=sizes):
                sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
                return tensor

            with torch.autograd.graph.saved_tensors_hooks(pack_one, lambda tensor: tensor):
                now = policy.evaluate(read, BOTH)
            weights_too = [p.untyped_storage().data_ptr() for p in policy.module.parameters()]
            held.append(sum(size for place, size in sizes.items() if place not in weights_too))
            policy.module.zero_grad()
            (weights[0] * now.logp + weights[1] * now.entropy).sum().backward()
            found.append({name: p.grad.clone() for name, p in policy.model.named_parameters()})
    finally:
        policy.checkpointing, policy.precision = False, before
    for name, gradient in found[0].items():
        assert same(gradient, found[1][name]), name
    assert held[1] < 0.5 * held[0]


def test_bf16_is_near_fp32(nano):
    """Errors of 2^-8 in each of some twenty products in a row, of logits of some nats."""
    read = batch(nano)
    with torch.no_grad():
        whole = nano.evaluate(read, BOTH)
        nano.precision = "bf16"
        try:
            half = nano.evaluate(read, BOTH)
        finally:
            nano.precision = "fp32"
    gap = (whole.logp - half.logp).abs()
    assert 0 < gap.max() < 0.3
    assert gap.mean() < 0.05


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0, 1.3])
def test_sampler_and_learner_agree_to_the_last_bit(policy, precision, temperature):
    before = policy.precision
    try:
        policy.precision = precision
        read = answered(policy, temperature)
        with torch.no_grad():
            now = policy.evaluate(read, [Quantity.LOGP])
    finally:
        policy.precision = before
    behaviour = read.logp["behaviour"].values
    differ = (now.logp != behaviour).float().mean()
    assert differ == 0, f"{differ:.0%} differ, by up to {(now.logp - behaviour).abs().max():.2g}"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_neither_threads_nor_company_change_a_bit(policy, precision):
    """The log-probs of some decisions, asked alone, with all others, in small parts, on two threads."""
    read = batch(policy, 3)
    before, budget = policy.precision, policy.token_budget
    try:
        policy.precision = precision
        with torch.no_grad():
            whole = policy.evaluate(read, BOTH)
            with threads(2):
                crew = policy.evaluate(read, BOTH)
            some = torch.arange(0, read.decisions, 7)
            few = policy.evaluate(read, BOTH, some)
            policy.token_budget = 40
            parts = policy.evaluate(read, BOTH)
    finally:
        policy.precision, policy.token_budget = before, budget
    for column in ("logp", "entropy"):
        due = getattr(whole, column)
        assert same(getattr(crew, column), due), "threads"
        assert same(getattr(parts, column), due), "parts"
        assert same(getattr(few, column)[some], due[some]), "few"


def passed(policy, read):
    """Log-probs, entropies, and gradients by name."""
    weights = weights_of(read)
    policy.module.zero_grad()
    now = policy.evaluate(read, BOTH)
    (weights[0] * now.logp + weights[1] * now.entropy).sum().backward()
    return now, {name: weight.grad.clone() for name, weight in policy.model.named_parameters()}


def test_feed_forward_in_parts_gives_the_gradients_of_the_whole(policy, monkeypatch):
    """Values to the bit; gradients of weights are summed over the parts."""
    read = batch(policy)
    due, whole = passed(policy, read)
    sizes, feed = [], family.Layer.feed
    monkeypatch.setattr(family, "FEED_TOKENS", 16)
    monkeypatch.setattr(family.Layer, "feed", lambda *given: sizes.append(len(given[2])) or feed(*given))
    monkeypatch.setattr(policy, "checkpointing", True)
    found, parts = passed(policy, read)
    assert same(found.logp.detach(), due.logp.detach())
    assert same(found.entropy.detach(), due.entropy.detach())
    layers = policy.model.config.num_hidden_layers
    assert max(sizes) == 16
    assert len(sizes) > 2 * 3 * (layers - 1)
    assert parts.keys() == whole.keys()
    for name, gradient in whole.items():
        assert (parts[name] - gradient).norm() <= 1e-6 * gradient.norm(), name


def test_with_host_checkpoints_leave_the_device_and_change_no_bit(policy, monkeypatch):
    """What an accelerator gives to the host's memory is all that a checkpointed pass holds of its layers."""
    read = batch(policy)
    monkeypatch.setattr(policy, "checkpointing", True)
    _, due = passed(policy, read)
    gone, back = [], []

    def lent(device):
        return torch.autograd.graph.saved_tensors_hooks(
            lambda held: gone.append(held.shape) or held.clone(), lambda held: back.append(held.shape) or held
        )

    monkeypatch.setattr(family, "away", lent)
    monkeypatch.setattr(policy, "checkpointing", "host")
    _, found = passed(policy, read)
    assert all(same(gradient, found[name]) for name, gradient in due.items())
    states = [shape for shape in gone if len(shape) == 2 and shape[1] == policy.model.config.hidden_size]
    assert len(states) == policy.model.config.num_hidden_layers
    assert sorted(back) == sorted(gone)

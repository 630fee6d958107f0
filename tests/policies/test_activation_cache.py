"""The activation cache: what the sampler computed is what the learner would compute, to the last bit."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "engine"))
import tiny_models
from tiny_runs import call, rows

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import activation_cache as room
from hocket.policies import kernels
from hocket.policies.causal_lm import CausalLM
from hocket.policies.settings import LoraSettings
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

pytestmark = pytest.mark.skipif(not kernels.available(16), reason="kernels do not compile here")
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def worthwhile(monkeypatch):
    """Tiny models are recorded too."""
    monkeypatch.setattr(room, "WORTH", 0)


def model(kind, precision="fp32"):
    words = tiny_models.tokenizer()
    more = {} if kind == "qwen3" else {"head_dim": 16}
    made = CausalLM(tiny_models.model(kind, len(words), **more), words, precision=precision)
    made.require(frozenset({Quantity.VALUE}))
    with torch.no_grad():
        made.module.value_head.weight.add_(0.1)
    return made


def conversations(policy, engine, prompts, samples=3, turns=2, most=9):
    """Trajectories of several turns, sampled together turn by turn."""
    found = [Trajectory(Scenario(str(n)), []) for n in range(len(prompts)) for _ in range(samples)]
    contexts = [tuple(prompts[n]) for n in range(len(prompts)) for _ in range(samples)]
    for turn in range(turns):
        decoding = Decoding(max_tokens=most + turn)
        asked = [Request(c, decoding, Key.of(7).derive(turn, n)) for n, c in enumerate(contexts)]
        for place, (request, sample) in enumerate(zip(asked, engine.sample(asked), strict=True)):
            before = len(found[place].turns)
            new = request.tokens if not before else tuple(range(5, 9))
            parent = found[place].turns[-1] if before else None
            found[place].turns.append(
                Turn("a", "policy", np.array(new), sample.tokens, sample.logp, decoding=decoding, parent=parent)
            )
            contexts[place] = (*request.tokens, *sample.tokens.tolist(), *range(5, 9))
    return pack(found)


def gradients(policy, batch, asked, recorded):
    """By name, of a random sum of everything a policy says; also how many parts were replayed."""
    activations = policy.activations
    if not recorded:
        policy.activations = None
    weights = torch.from_numpy(Key.of(4).numpy().normal(size=(3, batch.decisions))).float()
    policy.module.zero_grad(set_to_none=True)
    for chunk in policy.chunks(batch, asked):
        said = policy.evaluate(batch, [Quantity.LOGP, Quantity.ENTROPY, Quantity.VALUE], chunk)
        told = torch.stack([said.logp, said.entropy, said.value])
        (told * weights)[:, chunk].sum().backward()
    policy.activations = activations
    return {name: p.grad.clone() for name, p in policy.module.named_parameters() if p.grad is not None}


@pytest.fixture
def replayed(monkeypatch):
    """Counts the parts whose forward pass was known."""
    count = []
    plain = room.ActivationCache.find

    def find(self, rows, tree):
        found = plain(self, rows, tree)
        count.append(found is not None)
        return found

    monkeypatch.setattr(room.ActivationCache, "find", find)
    return count


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["qwen3", "qwen2", "llama"])
def test_gradients_are_the_same_bits(kind, precision, replayed):
    policy = model(kind, precision)
    engine = LocalEngine(policy)
    policy.begin_activation_cache()
    batch = conversations(policy, engine, [[*range(20, 40)], [*range(20, 29), 4], [7, 8]])
    asked = torch.arange(batch.decisions)
    found = gradients(policy, batch, asked, recorded=True)
    assert replayed == [True]
    assert same(found, gradients(policy, batch, asked, recorded=False))
    policy.token_budget = 40
    assert same(gradients(policy, batch, asked, recorded=True), gradients(policy, batch, asked, recorded=False))
    assert len(replayed) > 2
    assert all(replayed)


def test_drafts_leave_no_trace(replayed):
    """Tokens of drafts that were not drawn were computed, and are no part of what the learner goes on from."""
    policy = model("qwen3")
    engine = LocalEngine(policy, drafts=6)
    policy.begin_activation_cache()
    prompt, begun, way = (5, 9, 11, 7) * 5, (5, 9, 11, 7) * 3 + (8, 6) + (9, 11, 7, 5) * 2, Decoding(max_tokens=26)
    wanted = [Request(prompt, way, Key.of(n), prefix=begun) for n in range(3)]
    turns = [
        Turn("a", "policy", np.array(prompt), sample.tokens, sample.logp, decoding=way)
        for sample in engine.sample(wanted)
    ]
    batch = pack([Trajectory(Scenario("0"), [turn]) for turn in turns])
    assert 0 < engine.counts.accepted < engine.counts.drafted
    asked = torch.arange(batch.decisions)
    assert same(gradients(policy, batch, asked, recorded=True), gradients(policy, batch, asked, recorded=False))
    assert replayed == [True]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    rows_at_once=st.sampled_from([1, 2, 5, 256]),
    pages=st.sampled_from([14, 40, 1000]),
    turns=st.integers(1, 3),
    share=st.sampled_from([0.3, 1.0]),
)
def test_no_schedule_shows(seed, rows_at_once, pages, turns, share):
    """Whatever rows wait for, are sent back for or share, and whatever is asked of the batch."""
    draw = Key.of(seed).numpy()
    stem = draw.integers(3, 40, int(draw.integers(1, 30))).tolist()
    prompts = [[*stem[: int(draw.integers(0, len(stem) + 1))], *draw.integers(3, 40, 3).tolist()] for _ in range(4)]
    policy = model("qwen3")
    page = 2 * 2 * 2 * 16 * 16 * 4
    engine = LocalEngine(policy, max_rows=rows_at_once, max_bytes=pages * page)
    policy.begin_activation_cache()
    batch = conversations(policy, engine, prompts, turns=turns)
    asked = torch.from_numpy(np.flatnonzero(draw.random(batch.decisions) < share))
    if len(asked):
        assert same(gradients(policy, batch, asked, recorded=True), gradients(policy, batch, asked, recorded=False))


def test_other_weights_are_not_replayed(replayed):
    policy = model("qwen3")
    engine = LocalEngine(policy)
    policy.begin_activation_cache()
    batch = conversations(policy, engine, [[9, 8, 7]])
    asked = torch.arange(batch.decisions)
    with torch.no_grad():
        policy.model.model.norm.weight.mul_(1.5)
    found = gradients(policy, batch, asked, recorded=True)
    assert replayed == []
    assert same(found, gradients(policy, batch, asked, recorded=False))


def test_an_activation_cache_that_grows_too_long_is_thrown_away(replayed, monkeypatch):
    policy = model("qwen3")
    engine = LocalEngine(policy)
    monkeypatch.setattr(room, "MAX_BYTES", 60_000)
    policy.begin_activation_cache()
    batch = conversations(policy, engine, [[9, 8, 7], [5] * 20])
    assert policy.activations.full
    asked = torch.arange(batch.decisions)
    assert same(gradients(policy, batch, asked, recorded=True), gradients(policy, batch, asked, recorded=False))
    assert not any(replayed)


def test_what_was_computed_before_the_cache_began_is_computed_again(replayed):
    policy = model("qwen3")
    engine = LocalEngine(policy)
    conversations(policy, engine, [[9, 8, 7] * 9])
    policy.begin_activation_cache()
    batch = conversations(policy, engine, [[9, 8, 7] * 9])
    gradients(policy, batch, torch.arange(batch.decisions), recorded=True)
    assert replayed == [True]


def test_what_cannot_be_recorded_is_not(tmp_path):
    tiny_models.policy("qwen3").save(tmp_path)
    adapted = CausalLM.from_pretrained(tmp_path, lora=LoraSettings(rank=2), key=Key.of(0))
    checkpointed, strange = model("qwen3"), tiny_models.policy("gpt2")
    checkpointed.checkpointing = True
    for policy in (adapted, checkpointed, strange):
        policy.begin_activation_cache()
        assert policy.activations is None


def test_a_run_does_not_show_it(tmp_path, monkeypatch, replayed):
    flags = ["--steps", "3", "--rollout.samples", "4", "--curriculum.prompts", "2", "--decoding.max_tokens", "12"]
    flags += ["--evaluation.n", "8", "--quiet", "--runs", str(tmp_path)]
    assert call("train", *flags, "--run", "taped").code == 0
    assert replayed
    assert all(replayed)
    monkeypatch.setattr(CausalLM, "begin_activation_cache", lambda self: None)
    assert call("train", *flags, "--run", "plain").code == 0
    assert rows(tmp_path / "taped") == rows(tmp_path / "plain")


def test_small_models_are_not_worth_it(monkeypatch):
    monkeypatch.setattr(room, "WORTH", 10**7)
    policy = model("qwen3")
    policy.begin_activation_cache()
    assert policy.activations is None

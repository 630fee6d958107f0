"""Continuous batching over pages: results that do not depend on the company, and nothing computed twice."""

import numpy as np
import pytest
import tiny_models
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine import local, paged_model, scheduler
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import kernels
from hocket.policies.causal_lm import CausalLM
from hocket.policies.kernels import products
from hocket.policies.operations import plain
from hocket.policies.settings import LoraSettings
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not kernels.available(16), reason="no compiler for the kernels")

WAYS = (
    Decoding(max_tokens=25),
    Decoding(temperature=0.0, max_tokens=12),
    Decoding(temperature=0.7, max_tokens=40),
    Decoding(top_k=4, max_tokens=18),
    Decoding(top_p=0.8, min_p=0.02, max_tokens=9),
    Decoding(temperature=1.4, banned=(5, 9), max_tokens=30),
    Decoding(temperature=0.0, banned=(5, 9, 11), max_tokens=21),
    Decoding(max_tokens=33, stop=("ab", "9")),
)


def make(kind="qwen3", precision="fp32", **more):
    """A tiny model with heads of 16 numbers, which the kernels can compute."""
    words = tiny_models.tokenizer()
    size = {} if kind == "qwen3" else {"head_dim": 16}
    return CausalLM(tiny_models.model(kind, len(words), **size, **more), words, precision=precision)


def contexts(count, seed=0, longest=70):
    """Contexts of many lengths, some with beginnings in common, some equal."""
    random = Key.of(seed).derive("contexts").numpy()
    stems = [tuple(random.integers(3, 40, int(length)).tolist()) for length in (5, 16, 21, 37, 48)]
    found = []
    for _ in range(count):
        stem = stems[int(random.integers(len(stems)))]
        cut = int(random.integers(0, len(stem) + 1)) if random.random() < 0.5 else len(stem)
        tail = tuple(random.integers(3, 40, int(random.integers(0, longest - 48))).tolist())
        found.append((stem[:cut] + tail) or stem)
    return found


def mixed(count, seed=0, ways=WAYS):
    """Requests of all kinds, some with an imposed prefix."""
    return [
        Request(tokens, ways[n % len(ways)], Key.of(seed).derive(n), (7, 8, 9)[: 3 * (n % 5 == 0)])
        for n, tokens in enumerate(contexts(count, seed))
    ]


def same(found, due):
    for one, other in zip(found, due, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.logp.tobytes() == other.logp.tobytes()
        assert one.finish == other.finish
        assert one.forced.tolist() == other.forced.tolist()


def held(engine):
    """Pages held after a call: those of the prefix tree alone."""
    assert engine._cache.pool.used == engine._cache.tree.size
    return engine._cache.tree.size


@pytest.fixture(scope="module", params=["fp32", "bf16"])
def policy(request):
    return make(precision=request.param)


# ---------------------------------------------------------------- exactness


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("qwen3", {}),
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 1, "sliding_window": 9}),
        ("llama", {}),
    ],
)
def test_all_layers_in_one_call_give_the_bits_of_one_by_one(kind, more, monkeypatch):
    policy, asked = make(kind, **more), mixed(16, seed=8)
    engine = LocalEngine(policy)
    found = engine.sample(asked)
    if products.address() is None:
        pytest.skip("torch's product is not offered here")
    assert engine._cache.model._stack is not None
    monkeypatch.setattr(paged_model, "stack_of", lambda model, layers: None)
    engine = LocalEngine(policy)
    same(engine.sample(asked), found)
    assert engine._cache.model._stack is None


def test_requests_get_the_same_bits_in_any_company(policy):
    asked = mixed(60)
    together = LocalEngine(policy).sample(asked)
    engine = LocalEngine(policy, max_rows=5)
    same(engine.sample(asked[::-1])[::-1], together)
    same(engine.sample(asked[10:40]), together[10:40])  # all contexts known by now
    held(engine)
    for number in range(0, 60, 7):
        same(LocalEngine(policy).sample([asked[number]]), [together[number]])


def test_how_much_is_read_at_once_does_not_matter(policy, monkeypatch):
    asked = mixed(24, seed=3)
    due = LocalEngine(policy).sample(asked)
    monkeypatch.setattr(scheduler, "PREFILL_TOKENS", 7)
    same(LocalEngine(policy, max_rows=9).sample(asked), due)
    monkeypatch.setattr(scheduler, "LEAST_SAVED", 1)
    same(LocalEngine(policy).sample(asked), due)


def test_waiting_for_pages_leaves_no_trace(policy):
    asked = mixed(40, seed=5)
    due = LocalEngine(policy).sample(asked)
    page = local.PagedCache(policy.model, policy.precision, kernels, 2**20).page_bytes
    engine = LocalEngine(policy, max_bytes=10 * page)
    same(engine.sample(asked), due)
    assert engine.counts.evicted > 0
    assert engine.counts.preempted > 0
    assert held(engine) <= 10
    same(engine.sample(asked[::-1])[::-1], due)


SHORT = tuple(
    Decoding(temperature=way.temperature, top_k=way.top_k, banned=way.banned, stop=way.stop, max_tokens=length)
    for way, length in zip(WAYS, (4, 3, 20, 7, 3, 12, 5, 9), strict=True)
)


@given(
    seed=st.integers(0, 9),
    order=st.permutations(range(14)),
    rows=st.integers(1, 14),
    pages=st.integers(8, 30),
    budget=st.integers(1, 60),
    saved=st.integers(1, 40),
)
@settings(max_examples=10, deadline=None)
def test_no_schedule_shows(seed, order, rows, pages, budget, saved):
    """Whatever the order, the room and the pace, twice on the same engine: the bits of lone requests, no page lost."""
    policy = _MODELS.setdefault("fp32", make())
    asked = mixed(14, seed=seed, ways=SHORT)
    if seed not in _ALONE:
        _ALONE[seed] = [LocalEngine(policy).sample([request])[0] for request in asked]
    page = local.PagedCache(policy.model, "fp32", kernels, 2**20).page_bytes
    engine = LocalEngine(policy, max_rows=rows, max_bytes=pages * page)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "PREFILL_TOKENS", budget)
        patch.setattr(scheduler, "LEAST_SAVED", saved)
        for _ in range(2):
            samples = engine.sample([asked[number] for number in order])
            same(samples, [_ALONE[seed][number] for number in order])
            assert held(engine) <= pages
    engine._cache.tree.evict(pages)
    assert engine._cache.pool.used == 0


_MODELS, _ALONE = {}, {}


def test_a_pool_too_small_for_one_sequence_is_refused():
    policy = make()
    page = local.PagedCache(policy.model, "fp32", plain, 2**20).page_bytes
    engine = LocalEngine(policy, max_bytes=3 * page)
    with pytest.raises(
        ConfigurationError, match=r"up to 65 tokens.*3 pages.*which serve one of 31; raise its max_bytes"
    ):
        engine.sample([Request((5,) * 30, Decoding(max_tokens=35), Key.of(0))])
    with pytest.raises(ConfigurationError, match="up to 32 tokens"):
        engine.sample([Request((5,) * 20, Decoding(max_tokens=12), Key.of(0))])
    assert engine.sample([Request((5,) * 20, Decoding(max_tokens=11), Key.of(0))])


def evaluated(policy, asked, samples):
    turns = [
        Turn("a", "policy", np.array(request.tokens), sample.tokens, sample.logp, decoding=request.decoding)
        for request, sample in zip(asked, samples, strict=True)
    ]
    batch = pack([Trajectory(Scenario(str(n)), [turn]) for n, turn in enumerate(turns)])
    with torch.no_grad():
        return policy.evaluate(batch, [Quantity.LOGP]).logp, batch.logp["behaviour"].values


def test_log_probs_are_the_learners_to_the_last_bit(policy):
    plain = [way for way in WAYS if not way.truncates and not way.banned and not way.stop]
    asked = mixed(40, seed=2, ways=plain)
    now, then = evaluated(policy, asked, LocalEngine(policy, max_rows=11).sample(asked))
    assert len(now) > 600
    assert torch.equal(now, then)


@pytest.mark.parametrize("kind", ["qwen3", "llama", "mistral", "qwen2"])
def test_greedy_equals_generate_on_many_prompts(kind):
    policy = make(kind, seed=1)
    asked = [
        Request(tokens, Decoding(temperature=0.0, max_tokens=14), Key.of(n)) for n, tokens in enumerate(contexts(24))
    ]
    engine = LocalEngine(policy, max_rows=7)
    for request, sample in zip(asked, engine.sample(asked), strict=True):
        given = torch.tensor([request.tokens])
        expected = policy.model.generate(
            given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=14
        )[0, len(request.tokens) :].tolist()
        assert sample.tokens.tolist() == expected
    assert engine.counts.passes > 20


def test_draws_follow_the_distribution():
    """Chi-square of the second token given the first, over a small vocabulary, rows entering a few at a time."""
    policy = make()
    context = (5, 6, 7)
    first = LocalEngine(policy).sample([Request(context, Decoding(temperature=0.0, max_tokens=1), Key.of(0))])[0].tokens
    with torch.no_grad():
        logits = policy.model(torch.tensor([[*context, *first.tolist()]])).logits[0, -1].double()
    for temperature in (0.6, 1.0, 1.8):
        decoding = Decoding(temperature=temperature, max_tokens=2)
        asked = [Request(context, decoding, Key.of(1).derive(n), tuple(first.tolist())) for n in range(5000)]
        samples = LocalEngine(policy, max_rows=1500).sample(asked)
        expected = torch.softmax(logits / temperature, 0).numpy() * len(asked)
        counts = np.bincount([int(sample.tokens[-1]) for sample in samples], minlength=len(expected))
        common = expected >= 5
        seen = np.append(counts[common], counts[~common].sum())
        due = np.append(expected[common], max(expected[~common].sum(), 1e-9))
        degrees = len(seen) - 1
        assert ((seen - due) ** 2 / due).sum() < degrees + 5 * np.sqrt(2 * degrees)


# ---------------------------------------------------------------- nothing twice


def test_a_prompt_is_read_once_for_its_group():
    policy, decoding = make(), Decoding(max_tokens=6)
    prompts = [tuple(Key.of(n).numpy().integers(3, 40, 30 + n).tolist()) for n in range(6)]
    asked = [Request(prompt, decoding, Key.of(9).derive(n, m)) for n, prompt in enumerate(prompts) for m in range(8)]
    for most in (256, 5):  # together, and a few at a time
        engine = LocalEngine(policy, max_rows=most)
        engine.sample(asked)
        assert engine.counts.computed == sum(len(prompt) for prompt in prompts)
        assert engine.counts.computed + engine.counts.reused == sum(len(request.tokens) for request in asked)
        held(engine)


def test_beginnings_in_common_are_read_once_even_when_they_arrive_together():
    policy = make()
    stem = tuple(Key.of(3).numpy().integers(3, 40, 41).tolist())
    asked = [Request((*stem, 3 + n, 4, 5), Decoding(max_tokens=2), Key.of(n)) for n in range(10)]
    engine = LocalEngine(policy)
    engine.sample(asked)
    assert engine.counts.computed == 41 + 10 * 3


def test_a_conversations_history_is_never_computed_again(policy):
    engine = LocalEngine(policy, max_rows=6)
    histories = contexts(9, seed=4)
    for turn in range(4):
        asked = [
            Request(tokens, Decoding(max_tokens=5 + 4 * turn, banned=(1,)), Key.of(n).derive(turn))
            for n, tokens in enumerate(histories)
        ]
        before = engine.counts.computed
        samples = engine.sample(asked)
        if turn:
            # What was said to it, and the last token it had drawn, which was not fed.
            assert engine.counts.computed - before <= len(histories) * (3 + 1)
        same([LocalEngine(policy).sample([request])[0] for request in asked[:3]], samples[:3])
        histories = [
            (*tokens, *sample.tokens.tolist(), 3, 4, 5 + turn)
            for tokens, sample in zip(histories, samples, strict=True)
        ]
    held(engine)
    assert engine.counts.reused > 2 * engine.counts.computed


def test_changed_weights_are_noticed():
    policy = make()
    asked = mixed(12)
    engine = LocalEngine(policy)
    old = engine.sample(asked)
    with torch.no_grad():
        policy.model.model.layers[0].mlp.up_proj.weight.mul_(1.5)  # without a new version
    new = engine.sample(asked)
    same(new, LocalEngine(policy).sample(asked))
    assert [sample.logp.tolist() for sample in new] != [sample.logp.tolist() for sample in old]
    policy.version += 1
    computed = engine.counts.computed
    same(engine.sample(asked), new)
    assert engine.counts.computed > computed
    computed = engine.counts.computed
    same(engine.sample(asked), new)
    assert engine.counts.computed - computed <= len(asked)
    engine.release()
    same(engine.sample(asked), new)


def test_rows_leave_at_once_and_others_enter():
    policy = make()
    lengths = [40, *[4] * 36]
    asked = [
        Request((5, 6, 7 + n % 20), Decoding(max_tokens=length, banned=(1,)), Key.of(n))
        for n, length in enumerate(lengths)
    ]
    engine = LocalEngine(policy, max_rows=5)
    samples = engine.sample(asked)
    assert [len(sample.tokens) for sample in samples] == lengths
    # In waves of five the longest of each would make all wait: at least 40 + 7 x 4 steps.
    assert engine.counts.passes < 60
    assert engine.counts.rows == sum(lengths) - len(lengths)


def test_a_failure_forgets_what_was_promised(monkeypatch):
    policy = make()
    asked = mixed(20)
    engine = LocalEngine(policy)
    calls = []

    class Failing:
        draw = staticmethod(kernels.draw)
        placed = staticmethod(kernels.placed)

        @staticmethod
        def paged_attention(*args, **kwargs):
            calls.append(None)
            if len(calls) == 9:
                raise RuntimeError("out of luck")
            return kernels.paged_attention(*args, **kwargs)

    monkeypatch.setattr(local, "_functions", lambda policy: Failing)
    with pytest.raises(RuntimeError, match="out of luck"):
        engine.sample(asked)
    assert held(engine) == 0
    same(engine.sample(asked), LocalEngine(policy).sample(asked))


def test_an_adapter_takes_part(tmp_path):
    tiny_models.policy("qwen3", scale=0.1).save(tmp_path)
    adapted = CausalLM.from_pretrained(tmp_path, lora=LoraSettings(rank=3, alpha=6.0), key=Key.of(0))
    with torch.no_grad():
        for parameter in adapted.parameter_groups()["policy"]:
            parameter.add_(0.05)
    asked = mixed(16, ways=WAYS[:3])
    now, then = evaluated(adapted, asked, LocalEngine(adapted).sample(asked))
    assert torch.equal(now, then)
    reference, base = adapted.frozen_copy(), CausalLM.from_pretrained(tmp_path, key=Key.of(0))
    plain = LocalEngine(base).sample(asked)
    same(LocalEngine(reference).sample(asked), plain)
    assert [s.tokens.tolist() for s in plain] != [s.tokens.tolist() for s in LocalEngine(adapted).sample(asked)]

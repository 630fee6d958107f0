"""States beside pages: forked, continued, evicted, and the same bits whatever becomes of them."""

import sys
from pathlib import Path

import pytest
import tiny_models
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "policies"))
import tiny_forms

from hocket.core.keys import Key
from hocket.engine import paged_model, scheduler
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.engine.states import StatePool
from hocket.policies import kernels
from hocket.policies.causal_lm import CausalLM
from hocket.policies.form_reading import known_form
from hocket.types import Decoding

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not kernels.available(16), reason="no compiler for the kernels")

LAYERS = {"qwen3_5_text": ["linear_attention", "full_attention"], "lfm2": ["conv", "full_attention"]}


@pytest.fixture(scope="module", params=LAYERS)
def policy(request):
    model = tiny_forms.model(request.param, num_hidden_layers=2, layer_types=LAYERS[request.param])
    return CausalLM(model, tiny_models.tokenizer())


def drawn(length, *path):
    return tuple(Key.of(7).derive(*path).numpy().integers(3, 40, length).tolist())


def asked(count, most=9, stem=24):
    """Requests with one beginning in common, some of them equal."""
    shared = drawn(stem)
    return [
        Request((*shared, *drawn(3 + n % 4, n // 2)), Decoding(max_tokens=most), Key.of(1).derive(n))
        for n in range(count)
    ]


def same(found, due):
    for one, other in zip(found, due, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.logp.tobytes() == other.logp.tobytes()


def slots_in_use(engine):
    """Slots that are neither free nor in the cache."""
    pool = engine._cache.states
    return pool.size - len(pool._free) - len(pool._cached)


def test_company_and_memory_leave_no_trace(policy, monkeypatch):
    requests = asked(10)
    due = [LocalEngine(policy).sample([request])[0] for request in requests]
    engine = LocalEngine(policy, max_rows=5)
    same(engine.sample(requests), due)
    same(engine.sample(requests[::-1])[::-1], due)
    assert slots_in_use(engine) == 0
    monkeypatch.setattr(scheduler, "PREFILL_TOKENS", 7)
    slot = StatePool.bytes_per_slot(known_form(policy.model).recurrent)
    scarce = LocalEngine(policy, max_bytes=2**20)
    monkeypatch.setattr(paged_model, "SHARE", scarce.max_bytes // (3 * slot))
    same(scarce.sample(requests[:8]), due[:8])
    assert scarce._cache.states.size == 3


def test_a_beginning_in_common_is_read_twice_at_most(policy):
    """By the first context, and by the second, which leaves its state for all others."""
    requests = [Request((*drawn(40), *drawn(5, n)), Decoding(max_tokens=2), Key.of(n)) for n in range(6)]
    engine = LocalEngine(policy)
    engine.sample(requests)
    assert engine.counts.computed == 2 * 45 + 4 * 5


def test_samples_of_a_context_share_its_state(policy):
    requests = [Request(drawn(30), Decoding(max_tokens=4), Key.of(n)) for n in range(8)]
    engine = LocalEngine(policy, max_rows=3)
    engine.sample(requests)
    assert engine.counts.computed == 30


def test_a_conversation_continues_from_its_state(policy):
    engine, tokens, computed = LocalEngine(policy), drawn(21), []
    for turn in range(3):
        before = engine.counts.computed
        (sample,) = engine.sample([Request(tokens, Decoding(max_tokens=6, banned=(1,)), Key.of(turn))])
        computed.append(engine.counts.computed - before)
        tokens = (*tokens, *sample.tokens.tolist(), 9, 10)
    # What was said last has no state yet: its token is read with what follows.
    assert computed == [21, 3, 3]


def test_changed_weights_begin_anew(policy):
    engine, request = LocalEngine(policy), Request(drawn(21), Decoding(max_tokens=6), Key.of(0))
    (before,) = engine.sample([request])
    with torch.no_grad():
        for parameter in policy.module.parameters():
            parameter.mul_(1.1)
    (after,) = engine.sample([request])
    assert engine.counts.computed == 2 * 21
    same([after], LocalEngine(policy).sample([request]))
    assert before.logp.tobytes() != after.logp.tobytes()


def test_the_state_used_longest_ago_goes_first(policy):
    form = known_form(policy.model).recurrent
    pool = StatePool(form, 3 * StatePool.bytes_per_slot(form))
    slots = [pool.take() for _ in range(3)]
    assert sorted(slots) == [0, 1, 2]
    assert pool.take() is None
    for length, slot in zip((1, 2, 3), slots, strict=True):
        pool.keep(0, (5,) * length, slot)
    assert [length for length, _ in pool.find(0, (5, 5, 5, 6))] == [3, 2, 1]
    assert list(pool.find(1, (5, 5, 5))) == []
    pool.use(0, (5,))
    assert pool.take() == slots[1]
    assert [length for length, _ in pool.find(0, (5,) * 9)] == [3, 1]
    pool.forget(0)
    assert list(pool.find(0, (5, 5, 5))) == []
    pool.reclaim()
    assert len({pool.take() for _ in range(3)}) == 3

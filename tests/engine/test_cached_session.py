"""Sampling by a model's own forward pass: unequal prompts in one batch, and contexts that go on from a store."""

import functools

import numpy as np
import pytest
import torch
from tiny_models import model, policy

from hocket.core.keys import Key
from hocket.core.notices import listening
from hocket.engine import cached_session
from hocket.engine.cached_session import CachedSession
from hocket.engine.context_store import ContextStore
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import native_pass
from hocket.types import Decoding

KINDS = ["gpt_neox", "falcon"]
DECODING = Decoding(max_tokens=12)


def requests(lengths=(4, 4, 9, 17, 30, 70), copies=2):
    draws = Key.of(3).numpy()
    prompts = [tuple(draws.integers(3, 40, length).tolist()) for length in lengths]
    return [
        Request(prompt, Decoding(max_tokens=12 - 2 * number), Key.of(number).derive(copy))
        for number, prompt in enumerate(prompts)
        for copy in range(copies)
    ]


def continued(first, samples):
    return [
        Request((*request.tokens, *sample.tokens.tolist(), 5, 6 + number, 7), DECODING, Key.of(40 + number))
        for number, (request, sample) in enumerate(zip(first, samples, strict=True))
    ]


def counted(policy, monkeypatch):
    """The shapes of ids that a policy's model is called with."""
    shapes = []
    original = type(policy.model).forward

    @functools.wraps(original)
    def forward(self, *arguments, **settings):
        shapes.append(tuple(settings["input_ids"].shape))
        return original(self, *arguments, **settings)

    monkeypatch.setattr(type(policy.model), "forward", forward)
    return shapes


@pytest.mark.parametrize("kind", KINDS)
def test_unequal_prompts_sample_what_each_samples_alone(kind):
    sampled, first = policy(kind), requests()
    samples = LocalEngine(sampled).sample(first)
    assert len({len(sample.tokens) for sample in samples}) > 1  # Rows end one after the other, and leave.
    for request, sample in list(zip(first, samples, strict=True))[::2]:
        (alone,) = LocalEngine(sampled).sample([request])
        assert alone.tokens.tolist() == sample.tokens.tolist()
        assert np.abs(alone.logp - sample.logp).max() < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_goes_on_from_what_was_read(kind, monkeypatch):
    sampled, first = policy(kind), requests()
    engine = LocalEngine(sampled)
    more = continued(first, engine.sample(first))
    shapes = counted(sampled, monkeypatch)
    samples = engine.sample(more)
    # The last token of an answer was never read, so four are new, in each of the twelve.
    assert [shape for shape in shapes if shape[1] > 1] == [(12, 4)]
    fresh = LocalEngine(sampled).sample(more)
    assert [sample.tokens.tolist() for sample in samples] == [sample.tokens.tolist() for sample in fresh]
    for one, other in zip(samples, fresh, strict=True):
        assert np.abs(one.logp - other.logp).max() < 1e-5


def test_old_and_new_contexts_share_a_batch(monkeypatch):
    sampled, first = policy("gpt_neox"), requests()
    engine = LocalEngine(sampled)
    mixed = [*continued(first, engine.sample(first))[::3], *requests((50, 90), copies=1)]
    shapes = counted(sampled, monkeypatch)
    samples = engine.sample(mixed)
    assert sorted(shape for shape in shapes if shape[1] > 1) == [(1, 50), (1, 90), (4, 4)]
    fresh = LocalEngine(sampled).sample(mixed)
    assert [sample.tokens.tolist() for sample in samples] == [sample.tokens.tolist() for sample in fresh]


def test_changed_weights_begin_anew(monkeypatch):
    sampled, first = policy("gpt_neox"), requests((9,), copies=1)
    engine = LocalEngine(sampled)
    more = continued(first, engine.sample(first))
    with torch.no_grad():
        next(sampled.model.parameters()).mul_(1.01)
    shapes = counted(sampled, monkeypatch)
    engine.sample(more)
    assert shapes[0] == (1, len(more[0].tokens))
    shapes.clear()
    engine.release()
    engine.sample(continued(more, LocalEngine(sampled).sample(more)))
    assert min(shape[1] for shape in shapes[:1]) > 4


def test_rows_that_leave_take_their_columns_with_them():
    made = model("gpt_neox", 40)
    contexts = [(5,) * 40, (6, 7, 8), (9,) * 10]
    with torch.inference_mode():
        session = CachedSession(made, contexts)
        for token in range(3, 30):
            session.step(torch.full((3,), token))
        session.keep(torch.tensor([False, True, True]))
        assert session._cache.get_seq_length() == 10 + 27
        session.step(torch.tensor([30, 30]))
        for row, context in enumerate(contexts[1:]):
            due = made(input_ids=torch.tensor([[*context, *range(3, 31)]])).logits[0, -1]
            assert (session.logits[row] - due).abs().max() < 1e-4
        assert session.rows.tolist() == [1, 2]


def test_contexts_are_read_in_passes_of_bounded_size(monkeypatch):
    monkeypatch.setattr(cached_session, "PREFILL_TOKENS", 64)
    sampled = policy("gpt_neox")
    LocalEngine(sampled).sample(requests((5,), copies=1))
    shapes = counted(sampled, monkeypatch)
    first = requests((30, 31, 32, 29, 70))
    samples = LocalEngine(sampled).sample(first)
    assert [shape for shape in shapes if shape[1] > 1] == [(1, 70), (2, 32), (2, 30)]
    (alone,) = LocalEngine(sampled).sample(first[4:5])
    assert alone.tokens.tolist() == samples[4].tokens.tolist()


def test_a_model_that_padding_changes_samples_equal_lengths_together(monkeypatch):
    monkeypatch.setattr(native_pass, "_pads", lambda *_: False)
    sampled, first, sentences = policy("gpt_neox"), requests((4, 4, 9)), []
    engine = LocalEngine(sampled)
    with listening(sentences.append):
        samples = engine.sample(first)
        engine.sample(first)
    assert len(sentences) == 1
    assert "'gpt_neox' computes, so only prompts of equal length are sampled together" in sentences[0]
    with pytest.raises(ValueError, match="equally long"):
        CachedSession(sampled.model, [(3, 4), (3, 4, 5)])
    for request, sample in zip(first, samples, strict=True):
        (alone,) = LocalEngine(sampled).sample([request])
        assert alone.tokens.tolist() == sample.tokens.tolist()


def test_a_full_store_drops_its_oldest_contexts():
    made = model("gpt_neox", 40)
    contexts = [(5, 6, 7), (8, 9, 10), (11, 12, 13)]
    with torch.inference_mode():
        session = CachedSession(made, contexts, ContextStore(2**30))
        session.end([1, 1, 1])
        size = session._store.find((5, 6, 7, 8)).bytes
        small = ContextStore(2 * size)
        CachedSession(made, contexts, small).end([1, 1, 1])
    assert size == 2 * 2 * 4 * 3 * 8 * 4  # Layers, keys and values, heads, tokens, numbers of a head, bytes.
    assert [small.find((*context, 3)) is not None for context in contexts] == [False, True, True]
    assert small.find((8, 9, 10)) is None  # A context needs a token that is still to be read.

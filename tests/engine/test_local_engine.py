"""Sampling: exactness against `transformers`, distributions, limits and stops."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tiny_models
import torch

from hocket.core.columns import ALTERNATIVES
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

torch.set_num_threads(1)
KINDS = ("qwen3", "qwen2", "llama", "mistral", "gpt2", "gemma2")
TEXTS = ("abc", "hello", "hello", "what is 1", "the quick brown fox", "hello")


def tokens(policy, text):
    return tuple(policy.tokenizer(text)["input_ids"])


def requests(policy, decoding, texts=TEXTS, seed=0):
    return [Request(tokens(policy, text), decoding, Key.of(seed).derive(i)) for i, text in enumerate(texts)]


@pytest.fixture(scope="module", params=KINDS)
def policy(request):
    return tiny_models.policy(request.param)


def test_greedy_equals_generate(policy):
    asked = requests(policy, Decoding(temperature=0.0, max_tokens=24))
    stopped = 0
    for request, sample in zip(asked, LocalEngine(policy).sample(asked), strict=True):
        given = torch.tensor([request.tokens])
        expected = policy.model.generate(
            given, attention_mask=torch.ones_like(given), do_sample=False, max_new_tokens=24
        )[0, len(request.tokens) :].tolist()
        assert sample.tokens.tolist() == expected
        assert sample.finish == ("stop" if expected[-1] == 1 else "length")
        stopped += sample.finish == "stop"
    if policy.model.config.model_type == "llama":
        assert stopped  # this random model ends some of them early


def as_batch(policy, asked, samples):
    turns = [
        Turn("a", "policy", np.array(r.tokens), s.tokens, logp=s.logp, decoding=r.decoding)
        for r, s in zip(asked, samples, strict=True)
    ]
    return pack([Trajectory(Scenario(str(i)), [turn]) for i, turn in enumerate(turns)])


def test_whatever_goes_wrong_reaches_who_waits(policy, monkeypatch):
    engine, asked = LocalEngine(policy), requests(policy, Decoding(max_tokens=3))[0]

    def broken(policy):
        raise RuntimeError("no kernels after all")

    monkeypatch.setattr("hocket.engine.local._functions", broken)
    with pytest.raises(RuntimeError, match="no kernels after all"):
        asyncio.run(asyncio.wait_for(engine.submit(asked), 20))


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0, 1.7])
def test_log_probs_are_the_learners(policy, temperature):
    asked = requests(policy, Decoding(temperature=temperature, max_tokens=40), TEXTS * 4)
    batch = as_batch(policy, asked, LocalEngine(policy).sample(asked))
    now = policy.evaluate(batch, [Quantity.LOGP])
    assert (now.logp - batch.logp["behaviour"].values).abs().max() < 1e-4


def test_multi_turn_log_probs_are_the_learners():
    policy = tiny_models.policy("qwen3")
    engine = LocalEngine(policy)
    decodings = [Decoding(temperature=t, max_tokens=m) for t, m in ((1.0, 9), (0.7, 14), (1.3, 5))]
    trajectories = []
    for number in range(6):
        parent, context = None, ()
        turns = []
        for call, decoding in enumerate(decodings):
            seen = tokens(policy, TEXTS[(number + call) % len(TEXTS)])
            context += seen
            sample = engine.sample([Request(context, decoding, Key.of(number).derive(call))])[0]
            parent = Turn("a", "policy", np.array(seen), sample.tokens, sample.logp, parent=parent, decoding=decoding)
            context += tuple(sample.tokens.tolist())
            turns.append(parent)
        trajectories.append(Trajectory(Scenario(str(number)), turns))
    batch = pack(trajectories)
    assert (policy.evaluate(batch, [Quantity.LOGP]).logp - batch.logp["behaviour"].values).abs().max() < 1e-4


@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_a_request_draws_the_same_alone_and_in_any_batch(kind):
    policy = tiny_models.policy(kind)
    decoding = Decoding(max_tokens=30)
    asked = requests(policy, decoding, TEXTS * 6)
    together = LocalEngine(policy).sample(asked)
    reversed_rows = LocalEngine(policy, max_rows=7).sample(asked[::-1])[::-1]
    for number, (one, other) in enumerate(zip(together, reversed_rows, strict=True)):
        assert one.tokens.tolist() == other.tokens.tolist()
        np.testing.assert_allclose(one.logp, other.logp, atol=1e-5)
        if number % 9 == 0:
            alone = LocalEngine(policy).sample([asked[number]])[0]
            assert one.tokens.tolist() == alone.tokens.tolist()
    assert len({tuple(sample.tokens.tolist()) for sample in together}) > len(TEXTS)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_rows_leave_and_prompts_are_shared_without_a_trace(kind):
    """Ragged groups and limits force rows to leave at many moments; each answer is still that of a lone request."""
    policy = tiny_models.policy(kind)
    texts = ["hello"] * 9 + ["abc"] * 4 + ["the quick brown fox"] * 2 + ["x"]
    asked = [
        Request(tokens(policy, text), Decoding(max_tokens=1 + (7 * i) % 90), Key.of(3).derive(i))
        for i, text in enumerate(texts)
    ]
    for request, sample in zip(asked, LocalEngine(policy).sample(asked), strict=True):
        alone = LocalEngine(policy).sample([request])[0]
        assert sample.tokens.tolist() == alone.tokens.tolist()
        assert sample.finish == alone.finish


def test_draws_follow_the_distribution():
    """Chi-square of the first token's counts against exact probabilities, at three temperatures."""
    policy = tiny_models.policy("qwen3")
    context = tokens(policy, "hello")
    with torch.no_grad():
        logits = policy.model(torch.tensor([context])).logits[0, -1].double()
    for temperature in (0.7, 1.0, 2.0):
        decoding = Decoding(temperature=temperature, max_tokens=1)
        asked = [Request(context, decoding, Key.of(1).derive(i)) for i in range(6000)]
        drawn = [int(s.tokens[0]) for s in LocalEngine(policy, max_rows=6000).sample(asked)]
        expected = torch.softmax(logits / temperature, 0).numpy() * len(drawn)
        counts = np.bincount(drawn, minlength=len(expected))
        common = expected >= 5
        seen = np.append(counts[common], counts[~common].sum())
        due = np.append(expected[common], max(expected[~common].sum(), 1e-9))
        degrees = len(seen) - 1
        statistic = ((seen - due) ** 2 / due).sum()
        assert statistic < degrees + 5 * np.sqrt(2 * degrees)


def test_stop_strings_end_a_response_after_they_appear():
    policy = tiny_models.policy("qwen3", seed=4)
    asked = requests(policy, Decoding(max_tokens=60), ["hello"] * 30)
    free = LocalEngine(policy).sample(asked)
    stops = ("a", "b9", "zz")
    bound = [Request(r.tokens, Decoding(max_tokens=60, stop=stops), r.key) for r in asked]
    ended = 0
    for before, after in zip(free, LocalEngine(policy).sample(bound), strict=True):
        pieces = [policy.tokenizer.decode([token]) for token in before.tokens]
        cut = next((n + 1 for n in range(len(pieces)) if any(stop in "".join(pieces[: n + 1]) for stop in stops)), None)
        assert after.tokens.tolist() == before.tokens.tolist()[:cut]
        assert after.finish == ("stop" if cut else before.finish)
        ended += cut is not None
    assert ended > 3


def test_forced_prefix_is_kept_and_marked():
    policy = tiny_models.policy("qwen2")
    prefix = tokens(policy, "so a")
    decoding = Decoding(max_tokens=12, stop=("a",))
    asked = [Request(tokens(policy, t), decoding, Key.of(5).derive(i), prefix) for i, t in enumerate(TEXTS)]
    asked.append(Request(tokens(policy, "hello"), decoding, Key.of(6)))
    samples = LocalEngine(policy).sample(asked)
    for sample in samples[:-1]:
        assert sample.tokens[: len(prefix)].tolist() == list(prefix)
        assert sample.forced.tolist() == [n < len(prefix) for n in range(len(sample.tokens))]
        assert len(sample.tokens) > len(prefix)  # the stop string inside the prefix does not end the response
    assert not samples[-1].forced.any()
    batch = as_batch(policy, asked, samples)
    now = policy.evaluate(batch, [Quantity.LOGP])
    assert (now.logp - batch.logp["behaviour"].values).abs().max() < 1e-4


def test_an_imposed_end_of_turn_ends_the_response():
    policy = tiny_models.policy("qwen3")
    request = Request(tokens(policy, "abc"), Decoding(max_tokens=12), Key.of(5), (*tokens(policy, "ok"), 1))
    sample = LocalEngine(policy).sample([request])[0]
    assert sample.tokens.tolist() == list(request.prefix)
    assert sample.finish == "stop"


def test_limits():
    policy = tiny_models.policy("qwen3")
    engine = LocalEngine(policy)
    assert len(engine.sample(requests(policy, Decoding(temperature=0.0, max_tokens=1)))[0].tokens) == 1
    nearly_full = Request((5,) * 250, Decoding(temperature=0.0, max_tokens=20, banned=(1,)), Key.of(0))
    sample = engine.sample([nearly_full])[0]
    assert len(sample.tokens) == 6
    assert sample.finish == "length"
    with pytest.raises(HocketError, match=r"300 tokens leaves no room.*context is 256.*max_tokens"):
        engine.sample([Request((5,) * 300, Decoding(), Key.of(0))])
    with pytest.raises(HocketError, match="forced prefix of 9"):
        engine.sample([Request((5,), Decoding(max_tokens=8), Key.of(0), (5,) * 9)])
    with pytest.raises(HocketError, match="empty context"):
        engine.sample([Request((), Decoding(), Key.of(0))])
    with pytest.raises(ConfigurationError, match="max_rows"):
        LocalEngine(policy, max_rows=0)


def test_a_sliding_window_is_respected():
    """Beyond its window the model's own forward takes over."""
    policy = tiny_models.policy("mistral", sliding_window=16)
    asked = requests(policy, Decoding(temperature=0.0, max_tokens=30), ("abc", "the quick brown fox jumps"))
    for request, sample in zip(asked, LocalEngine(policy).sample(asked), strict=True):
        sequence = [*request.tokens, *sample.tokens.tolist()]
        with torch.no_grad():
            best = policy.model(torch.tensor([sequence])).logits[0].argmax(-1).tolist()
        assert best[len(request.tokens) - 1 : -1] == sample.tokens.tolist()


@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_likeliest_tokens_are_told_where_asked_and_change_nothing(kind):
    policy = tiny_models.policy(kind)
    plain = requests(policy, Decoding(temperature=0.7, max_tokens=80))
    plain[1] = Request(plain[1].tokens, plain[1].decoding, plain[1].key, prefix=(5, 6, 7))
    wanted = [0, 3, 1, 0, 3, 2]
    asked = [
        Request(one.tokens, replace(one.decoding, alternatives=most), one.key, one.prefix)
        for one, most in zip(plain, wanted, strict=True)
    ]
    before, told = LocalEngine(policy).sample(plain), LocalEngine(policy).sample(asked)
    for request, most, one, other in zip(asked, wanted, before, told, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.logp.tolist() == other.logp.tolist()
        assert ALTERNATIVES.name not in one.extras
        assert (ALTERNATIVES.name in other.extras) == (most > 0)
        if most:
            given = torch.tensor([[*request.tokens, *other.tokens.tolist()]])
            with torch.no_grad():
                logits = policy.model(given).logits[0, len(request.tokens) - 1 : -1] / 0.7
            best = torch.log_softmax(logits, 1)[len(request.prefix) :].topk(most, 1)
            tokens, logp = other.extras[ALTERNATIVES.name]
            assert np.allclose(logp, best.values, atol=1e-4)
            assert (tokens == best.indices.numpy()).mean() > 0.95


def test_weights_version_is_recorded():
    policy = tiny_models.policy("qwen3")
    policy.version = 7
    assert LocalEngine(policy).sample(requests(policy, Decoding(max_tokens=2)))[0].version == 7


def test_no_global_draw():
    policy = tiny_models.policy("qwen3")
    before = torch.get_rng_state()
    asked = requests(policy, Decoding(max_tokens=8, top_p=0.9))
    LocalEngine(policy).sample(asked)
    asyncio.run(LocalEngine(policy).submit(asked[0]))
    assert torch.equal(before, torch.get_rng_state())

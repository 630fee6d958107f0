"""Responses that go on under new weights in the middle: every token is as its own version of the weights gives it."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import tiny_models
import torch

from hocket.core.columns import ALTERNATIVES, ENTROPIES
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.engine import running
from hocket.engine.decoding import written
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import kernels
from hocket.policies.causal_lm import CausalLM
from hocket.types import Decoding

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not kernels.available(16), reason="no compiler for the kernels")

WAYS = (
    Decoding(max_tokens=25),
    Decoding(temperature=0.7, max_tokens=40, entropies=12),
    Decoding(top_k=4, max_tokens=18),
    Decoding(max_tokens=33, stop=("ab", "9"), alternatives=3),
    Decoding(temperature=0.0, max_tokens=12),
)
SWITCHES = (5, 9, 14)
"""Passes after which the weights change."""


def make(precision):
    words = tiny_models.tokenizer()
    return CausalLM(tiny_models.model("qwen3", len(words)), words, precision=precision)


def asked():
    random = Key.of(4).numpy()
    stems = [tuple(random.integers(3, 40, int(length)).tolist()) for length in (5, 17, 33)]
    return [
        Request(stems[n % 3], WAYS[n % len(WAYS)], Key.of(0).derive(n), tuple(range(7, 7 + 11 * (n % 4 == 0))))
        for n in range(15)
    ]


def states(policy, count):
    """Weights of several versions, far from each other."""
    noise = torch.Generator().manual_seed(1)
    first = {name: value.clone() for name, value in policy.module.state_dict().items()}
    return [
        {name: value * (1 + 0.2 * step * torch.randn(value.shape, generator=noise)) for name, value in first.items()}
        for step in range(count)
    ]


def take(policy, states, version):
    policy.module.load_state_dict(states[version])
    policy.version = version


def interrupted(engine, policy, kept, requests):
    """Samples while the weights change after some passes."""

    async def all_of_them():
        answers = [asyncio.create_task(engine.submit(one)) for one in requests]
        passes, version = 0, 0
        while not all(one.done() for one in answers):
            await asyncio.sleep(0)
            if engine.counts.passes > passes:
                passes = engine.counts.passes
                if passes in SWITCHES:
                    version += 1
                    take(policy, kept, version)
        return [one.result() for one in answers]

    take(policy, kept, 0)
    return asyncio.run(all_of_them())


@pytest.fixture(scope="module", params=["fp32", "bf16"])
def drawn(request):
    policy = make(request.param)
    kept = states(policy, 1 + len(SWITCHES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "BREATH", 0.0)  # The loop has its turn after every pass.
        engine = LocalEngine(policy)
        engine.interrupted = True
        return policy, kept, interrupted(engine, policy, kept, asked())


def test_every_token_is_what_its_own_version_writes_after_all_that_stands_before_it(drawn):
    policy, kept, samples = drawn
    several = [one for one in samples if one.versions is not None]
    assert len(several) > 10
    assert {version for one in several for version in one.versions.tolist()} == {0, 1, 2, 3}
    for version in range(len(kept)):
        take(policy, kept, version)
        places = [
            (number, at)
            for number, one in enumerate(samples)
            for at in np.flatnonzero(one.written_by == version).tolist()
        ]
        single = [alone(asked()[number], samples[number], at) for number, at in places]
        for (number, at), again in zip(places, LocalEngine(policy).sample(single), strict=True):
            one = samples[number]
            assert int(again.tokens[0]) == int(one.tokens[at])
            assert again.logp[0].tobytes() == one.logp[at].tobytes()
            imposed = len(asked()[number].prefix)
            if ENTROPIES.name in one.extras and imposed <= at < imposed + 12:
                assert again.extras[ENTROPIES.name] == [one.extras[ENTROPIES.name][at - imposed]]
            if ALTERNATIVES.name in one.extras and at >= imposed:
                for mine, its in zip(again.extras[ALTERNATIVES.name], one.extras[ALTERNATIVES.name], strict=True):
                    assert mine[0].tobytes() == its[at - imposed].tobytes()


def alone(request, sample, at):
    """Asks for one token of a response, behind the others."""
    before = tuple(sample.tokens[:at].tolist())
    imposed = request.prefix[at : at + 1]
    decoding = replace(request.decoding, max_tokens=1)
    return replace(request, tokens=request.tokens + before, drawn=at, prefix=imposed, decoding=decoding)


def test_a_response_ends_where_an_undisturbed_one_would(drawn):
    for request, one in zip(asked(), drawn[2], strict=True):
        assert one.forced.tolist() == [n < len(request.prefix) for n in range(len(one.tokens))]
        assert (one.finish == "length") == (len(one.tokens) == request.decoding.max_tokens) or one.finish == "stop"
        assert one.version == one.written_by[-1]
        assert (np.diff(one.written_by) >= 0).all()


def test_the_parts_put_together_are_the_whole(drawn):
    """As a replay does it: each part by its weights, up to where the next ones took over."""
    policy, kept, samples = drawn
    begun = [None] * len(samples)
    last = [None] * len(samples)
    for version in range(len(kept)):
        take(policy, kept, version)
        due = [number for number, one in enumerate(samples) if (one.written_by == version).any()]
        parts = []
        for number in due:
            request, end = asked()[number], int(np.flatnonzero(samples[number].written_by == version)[-1]) + 1
            if end < len(samples[number].tokens):
                decoding = replace(request.decoding, max_tokens=end)
                request = replace(request, decoding=decoding, prefix=request.prefix[:end])
            parts.append(replace(request, begun=begun[number]))
        for number, one in zip(due, LocalEngine(policy).sample(parts), strict=True):
            last[number], begun[number] = one, written(one)
    for mine, its in zip(last, samples, strict=True):
        assert mine.tokens.tobytes() == its.tokens.tobytes()
        assert mine.logp.tobytes() == its.logp.tobytes()
        assert mine.written_by.tolist() == its.written_by.tolist()
        assert mine.finish == its.finish
        assert repr(mine.extras) == repr(its.extras)


def test_without_leave_everything_begins_again(monkeypatch):
    monkeypatch.setattr(running, "BREATH", 0.0)
    policy = make("fp32")
    kept = states(policy, 1 + len(SWITCHES))
    found = interrupted(LocalEngine(policy), policy, kept, asked())
    assert all(one.versions is None for one in found)


def test_what_the_pages_do_not_serve_cannot_be_gone_on_with(drawn):
    policy, _, samples = drawn
    request = replace(asked()[1], begun=written(samples[0]))
    engine = LocalEngine(policy)
    engine._split = lambda told: ([], told)
    with pytest.raises(HocketError, match="the paged engine cannot serve"):
        engine.sample([request])

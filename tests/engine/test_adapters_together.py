"""Policies that share a base sample in one batch: bits do not depend on the company, and equal the learner's."""

import asyncio

import numpy as np
import pytest
import tiny_models
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine import local, scheduler
from hocket.engine.barrier import Barrier
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import kernels
from hocket.policies.batching import batch_together
from hocket.policies.causal_lm import CausalLM
from hocket.policies.settings import LoraSettings
from hocket.policies.shared_base import SharedBaseCache
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

torch.set_num_threads(1)
paged = pytest.mark.skipif(not kernels.available(16), reason="no compiler for the kernels")

LORAS = (LoraSettings(rank=3, alpha=6.0), LoraSettings(rank=1), LoraSettings(rank=8, targets=("q_proj", "down_proj")))


@pytest.fixture(scope="module", params=["qwen3", "qwen2"])
def folder(request, tmp_path_factory):
    """A base; Qwen2's queries, keys and values have biases."""
    where = tmp_path_factory.mktemp(request.param)
    size = {} if request.param == "qwen3" else {"head_dim": 16}
    words = tiny_models.tokenizer()
    CausalLM(tiny_models.model(request.param, len(words), scale=0.15, **size), words).save(where)
    return where


def stirred(policy, seed, by=0.1):
    """The policy with an adapter far from zero."""
    generator = Key.of(seed).torch()
    with torch.no_grad():
        for parameter in policy.parameter_groups()["policy"]:
            parameter.add_(torch.randn(parameter.shape, generator=generator) * by)
    return policy


def load(folder, number, precision="fp32", base_cache=None):
    return stirred(
        CausalLM.from_pretrained(
            folder,
            name=f"p{number}",
            lora=LORAS[number % 3],
            precision=precision,
            base_cache=base_cache,
            key=Key.of(number),
        ),
        number,
    )


def team(folder, precision="fp32"):
    """Three policies on one base, and that base: the first one with its adapter off."""
    base_cache = SharedBaseCache()
    policies = [load(folder, number, precision, base_cache) for number in range(3)]
    return [*policies, policies[0].frozen_copy()]


def beside(policies, **more):
    engines = [LocalEngine(policies[0], **more)]
    for policy in policies[1:]:
        engines.append(LocalEngine(policy, beside=engines[0]))
    return engines


def sampled(engines, asked):
    """What one batch of (number of policy, request) gives."""
    return engines[0]._sample([(engines[number], request) for number, request in asked])


def mixed(count, seed=0, most=14):
    random = Key.of(seed).derive("mixed").numpy()
    stem = tuple(random.integers(3, 40, 37).tolist())
    found = []
    for number in range(count):
        tail = tuple(random.integers(3, 40, int(random.integers(0, 9))).tolist())
        tokens = stem[: int(random.integers(1, 38))] + tail
        decoding = Decoding(max_tokens=int(random.integers(2, most)), temperature=(1.0, 0.7, 0.0)[number % 3])
        found.append((int(random.integers(4)), Request(tokens, decoding, Key.of(seed).derive(number))))
    return found


def same(found, due):
    for one, other in zip(found, due, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.logp.tobytes() == other.logp.tobytes()
        assert one.finish == other.finish


def learners(policy, asked, samples):
    turns = [
        Turn("a", policy.name, np.array(request.tokens), sample.tokens, sample.logp, decoding=request.decoding)
        for request, sample in zip(asked, samples, strict=True)
    ]
    batch = pack([Trajectory(Scenario(str(n)), [turn]) for n, turn in enumerate(turns)])
    with torch.no_grad():
        return policy.evaluate(batch, [Quantity.LOGP]).logp, batch.logp["behaviour"].values


@paged
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_one_batch_gives_what_separate_engines_and_separate_bases_give(folder, precision):
    asked = mixed(48)
    together = sampled(beside(team(folder, precision)), asked)
    apart = [load(folder, number, precision) for number in range(3)]
    apart.append(CausalLM.from_pretrained(folder, precision=precision, key=Key.of(0)))
    for number, policy in enumerate(apart):
        mine = [place for place, (owner, _) in enumerate(asked) if owner == number]
        requests = [asked[place][1] for place in mine]
        samples = [together[place] for place in mine]
        assert len(mine) > 5
        same(samples, LocalEngine(policy).sample(requests))
        now, then = learners(policy, requests, samples)
        free = torch.tensor(np.repeat([r.decoding.temperature > 0 for r in requests], [len(s.tokens) for s in samples]))
        assert torch.equal(now[free], then[free])
        assert free.sum() > 20


@paged
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_policy_with_its_adapter_off_is_its_base_to_the_last_bit(folder, precision):
    off = load(folder, 0, precision).frozen_copy()
    base = CausalLM.from_pretrained(folder, precision=precision, key=Key.of(0))
    asked = [request for _, request in mixed(12)]
    same(LocalEngine(off).sample(asked), LocalEngine(base).sample(asked))
    now, due = (learners(policy, asked, LocalEngine(base).sample(asked))[0] for policy in (off, base))
    assert torch.equal(now, due)


@given(
    seed=st.integers(0, 5),
    order=st.permutations(range(14)),
    rows=st.integers(1, 14),
    pages=st.integers(8, 30),
    budget=st.integers(1, 60),
)
@settings(max_examples=10, deadline=None)
@paged
def test_no_schedule_shows(folder, seed, order, rows, pages, budget):
    """Whoever asks for what beside whom, in whatever room: the bits of lone requests on engines of their own."""
    if folder not in _TEAMS:
        _TEAMS[folder] = team(folder)
    policies, asked = _TEAMS[folder], mixed(14, seed, most=9)
    if (folder, seed) not in _ALONE:
        _ALONE[folder, seed] = [LocalEngine(policies[number]).sample([request])[0] for number, request in asked]
    page = local.PagedCache(policies[0].model, "fp32", kernels, 2**20).page_bytes
    engines = beside(policies, max_rows=rows, max_bytes=pages * page)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduler, "PREFILL_TOKENS", budget)
        for _ in range(2):
            same(sampled(engines, [asked[n] for n in order]), [_ALONE[folder, seed][n] for n in order])
            cache = engines[0]._cache
            assert cache.pool.used == cache.tree.size <= pages
    for number in range(4):
        cache.tree.forget(number)
    assert cache.pool.used == cache.tree.size == 0


_TEAMS, _ALONE = {}, {}


@paged
def test_only_what_a_changed_policy_computed_is_forgotten(folder):
    policies = team(folder)
    engines = beside(policies)
    asked = [(number, Request((5, 6, 7) * 20, Decoding(max_tokens=3), Key.of(number))) for number in range(4)]
    first = sampled(engines, asked)
    counts = engines[0].counts
    assert counts.computed == 4 * 60, "each policy has keys and values of its own"
    same(sampled(engines, asked), first)
    assert counts.computed == 4 * 60 + 4, "the last token of a context is read again"
    stirred(policies[1], 50)
    policies[1].version += 1
    again = sampled(engines, asked)
    assert counts.computed == 4 * 60 + 4 + 60 + 3
    same([again[n] for n in (0, 2, 3)], [first[n] for n in (0, 2, 3)])
    same(again[1:2], LocalEngine(policies[1]).sample([asked[1][1]]))
    assert again[1].logp.tolist() != first[1].logp.tolist()
    assert [sample.version for sample in again] == [0, 1, 0, 0]


def test_engines_beside_each_other_run_one_batch_when_all_wait(folder, monkeypatch):
    """Also where pages cannot serve: then policy after policy, with the same results."""
    policies, barrier = team(folder), Barrier()
    engines = [LocalEngine(policies[0], barrier=barrier)]
    engines += [LocalEngine(policy, beside=engines[0]) for policy in policies[1:]]
    batches, advance, whole = [], LocalEngine._advance, LocalEngine._sample

    def names(engines):
        if engines:
            batches.append(sorted(engine.policy.name for engine in engines))

    def watched(self, new=()):
        names([one.engine for one in new])
        return advance(self, new)

    def sampled_whole(self, asked):
        names([engine for engine, _ in asked])
        return whole(self, asked)

    monkeypatch.setattr(LocalEngine, "_advance", watched)
    monkeypatch.setattr(LocalEngine, "_sample", sampled_whole)

    def ask(workflow, call):
        return Request((5, 6, 7 + workflow), Decoding(max_tokens=4), Key.of(workflow).derive(call))

    async def workflow(number):
        async with engines[number % 4].episode():
            first = await engines[number % 4].submit(ask(number, 0))
            return first, await engines[(number + 1) % 4].submit(ask(number, 1))

    async def main():
        return await asyncio.gather(*(workflow(number) for number in range(6)))

    def run():
        batches.clear()
        return asyncio.run(main())

    found = run()
    assert len(batches[0]) == 6
    assert set(batches[0]) == {"p0", "p1", "p2"}
    assert sum(len(batch) for batch in batches) == 12
    for number, pair in enumerate(found):
        due = [LocalEngine(policies[(number + call) % 4]).sample([ask(number, call)])[0] for call in (0, 1)]
        same(pair, due)
    monkeypatch.setattr(local, "_functions", lambda policy: None)
    again = run()
    assert [len(batch) for batch in batches] == [6, 6]
    for pair, due in zip(again, found, strict=True):
        for one, other in zip(pair, due, strict=True):
            assert one.tokens.tolist() == other.tokens.tolist()
            np.testing.assert_allclose(one.logp, other.logp, atol=1e-4)


def test_who_can_sample_together(folder):
    base_cache = SharedBaseCache()
    one, other = load(folder, 0, base_cache=base_cache), load(folder, 1, base_cache=base_cache)
    assert batch_together(one, other)
    assert batch_together(one, other.frozen_copy())
    assert not batch_together(one, load(folder, 1)), "another base"
    assert not batch_together(one, load(folder, 1, "bf16", base_cache=base_cache))
    head = LoraSettings(rank=2, targets=("lm_head", "q_proj"))
    wide = CausalLM.from_pretrained(folder, lora=head, base_cache=base_cache, key=Key.of(0))
    assert not batch_together(one, wide), "the head is one for all rows"
    with pytest.raises(HocketError, match="'p0' and 'policy' differ in more than their adapters"):
        LocalEngine(wide, beside=LocalEngine(one))
    other.end_of_turn = (9,)
    assert not batch_together(one, other)

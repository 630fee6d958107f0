"""Drafts by n-gram lookup: the same tokens and log-probs to the bit, in fewer passes."""

from __future__ import annotations

import pytest
import tiny_models
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_paged_engine import WAYS, evaluated, held, make, mixed, same

from hocket.core.keys import Key
from hocket.engine import drafts, local
from hocket.engine.drafts import Drafts
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.policies import kernels
from hocket.policies.operations import COMPILED
from hocket.train.settings import EngineSettings
from hocket.types import Decoding

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not kernels.available(16), reason="no compiler for the kernels")
PERIOD = (5, 9, 11, 7, 30, 12)
"""What repetitive prompts repeat."""
POLICY = make()
AGAIN = (*WAYS, Decoding(temperature=0.0, max_tokens=40, stop=("ab",)), Decoding(temperature=0.3, entropies=9))
"""Ways of sampling, some of which fall into loops with a small model."""


def repetitive(count: int, seed: int) -> list[Request]:
    """Prompts that repeat themselves, two for each way of sampling, some with an imposed beginning."""
    draw = Key.of(seed).numpy()
    prompts = [tuple((PERIOD * 6)[start : start + 20]) for start in draw.integers(0, 6, count // 2 + 1).tolist()]
    asked = mixed(count, seed, AGAIN)
    return [Request(prompts[n // 2], one.decoding, one.key, prefix=one.prefix) for n, one in enumerate(asked)]


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 99), most=st.integers(1, 15), rows=st.sampled_from([1, 3, 40]), short=st.booleans())
def test_samples_are_those_without_drafts(seed: int, most: int, rows: int, short: bool) -> None:
    """Any length of drafts, few rows and few pages: tokens, log-probs and entropies are equal to the bit."""
    asked = repetitive(8, seed) + mixed(4, seed)
    page = local.PagedCache(POLICY.model, "fp32", COMPILED.functions(), 2**20).page_bytes
    engine = LocalEngine(POLICY, max_rows=rows, max_bytes=(12 if short else 400) * page, drafts=most)
    found, due = engine.sample(asked), LocalEngine(POLICY).sample(asked)
    same(found, due)
    assert [one.extras for one in found] == [one.extras for one in due]
    assert engine.counts.preempted or engine.counts.decoded == sum(len(one.tokens) for one in due)
    held(engine)


def test_a_text_that_repeats_itself_takes_fewer_passes() -> None:
    """Imposed beginnings that repeat the prompt are drafted, as far as a pass of 16 tokens has room."""
    way = Decoding(max_tokens=60)
    asked = [Request(PERIOD[n:] + PERIOD * 4, way, Key.of(n), prefix=PERIOD * 8) for n in range(4)]
    plain, drafting = LocalEngine(POLICY), LocalEngine(POLICY, drafts=8)
    same(drafting.sample(asked), plain.sample(asked))
    assert drafting.counts.accepted <= drafting.counts.drafted
    assert drafting.counts.accepted > 90
    assert drafting.counts.passes < 0.7 * plain.counts.passes
    assert plain.counts.drafted == 0


def test_the_learner_finds_the_same_bits() -> None:
    begun = PERIOD * 3 + (8,) + PERIOD
    asked = [Request(PERIOD[n:] * 2, Decoding(max_tokens=40), Key.of(n), prefix=begun[: 9 * n]) for n in range(4)]
    engine = LocalEngine(POLICY, drafts=8)
    now, then = evaluated(POLICY, asked, engine.sample(asked))
    assert torch.equal(now, then)
    assert 0 < engine.counts.accepted < engine.counts.drafted


def test_layers_with_a_state_are_not_drafted_for() -> None:
    policy = tiny_models.policy("qwen3_next")
    asked = [Request(PERIOD * 3, Decoding(temperature=0.0, max_tokens=8), Key.of(0))]
    with pytest.warns(RuntimeWarning, match="no tokens are drafted"):
        engine = LocalEngine(policy, drafts=8)
    same(engine.sample(asked), LocalEngine(policy).sample(asked))
    assert engine.counts.drafted == 0


def test_a_draft_is_what_followed_last_time() -> None:
    found = Drafts(4)
    found.begin(7, (1, 2, 3, 8, 8, 1, 2, 3, 9, 5, 1, 2, 3))
    assert found.of(7, 15) == [9, 5, 1, 2]
    assert found.of(7, 2) == [9, 5]
    found.add([7], [8])
    assert found.of(7, 15) == [8, 1, 2, 3]
    found.add([7], [6])
    assert found.of(7, 15) == []
    for token in (2, 3, 8, 6):
        found.add([7], [token])
    assert found.of(7, 15) == [2, 3, 8, 6]
    short = Drafts(4)
    short.begin(0, (1, 2))
    assert short.of(0, 4) == []
    assert drafts.NGRAM == 3


@pytest.mark.parametrize("wrong", [{"drafts": -1}, {"drafts": 16}, {"drafts": 4, "kind": "vllm"}])
def test_what_cannot_be_drafted_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="drafts"):
        EngineSettings(**wrong)  # type: ignore[arg-type]

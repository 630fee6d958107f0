"""Sampling under the masks of a delayed copy, with the family's kernels and with a model's own forward pass."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from tiny_models import policy

from hocket.core.columns import ALLOWED, UNMASKED
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.local import LocalEngine
from hocket.engine.requests import Request
from hocket.rollout.nucleus import DELAYED, NucleusMask
from hocket.types import Decoding, Quantity, Scenario, Trajectory, Turn

torch.set_num_threads(1)
WAY = Decoding(max_tokens=9, mask=NucleusMask(0.6), temperature=0.8)


def requests(way=WAY, prefix=()):
    return [Request((5, 6 + number % 2, 7), way, Key.of(number), prefix) for number in range(5)]


def packed(asked, samples):
    told = []
    for number, (request, sample) in enumerate(zip(asked, samples, strict=True)):
        turn = Turn("a", "policy", np.array(request.tokens), sample.tokens, logp=sample.logp, decoding=request.decoding)
        turn.forced, turn.extras = sample.forced, dict(sample.extras)
        told.append(Trajectory(Scenario(f"s{number}"), [turn]))
    return pack(told)


@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_tokens_are_in_their_nuclei_and_learning_sees_the_same_distribution(kind):
    mine, other = policy(kind), policy(kind, seed=1)
    mine.refresh_copy(DELAYED)
    mine.model.load_state_dict(other.model.state_dict())
    asked = requests(prefix=(9, 10))
    samples = LocalEngine(mine).sample(asked)
    for sample in samples:
        allowed = sample.extras[ALLOWED.name]
        assert allowed.shape == (len(sample.tokens), mine.model.config.vocab_size)
        assert allowed[np.arange(len(sample.tokens)), sample.tokens].all()
        assert allowed[sample.forced].all()
        assert not allowed[~sample.forced].all()
    batch = packed(asked, samples)
    mine.refresh_copy(DELAYED)
    now = mine.evaluate(batch, {Quantity.LOGP, Quantity.ENTROPY})
    drawn = ~batch.forced
    torch.testing.assert_close(now.logp[drawn], batch.logp["behaviour"].values[drawn], atol=1e-5, rtol=1e-5)
    assert bool(torch.isfinite(now.entropy).all())
    whole = mine.evaluate(batch.but(allowed=()), {Quantity.LOGP}).logp
    torch.testing.assert_close(whole, batch.logp["unmasked"].values, atol=1e-5, rtol=1e-5)
    assert float((now.logp - whole).detach()[drawn].min()) > -1e-5


def test_neighbours_without_masks_are_sampled_as_alone():
    mine = policy()
    plain, under = requests(Decoding(max_tokens=9)), requests()
    alone = LocalEngine(mine).sample(plain)
    together = LocalEngine(mine).sample([*under, *plain])[len(under) :]
    for one, other in zip(alone, together, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert UNMASKED.name not in other.extras


def test_the_copy_is_saved_with_the_policy(tmp_path):
    mine, other = policy(), policy(seed=1)
    mine.refresh_copy(DELAYED)
    mine.model.load_state_dict(other.model.state_dict())
    mine.save(tmp_path)
    third = policy(seed=2)
    third.load(tmp_path)
    asked = requests()
    for left, right in zip(LocalEngine(mine).sample(asked), LocalEngine(third).sample(asked), strict=True):
        assert left.tokens.tolist() == right.tokens.tolist()
        assert np.array_equal(left.extras[ALLOWED.name], right.extras[ALLOWED.name])


@dataclass(frozen=True)
class Even:
    """Even numbers only, whatever the policy expects."""

    copy: ClassVar[None] = None

    def allowed(self, logp):
        return (torch.arange(logp.shape[1]) % 2 == 0).expand(logp.shape)


def test_a_mask_of_ones_own_needs_no_copy_and_stands_beside_others():
    mine = policy()
    even = requests(replace(WAY, mask=Even()))
    samples = LocalEngine(mine).sample([*even, *requests()])
    for sample in samples[: len(even)]:
        assert (sample.tokens % 2 == 0).all()
    for one, other in zip(samples[len(even) :], LocalEngine(mine).sample(requests()), strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
    batch = packed(even, samples[: len(even)])
    now = mine.evaluate(batch, {Quantity.LOGP}).logp
    torch.testing.assert_close(now, batch.logp["behaviour"].values, atol=1e-5, rtol=1e-5)


def test_an_engine_without_copies_says_so():
    class Elsewhere(LocalEngine):
        masks = False

    with pytest.raises(ConfigurationError, match="sample with engine"):
        Elsewhere(policy()).sample(requests())

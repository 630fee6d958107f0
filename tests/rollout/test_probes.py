"""Probes of pictures and looks at answers: decisions that are made of finished samples."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hocket.core.elbo_masks import LOOK_WEIGHTS, ComplementaryMasks, ElboMasks, GaussMasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.masked_states import MaskedState
from hocket.core.noise_laws import FlowODE, FlowSDE
from hocket.core.packing import pack
from hocket.nano.flow import quarters
from hocket.nano.mdlm import MaskedPretraining, masked_tokenizer, new_masked_model
from hocket.objectives.aggregate import trajectory_sums
from hocket.policies.denoising.denoiser import Denoiser
from hocket.policies.denoising.network import FlowShape
from hocket.policies.masked_lm import MaskedLM
from hocket.rewards.look_weights import LookWeights
from hocket.rollout.denoising_probes import ProbingPlayer
from hocket.rollout.elbo_filling import ElboFilling
from hocket.rollout.elbo_looks import LookingPlayer
from hocket.rollout.mask_filling import Unmasking
from hocket.rollout.noisy_sampling import Sampling
from hocket.rollout.probing import Probes, Probing
from hocket.types import Assignment, Decoding, Quantity, Scenario, Trajectory

SHAPE = FlowShape(8, 4, 16, 2, 2, ("0", "1", "top", "bottom", "left", "right"), 2, 3, quarters(8, 4), steps=4)


def sampler() -> Denoiser:
    policy = Denoiser(SHAPE, Key.of(3))
    with torch.no_grad():
        policy.module.write.normal_(0.0, 0.3, generator=Key.of(4).torch())
    return policy


def probed(policy: Denoiser, law: Any, **how: Any) -> list[Trajectory]:
    options = (Sampling(law), Probes(3, 0.4, 0.9))
    requests = [Assignment(Scenario(f"s{n}", f"{n} top left"), 2, options=options, **how) for n in range(2)]
    player = ProbingPlayer(policy)
    player.reference = policy.frozen_copy()
    return asyncio.run(player.play(requests, key=Key.of(5)))


def test_a_probe_adds_shared_noise_and_its_action_undoes_it() -> None:
    output = probed(sampler(), FlowODE())
    for entry in output:
        (turn,) = entry.turns
        level = turn.observation["level"][:, None]
        assert turn.logp is None
        assert np.allclose(turn.observation["state"] - level * turn.action, np.asarray(entry.final_state), atol=1e-5)
        assert [0.4 <= value < 0.9 for value in level[:, 0]] == [True] * 3
        assert (np.diff(level[:, 0]) > 0).all()
    noise = [entry.turns[0].action + entry.final_state for entry in output]
    assert np.allclose(noise[0], noise[1], atol=1e-5)
    assert not np.allclose(noise[0], noise[2], atol=0.1)
    assert not np.array_equal(output[0].final_state, output[1].final_state)  # type: ignore[arg-type]


def test_a_law_with_noise_samples_with_it() -> None:
    policy = sampler()
    quiet, noisy = probed(policy, FlowODE()), probed(policy, FlowSDE(0.7))
    assert not np.array_equal(quiet[0].final_state, noisy[0].final_state)  # type: ignore[arg-type]
    assert len(noisy[0].turns[0]) == 3


def test_probes_of_the_references_pictures_are_decisions_of_the_policy() -> None:
    policy = sampler()
    (first, *_), (same, *_) = probed(policy, FlowODE(), actor="reference"), probed(policy, FlowODE())
    assert np.array_equal(first.final_state, same.final_state)  # type: ignore[arg-type]
    assert first.turns[0].policy == policy.name


def test_a_picture_that_is_not_finite_has_no_probes() -> None:
    policy = sampler()
    with torch.no_grad():
        policy.module.write.fill_(math.nan)
    entry = probed(policy, FlowODE())[0]
    assert entry.turns == []
    assert entry.failure is not None


def test_probing_is_checked_and_says_what_it_plays() -> None:
    assert Probing(base=True).plays_reference
    assert not Probing().plays_reference
    assert Probing().retrospective
    for wrong in ({"probes": 0}, {"least": 0.5, "most": 0.5}, {"most": 1.5}, {"samples": 0}):
        with pytest.raises(ValueError, match=r"must be|lie in"):
            Probing(**wrong)


@pytest.fixture(scope="module")
def policy() -> MaskedLM:
    tokenizer = masked_tokenizer()
    return MaskedLM(new_masked_model(MaskedPretraining(width=16, layers=1, heads=2), tokenizer), tokenizer)


def looked(policy: MaskedLM, masks: ElboMasks, samples: int = 2) -> list[Trajectory]:
    options = (Unmasking(likelihood="one-pass", hide=0.0), masks)
    requests = Assignment(Scenario("s", "What is 2 + 2?"), samples, Decoding(), options=options)
    return asyncio.run(LookingPlayer(policy).play([requests], key=Key.of(1)))


@pytest.mark.parametrize("masks", [GaussMasks(3), ComplementaryMasks(2)], ids=str)
def test_weighted_looks_sum_to_the_elbo_of_an_answer(policy: MaskedLM, masks: ElboMasks) -> None:
    output = looked(policy, masks)
    batch = LookWeights()(pack(output))
    logp = policy.evaluate(batch, {Quantity.LOGP}).logp.detach()
    sums = trajectory_sums(logp[batch.occurrences.decision].double(), batch)
    for entry, total in zip(output, sums.tolist(), strict=True):
        by_hand = 0.0
        for turn, weight in zip(entry.turns, LOOK_WEIGHTS.get(entry), strict=True):
            state = MaskedState.read(turn.observation)
            assert (state.tokens[state.places] == policy.mask).all()
            if len(turn):
                rows = torch.log_softmax(policy.logits([state]), -1).detach()
                by_hand += weight * float(rows.gather(1, torch.from_numpy(turn.action)[:, None]).sum())
        assert total == pytest.approx(by_hand, rel=1e-5)
        assert entry.text == entry.turns[0].text


def test_a_look_without_masked_places_has_no_decisions(policy: MaskedLM) -> None:
    output = looked(policy, GaussMasks(5), samples=6)  # The lowest point is 0.047: most of its masks are empty.
    assert min(len(turn) for entry in output for turn in entry.turns) == 0
    assert all(len(entry.turns) == 5 for entry in output)
    batch = pack(output)
    assert len(policy.evaluate(batch, {Quantity.LOGP}).logp) == sum(entry.length for entry in output)


def test_complements_cover_every_place_once(policy: MaskedLM) -> None:
    for entry in looked(policy, ComplementaryMasks(1), samples=3):
        places = np.concatenate([MaskedState.read(turn.observation).places for turn in entry.turns])
        assert sorted(places.tolist()) == list(range(int(places.min()), int(places.min()) + 8))


def test_looks_are_needed_to_weigh_by_them(policy: MaskedLM) -> None:
    plain = replace(looked(policy, GaussMasks(2))[0], info={})
    with pytest.raises(ConfigurationError, match="LookWeights reads 'look_weights'"):
        LookWeights()(pack([plain]))
    for wrong in (lambda: GaussMasks(0), lambda: ComplementaryMasks(0), lambda: ElboFilling(samples=0)):
        with pytest.raises(ValueError, match="must be at least 1"):
            wrong()

"""A masked language model as a policy: bits, paths, orders of commits, likelihoods."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.masked_states import MaskedState
from hocket.core.packing import pack
from hocket.nano.mdlm import LENGTH, MaskedPretraining, asked, masked_tokenizer, new_masked_model
from hocket.policies.masked_lm import MaskedLM
from hocket.rollout.mask_filling import Unmasking
from hocket.rollout.unmasking import HOLE, FilledAnswer, UnmaskingPlayer, commit_first, prompt_tokens
from hocket.types import Assignment, Decoding, Quantity, Scenario, Trajectory


@pytest.fixture(scope="module")
def policy() -> MaskedLM:
    config = MaskedPretraining(width=16, layers=1, heads=2)
    tokenizer = masked_tokenizer()
    return MaskedLM(new_masked_model(config, tokenizer), tokenizer)


SUREST = Unmasking()


def task(question: str, samples: int, option: Unmasking = SUREST, **decoding: Any) -> Assignment:
    return Assignment(Scenario(question, question), samples, Decoding(**decoding), options=(option,))


def played(policy: MaskedLM, *assignments: Assignment) -> list[Trajectory]:
    return asyncio.run(UnmaskingPlayer(policy).play(assignments, key=Key.of(1)))


def test_prompts_are_those_of_nano(policy: MaskedLM) -> None:
    ids = prompt_tokens(policy.tokenizer, task("What is 4 + 5?", 1))
    assert policy.tokenizer.decode(ids) == asked("What is 4 + 5?")
    assert policy.length == LENGTH


@pytest.mark.parametrize(
    "option", [Unmasking(), Unmasking("sampled", doubling=True), Unmasking("random", commits=3)], ids=str
)
def test_sampler_and_learner_agree_to_the_last_bit(policy: MaskedLM, option: Unmasking) -> None:
    found = played(policy, *(task(f"What is {n} + 5{'0' * (7 * n)}?", 3, option, temperature=0.8) for n in range(3)))
    batch = pack(found)
    now = policy.evaluate(batch, {Quantity.LOGP})
    assert torch.equal(now.logp.detach(), batch.logp["behaviour"].values)
    some = torch.tensor([1, 30, 50])
    assert torch.equal(policy.evaluate(batch, {Quantity.LOGP}, some).logp[some], now.logp[some])
    alone = played(policy, task("What is 1 + 50000000?", 2, option, temperature=0.8))
    assert [one.text for one in alone] == [one.text for one in found[3:5]]


def test_every_place_is_filled_once_in_the_order_of_commits(policy: MaskedLM) -> None:
    for option, sizes in (
        (Unmasking(), [1] * 8),
        (Unmasking(doubling=True), [1, 2, 4, 1]),
        (Unmasking(commits=3), [3, 3, 2]),
    ):
        (one,) = played(policy, task("What is 2 + 2?", 1, option))
        assert [len(turn) for turn in one.turns] == sizes
        states = [MaskedState.read(turn.observation) for turn in one.turns]
        places = np.concatenate([state.places for state in states])
        assert sorted(places.tolist()) == list(range(states[0].prompt, states[0].prompt + 8))
        assert [int((state.tokens == policy.mask).sum()) for state in states] == [
            8 - sum(sizes[:n]) for n in range(len(sizes))
        ]
        assert HOLE in one.turns[0].text or sizes[0] == 8
        assert policy.mask not in [token for turn in one.turns for token in turn.action.tolist()]


def test_left_to_right_is_an_order(policy: MaskedLM) -> None:
    (one,) = played(policy, task("What is 2 + 2?", 1, Unmasking("left")))
    first = [int(MaskedState.read(turn.observation).places[0]) for turn in one.turns]
    assert first == sorted(first)


def test_an_end_that_is_held_back_is_not_committed_first() -> None:
    end, other = 7, 3
    rows = torch.full((2, 9), -9.0)
    rows[0, end], rows[1, other] = -0.1, -0.5
    token = torch.tensor([end, other])
    for held, first in ((1.0, 0), (0.01, 1)):
        for order in ("distribution", "sampled"):
            answer = FilledAnswer(task("", 1, Unmasking(order, end_held=held)), 0, np.zeros(2), 0, Key.of(0), [1, 1])
            assert commit_first(answer, rows, token, 0, end).tolist() == [first]
            assert commit_first(answer, rows, token, 1, end).tolist() == [0]


def test_probes_of_a_likelihood_cover_the_final_answer(policy: MaskedLM) -> None:
    (whole,) = played(policy, task("What is 2 + 2?", 1, Unmasking(likelihood="one-pass", hide=0.5)))
    (turn,) = whole.turns
    state = MaskedState.read(turn.observation)
    assert (len(turn), turn.logp) == (8, None)
    assert 0 < (state.tokens[: state.prompt] == policy.mask).sum() < state.prompt
    (pair,) = played(policy, task("What is 2 + 2?", 1, Unmasking(likelihood="coupled")))
    halves = [MaskedState.read(turn.observation) for turn in pair.turns]
    assert sorted(np.concatenate([half.places for half in halves]).tolist()) == list(
        range(state.prompt, state.prompt + 8)
    )
    for half, other in zip(halves, halves[::-1], strict=True):
        assert (half.tokens[half.places] == policy.mask).all()
        assert (half.tokens[other.places] != policy.mask).all()
    assert pair.text == pair.turns[0].text


def test_greedy_answers_do_not_depend_on_draws(policy: MaskedLM) -> None:
    first, second = played(policy, task("What is 2 + 2?", 2, temperature=0.0))
    assert [turn.action.tolist() for turn in first.turns] == [turn.action.tolist() for turn in second.turns]


def test_guidance_is_in_sampler_and_learner(policy: MaskedLM) -> None:
    with pytest.raises(ConfigurationError, match="never trained without prompts"):
        played(policy, task("What is 2 + 2?", 1, guidance=2.0))
    policy.unprompted = True
    try:
        found = played(policy, task("What is 2 + 2?", 2, guidance=2.0))
        batch = pack(found)
        assert torch.equal(policy.evaluate(batch, {Quantity.LOGP}).logp.detach(), batch.logp["behaviour"].values)
    finally:
        policy.unprompted = False


def test_entropy_and_kl_are_those_of_the_distribution(policy: MaskedLM) -> None:
    batch = pack(played(policy, task("What is 2 + 2?", 1, every := Unmasking(commits=8))))
    assert every.counts(8) == [8]
    reference = policy.frozen_copy()
    now = policy.evaluate(batch, {Quantity.ENTROPY, Quantity.KL_EXACT}, reference=reference)
    state = MaskedState.read(np.asarray(batch.observation[0]))
    mass = torch.softmax(policy.logits([state]).double(), -1)
    entropy = -(mass * mass.clamp(min=1e-300).log()).sum(-1)
    torch.testing.assert_close(now.entropy.double(), entropy, rtol=1e-5, atol=1e-5)  # type: ignore[union-attr]
    assert float(now.kl_exact.detach().abs().max()) < 1e-6  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        (task("What is 2?", 1, Unmasking(commits=9)), "rollout.commits = 9: an answer has 8 places"),
        (task("What is " + "1" * 60 + "?", 1), "its prompt has 65 tokens, and the model reads 64"),
        (task("What is 2?", 1, top_p=0.5), "samples from whole distributions"),
    ],
)
def test_what_cannot_be_filled_is_refused(policy: MaskedLM, assignment: Assignment, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        played(policy, assignment)


def test_a_saved_model_is_the_same(policy: MaskedLM, tmp_path: Path) -> None:
    policy.save(tmp_path)
    again = MaskedLM.from_folder(tmp_path)
    assert (again.mask, again.end, again.length) == (policy.mask, policy.end, policy.length)
    again.load(tmp_path)
    for name, weight in policy.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name
    with pytest.raises(ConfigurationError, match="no masked language model can be read"):
        MaskedLM.from_folder(tmp_path / "nothing")

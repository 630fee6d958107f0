"""`hocket.Engine`: the four calls give the numbers of training, and what cannot be is said."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.engine.requests import Sample
from hocket.policies.settings import LoraSettings
from hocket.recipes import find
from hocket.train.learner import Learner
from hocket.train.token_losses import (
    ClippedRatio,
    ClippedSequenceRatio,
    ClippedWeight,
    CrossEntropy,
    ImportanceSampling,
    QuadraticPenalty,
    TokenLoss,
)
from hocket.train.training_engine import TokenExample, TrainingEngine
from hocket.types import Decoding, Scenario, Score, Trajectory, Turn

QUESTION = [{"role": "user", "content": "What is 12 + 30?"}]


@pytest.fixture(scope="module")
def engine() -> TrainingEngine:
    return TrainingEngine.open("nano", lora=LoraSettings(rank=4), seed=1)


@pytest.fixture(scope="module")
def prompt(engine: TrainingEngine) -> tuple[int, ...]:
    return engine.chat.opening(QUESTION)


@pytest.fixture
def answers(engine: TrainingEngine, prompt: tuple[int, ...]) -> list[TokenExample]:
    (samples,) = engine.sample([prompt], 4, decoding=Decoding(max_tokens=12), key=Key.of(3))
    return [
        TokenExample.of(prompt, sample.tokens, logprobs=sample.logp, advantages=advantage, weights=1.0)
        for sample, advantage in zip(samples, (1.0, -0.5, 0.25, -1.0), strict=True)
    ]


@pytest.fixture(autouse=True)
def fresh(engine: TrainingEngine) -> None:
    engine.optimiser.zero_grad(set_to_none=True)


def gradients(engine: TrainingEngine) -> list[torch.Tensor]:
    return [weight.grad.clone() for weight in engine._weights() if weight.grad is not None]


# ---------------------------------------------------------------- losses, against float64 written once more


def by_hand(name: str, p: NDArray[np.float64], q: NDArray[np.float64], a: NDArray[np.float64]) -> float:
    total = 0.0
    for logp, logq, advantage in zip(p, q, a, strict=True):
        ratio = math.exp(logp - logq)
        held = min(max(ratio, 0.8), 1.2)
        total -= {
            "cross_entropy": advantage * logp,
            "importance_sampling": ratio * advantage,
            "ppo": min(ratio * advantage, held * advantage),
            "cispo": held * advantage * logp,
            "dro": advantage * logp - 0.025 * (logp - logq) ** 2,
        }[name]
    return total


LOSSES: dict[str, TokenLoss] = {
    "cross_entropy": CrossEntropy(),
    "importance_sampling": ImportanceSampling(),
    "ppo": ClippedRatio(),
    "cispo": ClippedWeight(),
    "dro": QuadraticPenalty(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_its_formula_and_so_is_its_gradient(name: str) -> None:
    draw = np.random.default_rng(0)
    p, q, a = -draw.random(200) * 3, -draw.random(200) * 3, draw.normal(size=200)
    logp = torch.from_numpy(p).requires_grad_()
    columns = {"logprobs": torch.from_numpy(q), "advantages": torch.from_numpy(a), "weights": torch.from_numpy(a)}
    loss = LOSSES[name](logp, columns).sum()
    assert float(loss.detach()) == pytest.approx(by_hand(name, p, q, a), rel=1e-12)
    (slope,) = torch.autograd.grad(loss, logp)
    ratio, step = np.exp(p - q), 1e-6
    if name == "cispo":  # Its weight is a constant to the gradient.
        expected = -np.clip(ratio, 0.8, 1.2) * a
    else:
        expected = np.array(
            [
                (by_hand(name, p[i : i + 1] + step, q[i : i + 1], a[i : i + 1])
                 - by_hand(name, p[i : i + 1] - step, q[i : i + 1], a[i : i + 1])) / (2 * step)
                for i in range(200)
            ]
        )  # fmt: skip
    assert np.allclose(slope.numpy(), expected, atol=1e-7)


def test_the_ratio_of_an_example_is_one_and_its_tokens_carry_their_gradients() -> None:
    draw, example = np.random.default_rng(0), np.repeat([0, 1, 2], [3, 5, 4])
    p, q, a = -draw.random(12) * 3, -draw.random(12) * 3, draw.normal(size=12)
    mask = np.ones(12)
    mask[[0, 4, *range(8, 12)]] = 0  # The last example has none: its ratio is 1.
    gap = p - q
    whole = np.array([gap[1:3].mean(), np.delete(gap[3:8], 1).mean(), 0.0])
    ratio = np.exp(whole)[example]
    logp = torch.from_numpy(p).requires_grad_()
    columns = {"logprobs": q, "advantages": a, "sequence_ratio_mask": mask, "example": example}
    loss = ClippedSequenceRatio(0.8, 1.2)(logp, {name: torch.from_numpy(one) for name, one in columns.items()})
    expected = -np.minimum(ratio * a, np.clip(ratio, 0.8, 1.2) * a)
    assert np.allclose(loss.detach().numpy(), expected, rtol=1e-12)
    (slope,) = torch.autograd.grad(loss.sum(), logp)
    free = ratio * a <= np.clip(ratio, 0.8, 1.2) * a
    assert 0 < free.sum() < 12
    assert np.allclose(slope.numpy(), np.where(free, -ratio * a, 0.0), rtol=1e-12)


def test_a_ratio_of_examples_is_the_same_in_one_pass_and_in_several(
    engine: TrainingEngine, answers: list[TokenExample]
) -> None:
    examples = [
        TokenExample(
            one.tokens,
            one.targets,
            {**one.columns, "logprobs": one.columns["logprobs"] - 0.1, "sequence_ratio_mask": one.columns["weights"]},
            one.prompt,
        )
        for one in answers
    ]
    loss = ClippedSequenceRatio(0.5, 1.5)
    found = engine.forward_backward(examples, loss).loss
    assert found == pytest.approx(-math.exp(0.1) * sum(e.columns["advantages"].sum() for e in answers), rel=1e-4)
    whole = gradients(engine)
    engine.optimiser.zero_grad(set_to_none=True)
    before, engine.policy.token_budget = engine.policy.token_budget, 32
    try:
        engine.forward_backward(examples, loss)
    finally:
        engine.policy.token_budget = before
    for one, other in zip(gradients(engine), whole, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bounds", [(1.1, 1.2), (-0.1, 1.2), (0.8, 0.9)])
def test_bounds_are_around_one(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="around 1"):
        ClippedRatio(*bounds)


# ---------------------------------------------------------------- the calls


def test_log_probs_of_learning_are_those_of_sampling_to_the_bit(
    engine: TrainingEngine, answers: list[TokenExample]
) -> None:
    outcome = engine.forward_backward(answers, ClippedRatio())
    for logp, example in zip(outcome.logp, answers, strict=True):
        sampled = example.columns["advantages"] != 0
        assert np.array_equal(logp[sampled], example.columns["logprobs"][sampled])
    assert outcome.loss == pytest.approx(-sum(e.columns["advantages"].sum() for e in answers), rel=1e-5)
    assert engine.forward(answers, ClippedRatio()).loss == pytest.approx(outcome.loss, rel=1e-6)


def test_gradients_add_up_and_a_step_drops_them(engine: TrainingEngine, answers: list[TokenExample]) -> None:
    engine.forward_backward(answers, ImportanceSampling())
    whole = gradients(engine)
    engine.optimiser.zero_grad(set_to_none=True)
    for example in answers:
        engine.forward_backward([example], ImportanceSampling())
    for one, other in zip(gradients(engine), whole, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)
    metrics = engine.step(0.0)
    assert metrics["gradient/norm"] == pytest.approx(float(torch.stack([g.norm() for g in whole]).norm()), rel=1e-4)
    with pytest.raises(ConfigurationError, match="no gradient"):
        engine.step()


def test_a_loss_of_ones_own_has_the_same_gradient(engine: TrainingEngine, answers: list[TokenExample]) -> None:
    def own(logp: Sequence[torch.Tensor]) -> torch.Tensor:
        parts = [
            (part - torch.from_numpy(example.columns["logprobs"])).exp()
            * torch.from_numpy(example.columns["advantages"])
            for part, example in zip(logp, answers, strict=True)
        ]
        return -torch.cat(parts).sum()

    engine.forward_backward(answers, ImportanceSampling())
    expected = gradients(engine)
    engine.optimiser.zero_grad(set_to_none=True)
    before, engine.policy.token_budget = (
        engine.policy.token_budget,
        32,
    )  # Several passes, so that the loss is pulled back.
    try:
        engine.forward_backward(answers, own)
    finally:
        engine.policy.token_budget = before
    for one, other in zip(gradients(engine), expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_call_that_fails_adds_nothing(engine: TrainingEngine, answers: list[TokenExample]) -> None:
    def broken(logp: Sequence[torch.Tensor]) -> torch.Tensor:
        raise ZeroDivisionError

    engine.forward_backward(answers, CrossEntropy())
    gathered = gradients(engine)
    with pytest.raises(ZeroDivisionError):
        engine.forward_backward(answers, broken)
    assert all(torch.equal(one, other) for one, other in zip(gradients(engine), gathered, strict=True))
    assert engine.step(0.0)["gradient/norm"] > 0


def test_memory_that_runs_out_halves_the_passes(
    engine: TrainingEngine, answers: list[TokenExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = engine.forward_backward(answers, CrossEntropy()).loss
    whole, evaluate, tried = gradients(engine), engine.policy.evaluate, []
    engine.optimiser.zero_grad(set_to_none=True)

    def short(*given: Any, **settings: Any) -> Any:
        tried.append(engine.policy.token_budget)
        if len(tried) == 1:
            raise MemoryError
        return evaluate(*given, **settings)

    monkeypatch.setattr(engine.policy, "token_budget", 1024)
    monkeypatch.setattr(engine.policy, "evaluate", short)
    assert engine.forward_backward(answers, CrossEntropy()).loss == pytest.approx(expected, rel=1e-6)
    assert tried[:2] == [1024, 512]
    for one, other in zip(gradients(engine), whole, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)


def test_what_was_saved_goes_on_to_equal_numbers(
    engine: TrainingEngine, answers: list[TokenExample], tmp_path: Path
) -> None:
    def learn(one: TrainingEngine) -> float:
        loss = one.forward_backward(answers, CrossEntropy()).loss
        one.step(1e-3)
        return loss

    learn(engine)
    engine.save(tmp_path)
    expected = [learn(engine) for _ in range(2)]
    other = TrainingEngine.open("nano", lora=LoraSettings(rank=4), seed=2)
    other.load(tmp_path)
    assert [learn(other) for _ in range(2)] == expected
    other.load(tmp_path, optimiser=False)
    assert [learn(other) for _ in range(2)] != expected


def test_equal_keys_give_equal_answers_and_calls_without_one_others(
    engine: TrainingEngine, prompt: tuple[int, ...]
) -> None:
    def texts(key: Key | None) -> list[list[int]]:
        (found,) = engine.sample([prompt], 3, decoding=Decoding(max_tokens=12, temperature=1.5), key=key)
        return [sample.tokens.tolist() for sample in found]

    assert texts(Key.of(0)) == texts(Key.of(0))
    assert texts(None) != texts(None)


def test_log_probs_of_a_text(engine: TrainingEngine, prompt: tuple[int, ...]) -> None:
    (logp,) = engine.logp([prompt])
    with torch.no_grad():
        logits = engine.policy.model(torch.tensor([prompt])).logits[0].double()
    expected = torch.log_softmax(logits, -1)[:-1].gather(1, torch.tensor(prompt)[1:, None])[:, 0]
    assert np.allclose(logp, expected.numpy(), atol=1e-4)


def test_a_whole_model_learns_too(tmp_path: Path) -> None:
    engine = TrainingEngine.open("nano")
    prompt = engine.chat.opening(QUESTION)
    example = TokenExample.of(prompt, engine.tokenizer.encode("42"), weights=1.0)
    losses = []
    for _ in range(3):
        losses.append(engine.forward_backward([example], CrossEntropy()).loss)
        engine.step(1e-3)
    assert losses[2] < losses[0]
    engine.save(tmp_path / "state")
    engine.export(tmp_path / "model")
    again = TrainingEngine.open(str(tmp_path / "model"))
    assert again.forward([example], CrossEntropy()).loss == engine.forward([example], CrossEntropy()).loss


# ---------------------------------------------------------------- what cannot be


IDS = np.arange(5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TokenExample(IDS, IDS[:4]), "5 tokens, but targets is of shape"),
        (lambda: TokenExample(IDS[:0], IDS[:0]), "no tokens"),
        (lambda: TokenExample.of((), (1, 2), weights=1.0), "at least one each"),
        (lambda: TokenExample.of((1, 2), (), weights=1.0), "at least one each"),
        (lambda: TokenExample(IDS, IDS, {"weights": np.full(5, np.nan, np.float32)}), "not finite"),
    ],
)
def test_broken_examples_are_refused(make: Callable[[], TokenExample], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


@pytest.mark.parametrize(
    ("tokens", "targets", "weights", "message"),
    [
        (IDS, IDS + 2, 1.0, "targets are the tokens moved by one"),
        (IDS + 10**6, IDS + 10**6 + 1, 1.0, "is no token: the vocabulary has"),
        (IDS - 2, IDS - 1, 1.0, "-2 is no token"),
        (np.arange(2000) % 9, (np.arange(2000) + 1) % 9, 1.0, "context"),
        (IDS, IDS + 1, None, "reads the column 'weights'"),
    ],
)
def test_examples_that_cannot_be_learnt_are_refused(
    engine: TrainingEngine, tokens: NDArray[np.int64], targets: NDArray[np.int64], weights: float | None, message: str
) -> None:
    columns = {} if weights is None else {"weights": np.full(len(tokens), weights, np.float32)}
    with pytest.raises(ConfigurationError, match=message):
        engine.forward_backward([TokenExample(tokens, targets, columns)], CrossEntropy())


def test_prompts_and_steps_that_cannot_be_are_refused(engine: TrainingEngine) -> None:
    with pytest.raises(ConfigurationError, match="-1 is no token"):
        engine.sample([(1, -1)])
    for settings in ({"lr": -1.0}, {"lr": math.nan}, {"eps": math.inf}, {"betas": (0.9, 1.0)}):
        with pytest.raises(ConfigurationError, match="must be at least 0"):
            engine.step(**settings)


def test_a_prompt_that_counts_is_refused(engine: TrainingEngine) -> None:
    example = TokenExample(IDS, IDS + 1, {"weights": np.ones(5, np.float32)}, prompt=3)
    with pytest.raises(ConfigurationError, match="inside the prompt"):
        engine.forward([example], CrossEntropy())


def test_targets_that_do_not_count_may_be_anything(engine: TrainingEngine) -> None:
    weights = np.array([0, 0, 1, 1, 1], np.float32)
    outcome = engine.forward_backward(
        [TokenExample(IDS, np.array([0, 0, 3, 4, 5]), {"weights": weights})], CrossEntropy()
    )
    plain = engine.forward([TokenExample(IDS, IDS + 1, {"weights": weights})], CrossEntropy())
    assert outcome.loss == pytest.approx(plain.loss, rel=1e-6)
    assert outcome.logp[0][:2].tolist() == [0.0, 0.0]
    assert np.array_equal(outcome.logp[0][2:], plain.logp[0][2:])


# ---------------------------------------------------------------- beside the learner of `hocket train`


def trajectory_of(prompt: tuple[int, ...], sample: Sample, policy: str, scenario: int, reward: float) -> Trajectory:
    turn = Turn(
        agent="policy",
        policy=policy,
        observation=np.asarray(prompt, np.int64),
        action=np.asarray(sample.tokens, np.int64),
        logp=np.asarray(sample.logp, np.float32),
    )
    return Trajectory(scenario=Scenario(str(scenario), ""), turns=[turn], scores={"reward": Score(reward)})


def test_a_step_of_grpo_is_that_of_the_learner_from_the_same_samples() -> None:
    engine, other = TrainingEngine.open("nano", seed=1), TrainingEngine.open("nano", seed=1)
    learner = Learner(other.policy, find("grpo"), total_steps=2)
    questions = [engine.chat.opening([{"role": "user", "content": f"What is {n} + 30?"}]) for n in (5, 12)]
    for step in (1, 2):
        groups = engine.sample(questions, 4, decoding=Decoding(max_tokens=12), key=Key.of(step))
        rewards = np.random.default_rng(step).normal(size=(2, 4))
        advantages = (rewards - rewards.mean(1, keepdims=True)) / (rewards.std(1, ddof=1, keepdims=True) + 1e-6)
        examples, trajectories = [], []
        for place, number in np.ndindex(2, 4):
            prompt, sample = questions[place], groups[place][number]
            advantage, reward = advantages[place, number], float(rewards[place, number])
            weight = 1 / (len(sample.tokens) * rewards.size)
            columns = {"logprobs": sample.logp, "advantages": advantage, "weights": weight}
            examples.append(TokenExample.of(prompt, sample.tokens, **columns))
            trajectories.append(trajectory_of(prompt, sample, other.policy.name, place, reward))
        batch = learner.compute_credit(learner.annotate(pack(trajectories)), {"reward": 1.0}, step)
        metrics = learner.learn(batch, Key.of(step), step)
        loss, norm = engine.forward_backward(examples, ClippedRatio()).loss, engine.step()["gradient/norm"]
        assert norm == metrics["gradient/norm"] > 0
        assert loss == metrics["loss"]
        theirs = dict(other.policy.model.named_parameters())
        for name, weight in engine.policy.model.named_parameters():
            assert torch.equal(weight, theirs[name]), name

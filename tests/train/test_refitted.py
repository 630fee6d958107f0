"""A scorer that pays in a run and is refitted in it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import TINY, call, resume, rows, train, weights

from hocket import tasks
from hocket.agents.workflows.chat import Chat
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.outcomes import StepResult
from hocket.nano import BASE
from hocket.policies.scorer import Scorer
from hocket.rewards.functions import FunctionReward
from hocket.train.checkpoint import Checkpoints
from hocket.train.config import configure
from hocket.train.model_reward import ScorerReward
from hocket.train.scorer_refits import Pair, RefittedScorer
from hocket.train.scorer_rewards import scorer_reward
from hocket.train.settings import Config
from hocket.types import Scenario, Trajectory, Turn

RUN: Any = SimpleNamespace(key=Key.of(0))
OFTEN = ["--checkpoint.steps", "2"]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("scorers") / "judge"
    Scorer.from_pretrained(BASE, key=Key.of(0)).save(folder)
    return str(folder)


def refitted(judge: str, settings: str = "every=1", gold: Any = None) -> RefittedScorer:
    own = [FunctionReward(gold or (lambda completions: [float(len(text)) for text in completions]), name="length")]
    found = scorer_reward(f"model:{judge}?{settings}", replace(Config(), steps=4), task_rewards=own)
    assert isinstance(found, RefittedScorer)
    return found


def answers(words: Any, scenario: str, texts: list[str], **more: Any) -> list[Trajectory]:
    chat = Chat(words)
    opening = np.asarray(chat.opening([{"role": "user", "content": scenario}]), np.int64)
    turns = [Turn("p", "p", opening, np.asarray(chat.demonstration(text), np.int64), text=text) for text in texts]
    return [Trajectory(Scenario(scenario, scenario), [turn], **more) for turn in turns]


def after(reward: RefittedScorer, memory: Any, step: int, sampled: list[Trajectory], **more: Any) -> StepResult:
    result = StepResult({}, sampled, None, **more)
    asyncio.run(reward.after(RUN, step, result, memory))
    return result


def said(pair: Pair, words: Any) -> tuple[str, str]:
    better, worse = (words.decode(one.tokens, skip_special_tokens=True) for one in (pair.better, pair.worse))
    return better, worse


# ---------------------------------------------------------------- which pairs


def test_the_best_answer_meets_the_worst_where_the_gold_tells_them_apart(judge: str) -> None:
    reward = refitted(judge, "every=5")
    words = reward.members[0].tokenizer
    memory = reward.begin(RUN, None)
    sampled = [*answers(words, "1 + 1", ["222", "2", "22"]), *answers(words, "2 + 2", ["3", "4"])]
    foreign = answers(words, "1 + 1", ["222222"], source="expert")
    failed = answers(words, "1 + 1", ["2222222"], failure="lost")
    after(reward, memory, 1, [*sampled, *foreign], discarded=[*failed, *answers(words, "1 + 1", ["22222"])])
    assert [said(pair, words) for pair in memory.fresh] == [("22222", "2")]
    assert not sampled[0].scores, "what the policy is paid is left alone"


def test_a_conversation_is_read_to_its_end(judge: str) -> None:
    reward = refitted(judge, "every=5")
    first = Turn("p", "p", np.array([1, 2]), np.array([3]))
    last = Turn("p", "p", np.array([4]), np.array([5, 6]), parent=first)
    found = reward._read(Trajectory(Scenario("s"), [first, last]))
    assert (found.context.tolist(), found.tokens.tolist()) == ([1, 2, 3, 4], [5, 6])
    whole = Trajectory(Scenario("s"), [Turn("p", "p", found.context, found.tokens)])
    scores = [reward.members[0].scores([one]) for one in (Trajectory(Scenario("s"), [first, last]), whole)]
    assert torch.allclose(*scores, atol=1e-6)


# ---------------------------------------------------------------- what is learnt


def test_a_refit_is_a_step_of_bradley_and_terry(judge: str) -> None:
    reward = refitted(judge)
    scorer, words = reward.members[0], reward.members[0].tokenizer
    sampled = [
        one for number in range(4) for one in answers(words, f"{number} + 1", [f"{number}", f"{number}{number}"])
    ]
    scores = scorer.scores(sampled).double().flatten()
    memory = reward.begin(RUN, None)
    result = after(reward, memory, 1, sampled)
    gaps = scores[1::2] - scores[0::2]
    assert result.metrics["scorer/loss"] == pytest.approx(float(-torch.nn.functional.logsigmoid(gaps).mean()), rel=1e-5)
    assert result.metrics["scorer/accuracy"] == pytest.approx(float((gaps > 0).double().mean()))
    now = scorer.scores(sampled).double().flatten()
    assert float((now[1::2] - now[0::2]).mean()) > float(gaps.mean())


def test_the_output_that_pays_is_the_one_that_learns(tmp_path: Path) -> None:
    Scorer.from_pretrained(BASE, outputs=2, key=Key.of(1)).save(tmp_path / "two")
    reward = refitted(str(tmp_path / "two"), "every=1&output=1")
    scorer = reward.members[0]
    sampled = answers(scorer.tokenizer, "1 + 1", ["1", "22"])
    before = scorer.scores(sampled).double()
    result = after(reward, reward.begin(RUN, None), 1, sampled)
    gap = (before[1] - before[0])[1]
    assert result.metrics["scorer/loss"] == pytest.approx(float(-torch.nn.functional.logsigmoid(gap)), rel=1e-5)
    head = Scorer.from_pretrained(str(tmp_path / "two"), key=Key.of(0)).model.score.weight
    assert torch.equal(scorer.model.score.weight[0], head[0])
    assert not torch.equal(scorer.model.score.weight[1], head[1])


def test_a_share_of_earlier_pairs_is_seen_again(judge: str) -> None:
    reward = refitted(judge, "every=1&old=0.5&keep=3")
    words = reward.members[0].tokenizer
    memory = reward.begin(RUN, None)
    seen = [
        after(reward, memory, step, [one for n in range(2) for one in answers(words, f"{n} + {step}", ["1", "22"])])
        for step in (1, 2, 3)
    ]
    assert [result.metrics["scorer/pairs"] for result in seen] == [2, 4, 4]
    assert [(pair.scenario, pair.step) for pair in memory.earlier] == [("1 + 2", 2), ("0 + 3", 3), ("1 + 3", 3)]


def test_between_refits_pairs_are_gathered(judge: str) -> None:
    reward = refitted(judge, "every=2")
    words = reward.members[0].tokenizer
    memory = reward.begin(RUN, None)
    before = [tensor.clone() for tensor in reward.members[0].module.parameters()]
    assert "scorer/loss" not in after(reward, memory, 1, answers(words, "1", ["1", "22"])).metrics
    assert all(torch.equal(*both) for both in zip(before, reward.members[0].module.parameters(), strict=True))
    assert after(reward, memory, 2, answers(words, "2", ["1", "22"])).metrics["scorer/pairs"] == 2
    assert "scorer/loss" not in after(reward, reward.begin(RUN, None), 2, answers(words, "2", ["1", "2"])).metrics


# ---------------------------------------------------------------- in a run


@pytest.mark.slow
def test_a_run_with_a_refitted_scorer_resumes_to_the_same_bits(
    judge: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gold.py"
    file.write_text("def spread(completions):\n    return [float(sum(map(ord, text)) % 7) for text in completions]\n")
    more = ["--reward", f"model:{judge}?every=2&gold={file}:spread", *OFTEN]
    train(tmp_path, "whole", *more, steps=5)
    monkeypatch.setattr("hocket.train.trainer.Trainer.done", property(lambda self: self.progress.step >= 3))
    train(tmp_path, "parts", *more, steps=5)
    monkeypatch.undo()
    assert [row["step"] for row in rows(tmp_path / "parts")] == [0, 1, 2, 3]
    resume(tmp_path, "parts")
    assert rows(tmp_path / "whole") == rows(tmp_path / "parts")
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    kept = [Checkpoints(tmp_path / run / "checkpoints") for run in ("whole", "parts")]
    states = [one.load(one.latest())["hooks"]["RefittedScorer"] for one in kept]  # type: ignore[arg-type]
    assert all(torch.equal(states[0]["weights"][name], other) for name, other in states[1]["weights"].items())
    assert "scorer/accuracy" in rows(tmp_path / "whole")[4]
    fixed = Scorer.from_pretrained(judge, key=Key.of(0)).module.state_dict()
    assert any(not torch.equal(fixed[name], tensor) for name, tensor in states[0]["weights"].items())


def test_without_refits_a_scorer_stays_as_it_is(judge: str) -> None:
    found = scorer_reward(f"model:{judge}", Config())
    assert type(found) is ScorerReward
    assert not any(one.requires_grad for one in found.members[0].module.parameters())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("old=0.2", "old is a setting of refitting.*every=STEPS"),
        ("every=0", "every, keep and batch must be at least 1"),
        ("every=1&old=1", r"old is the share.*\[0, 1\), not 1"),
        ("every=2&evry=3", "evry"),
        ("every=1&gold=nofile.py:fn", "nofile.py"),
    ],
)
def test_unfit_settings_are_refused(judge: str, settings: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        refitted(judge, settings)


def test_several_scorers_and_tasks_that_tell_nothing_are_refused(judge: str) -> None:
    with pytest.raises(ConfigurationError, match="only a single scorer can be refitted"):
        refitted(f"{judge}+{judge}")
    with pytest.raises(ConfigurationError, match=r"gold=FILE\.py:FUNCTION"):
        scorer_reward(f"model:{judge}?every=1", Config())


def test_overlap_is_refused(judge: str, tmp_path: Path) -> None:
    said = call("train", *TINY, "--runs", tmp_path, "--reward", f"model:{judge}?every=1", "--overlap", "1", "--quiet")
    assert said.code == 2
    assert "overlap" in said.err


def test_the_tasks_own_verifier_is_the_gold(judge: str) -> None:
    from hocket.train.assemble import build_parts

    task = tasks.find("sums")
    parts = build_parts(configure([("reward", (f"model:{judge}?every=3",)), ("steps", 1)], task), task)
    found = parts.rewards[0]
    assert isinstance(found, RefittedScorer)
    assert [one.name for one in found.gold] == [one.name for one in task.rewards]

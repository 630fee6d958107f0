"""Language models and scorers in use: `generate`, `chat` and `score`, beside what `hocket eval` samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import train

import hocket
from hocket.agents.workflows import Workflow
from hocket.core.errors import ConfigurationError
from hocket.engine.requests import ContextFull

QUICK: dict[str, Any] = {"threads": 1, "precision": "fp32"}
PAIR = ("What is 1 + 1?", "<answer>2</answer>")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny runs: one policy, two policies of a team, a reward model."""
    folder = tmp_path_factory.mktemp("runs")
    plain = ["--precision", "fp32", "--lessons", "0"]
    train(folder, "sums", *plain, steps=1)
    apart = ["--roles.planner.policy", "planner", "--roles.worker.policy", "worker"]
    train(folder, "team", *plain, "--workflow", "planner-worker", *apart, steps=1)
    train(folder, "judge", "--precision", "fp32", "--recipe", "reward-model", steps=1, tiny=["--threads", "1", *SMALL])
    return folder


SMALL = ["--evaluation.n", "8", "--evaluation.between", "4", "--curriculum.prompts", "4"]


def load(runs: Path, name: str, *role: str) -> Any:
    return hocket.load(runs / name, *role)


def test_greedy_answers_are_those_of_the_evaluation(runs: Path) -> None:
    trained = load(runs, "sums")
    trajectories = trained.evaluate(n=6).trajectories
    prompts = [list(trajectory.scenario.messages) for trajectory in trajectories]
    tokens = [trained.actor.chat.encode(text) for text in trained.generate(prompts)]
    for trajectory, ids in zip(trajectories, tokens, strict=True):
        (turn,) = trajectory.turns
        end = trained.actor.chat.end_of_turn
        assert [token for token in turn.action.tolist() if token != end] == list(ids)


def test_one_prompt_several_answers_and_batches(runs: Path) -> None:
    trained = load(runs, "sums")
    answer = trained.generate("What is 2 + 3?")
    assert isinstance(answer, str)
    assert trained.generate([{"role": "user", "content": "What is 2 + 3?"}]) == answer
    batch = trained.generate(["What is 2 + 3?", "What is 4 + 4?"])
    assert batch[0] == answer
    assert len(batch) == 2
    several = trained.generate("What is 2 + 3?", n=3, temperature=1.5, seed=1)
    assert len(several) == 3
    assert several == trained.generate("What is 2 + 3?", n=3, temperature=1.5, seed=1)
    groups = trained.generate(["What is 2 + 3?", "What is 4 + 4?"], n=2)
    assert [len(group) for group in groups] == [2, 2]
    assert trained.generate([]) == []


def test_calls_without_a_seed_draw_others(runs: Path) -> None:
    trained = load(runs, "sums")
    draws = {tuple(trained.generate("What is 12 + 30?", n=4, temperature=2.0)) for _ in range(4)}
    assert len(draws) > 1


def test_an_answer_ends_at_the_limit(runs: Path) -> None:
    trained = load(runs, "sums")
    short = trained.generate("What is 2 + 3?", max_tokens=2)
    assert trained.generate("What is 2 + 3?").startswith(short)
    assert len(trained.actor.chat.encode(short)) <= 2


def test_a_chat_grows(runs: Path) -> None:
    trained = load(runs, "sums")
    messages = trained.chat("What is 2 + 3?")
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[1]["content"] == trained.generate("What is 2 + 3?")
    longer = trained.chat([*messages, {"role": "user", "content": "What is 1 + 1?"}])
    assert longer[:3] == [*messages, {"role": "user", "content": "What is 1 + 1?"}]
    assert longer[3]["role"] == "assistant"


@pytest.mark.parametrize(
    ("prompt", "options", "sentence"),
    [
        ("x", {"n": 0}, "generate at least one answer"),
        ("x", {"temperature": -1.0}, "temperature = -1.0: must be at least 0"),
        ("x", {"max_tokens": 0}, "max_tokens = 0: must be at least 1"),
        (3, {}, "a prompt is a text or a list of messages, not int"),
        ([{"text": "x"}], {}, "is no message"),
        ([[]], {}, "a prompt has no messages"),
    ],
)
def test_prompts_that_cannot_be_answered(runs: Path, prompt: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        load(runs, "sums").generate(prompt, **options)


def test_a_prompt_that_is_too_long(runs: Path) -> None:
    with pytest.raises(ContextFull, match="leaves no room"):
        load(runs, "sums").generate("1" * 3000)


def test_a_role_of_a_team(runs: Path) -> None:
    with pytest.raises(ConfigurationError, match="roles planner, worker; choose one: role='planner'"):
        load(runs, "team")
    worker = load(runs, "team", "worker")
    assert worker.policy.name == "worker"
    assert worker.system == worker.subject.parts.player.workflow.prompts.get("worker")
    assert isinstance(worker.generate("What is 2 + 2?"), str)


@pytest.mark.global_rng
def test_a_saved_model_opens_everywhere(runs: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    trained = load(runs, "sums")
    folder = trained.save(tmp_path / "model")
    again = hocket.load(folder, **QUICK)
    assert again.generate("What is 2 + 3?") == trained.generate("What is 2 + 3?")
    assert again.evaluate("sums", n=4).each == trained.evaluate(n=4).each
    plain = AutoModelForCausalLM.from_pretrained(str(folder))
    own = trained.policy.model.state_dict()
    assert all(torch.equal(value, own[name]) for name, value in plain.state_dict().items())
    with pytest.raises(ConfigurationError, match="exists already"):
        trained.save(folder)


def test_another_task_is_measured_with_the_same_weights(runs: Path) -> None:
    trained = load(runs, "sums")
    result = trained.evaluate("reckoning", n=3)
    assert result.n == 3


def test_scores_of_pairs_conversations_and_texts(runs: Path) -> None:
    judge = load(runs, "judge")
    score = judge.score(PAIR)
    messages = [{"role": "user", "content": PAIR[0]}, {"role": "assistant", "content": PAIR[1]}]
    assert isinstance(score, float)
    assert judge.score(messages) == score
    both = judge.score([PAIR, (PAIR[0], "<answer>3</answer>")])
    assert both.shape == (2,)
    assert both[0] == pytest.approx(score, abs=1e-5)
    texts = judge.score(["plain words", "others"])
    assert texts.shape == (2,)
    assert texts[0] == pytest.approx(judge.score("plain words"), abs=1e-5)
    with pytest.raises(ConfigurationError, match="does not end with an answer"):
        judge.score(messages[:1])
    with pytest.raises(ConfigurationError, match="text 0 is empty"):
        judge.score("")
    with pytest.raises(ConfigurationError, match="text 1 is int"):
        judge.score(["a", 1])
    with pytest.raises(ConfigurationError, match=r"is a scorer and has no \.generate\(\)"):
        judge.generate("x")


@pytest.mark.global_rng
def test_a_saved_scorer_gives_the_scores_of_transformers(runs: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    judge = load(runs, "judge")
    folder = judge.save(tmp_path / "judge")
    again = hocket.load(folder, **QUICK)
    assert again.score(PAIR) == judge.score(PAIR)
    model = AutoModelForSequenceClassification.from_pretrained(str(folder))
    words = AutoTokenizer.from_pretrained(str(folder))("plain words", return_tensors="pt")
    with torch.no_grad():
        logits = model(input_ids=words["input_ids"]).logits
    assert np.isclose(float(logits[0, 0]), judge.score("plain words"), atol=1e-4)


# ---------------------------------------------------------------- runs that were made with Python objects


def spread(completions: list[str], **columns: Any) -> list[float]:
    return [float(sum(map(ord, str(text))) % 7) for text in completions]


class Twice(Workflow):
    roles = ("asker",)

    async def play(self, scenario: Any, team: Any) -> None:
        await team.asker(scenario.messages)


TINY_SETTINGS: dict[str, Any] = {
    "rollout.samples": 2,
    "curriculum.prompts": 2,
    "evaluation.n": 2,
    "decoding.max_tokens": 6,
    "threads": 1,
    "precision": "fp32",
}


def test_a_reward_and_rows_that_are_objects(tmp_path: Path) -> None:
    rows = [{"prompt": f"Say {number}."} for number in range(8)]
    run = hocket.train(rows, reward=spread, steps=1, runs=str(tmp_path), run="rows", **TINY_SETTINGS)  # type: ignore[operator]
    answer = run.load().generate("Say 3.")
    with pytest.raises(ConfigurationError, match=r"if the task was a Python object, pass it: hocket\.load\(RUN, task"):
        hocket.load(run)
    task = run.load().subject.task
    opened = hocket.load(run, task=task)
    assert opened.generate("Say 3.") == answer
    assert isinstance(opened.evaluate(n=2).success, float)


def test_a_workflow_that_is_an_object(tmp_path: Path) -> None:
    run = hocket.train("sums", workflow=Twice(), steps=1, runs=str(tmp_path), run="flow", **TINY_SETTINGS)  # type: ignore[operator]
    with pytest.raises(ConfigurationError, match=r"workflow Twice, which its configuration cannot hold; pass it"):
        hocket.load(run)
    assert hocket.load(run, workflow=Twice()).role == "asker"
    assert run.load().role == "asker"

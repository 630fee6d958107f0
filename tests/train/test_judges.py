"""`--judge` in runs: every form, what is replayed, what fails, and what is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from remote_server import Said, Server, chat_answer
from tiny_runs import TINY, assert_same, call, resume, rows, train

from hocket import rewards, tasks
from hocket.apps.cli.parser import split_settings
from hocket.core.keys import Key
from hocket.engine.requests import Request
from hocket.nano import BASE
from hocket.recipes import find
from hocket.rewards.judging import Question, counting, grades, said, verdicts
from hocket.train.config import configure
from hocket.train.journal import Journal
from hocket.train.judges import EndpointJudge, FunctionJudge, PolicyJudge, asking, with_judge
from hocket.train.settings import Config
from hocket.train.trainer import Trainer
from hocket.types import Decoding

JUDGES = """
import random

DRAWS = random.Random()
CALLS = []

def moody(prompts):
    return [DRAWS.choice(["yes", "no", "0", "1", "plan"]) for _ in prompts]

async def length(prompts):
    return ["no" if len(prompt) % 3 else "yes" for prompt in prompts]

def numbered(prompts):
    return [str(len(prompt) % 2) for prompt in prompts]

def falters(prompts):
    CALLS.append(len(prompts))
    if len(CALLS) > 1:
        raise OSError("out of credit")
    return ["yes"] * len(prompts)

def broken(prompts):
    raise OSError("no key")

def few(prompts):
    return ["yes"]

def odd(prompts):
    return [None if number % 2 else 0.9 for number, _ in enumerate(prompts)]

def numbers(prompts):
    return [float("nan"), 1e-9, 7, True, float("inf")]

notjudge = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "judges.py"
    found.write_text(JUDGES)
    return found


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[Server]:
    def reply(path: str, body: Any) -> Said:
        if body is None:
            return Said({"data": [{"id": "big"}]})
        content = body["messages"][0]["content"]
        if content == "fail":
            return Said({"error": {"message": "no"}}, status=400)
        answer = chat_answer("Yes." if len(content) % 2 else "No.")
        return Said({**answer.value, "usage": {"total_tokens": 7}})

    with Server(reply).running() as running:
        yield running


# ---------------------------------------------------------------- runs


@pytest.mark.parametrize("recipe", ["ace-rl", "spectral-po", "qwen3-korean"])
def test_a_run_asks_a_policy_as_it_was(recipe: str, tmp_path: Path) -> None:
    settings = ("--judge", "nano", "--rollout.samples", "2", "--lessons", "0")
    train(tmp_path, "run", "--recipe", recipe, *settings, steps=2)
    told = rows(tmp_path / "run")[1:]
    assert sum(row["judge/questions"] for row in told) > 0
    assert all(row["judge/failed"] == 0 for row in told)
    assert sum(row["judge/tokens"] for row in told) > 0
    assert "judge: nano" in (tmp_path / "run" / "config.yaml").read_text()


def test_a_run_asks_an_endpoint(tmp_path: Path, server: Server) -> None:
    train(tmp_path, "run", "--recipe", "qwen3-korean", "--judge", server.url, steps=2)
    told = rows(tmp_path / "run")[1:]
    asked = [one.body for one in server.asked if one.path.endswith("/chat/completions")]
    assert {body["model"] for body in asked} == {"big"}
    assert {body["temperature"] for body in asked} == {0.0}
    assert [row["judge/questions"] for row in told] == [8.0, 8.0]
    assert sum(row["judge/tokens"] for row in told) == 7 * len(asked)
    for body in asked:
        assert "Does the response come to the right answer?" in body["messages"][0]["content"]


def test_an_evaluation_asks_nobody(tmp_path: Path, file: Path) -> None:
    config = configure(
        [("recipe", "qwen3-korean"), ("judge", f"{file}:broken"), ("runs", str(tmp_path)), ("threads", 1)],
        tasks.find("sums"),
    )
    trainer = Trainer(config)
    assert trainer.evaluate(4).n == 4
    trainer.folder.release()


@pytest.mark.parametrize("judge", ["{file}:moody", "nano"])
def test_a_run_stopped_and_resumed_hears_the_same_again(judge: str, tmp_path: Path, file: Path) -> None:
    more = [
        *TINY,
        "--recipe",
        "ace-rl",
        "--judge",
        judge.format(file=file),
        "--checkpoint.steps",
        "2",
        "--runs",
        str(tmp_path),
    ]
    pairs = split_settings([*more, "--run", "parts", "--steps", "3"], set())[1]
    task = tasks.find("sums")
    trainer = Trainer(configure(pairs, task), task=task)
    while trainer.progress.step < 3:
        trainer.step()
    trainer.folder.release()
    before = rows(tmp_path / "parts")
    resume(tmp_path, "parts")
    assert rows(tmp_path / "parts") == before, "step 3 lies after the checkpoint and was done twice"
    assert any(row["judge/questions"] > 0 for row in before[1:])


def test_equal_runs_with_a_judge_are_equal(tmp_path: Path, file: Path) -> None:
    for name in ("one", "other"):
        train(tmp_path, name, "--recipe", "spectral-po", "--judge", f"{file}:numbered", steps=2)
    assert_same(tmp_path / "one", tmp_path / "other")


def test_a_judge_that_falters_leaves_the_run_going(tmp_path: Path, file: Path) -> None:
    train(tmp_path, "run", "--recipe", "qwen3-korean", "--judge", f"{file}:falters", steps=3)
    told = rows(tmp_path / "run")[1:]
    assert told[0]["judge/failed"] == 0
    assert told[-1]["judge/failed"] > 0
    assert "out of credit" in (tmp_path / "run" / "messages.txt").read_text()


def test_a_role_with_a_recipe_of_its_own_and_later_phases_have_the_judge(tmp_path: Path, file: Path) -> None:
    plan = [{"recipe": "grpo", "steps": 1}, {"recipe": "spectral-po", "steps": 1}]
    pairs = [("plan", plan), ("judge", f"{file}:length"), ("runs", str(tmp_path)), ("threads", 1), ("evaluation.n", 4)]
    pairs += [("curriculum.prompts", 2), ("rollout.samples", 2)]
    trainer = Trainer(configure(pairs, tasks.find("sums")))
    while not trainer.done:
        trainer.step()
    assert trainer.parts.lead.recipe.shaping[0].judge is trainer.parts.judge
    assert trainer.config.phases[1][0].shaping[0].judge is None, "the configuration stays plain"
    trainer.finish("finished")


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("recipe", "judge", "words"),
    [
        ("grpo", "nano", "grpo asks no judge"),
        ("ace-rl", "nanoo/none/here", "nanoo/none/here.*FILE.py:FUNCTION"),
        ("ace-rl", "nofile.py:judge", "nofile.py"),
        ("ace-rl", "{file}:nobody", "nobody"),
        ("ace-rl", "{file}:notjudge", "name a function"),
        ("ace-rl", "http://127.0.0.1:9/v1", "no server answers"),
        ("ace-rl", "{file}:broken", "no key"),
        ("ace-rl", "{file}:few", "a list with an answer for each"),
    ],
)
def test_what_is_refused_in_one_sentence(recipe: str, judge: str, words: str, tmp_path: Path, file: Path) -> None:
    named = judge.format(file=file)
    found = call(
        "train", *TINY, "--recipe", recipe, "--judge", named, "--steps", "1", "--runs", tmp_path / "runs", "--quiet"
    )
    assert found.code == 2, found.err
    assert re.search(words, " ".join(found.err.split())), found.err
    assert "Traceback" not in found.err
    assert not list((tmp_path / "runs").glob("*/metrics.jsonl")), "a refused run leaves no folder"


# ---------------------------------------------------------------- the judges themselves


def test_a_policy_says_the_likeliest_choice() -> None:
    judge = PolicyJudge("nano", Config(threads=1), None)
    questions = [
        Question("What is 12 + 30?", ("<answer>42</answer>", "<answer>41</answer>", "hello")),
        Question("Hi", ("a",)),
    ]
    found = judge(questions)
    assert found[0].text == "<answer>42</answer>"
    logp = found[0].logp
    assert logp is not None
    assert logp[0] == max(logp) <= 0
    alone = judge([Question("What is 12 + 30?", ("<answer>41</answer>",))])[0].logp
    assert alone is not None
    assert alone[0] == logp[1], "an answer does not depend on what is asked beside it"
    chat, policy = judge._chat, judge._engine.policy
    opening = chat.opening([{"role": "user", "content": "What is 12 + 30?"}])
    forced = [*chat.encode("<answer>41</answer>"), chat.end_of_turn]
    with torch.no_grad():
        told = policy.model(torch.tensor([[*opening, *forced]])).logits[0].double().log_softmax(-1)
    by_hand = sum(float(told[len(opening) - 1 + place, token]) for place, token in enumerate(forced))
    assert logp[1] == pytest.approx(by_hand, abs=1e-3)


def test_a_policys_free_words_are_its_greedy_answer() -> None:
    judge = PolicyJudge(str(BASE), Config(threads=1), None)
    (found,) = said(judge, ["What is 12 + 30?"], longest=40)
    opening = judge._chat.opening([{"role": "user", "content": "What is 12 + 30?"}])
    request = Request(opening, Decoding(max_tokens=40, temperature=0.0), Key.of(3))
    (sample,) = judge._engine.sample([request])
    assert found == judge._chat.reply_text(sample.tokens.tolist())
    assert "42" in found


def test_a_question_that_is_too_long_has_no_answer() -> None:
    judge = PolicyJudge("nano", Config(threads=1), None)
    with counting() as count:
        assert verdicts(judge, ["short", "long " * 400]) in ([True, None], [False, None])
    assert count.failed == 1
    assert "context" in count.problems[0]
    (grade,) = grades(judge, ["How good?"], scale=4)
    assert grade is not None
    assert 0 < grade < 1
    assert not math.isclose(grade, 0.5)


def test_a_run_is_a_judge(tmp_path: Path) -> None:
    train(tmp_path, "grown", "--update.lr", "1e-3", steps=2)
    judge = PolicyJudge("grown", Config(threads=1, runs=str(tmp_path)), None)
    base = PolicyJudge("nano", Config(threads=1), None)
    question = [Question("What is 12 + 30?", ("a", "b"))]
    assert judge(question)[0].logp != base(question)[0].logp


def test_one_question_of_an_endpoint_may_fail(server: Server, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    judge = EndpointJudge(f"{server.url}#small", journal)
    with counting() as count:
        assert said(judge, ["abc", "fail", "ab"]) == ["Yes.", None, "No."]
    assert (count.tokens, count.failed, len(count.problems)) == (14, 1, 1)
    before = len(server.asked)
    assert said(EndpointJudge(f"{server.url}#small", journal), ["ab", "abc"]) == ["No.", "Yes."]
    assert len(server.asked) == before, "the journal answers"
    assert {one.body["model"] for one in server.asked} == {"small"}
    journal.close()


def test_an_answer_of_an_endpoint_that_is_not_finished_is_no_verdict(tmp_path: Path) -> None:
    def reply(path: str, body: Any) -> Said:
        content = body["messages"][0]["content"].split("\n")[0]
        if content == "broken":
            return chat_answer("Yes.", "abort" if len(asked) % 2 else "stop") if asked.append(path) is None else Said()
        return chat_answer("Yes, since", content)

    asked: list[str] = []
    with Server(reply).running() as server, counting() as count:
        judge = EndpointJudge(f"{server.url}#m", None)
        assert verdicts(judge, ["stop", "length", "broken"]) == [True, None, True]
        assert len(asked) == 2, "an aborted answer is asked for again"
        sent = server.asked[0].body
    assert (sent["temperature"], sent["top_p"], sent["top_k"], sent["repetition_penalty"]) == (0.0, 1.0, -1, 1.0)
    assert (count.failed, count.unclear) == (0, 1)


def test_an_endpoint_is_sent_the_key_that_the_environment_holds(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOCKET_JUDGE_KEY", "secret")
    said(EndpointJudge(server.url, None), ["abc"])
    assert {one.key for one in server.asked} == {"Bearer secret"}


def test_own_functions_may_say_numbers_and_nothing(file: Path) -> None:
    judge = FunctionJudge(f"{file}:odd", None)
    assert verdicts(judge, ["a", "b", "c"]) == [True, None, True]
    assert grades(FunctionJudge(f"{file}:odd", None), ["a", "b"], scale=1) == [0.9, None]


def test_numbers_of_own_functions_are_read_as_they_are(file: Path) -> None:
    judge = FunctionJudge(f"{file}:numbers", None)
    with counting() as count:
        assert grades(judge, list("abcde")) == [None, 0.0, 0.7, 0.1, None]
    assert (count.failed, count.unclear) == (2, 0)
    assert "it returned nan; return texts, finite numbers or None" in count.problems[0]


def test_the_page_names_the_recipes_that_ask() -> None:
    page = (Path(__file__).parents[2] / "docs" / "judges.md").read_text()
    asked = re.findall(r"^\| `([a-z][a-z0-9-]+)` \| (\(embedder)?", page, re.MULTILINE)
    named = {name: bool(vectors) for name, vectors in asked if name not in ("rule", "policy", "ngrams")}
    assert len(named) == 11
    for name, vectors in named.items():
        assert any(asking(find(name).stages)) is not vectors, name
    for form in ("verdicts", "grades", "picked", "said", "compared", "JudgedBy"):
        assert getattr(rewards, form).__module__ == "hocket.rewards.judging"


def test_a_recipe_without_judges_is_itself() -> None:
    assert with_judge(find("grpo"), PolicyJudge("nano", Config(threads=1), None)) is find("grpo")

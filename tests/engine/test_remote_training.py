"""A team of which one role is a server's model and the other one learns."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from remote_server import Said, Server, chat_answer, token_answer
from tiny_runs import TINY, call, resume, rows, train, weights

from hocket.nano import BASE

FLOW = """
from hocket.agents.workflows import Outcome, Workflow


class Judged(Workflow):
    roles = ("judge", "student")

    async def play(self, scenario, team):
        advice = await team.judge([scenario.prompt, "Give advice."])
        answer = await team.student([scenario.prompt, advice])
        verdict = await team.judge(f"Judge {answer}")
        return Outcome(answer=str(answer), rewards={"verdict": float(sum(map(ord, str(verdict))) % 7)})
"""


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[Server]:
    """Never says the same twice, whatever it is asked."""
    count = iter(range(10**6))

    def reply(path: str, body: Any) -> Said:
        if path == "/v1/completions":
            number = next(count)
            return token_answer("", [32 + number % 9, 33 + number % 7, 1], [-0.5, -1.0, -0.1])
        return chat_answer(f"é {next(count) * 7919 % 1000}") if body else Said({"data": [{"id": "big"}]})

    with Server(reply).running() as running:
        yield running


@pytest.fixture
def flags(tmp_path: Path, server: Server) -> list[str]:
    (tmp_path / "flow.py").write_text(FLOW)
    workflow = f"{tmp_path / 'flow.py'}:Judged"
    return ["--workflow", workflow, "--roles.judge.endpoint", server.url, "--roles.judge.model", "big"]


def recorded(run: Path) -> list[dict[str, Any]]:
    text = min((run / "rollouts").glob("*.jsonl")).read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("recipe", ["grpo", "grpo-kl", "ppo", "rloo"])
def test_the_other_role_learns_and_the_remote_one_gets_no_credit(
    recipe: str, tmp_path: Path, flags: list[str], server: Server
) -> None:
    train(tmp_path, "team", *flags, "--recipe", recipe, steps=2)
    found = rows(tmp_path / "team")
    assert all(row["loss"] is not None for row in found[1:])
    assert all(abs(row["kl/behaviour"]) < 1e-6 for row in found[1:])
    after = weights(tmp_path / "team")
    assert {name.split("/")[0] for name in after} == {"policy"}, "no weights of the judge"
    assert after["policy/model.safetensors"] != (BASE / "model.safetensors").read_bytes()
    episodes = recorded(tmp_path / "team")
    credited = 0
    for episode in episodes:
        first, student, last = episode["turns"]
        for turn in (first, last):
            assert turn["policy"] == "judge"
            assert turn["text"].startswith("é ")
            assert turn["logp"] is None
            assert not any(turn["advantage"])
            assert not any(turn["weight"])
        assert student["policy"] == "policy"
        assert "weight" not in student, "all 1"
        assert first["text"] in student["prompt"][0]["content"]
        credited += any(student["advantage"])
    assert credited
    assert server.asked[0].body["model"] == "big"


def test_a_remote_role_by_token_ids(tmp_path: Path, flags: list[str], server: Server) -> None:
    train(tmp_path, "team", *flags, "--roles.judge.tokenizer", BASE, steps=1)
    assert {asked.path for asked in server.asked} == {"/v1/completions"}
    for episode in recorded(tmp_path / "team"):
        first, student, _ = episode["turns"]
        assert first["logp"] == [-0.5, -1.0, -0.1]
        assert not any(first["advantage"])
        assert first["text"] in student["prompt"][0]["content"]


def test_a_resumed_run_hears_the_same_again(tmp_path: Path, flags: list[str], server: Server) -> None:
    train(tmp_path, "first", *flags, steps=1)
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    resume(tmp_path, "first", "--steps", "3")
    asked = len(server.asked)
    shutil.copy(tmp_path / "first" / "journal.jsonl", tmp_path / "second" / "journal.jsonl")
    resume(tmp_path, "second", "--steps", "3")
    assert len(server.asked) == asked
    assert rows(tmp_path / "first") == rows(tmp_path / "second")
    assert weights(tmp_path / "first") == weights(tmp_path / "second")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--roles.judge.recipe", "ppo"], "roles.judge.recipe: a role behind an endpoint is not trained here"),
        (["--roles.judge.endpoint", "host"], "roles.judge: endpoint 'host' is no address"),
        (["--roles.judge.key_variable", "HOCKET_NOT_SET"], "HOCKET_NOT_SET"),
        (["--roles.judge.endpoint", "http://127.0.0.1:1/v1"], "no server answers at http://127.0.0.1:1/v1"),
        (["--roles.student.policy", "judge"], "no policy can be called 'judge'"),
        (["--roles.student.tokenizer", "x"], "roles.student.tokenizer is for an endpoint"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(
    more: list[str], sentence: str, tmp_path: Path, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hocket.engine.remote_http._LONGEST_PAUSE", 0.01)
    said = call("train", *TINY, *flags, *more, "--steps", "1", "--runs", tmp_path, "--quiet")
    assert said.code == 2
    assert sentence in said.err
    assert "Traceback" not in said.err


def test_a_model_name_is_needed(tmp_path: Path, flags: list[str]) -> None:
    said = call("train", *TINY, *flags[:4], "--steps", "1", "--runs", tmp_path, "--quiet")
    assert said.code == 2
    assert "roles.judge.endpoint needs roles.judge.model" in said.err

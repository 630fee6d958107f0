"""`hocket play` with typed lines coming from a pipe."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from tiny_runs import Said, call

QUICK = ("--threads", "1", "--precision", "fp32")

TEAM = """
from hocket.agents.workflows import Outcome, Workflow

class Relay(Workflow):
    roles = ("asker", "answerer")

    async def play(self, scenario, team):
        question = await team.asker("Ask a sum.")
        answer = await team.answerer(question)
        final = await team.asker(str(answer))
        return Outcome(answer=str(answer), rewards={"short": float(len(final.text) < 20)})

class Broken(Workflow):
    roles = ("asker", "answerer")

    async def play(self, scenario, team):
        await team.asker("Ask a sum.")
        raise ValueError("no luck")
"""


def typed(monkeypatch: pytest.MonkeyPatch, lines: str, *arguments: str | Path) -> Said:
    """A session in which these lines are typed."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    return call("play", *arguments, *QUICK)


def answers(said: Said, who: str = "nano") -> list[str]:
    return [line.removeprefix(f"{who} › ") for line in said.out.splitlines() if line.startswith(f"{who} › ")]


# ---------------------------------------------------------------- talking


def test_a_question_and_the_end_of_input(monkeypatch: pytest.MonkeyPatch):
    said = typed(monkeypatch, "What is 12 + 5?\n", "nano", "--temperature", "0")
    assert said.code == 0, said.err
    assert "nano (as it is), sums" in said.out
    (answer,) = answers(said)
    assert "17" in answer


def test_undo_gives_the_conversation_as_it_was(monkeypatch: pytest.MonkeyPatch):
    plain = typed(monkeypatch, "What is 1 + 2?\nWhat is 7 + 6?\n", "nano", "--temperature", "0")
    undone = typed(
        monkeypatch,
        "What is 1 + 2?\nWhat is 9 + 9?\n/undo\nWhat is 7 + 6?\n/quit\nnever\n",
        "nano",
        "--temperature",
        "0",
    )
    assert "taken back: What is 9 + 9?" in undone.out
    assert answers(undone)[0] == answers(plain)[0]
    assert answers(undone)[2] == answers(plain)[1]
    assert "never" not in undone.out


def test_commands(monkeypatch: pytest.MonkeyPatch):
    lines = "/help\n/undo\n/again\n/logp\nWhat is 1 + 2?\n/again\n/logp\n/new\n/system Be terse.\n/bogus\n\n  \n/quit\n"
    said = typed(monkeypatch, lines, "nano")
    assert said.code == 0, said.err
    assert "/undo" in said.out
    assert "there is nothing to take back" in said.out
    assert "there is nothing to answer again" in said.out
    assert said.out.count("least likely") == 2
    assert "there is no command /bogus; /help lists them" in said.out
    assert "a new conversation under this system message" in said.out
    assert len(answers(said)) == 2


def test_problems_of_the_task_are_judged(monkeypatch: pytest.MonkeyPatch):
    said = typed(monkeypatch, "/ask\n/ask\n/ask\n", "nano", "--temperature", "0")
    assert said.out.count("sums › What is") == 3
    assert said.out.count("right") + said.out.count("wrong; the answer is") == 3


def test_a_message_that_is_too_long_is_told_and_the_conversation_goes_on(monkeypatch: pytest.MonkeyPatch):
    said = typed(monkeypatch, f"{'1' * 3000}\nWhat is 1 + 2?\n", "nano", "--temperature", "0")
    assert said.code == 0, said.err
    assert "3003 tokens and the model reads 1024" in said.out
    assert answers(said)[-1]


def test_long_answers_are_cut_and_the_cut_is_told(monkeypatch: pytest.MonkeyPatch):
    said = typed(monkeypatch, "What is 12 + 5?\n", "nano", "--max-tokens", "2")
    assert "cut at the limit" in said.out


# ---------------------------------------------------------------- playing


def test_a_game_against_the_agent(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pyspiel")
    lines = "/help\n/undo\nbet\n/show\n/undo\npass\n\n/quit\n"
    said = typed(monkeypatch, lines, "nano", "--task", "openspiel:kuhn_poker")
    assert said.code == 0, said.err
    assert "you are player_0" in said.out
    assert said.out.count("there is nothing to take back") == 1
    assert "player_0 › bet" in said.out
    assert "taken back: bet" in said.out
    assert said.out.count("the episode is over\n") == 2
    assert "episode 2" in said.out
    # The cards are the same after a move was taken back.
    first, second = [line for line in said.out.splitlines() if line.startswith("Your card")][:2]
    assert first == second


def test_the_other_seat_and_a_typing_slip(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pyspiel")
    said = typed(monkeypatch, "", "nano", "--task", "openspiel:kuhn_poker", "--seat", "player_2")
    assert said.code == 2
    assert "did you mean 'player_" in said.err


def test_watching(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pyspiel")
    said = typed(monkeypatch, "\n/quit\n", "nano", "--task", "openspiel:kuhn_poker", "--seat", "none")
    assert said.code == 0, said.err
    assert "you watch" in said.out
    assert said.out.count("earned") == 4
    assert answers(said, "player_0")


def test_a_role_of_a_team(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    file = tmp_path / "team.py"
    file.write_text(TEAM)
    said = typed(
        monkeypatch,
        "What is 2 + 2?\n/undo\nWhat is 1 + 1?\nthanks\n/quit\n",
        *("nano", "--workflow", f"{file}:Relay", "--seat", "asker", "--show", "--temperature", "0"),
    )
    assert said.code == 0, said.err
    assert said.out.count("Ask a sum.") == 2
    assert answers(said, "answerer")
    assert "short: 1" in said.out
    assert "answer:" in said.out


def test_a_workflow_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    file = tmp_path / "team.py"
    file.write_text(TEAM)
    said = typed(monkeypatch, "hello\n/quit\n", "nano", "--workflow", f"{file}:Broken", "--seat", "asker")
    assert said.code == 0, said.err
    assert "the episode failed: ValueError: no luck" in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nano", "--temperature", "-1"), "--temperature: '-1' is not a finite number of at least 0"),
        (("nano", "--max-tokens", "0"), "--max-tokens: '0' is not a whole number of at least 1"),
        (("nano", "--task", "no-such-task"), "there is no task"),
        (("nano", "--task", "gym:CartPole-v1"), "only language models can talk"),
        (("no-such-run",), "there is no run"),
    ],
)
def test_bad_usage(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str):
    said = typed(monkeypatch, "", *arguments)
    assert said.code == 2
    assert words in said.err

"""Rewards, roles and judges that have no opinion: said while it happens and at the end, and a run of it has failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_runs import TINY, call, rows, train

import hocket
from hocket.apps.report.diagnosis import diagnose
from hocket.apps.report.page import diagnosis_of
from hocket.apps.report.reading import read_run
from hocket.core.batch import Level
from hocket.core.errors import HocketError
from hocket.core.outcomes import StepResult
from hocket.train import silences
from hocket.train.progress import Progress
from hocket.types import Experience, Scenario, Score, Trajectory, Turn

FILE = """
import math

from hocket.agents.workflows import Outcome, Workflow

CALLS = []

def none(completions, **columns):
    return [None] * len(completions)

def nan(completions, **columns):
    return [math.nan] * len(completions)

def inf(completions, **columns):
    return [math.inf] * len(completions)

def spread(completions, **columns):
    return [float(sum(map(ord, text)) % 7) for text in completions]

def first(completions, **columns):
    CALLS.append(1)
    return spread(completions) if len(CALLS) == 2 else [None] * len(completions)

def mute(prompts):
    return ["Hm, hard to say."] * len(prompts)


class Silent(Workflow):
    roles = ("a",)
    scores = True

    async def play(self, scenario, team):
        reply = await team.a(scenario.prompt)
        return Outcome(answer=str(reply), turn_rewards={"own": {reply: None}}, rewards={"good": None})
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "mine.py"
    found.write_text(FILE)
    return found


def ended(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return found


def failing(runs: Path, *more: str) -> tuple[str, str]:
    said = call("train", *TINY, "--steps", "2", "--runs", runs, "--run", "run", *more)
    assert said.code == 1, said.err
    assert ended(runs / "run")["reason"] == "failed"
    return said.err, (runs / "run" / "messages.txt").read_text()


@pytest.mark.parametrize("reward", ["none", "nan", "inf"])
def test_a_run_whose_rewards_never_have_an_opinion_has_failed(reward: str, tmp_path: Path, file: Path) -> None:
    shown, kept = failing(tmp_path, "--reward", f"{file}:{reward}")
    for told in (shown, kept):
        assert "step 1: no sample had a reward" in told
        assert "no sample had a reward in 2 steps, so nothing was learnt" in " ".join(told.split())
    assert [row["unrewarded/share"] for row in rows(tmp_path / "run")[1:]] == [1.0, 1.0]
    assert diagnosis_of(read_run(tmp_path / "run"))[0].startswith("No sample had a reward in any of 2")
    assert "run failed" in shown


def test_a_workflow_that_rewards_nothing_has_failed(tmp_path: Path, file: Path) -> None:
    _, kept = failing(tmp_path, "--workflow", f"{file}:Silent")
    assert "no sample had a reward in 2 steps" in kept


def test_from_python_it_is_an_error_after_the_run(tmp_path: Path) -> None:
    def nothing(completions: list[str], **columns: Any) -> list[None]:
        return [None] * len(completions)

    tiny = {"evaluation.n": 4, "rollout.samples": 2, "curriculum.prompts": 2, "threads": 1, "decoding.max_tokens": 8}
    with pytest.raises(HocketError, match="no sample had a reward in 1 steps"):
        hocket.train("sums", reward=nothing, steps=1, runs=str(tmp_path), run="run", **tiny)
    assert ended(tmp_path / "run")["reason"] == "failed"


def test_a_judge_that_gives_no_verdict_all_run(tmp_path: Path, file: Path) -> None:
    shown, kept = failing(tmp_path, "--recipe", "qwen3-korean", "--judge", f"{file}:mute")
    for told in (" ".join(shown.split()), kept):
        assert "answers name no one of the choices, as in 'Hm, hard to say.'; they are no opinion" in told
        assert "the judge gave no verdict in 2 steps" in told
    told = rows(tmp_path / "run")[1:]
    assert all(row["judge/unclear"] == row["judge/questions"] > 0 for row in told)


def test_one_reward_of_several_and_one_that_fell_silent(tmp_path: Path, file: Path) -> None:
    more = ["--reward", f"{file}:none", "--reward", f"{file}:spread", "--reward", f"{file}:first"]
    train(tmp_path, "run", *more, steps=5)
    found = ended(tmp_path / "run")
    assert found["reason"] == "finished"
    assert found["notes"] == [
        "reward first has given no value since step 1",
        "reward none has given no value in any of 5 steps",
    ]
    assert "step 3: reward none has given no value in any of 3 steps" in (tmp_path / "run" / "messages.txt").read_text()
    assert "Reward none has given no value in any of 5 steps." in diagnosis_of(read_run(tmp_path / "run"))


def test_a_run_that_hears_everybody_says_nothing(tmp_path: Path, file: Path) -> None:
    train(tmp_path, "run", "--reward", f"{file}:spread", steps=2)
    assert ended(tmp_path / "run")["notes"] == []
    assert [row["unrewarded/share"] for row in rows(tmp_path / "run")[1:]] == [0.0, 0.0]


def test_evaluation_alone_without_opinions_is_said(tmp_path: Path, file: Path) -> None:
    data = tmp_path / "asked.jsonl"
    data.write_text(
        "".join(
            json.dumps({"prompt": f"Say {n} to {s}.", "split": s}) + "\n" for s in ("train", "eval") for n in range(8)
        )
    )
    shown, kept = failing(tmp_path, "--task", str(data), "--reward", f"{file}:nan")
    for told in (" ".join(shown.split()), kept):
        assert "mine.py:nan returned nan for completion 0 (and 7 more)" in told.partition("evaluation: reward")[2]
        assert "evaluation: 8 of 8 answers had no reward; they count 0" in told
    said = call("eval", tmp_path / "run", "--n", "4")
    assert "! evaluation: 4 of 4 answers had no reward; they count 0" in said.err


# ---------------------------------------------------------------- who was heard


def turn(role: str) -> Turn:
    return Turn(role, role, np.array([1]), np.array([2]))


def told(*trajectories: Trajectory, **metrics: float) -> StepResult:
    return StepResult(
        {f"judge/{n}": v for n, v in metrics.items()}, [], None, experience=Experience(list(trajectories))
    )


def episode(**scores: Score) -> Trajectory:
    return Trajectory(Scenario("s"), [turn("a"), turn("b")], scores=scores)


def test_roles_are_heard_by_turns_and_everybody_by_the_whole() -> None:
    heard: dict[str, int] = {}
    silences.note(heard, told(episode(own=Score([1.0, None], Level.TURN))), 1, ["a", "b"])
    assert heard == {"episode": 1, "reward own": 1, "role a": 1, "role b": 0}
    silences.note(heard, told(episode(own=Score([None, None], Level.TURN))), 2, ["a", "b"])
    assert heard == {"episode": 2, "reward own": 1, "role a": 1, "role b": 0}
    silences.note(heard, told(episode(own=Score([2.0, None], Level.TURN))), 3, ["a", "b"])
    assert silences.begun(heard, 3) == ["no reward has scored role b in any of 3 steps"]
    assert silences.notes(Progress(step=3, heard=heard)) == silences.begun(heard, 3)
    assert silences.failure(Progress(step=3, heard=heard)) is None
    silences.note(heard, told(episode(own=Score(1.0))), 4, ["a", "b"])
    assert heard == {"episode": 4, "reward own": 4, "role a": 4, "role b": 4}
    assert silences.notes(Progress(step=4, heard=heard)) == []


def test_roles_that_are_not_trained_do_not_count() -> None:
    heard: dict[str, int] = {}
    silences.note(heard, told(episode(own=Score([1.0, None], Level.TURN))), 1, ["a"])
    assert "role b" not in heard


def test_judges_and_episodes_from_a_step_on() -> None:
    heard: dict[str, int] = {}
    for step in range(1, 15):
        failed = episode(own=Score(1.0))
        failed.failure = "gone" if step > 4 else None
        silences.note(
            heard, told(failed, questions=4.0, failed=1.0, unclear=3.0 if step > 3 else 2.0), step, ["a", "b"]
        )
        said = silences.begun(heard, step)
        assert said == {
            13: ["the judge has given no verdict since step 3; ask a simpler question, or choose another judge"],
            14: ["every episode has failed or ended early since step 4"],
        }.get(step, [])
    assert silences.failure(Progress(step=14, heard=heard)) is None
    assert len(silences.notes(Progress(step=14, heard=heard))) == 2


def test_what_a_run_without_rewards_hears_is_enough() -> None:
    heard: dict[str, int] = {}
    silences.note(heard, told(episode()), 1, ["a", "b"])
    assert silences.failure(Progress(step=1, heard=heard)) is None
    assert silences.notes(Progress(step=1, heard=heard)) == []
    heard = {}
    silences.note(heard, told(), 1, ["a", "b"])
    assert "every episode of 1 steps failed or ended early" in str(silences.failure(Progress(step=1, heard=heard)))


def test_the_report_says_since_when_no_reward_has_had_an_opinion() -> None:
    row = {"reward/mean": 0.5, "groups/with_signal": 1.0, "groups/total": 1.0}
    shares = [0.0, 0.25, 1.0, 1.0]
    found = diagnose([{**row, "step": step, "unrewarded/share": share} for step, share in enumerate(shares, 1)])
    assert any("No sample had a reward since step 3, so nothing" in sentence for sentence in found)
    found = diagnose([{**row, "step": step, "unrewarded/share": 0.75} for step in (1, 2)])
    assert any("75% of the samples had no reward" in sentence for sentence in found)
    assert not any("had no reward" in sentence for sentence in diagnose([{**row, "step": 1, "unrewarded/share": 0.0}]))

"""What a run tells a person about its episodes."""

from __future__ import annotations

from pathlib import Path

from tiny_runs import TINY, call

WORKFLOWS = """
from hocket.agents.workflows import Outcome, Workflow


class Endless(Workflow):
    roles = ("a",)

    async def play(self, scenario, team):
        while True:
            await team.a("more")


class Nan(Workflow):
    roles = ("a",)

    async def play(self, scenario, team):
        reply = await team.a(scenario.prompt)
        return Outcome(rewards={"good": float("nan") if scenario.id.startswith("sums/train") else 1.0})
"""


def said(folder: Path, name: str, *more: str, code: int = 0) -> str:
    file = folder / "flows.py"
    file.write_text(WORKFLOWS)
    asked = ["--steps", "1", "--runs", folder, "--run", name, "--quiet", "--workflow", f"{file}:{name}", *more]
    ended = call("train", *TINY, *asked)
    assert ended.code == code, ended.err
    assert ("no episode of 1 steps was completed, so nothing was learnt" in ended.err) is (code == 1)
    return (folder / name / "messages.txt").read_text()


def test_episodes_that_all_meet_a_limit_are_told(tmp_path: Path) -> None:
    told = said(tmp_path, "Endless", "--limits.turns", "2")
    assert "all 8 episodes before training were cut short: the episode has used its 2 turns; raise limits.turns" in told


def test_rewards_that_are_no_numbers_are_told(tmp_path: Path) -> None:
    told = said(tmp_path, "Nan", code=1)
    assert "8 of 8 episodes failed: ValueError: reward 'good' is nan; give a finite number" in told

"""The team of docs/teams-at-work.md runs as it stands; the report has a row per role; idle roles are named."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import TINY, call

from hocket.apps.report.page import write_report

PAGE = (Path(__file__).parents[2] / "docs" / "teams-at-work.md").read_text()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for block in re.findall(r"```python\n(# (\S+)\n.*?)```", PAGE, re.DOTALL):
        (tmp_path / block[1]).write_text(block[0])
    subprocess.run([sys.executable, "make_questions.py"], cwd=tmp_path, check=True, env=dict(os.environ))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_runs_and_the_report_shows_who_earned_what(desk: Path) -> None:
    command = re.search(r"hocket (train --task questions.jsonl .*?)\n\n", PAGE, re.DOTALL)
    assert command is not None
    words = shlex.split(command[1].replace("\\\n", " "))
    said = call(*words, *TINY, "--steps", "1", "--run", "team", "--decoding.max_tokens", "40")
    assert said.code == 0, said
    assert "called in none of" not in said.out + said.err
    write_report(desk / "runs" / "team")
    page = (desk / "runs" / "team" / "report.html").read_text()
    for word in ("reckoner", "teller", "tokens per episode", "turn rewards per episode", "tool calls per episode"):
        assert word in page


IDLE = """
from hocket.agents.workflows import Outcome, Workflow


class Idle(Workflow):
    roles = ("writer", "critic")

    async def play(self, scenario, team):
        return Outcome(answer=(await team.writer(scenario.messages)).text)
"""


def test_a_role_that_nobody_calls_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "idle.py").write_text(IDLE)
    monkeypatch.chdir(tmp_path)
    said = call("train", "--task", "sums", "--workflow", "idle.py:Idle", *TINY, "--steps", "2", "--run", "idle")
    assert said.code == 0, said
    told = " ".join((said.out + said.err).split())
    assert told.count("role critic was called in none of 8 episodes, so it learns nothing; ask `team.critic`") == 1

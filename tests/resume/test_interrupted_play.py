"""Ctrl-C while a workflow hangs, even one that will not be cancelled: the run goes on later from its checkpoint."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tiny_runs import TINY, in_child, last_checkpoint, resume, rows, train

from hocket.apps.cli.parser import main

HANGS = """
import asyncio
from pathlib import Path

from hocket.agents.workflows import Workflow

MARK = Path("THE FILE")

class Hangs(Workflow):
    roles = ("policy",)

    async def play(self, scenario, team):
        await team.policy(scenario.messages)
        if MARK.exists() and MARK.read_text() == "now":
            MARK.write_text("hung")
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass
"""


def test_a_hung_workflow_can_be_interrupted_and_the_run_resumed(tmp_path: Path) -> None:
    mark, run = tmp_path / "mark", tmp_path / "parts"
    file = tmp_path / "hangs.py"
    file.write_text(HANGS.replace("THE FILE", str(mark)))
    more = ["--workflow", f"{file}:Hangs", "--checkpoint.steps", "1", "--evaluation.every", "0"]
    train(tmp_path, "whole", *more, steps=4)
    presses: list[float] = []

    def pressed_once() -> bool:
        """Lets an episode hang once a step is done, and interrupts while it does."""
        metrics = run / "metrics.jsonl"
        if not mark.exists():
            if metrics.exists() and len(metrics.read_text().splitlines()) >= 3:
                mark.write_text("now")
            return False
        if mark.read_text() != "hung":
            return False
        presses.append(time.monotonic())
        if len(presses) == 1:
            os.kill(children()[-1], signal.SIGINT)
        return presses[-1] - presses[0] > 0.3

    words = ["train", *TINY, *more, "--steps", "4", "--quiet", "--runs", str(tmp_path), "--run", "parts"]
    assert in_child(lambda: main(words), until=pressed_once, send=signal.SIGINT) == 130
    assert time.monotonic() - presses[0] < 60
    assert last_checkpoint(run).name >= "step-000001"
    mark.unlink()
    resume(tmp_path, "parts")
    assert rows(run) == rows(tmp_path / "whole")


def children() -> list[int]:
    text = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
    return [int(word) for word in text.split()]

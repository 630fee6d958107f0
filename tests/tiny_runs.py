"""Tiny runs through the command line, in this process or in a child that may die."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hocket.apps.cli.parser import main

# Rich draws a number from Python's global generator when it is first imported, and tests watch that generator.
importlib.import_module("rich.style")

TINY = [
    "--evaluation.n",
    "8",
    "--evaluation.between",
    "4",
    "--rollout.samples",
    "4",
    "--curriculum.prompts",
    "2",
    "--threads",
    "1",
    "--decoding.max_tokens",
    "10",
]

CONTROL = ["--task", "gym:CartPole-v1?max_episode_steps=20", "--curriculum.prompts", "4", "--threads", "1"]
CONTROL += ["--evaluation.n", "4", "--evaluation.between", "2"]
TEAM = ["--workflow", "planner-worker", "--roles.planner.policy", "planner", "--roles.worker.policy", "worker"]
TWICE = ["--update.epochs", "2", "--update.minibatches", "2"]

REWARDS = """
import random

DRAWS = random.Random()

def spread(completions, **columns):
    # Tells the samples of a group apart whatever they say, so that every step changes the weights.
    return [float(sum(map(ord, text)) % 7) for text in completions]

def moody(completions, **columns):
    return [DRAWS.random() for _ in completions]
"""


@dataclass(frozen=True)
class Said:
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def call(*arguments: str | Path) -> Said:
    """Runs a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:  # argparse's --help and --version
            code = int(end.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


def train(runs: Path, name: str, *more: str | Path, steps: int = 4, tiny: list[str] = TINY) -> Said:
    """A tiny new run `runs/name`; it must succeed."""
    said = call("train", *tiny, "--steps", str(steps), "--runs", runs, "--run", name, "--quiet", *more)
    assert said.code == 0, said.err
    return said


def resume(runs: Path, name: str, *more: str) -> Said:
    """Continues a run to its end; it must succeed."""
    said = call("train", "--resume", name, "--runs", runs, *more)
    assert said.code == 0, said.err
    return said


def in_child(work: Callable[[], int], *, until: Callable[[], bool] | None = None, send: int = signal.SIGKILL) -> int:
    """Runs `work` in a forked child, sends it a signal once `until` holds, and returns how it ended (-9 if killed)."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            code = work()
        finally:
            os._exit(code)
    deadline = time.monotonic() + 120
    while until is not None and time.monotonic() < deadline:
        if until():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, send)
            break
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# ---------------------------------------------------------------- what a run left


def rows(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run without what the clock and the machine decide."""
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    machine = ("time/", "throughput/", "memory/")
    return [{name: value for name, value in row.items() if not name.startswith(machine)} for row in found]


def last_checkpoint(run: Path) -> Path:
    return max((run / "checkpoints").glob("step-*"))


def weights(run: Path) -> dict[str, bytes]:
    """The bytes of every weights file of the last checkpoint, by place."""
    folder = last_checkpoint(run)
    found = {f.relative_to(folder).as_posix(): f.read_bytes() for f in folder.rglob("*.safetensors")}
    return {name: data for name, data in found.items() if name.startswith("policy")}


def summary(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return {name: value for name, value in found.items() if name not in ("seconds", "name")}


def assert_same(left: Path, right: Path) -> None:
    """All metrics, the final weights and the summary of two runs are equal."""
    assert rows(left) == rows(right)
    assert last_checkpoint(left).name == last_checkpoint(right).name
    assert weights(left) == weights(right)
    assert weights(left)
    assert summary(left) == summary(right)

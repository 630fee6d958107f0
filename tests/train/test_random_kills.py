"""Processes of a run that are killed at random moments: samplers, learners and the first process itself. All end equal.

Who dies, and when, is drawn from a seed; what the run is doing at that moment is up to the machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tiny_runs import REWARDS, TINY, call, rows, train, weights

from hocket.core.keys import Key

KILLS = 12
"""In each of the tests here."""

LATEST = 5.0
"""Seconds after a kill, or a start, in which the next one comes."""

STARTING = 60.0
"""Seconds in which the first process starts others, if nothing happens."""

PATIENCE = 30.0
"""Seconds in which no process may outlive the first one."""

STEPS = 16
LEARNS = ["--update.lr", "1e-3", "--checkpoint.steps", "1", "--leaves", "2"]
WAYS = {
    "side by side": ["--recipe", "grpo-kl", "--samplers", "2", "--learners", "2"],
    "ahead": ["--recipe", "grpo-tis", "--samplers", "2", "--learners", "2", "--lag", "2"],
    "arrival": ["--recipe", "grpo-tis", "--samplers", "2", "--lag", "2", "--order", "arrival", "--interrupt", "true"],
}


def children(process: int) -> dict[int, str]:
    """The samplers and learners that a process has started, and what each of them is."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(file.read_text().rpartition(")")[2].split()[1])
            command = (file.parent / "cmdline").read_text()
        except OSError:
            continue  # It has just ended.
        if parent == process and "hocket.distributed.cluster" in command:
            found[int(file.parent.name)] = "learner" if "learner_worker" in command else "sampler"
    return found


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Killing:
    """A run that is started again until it is done, while processes of it are killed.

    Attributes:
        struck: how many of which kind. refused: how often the run gave up by itself, with exit code 1.
    """

    def __init__(self, folder: Path, name: str, flags: list[str], luck: np.random.Generator) -> None:
        self.struck, self.refused = Counter[str](), 0
        self._run, self._luck = folder / name, luck
        self._flags = ["train", *flags, "--runs", str(folder), "--run", name, "--quiet"]
        self._again = ["train", "--resume", name, "--runs", str(folder), "--quiet"]

    def carry(self, kills: int) -> None:
        """Brings the run to its end, with at most so many kills on the way."""
        while not self._ended(kills):
            pass

    def _ended(self, kills: int) -> bool:
        arguments = self._again if self._run.exists() else self._flags
        first = subprocess.Popen([sys.executable, "-m", "hocket", *arguments], stderr=subprocess.PIPE, text=True)
        try:
            while self.struck.total() < kills:
                try:
                    first.wait(float(self._luck.uniform(0.2, LATEST)))
                except subprocess.TimeoutExpired:
                    if self._strike(first):
                        return False
                else:
                    break
            said = first.communicate(timeout=400)[1]
        finally:
            first.kill()
        if first.returncode:
            # Learners or samplers that end one after the other: it says so, and goes on when it is told to.
            assert first.returncode == 1, said
            assert "--resume" in said, said
            self.refused += 1
        return first.returncode == 0

    def _others(self, first: subprocess.Popen[str]) -> dict[int, str]:
        """Those that the first process has started, once there are any."""
        deadline = time.monotonic() + STARTING
        while not (found := children(first.pid)) and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def _strike(self, first: subprocess.Popen[str]) -> bool:
        """Kills one of the processes there are; whether that was the first one."""
        process, kind = first.pid, "the first process"
        if self._luck.random() < 0.75:
            others = self._others(first)
            if not others:
                return False
            process, kind = sorted(others.items())[int(self._luck.integers(len(others)))]
        others = children(first.pid)
        if alive(process):
            os.kill(process, signal.SIGKILL)
            self.struck[kind] += 1
        if process != first.pid:
            return False
        first.communicate()
        deadline = time.monotonic() + PATIENCE
        while any(alive(one) for one in others):
            assert time.monotonic() < deadline, f"processes outlive the first one: {others}"
            time.sleep(0.05)
        return True


def killed(folder: Path, way: str, kills: int, seed: int) -> Counter[str]:
    """Runs until so many kills have been survived, and sees that each ended as an undisturbed one would."""
    (folder / "mine.py").write_text(REWARDS)
    own = [*LEARNS, *WAYS[way], "--reward", f"{folder}/mine.py:spread"]
    if way != "arrival":
        train(folder, "undisturbed", *own, "--cluster", "local", steps=STEPS)
    luck, struck, count = Key.of(seed).derive("kills", way).numpy(), Counter[str](), 0
    while struck.total() < kills:
        count += 1
        flags = [*TINY, "--steps", str(STEPS), *own, "--cluster", "local"]
        one = Killing(folder, f"run-{count}", flags, luck)
        one.carry(kills - struck.total())
        struck += one.struck
        assert one.struck, "it ended before anything happened"
        if way == "arrival":  # What chance decides stands in its schedule.
            said = call("replay", folder / f"run-{count}", "--quiet")
            assert "all weights and metrics are equal" in said.out, said.out + said.err
        else:
            assert weights(folder / f"run-{count}") == weights(folder / "undisturbed")
            assert rows(folder / f"run-{count}") == rows(folder / "undisturbed")
    return struck


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_whoever_is_killed_and_whenever_the_end_is_the_same(way: str, tmp_path: Path) -> None:
    assert killed(tmp_path, way, KILLS, seed=0).total() == KILLS

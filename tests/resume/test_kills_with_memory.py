"""A run whose stages and reward remember, killed at moments that a key draws, ends the same when resumed."""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import TINY, in_child, last_checkpoint, resume, rows, train, weights

from hocket.apps.cli.parser import main
from hocket.core.keys import Key

KILLS, STEPS = 20, 8
REMEMBERING = [
    *("--recipe", "repo-replay", "--task", "worked-sums", "--update.lr", "1e-3", "--checkpoint.steps", "2"),
    *("--curriculum", "{type: hocket.curriculum.LevelBandit, level: key_steps, prompts: 2, pool: 12}"),
    *("--reward", "task", "--reward", "hocket.rewards.Novelty=0.5"),
]


def left(run: Path) -> dict[str, str]:
    """SHA-256 of what a run left: weights, metrics without the clock's, and everything else in its last checkpoint."""
    state: dict[str, Any] = json.loads((last_checkpoint(run) / "state.json").read_text())
    del state["dict"]["progress"]["dict"]["elapsed"]
    parts = {
        "weights": b"".join(data for _, data in sorted(weights(run).items())),
        "metrics": json.dumps(rows(run)).encode(),
        "state": json.dumps(state).encode() + (last_checkpoint(run) / "state.safetensors").read_bytes(),
    }
    return {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}


def lines(run: Path) -> int:
    file = run / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.is_file() else 0


@pytest.mark.slow
def test_killed_at_any_moment_a_run_with_memory_ends_the_same(tmp_path: Path) -> None:
    started = time.monotonic()
    train(tmp_path, "whole", *REMEMBERING, steps=STEPS)
    pace = (time.monotonic() - started) / STEPS
    assert sum(row.get("replay/trajectories") or 0 for row in rows(tmp_path / "whole")), "nothing came back"
    whole, luck = left(tmp_path / "whole"), Key.of(0).derive("kills with memory").numpy()
    struck, number = Counter[int](), 0
    while struck.total() < KILLS:
        number += 1
        name, run = f"run-{number}", tmp_path / f"run-{number}"
        after, wait, reached = int(luck.integers(STEPS + 1)), float(luck.uniform(0, pace)), list[float]()

        def now(run: Path = run, after: int = after, wait: float = wait, reached: list[float] = reached) -> bool:
            """Whether `wait` seconds have passed since so many rows were written."""
            if not reached and lines(run) >= after:
                reached.append(time.monotonic())
            return bool(reached) and time.monotonic() - reached[0] >= wait

        flags = [*TINY, *REMEMBERING, "--steps", str(STEPS), "--quiet", "--runs", str(tmp_path), "--run", name]
        if in_child(lambda flags=flags: main(["train", *flags]), until=now) == -signal.SIGKILL:
            struck[max(lines(run) - 1, 0)] += 1
        if (run / "config.yaml").is_file():
            resume(tmp_path, name)
        else:
            train(tmp_path, name, *REMEMBERING, steps=STEPS)
        assert left(run) == whole, f"killed {wait:.3f} s after {after} rows"
    print(f"{KILLS} kills in {number} runs, by steps that were done: {dict(sorted(struck.items()))}; {whole}")
    assert len(struck) > 4

"""A real learning run with a small budget: the margins are far from noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hocket

SETTINGS: dict[str, Any] = {"threads": 1, "evaluation.n": 300, "evaluation.every": 0}


@pytest.mark.slow
def test_grpo_makes_the_nano_model_better_on_sums(tmp_path: Path) -> None:
    run = hocket.train("sums", steps=50, runs=str(tmp_path), **SETTINGS)
    before, after = run.summary["before"], run.summary["after"]
    assert 0.20 <= before["accuracy"] <= 0.45
    # Over 50 points in every run seen; the standard error of the difference is below 4.
    assert after["accuracy"] - before["accuracy"] >= 0.25
    assert after["working"] > before["working"] + 0.5
    rows = run.metrics[1:]
    assert sum(row["reward/mean"] for row in rows[-10:]) > sum(row["reward/mean"] for row in rows[:10]) + 1.0
    assert max(row["agreement/largest"] for row in rows) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("task", "points"), [("sums", 0.40), ("reasoning-gym:chain_sum", 0.15)])
def test_the_whole_main_job(task: str, points: float, seed: int, tmp_path: Path) -> None:
    run = hocket.train(task, runs=str(tmp_path), seed=seed)
    assert run.summary["gain"] >= points

"""Rewards from demonstrations: settings, and what a difficulty does."""

from __future__ import annotations

import pytest
import torch

from hocket.core.batch import Level, LevelScores
from hocket.core.errors import ConfigurationError
from hocket.lab.microscope import RecordedBatch
from hocket.methods.preference.dr_irl import DIFFICULTY, DifficultyScaled, Hazards, IrlReward
from hocket.tasks import find


def test_the_difficult_scenario_counts_more() -> None:
    rows = [
        {"id": f"{group}{sample}", "group": group, "scores": {"reward": 1.0 - sample}, "logp": [-1.0]}
        for group in "ab"
        for sample in range(2)
    ]
    batch = RecordedBatch({"version": 1, "trajectories": rows}).batch
    hard = torch.tensor([0.0, 0.0, 0.5, 0.5], dtype=torch.float64)
    batch = batch.but(scores={**batch.scores, DIFFICULTY: LevelScores(Level.TRAJECTORY, hard)})
    advantage = DifficultyScaled(strength=4.0)(batch).advantage
    assert advantage[2] == pytest.approx(3 * advantage[0].item())
    assert advantage.abs().mean() == pytest.approx(DifficultyScaled(strength=0.0)(batch).advantage.abs().mean().item())


@pytest.mark.parametrize("settings", [{"ridge": 0.0}, {"window": 0}, {"buckets": 0}, {"orders": ()}])
def test_settings_of_the_reward_are_checked(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="ridge must be positive"):
        IrlReward(**settings)  # type: ignore[arg-type]


def test_a_strength_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="strength must be at least 0"):
        DifficultyScaled(strength=-1.0)


def test_the_task_by_name() -> None:
    task = find("hazards?rare=1")
    assert {task.scenario("eval", number).metadata["category"] for number in range(20)} == {"grave"}
    with pytest.raises(ConfigurationError, match=r"rare must lie in \[0, 1\]"):
        Hazards(rare=1.5)

"""Rewards known only when others have learnt: who learns when, from what, and what is remembered."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import call

from hocket import tasks
from hocket.core.batch import Level
from hocket.lab.talk import TalkBench
from hocket.methods.teams.claims.cpmobius import bench, mass
from hocket.rewards.deferred import pay
from hocket.train.config import configure
from hocket.train.loop import RunContext
from hocket.train.trainer import Trainer
from hocket.types import Scenario, Trajectory, Turn


def trajectory(*policies: str) -> Trajectory:
    return Trajectory(Scenario("s"), [Turn(p, p, np.zeros(1, np.int64), np.array([1])) for p in policies])


def test_settle_pays_the_last_turn_of_whom_it_is_for() -> None:
    played = [trajectory("coach", "player", "coach", "player"), trajectory("player")]
    pay(played, "progress", "coach", 2.5)
    assert [one.scores["progress"].value for one in played] == [[None, None, 2.5, None], [None]]
    assert played[0].scores["progress"].level is Level.TURN


def test_whom_it_pays_is_withheld_where_it_learns() -> None:
    learns, frozen = bench("progress", 0).parts, bench("uniform", 0).parts
    assert list(learns.active) == list(frozen.active) == ["LearningProgress"]
    assert learns.hooks.withheld(learns) == {"coach"}
    assert frozen.hooks.withheld(frozen) == set()
    assert list(bench("adversary", 0).parts.active) == []


def table(found: TalkBench, name: str) -> torch.Tensor:
    return found.policies[name].module.logits.detach().clone()


def test_the_coach_learns_after_the_player_and_from_what_it_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    found = bench("progress", 1)
    order: list[str] = []
    for name, learner in found.learners.items():

        def noted(batch: Any, key: Any, step: int, name: str = name, learn: Any = learner.learn) -> Any:
            order.append(name)
            return learn(batch, key, step)

        monkeypatch.setattr(learner, "learn", noted)
    steps = 0
    while "coach" not in order:
        order.clear()
        before = mass(found)
        result = found.step()
        steps += 1
        assert steps < 12
    assert order == ["player", "coach"]
    reward = result.metrics["progress/reward"]
    said = {one.turns[0].text for one in (result.trajectories or result.discarded)}
    assert len(said) == 1
    level = int(said.pop().removeprefix("level")) - 1
    # What was named becomes likelier iff it paid; the entropy bonus alone moves an even coach nowhere.
    if steps <= 2:
        assert math.copysign(1, mass(found)[level] - before[level]) == math.copysign(1, reward)
    if result.batch is not None and result.trajectories:
        seen = result.batch.occurrences
        coach = result.batch.policy[result.batch.turn[seen.decision]] == result.batch.names["policy"].index("coach")
        assert seen.advantage[coach].tolist() == pytest.approx([reward] * int(coach.sum()))
        assert seen.advantage[~coach].abs().max() > 0
    memory = found.parts.hooks.state(found.parts)["LearningProgress"]
    assert memory["accuracy"] == result.metrics["progress/accuracy"]


def test_without_progress_the_coach_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def still(parts: Any, problems: int, *, key: Any) -> float:
        return 0.5

    monkeypatch.setattr(RunContext, "evaluate", still)
    found = bench("progress", 0)
    coach, player = table(found, "coach"), table(found, "player")
    found.run(6)
    assert torch.equal(table(found, "coach"), coach)
    assert not torch.equal(table(found, "player"), player)
    assert found.history[-1]["progress/reward"] == 0.0


def trainer(tmp_path: Path, *more: tuple[str, Any]) -> Trainer:
    pairs: list[tuple[str, Any]] = [("recipe", "cpmobius"), ("steps", 2), ("runs", str(tmp_path)), ("threads", 1)]
    pairs += [("curriculum.prompts", 2), ("evaluation.n", 2), ("decoding.max_tokens", 24), ("run", "x")]
    pairs += [
        ("workflow", "coach-player?solutions=4"),
        ("rewards", [{"type": "hocket.rewards.LearningProgress", "problems": 2}]),
    ]
    source = tasks.find("sums")
    return Trainer(configure([*pairs, *more], source), task=source)


def test_a_run_of_language_models_settles_its_reward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([0.0, 0.5, 0.5])

    async def told(parts: Any, problems: int, *, key: Any) -> float:
        assert problems == 2
        return next(values)

    monkeypatch.setattr(RunContext, "evaluate", told)
    found = trainer(tmp_path, ("update.lr", 1e-3))
    weights = {
        name: [w.detach().clone() for w in one.policy.module.parameters()] for name, one in found.parts.learners.items()
    }
    rows = [found.step() for _ in range(3)]
    assert [row.get("progress/reward") for row in rows] == [None, 50.0, 0.0]
    assert math.isfinite(rows[1]["coach/loss"])
    assert "coach/loss" not in rows[2] or rows[2]["coach/loss"] is None
    changed = {
        name: any(
            not torch.equal(old, new) for old, new in zip(weights[name], one.policy.module.parameters(), strict=True)
        )
        for name, one in found.parts.learners.items()
    }
    assert changed["coach"]
    assert found.state()["hooks"] == {"LearningProgress": {"accuracy": 0.5}}
    found.folder.release()


def test_accuracy_is_that_of_the_player_alone(tmp_path: Path) -> None:
    found = trainer(tmp_path)
    measured = asyncio.run(found.parts.evaluate(2, key=found.parts.key.derive("progress")))
    assert measured in (0.0, 0.5, 1.0)
    found.folder.release()


def test_overlap_is_refused(tmp_path: Path) -> None:
    said = call(
        "train",
        "--recipe",
        "cpmobius",
        "--task",
        "sums",
        "--overlap",
        "1",
        "--runs",
        tmp_path,
        "--steps",
        "1",
        "--quiet",
    )
    assert said.code == 2
    assert "known only when others have learnt" in said.err
    assert len(said.err) < 300

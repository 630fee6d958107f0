"""Coach and player: what each earns, who learns when, progress as a reward, and problems within a band."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rollout_cases import Stage, assignments
from tiny_runs import call
from workflows_cases import earned

from hocket import tasks
from hocket.core.batch import Level
from hocket.lab.talk import TalkBench
from hocket.methods.teams.claims.cpmobius import bench, mass
from hocket.methods.teams.cpmobius.deferred import pay
from hocket.methods.teams.cpmobius.method import INVENT, CoachPlayer, WithinBand
from hocket.testing import rehearse
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
    async def still(parts: Any, problems: int, *, key: Any, split: str) -> float:
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

    async def told(parts: Any, problems: int, *, key: Any, split: str) -> float:
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


class Shares(Stage):
    """Episodes whose share stands in their scenario's name or, by sample, in `by_sample`."""

    by_sample: tuple[float, ...] = ()

    def trajectory(self, assignment, sample):
        found = super().trajectory(assignment, sample)
        name = assignment.scenario.id
        if name != "none":
            found.info["share"] = self.by_sample[sample] if self.by_sample else float(name)
        return found


def stage(*by_sample: float) -> Shares:
    found = Shares(lambda scenario, sample: 1.0)
    found.by_sample = by_sample
    return found


def names(trajectories) -> list[str]:
    return [one.scenario.id for one in trajectories]


def test_missing_ones_come_from_the_curriculum_until_the_batch_is_full() -> None:
    left = ["0", "0.3", "0.4", "0.6", "0.7"]

    def more(count: int):
        given = [left.pop(0) for _ in range(count)]
        return assignments(*given)

    shares = stage()
    found = shares.collect(WithinBand(), assignments("1", "0.5", "0"), more)
    assert names(found.trajectories) == ["0.5", "0.3", "0.4"]
    assert names(found.discarded) == ["1", "0", "0"]
    assert found.metrics["rollout/rounds"] == 3
    assert [[one.scenario.id for one in asked] for asked in shares.asked] == [["1", "0.5", "0"], ["0", "0.3"], ["0.4"]]
    assert len(shares.scored) == 6


def test_without_a_curriculum_scenarios_are_asked_afresh() -> None:
    shares = stage(0.0, 0.0, 0.5, 1.0, 0.4, 0.0)
    found = shares.collect(WithinBand(samples=2), assignments("x"))
    assert [one.sample for one in found.trajectories] == [2, 4]
    assert [asked[0].first for asked in shares.asked] == [0, 2, 4]


def test_nothing_kept_leaves_the_first_asked_unless_it_may_be_empty() -> None:
    found = stage().collect(WithinBand(max_rounds=2), assignments("0", "1"))
    assert names(found.trajectories) == ["0", "1"]
    assert names(found.discarded) == ["0", "1"]
    found = stage().collect(WithinBand(max_rounds=2, empty=True), assignments("0", "1"))
    assert found.trajectories == []
    assert len(found.discarded) == 4


def test_without_a_share_all_are_kept_and_failures_are_not() -> None:
    assert names(stage().collect(WithinBand(), assignments("none", "none")).trajectories) == ["none", "none"]
    failing = stage()
    failing.rule = lambda scenario, sample: None
    assert failing.collect(WithinBand(max_rounds=1, empty=True), assignments("0.5")).trajectories == []


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"max_rounds": 0}, {"low": 0.9}, {"high": 1.2}])
def test_nonsense_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"samples|low"):
        WithinBand(**wrong)


INVITED = Scenario("i", "Write.", metadata={INVENT: True})


def coached(said: list[str], **settings: bool) -> Trajectory:
    flow = CoachPlayer(len(said), **settings)  # type: ignore[arg-type]
    (played,) = rehearse(flow, INVITED, {"coach": ["1 + 1?"], "player": said})
    return played


def test_ties_earn_nothing_and_an_adversary_is_paid_for_failures() -> None:
    assert earned(coached(["2", "3"]), "own") == [None, -1.0, -1.0]
    assert earned(coached(["2", "3", "2", "2"], adversarial=True), "own") == [0.25, 1.0, -1.0, 1.0, 1.0]


QUESTION = Scenario("q", "2 + 2?", answer="4")


def test_other_scenarios_are_the_players_alone() -> None:
    (played,) = rehearse(CoachPlayer(), QUESTION, {"coach": [], "player": ["4"]})
    assert [turn.role for turn in played.turns] == ["player"]
    assert played.answer == "4"


def test_alike_is_one_choice_of_the_coach_per_scenario() -> None:
    keys = {}
    for alike in (False, True):
        seen: list[int] = []
        flow = CoachPlayer(2, alike=alike)
        script = {"coach": lambda request, seen=seen: seen.append(request.key.word) or "x", "player": ["2"] * 6}
        rehearse(flow, INVITED, script, samples=3)  # type: ignore[arg-type]
        keys[alike] = len(set(seen))
    assert keys == {False: 3, True: 1}

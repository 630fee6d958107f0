"""What a recipe requires of experience, and the task it is for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np

from hocket import tasks
from hocket.core.batch import Level
from hocket.core.columns import TOOL_CALLS
from hocket.core.components import from_plain, to_plain
from hocket.core.requirements import Requirement
from hocket.lab.claims.shipped_check import configured
from hocket.recipe import Recipe
from hocket.recipes import find
from hocket.train.assemble import build_parts
from hocket.train.config import configure, task_of
from hocket.train.loop import train_step
from hocket.types import Scenario, Score, Trajectory, Turn

GIGPO = find("gigpo").but(requires=(Requirement.TURNS, Requirement.STATES), task="maze")


def turn(agent: str = "solo", state: str | None = None) -> Turn:
    return Turn(agent, "policy", np.zeros(0), np.array([1]), np.zeros(1, np.float32), state=state)


def test_each_requirement_is_seen_where_it_is_met_and_only_there() -> None:
    plain = Trajectory(Scenario("a"), [turn()], scores={"reward": Score(1.0)})
    called = Trajectory(Scenario("a"), [turn()])
    TOOL_CALLS.write(called, 2)
    paid = Trajectory(Scenario("a"), [turn(), turn()], scores={"r": Score([0.0, 0.5], Level.TURN)})
    unpaid = Trajectory(Scenario("a"), [turn(), turn()], scores={"r": Score([0.0, None], Level.TURN)})
    team = Trajectory(Scenario("a"), [turn("one"), turn("two")])
    twice = Trajectory(Scenario("a"), [turn()], scores={"r": Score(0.0), "s": Score(1.0)})
    silent = Trajectory(Scenario("a"), [turn()], scores={"r": Score(0.0), "s": Score(None)})
    here, there = (Trajectory(Scenario("a"), [turn(state="s")]) for _ in range(2))
    elsewhere = Trajectory(Scenario("b"), [turn(state="s")])
    tried = Trajectory(Scenario("a"), [turn()], branches=[plain])
    for requirement, met, unmet in (
        (Requirement.TURNS, [plain, paid], [plain]),
        (Requirement.AGENTS, [team], [paid]),
        (Requirement.TURN_REWARDS, [plain, paid], [plain, unpaid]),
        (Requirement.SCORES, [plain, twice], [plain, silent]),
        (Requirement.STATES, [here, there], [here, here, elsewhere, paid]),
        (Requirement.BRANCHES, [tried], [plain]),
        (Requirement.TOOLS, [plain, called], [plain]),
    ):
        assert requirement.met(met), requirement
        assert not requirement.met(unmet), requirement


def test_a_run_that_lacks_it_is_told_what_is_left() -> None:
    sums = tasks.find("sums")
    settings = {"curriculum.prompts": 4, "rollout.samples": 4, "decoding.max_tokens": 32}
    parts = build_parts(configured(GIGPO, "sums", sums, settings), sums)
    first, second = (asyncio.run(train_step(parts, step)) for step in (1, 2))
    said = [one for one in first.messages if "requires" in one]
    assert said == [
        "gigpo requires several turns and states that several turns start from, and there are none: without them it "
        "reduces to grpo; it is for `--task maze`"
    ]
    assert not [one for one in second.messages if "requires" in one]  # Once is enough.


def test_a_recipe_says_its_task_and_flags_win() -> None:
    assert task_of([("recipe", GIGPO)]) == "maze"
    assert task_of([("task", "sums"), ("recipe", GIGPO)]) == "sums"
    assert task_of([]) == task_of([("recipe", "grpo")]) == "sums"
    assert configure([("recipe", GIGPO)], tasks.find("maze")).task.startswith("maze")


def test_requirements_are_kept_in_plain_form(tmp_path: Path) -> None:
    plain = to_plain(GIGPO)
    assert plain["requires"] == ["several turns", "states that several turns start from"]
    assert from_plain(plain, Recipe) == GIGPO

"""Environments that tell what is known of them: bad settings, worlds without affordances, tasks and lessons."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from hocket import tasks
from hocket.agents.workflows.single import SingleTurn
from hocket.core.errors import ConfigurationError
from hocket.methods.agents.knowledge_injection_text_games.devices import PLAYER, Devices
from hocket.methods.agents.knowledge_injection_text_games.method import InformedPlay, InformedWorld
from hocket.tasks.lessons import LessonTask
from hocket.types import Scenario


def test_a_shed_is_started_by_the_verbs_that_fit() -> None:
    world = Devices(count=2, verbs=3, spare=1)
    made = world.make(Scenario("a", metadata={"shed": 5}))
    for name, verb in world.shed(5).fits.items():
        assert made.act({PLAYER: f"{verb} {name}"}) == {PLAYER: 0.5}
        assert made.act({PLAYER: f"{verb} {name}"}) == {PLAYER: 0.0} if not made.over else True
        if made.over:
            break
    assert made.illegal[PLAYER] == made.steps - len(made.running)


@pytest.mark.parametrize("settings", ["count=0", "count=99", "verbs=1", "verbs=99", "spare=-1"])
def test_sheds_out_of_range_are_refused(settings: str) -> None:
    with pytest.raises(ConfigurationError, match="devices"):
        tasks.find(f"devices?{settings}")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("kind=affordance", "kind is one of both"),
        ("kind=affordance", "did you mean .affordances"),
        ("at=end", "at is"),
        ("most=0", "at least 1"),
    ],
)
def test_knowledge_out_of_range_is_refused(settings: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        tasks.find(f"informed:devices?{settings}")


def test_a_world_without_affordances_can_only_remember() -> None:
    maze: Any = tasks.find("informed:maze?width=3&height=3")
    with pytest.raises(ConfigurationError, match="set kind=memory"):
        maze.workflow.world.make(maze.scenario("train", 0))
    maze = tasks.find("informed:maze?width=3&height=3&kind=memory")
    assert maze.workflow.world.make(maze.scenario("train", 0)) is not None


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is no environment"):
        tasks.find("informed:sums")
    flow = InformedPlay()
    assert flow.around(SingleTurn()) is flow
    with pytest.raises(ConfigurationError, match="the task is none"):
        asyncio.run(flow.play(Scenario("a", "b"), cast(Any, None)))


def test_the_workflow_does_to_a_task_what_its_prefix_does() -> None:
    own, told = cast(Any, tasks.find("devices")), cast(Any, tasks.find("informed:devices"))
    assert InformedPlay().around(own.workflow) == told.workflow
    assert InformedPlay(kind="none").around(told.workflow) is told.workflow
    assert isinstance(told.workflow.world, InformedWorld)


def test_lessons_are_told_what_is_known() -> None:
    lesson = LessonTask(tasks.find("informed:household"), "informed:household")
    prompt = str(lesson.scenario("train", 0).messages[0]["content"])
    assert "Fits: " in prompt
    assert "Legal moves" not in prompt

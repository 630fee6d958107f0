"""Environments that tell what is known of them: bad settings, worlds without affordances, tasks and lessons."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, cast

import pytest

from hocket import tasks
from hocket.agents.workflows.single import SingleTurn
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.claims.knowledge_injection_text_games import (
    played_out,
    seen_graph,
)
from hocket.methods.agents.knowledge_injection_text_games.devices import PLAYER, VERBS, Darkness, Devices, Shed
from hocket.methods.agents.knowledge_injection_text_games.method import Informed, InformedPlay, InformedWorld, Knowledge
from hocket.tasks.lessons import LessonTask
from hocket.types import Scenario
from hocket.zoo.household import moves


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


def test_moves_are_remembered_with_the_latest_last() -> None:
    house = tasks.find("informed:household?most=2&kind=memory")
    scored = tasks.find("informed:household?kind=memory&kept=scored&dense=0.5")
    wrong, seen = 0, 0
    for number, task in itertools.product(range(6), (house, scored)):
        made: Informed = task.workflow.world.make(task.scenario("train", number))  # type: ignore[attr-defined]
        made.reset(Key.of(number))
        rng, due = Key.of(number).numpy(), list[str]()
        while made.acting and len(due) < 5:
            legal = made.within.observe(PLAYER).actions or ()
            move = "fly" if rng.random() < 0.3 else legal[int(rng.integers(len(legal)))]
            earned = made.act({PLAYER: move})[PLAYER]
            if move in legal and (task is house or earned > 0):
                due = [*(one for one in due if one != move), move]
            wrong += made.remembered(PLAYER) != tuple(due[-made.knowledge.most :])
            seen += 1
    assert wrong == 0
    assert seen > 60


def test_a_shuffled_memory_keeps_its_verb() -> None:
    lamps = {"lamp": "pull", "desk lamp": "push", "bell": "turn"}
    named, unlike = 0, set[tuple[str, ...]]()
    for number in range(20):
        made = Informed(Darkness(Shed(lamps, VERBS[:3]), 6), Knowledge(kind="memory", shuffled=True))
        made.reset(Key.of(number))
        made.act({PLAYER: "push desk lamp"})
        (said,) = once = made.remembered(PLAYER)
        named += said in {f"push {name}" for name in lamps} and once == made.remembered(PLAYER)
        unlike.add(once)
    assert named == 20
    assert len(unlike) == 3


def test_the_graph_of_a_household_is_what_lines_tell() -> None:
    task: Any = tasks.find("commands:informed:household?brief=false&form=graph&most=3&steps=60")
    wrong, worked = 0, 0
    for number in range(6):
        made, rng = task.make(), Key.of(number).numpy()
        row, done, over = made.reset(2 * number), list[str](), False
        house = made.environment.bare
        while not over:
            graph = seen_graph(made, row)
            fits = {f"{verb} {name}" for name, relation, verb in graph if relation == "affords"}
            moved = [f"{verb} {name}" for name, relation, verb in graph if relation == "worked"]
            text = made.environment.observe(PLAYER).text
            named = [name for name in house.affordances if f" {name}" in text.replace(".", " ").replace(",", " ")]
            sees = [name for who, relation, name in graph if (who, relation) == ("you", "sees")]
            wrong += fits != {f"{verb} {name}" for name, verbs in house.affordances.items() for verb in verbs}
            wrong += moved != done[-3:] or not set(sees) <= set(named)
            legal = [move.words for move in moves(house.house, house.now)]
            spoken = [place for place in range(task.actions) if made.said(place) in legal]
            assert len(spoken) == len(legal)
            action = spoken[int(rng.integers(len(spoken)))] if rng.random() < 0.7 else int(rng.integers(task.actions))
            move, illegal = made.said(action), made.environment.illegal[PLAYER]
            row, _, ended, cut = made.step(action)
            if made.environment.illegal[PLAYER] == illegal:
                done, worked = [*(one for one in done if one != move), move], worked + 1
            over = ended or cut
    assert wrong == 0
    assert worked > 60


def test_every_verb_may_be_chosen_with_every_object() -> None:
    wrong = 0
    for made, row, due, illegal in played_out("kind=both"):
        assert made.environment is not None
        names = list(made.environment.bare.shed.fits)  # type: ignore[attr-defined]
        said = [made.said(action) for action in range(16)]
        wrong += said != [f"{verb} {name}" for verb in VERBS[:4] for name in names] or row[-1] != illegal
        wrong += [one for one in seen_graph(made, row) if one[1] != "sees"] != due
    start = 0
    for made, row, _, _ in played_out("at=start", 4):
        assert made.environment is not None
        opening = not cast(Any, made.environment.bare).steps
        start += sum(one[1] != "sees" for one in seen_graph(made, row)) != (4 if opening else 0)
    lied, apart = 0, 0
    for made, row, due, _ in played_out("shuffled=true", 8):
        graph = [one for one in seen_graph(made, row) if one[1] != "sees"]
        shed: Any = cast(Any, made.environment).bare.shed
        lied += sum(name in shed.fits and verb in VERBS[:4] for name, _, verb in graph) != len(graph)
        lied += [one[1] for one in graph].count("affords") != 4
        apart += graph != due
    assert wrong == start == lied == 0
    assert apart > 0.9 * 8

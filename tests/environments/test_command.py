"""Skirmishes in text: names and settings of the task, and how an episode ends."""

import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.methods.marl.llm_pysc2.orders import ORDERS, Order, read
from hocket.testing import rehearse
from hocket.types import Scenario


def test_what_is_wrong_in_a_name_is_said():
    for name, said in {
        "command:3": "write command:3v3",
        "command:3v3?groups=4": "groups = 4; from 1 to 3",
        "command:3v3?pace=0": "pace = 0",
        "command:16v3?size=60": "16 soldiers; at most 15",
        "command:3v3?size=2": "size = 2",
        "command:3v3?hold=1": "hold",
    }.items():
        with pytest.raises(ConfigurationError, match=said.replace("?", ".")):
            tasks.find(name)


def test_what_has_no_form_of_an_order_says_nothing_and_what_has_no_arguments_is_unread():
    assert read("I attack 0x11, then [3, 4] <b> <think>").orders == ()
    spoken = read("<Stop()> <Attack_Unit(eleven)> <Move_Screen([1, 2],)> <Move_Screen([1,2] [3,4])> < Stop ( ) >")
    assert spoken.orders == (Order("Stop"), Order("Stop"))
    assert len(spoken.unread) == 3
    assert read("<Move_Screen([ -1 ,2 ])><Attack_Unit( 0X1F )>").orders == (
        Order("Move_Screen", ((-1, 2),)),
        Order("Attack_Unit", (31,)),
    )


def test_an_episode_is_cut_short_after_its_length_and_whoever_has_fallen_is_asked_no_more():
    task = tasks.find("command:2v2?groups=2&length=7")
    (made,) = rehearse(task.workflow, task.scenario("train", 0), lambda request: "<Move_Screen([0, 0])>")
    assert made.failure is None
    assert len(made.turns) == 2 * 4
    assert task.success(made) == 0.0
    battle = task.workflow.world.make(Scenario("battle"))
    battle.reset(Key.of(0))
    battle.course.health[0, 0] = 0
    assert battle.acting == ("commander_2",)
    with pytest.raises(HocketError, match="waits for the moves of commander_2"):
        battle.act({"commander_1": "<Stop()>"})


def test_a_commander_is_told_of_the_others_and_with_knowledge_of_every_order():
    battle = tasks.find("command:4v2?groups=2&knowledge=true").workflow.world.make(Scenario("battle"))
    text = battle.observe("commander_1").text
    assert "\nCommanders: commander_2\n" in text
    for name, takes in ORDERS.items():
        assert f"<{name}({', '.join(takes)})>" in text
    alone = tasks.find("command:3v3").workflow.world.make(Scenario("battle"))
    assert "Commanders" not in alone.observe("commander_1").text
    assert "Orders" not in alone.observe("commander_1").text


def test_a_victory_is_success():
    task = tasks.find("command:3v1?strength=1")
    (made,) = rehearse(task.workflow, task.scenario("train", 0), lambda request: "<Stop()>")
    assert task.success(made) == 1.0
    assert made.info["illegal"] == {"commander_1": 0}

"""The order desk: tools, goals, customers, the talk, and the hash that judges it."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hocket.agents.workflows.simulated_user import SimulatedUser
from hocket.core.canonical import canonical, database_hash
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.mua_rl.reward import DatabaseMatch, all_said
from hocket.methods.agents.mua_rl.world import (
    DEAF,
    HANDLERS,
    PUZZLED,
    WISHES,
    Customer,
    Database,
    DeskTool,
    Goal,
    Manner,
    OrderDesk,
    ceiling,
    draw_database,
    goals,
    tools_on,
)
from hocket.tasks import find
from hocket.testing import rehearse
from hocket.types import Scenario, Trajectory

SEEDS = st.integers(0, 10**6)
PLAIN = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3) | st.floats(-2, 2)
NESTED = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def shop() -> Database:
    order = {"item": "lamp", "price": 30, "address": "Elm 4", "state": "open", "notes": []}
    return {"orders": {"11": dict(order), "12": {**order, "state": "delivered", "price": 20, "notes": []}}}


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def talk(goal: Goal, replies: list[str], manner: Manner | None = None, turns: int = 12, seed: int = 0) -> Trajectory:
    desk = OrderDesk(manner or Manner())
    scenario = desk.scenario("s", shop(), goal)
    (played,) = rehearse(SimulatedUser(desk, turns), scenario, replies, seed=seed)
    return played


# ---------------------------------------------------------------- the hash


def backwards(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(list(value))}
    return [backwards(one) for one in value] if isinstance(value, list) else value


@given(NESTED)
def test_the_order_of_keys_does_not_matter(value: Any) -> None:
    assert database_hash(value) == database_hash(backwards(value)) == database_hash(copy.deepcopy(value))


def same(one: Any, other: Any) -> bool:
    """Equal with types, dicts in any order."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


@given(NESTED, NESTED)
def test_different_values_have_different_texts(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == same(one, other)


def test_types_and_sets() -> None:
    assert len({canonical(value) for value in (1, 1.0, True, "1", None, [1], {1}, {"1": 1}, {1: "1"})}) == 9
    assert canonical({3, 1, 2}) == canonical({2, 3, 1})
    assert canonical((1, 2)) == canonical([1, 2]) != canonical([2, 1])


def test_outputs_are_found_whatever_case_and_commas() -> None:
    assert all_said(["1200", "Elm 4"], ["It is 1,200.", "to ELM 4"])
    assert not all_said(["1200", "Elm 4"], ["It is 1,200."])
    assert all_said([], [])


def test_scenarios_that_know_no_hash_get_no_opinion() -> None:
    judge = DatabaseMatch()
    assert judge.judge(Trajectory(Scenario("s"), [])) is None
    known = Scenario("s", metadata={"final_hash": database_hash({})})
    assert judge.judge(Trajectory(known, [])) == 0.0
    assert judge.judge(Trajectory(known, [], info={"database": {}})) == 1.0
    assert asyncio.run(judge([Trajectory(known, [])] * 2, key=Key.of(0))) == [0.0, 0.0]


# ---------------------------------------------------------------- tools and goals


def test_what_each_tool_does() -> None:
    database = shop()
    tools = {tool.name: tool for tool in tools_on(database)}
    assert set(tools) == set(HANDLERS)
    assert len(tools) == 5
    assert tools["look_up"].call({"order": "11"}) == "lamp, price 30, to Elm 4, open"
    assert tools["change_address"].call({"order": "11", "address": "Oak 7"}) == "changed"
    assert tools["refund"].call({"order": "12"}) == "refunded 20"
    assert tools["add_note"].call({"order": "12", "text": " gift "}) == "noted"
    assert tools["cancel"].call({"order": "11"}) == "cancelled"
    orders = database["orders"]
    assert orders["11"] | {"notes": []} == orders["11"]
    assert (orders["11"]["address"], orders["11"]["state"]) == ("Oak 7", "cancelled")
    assert (orders["12"]["state"], orders["12"]["notes"]) == ("refunded", ["gift"])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("look_up", {}),
        ("look_up", {"order": "99"}),
        ("cancel", {"order": "12"}),
        ("refund", {"order": "11"}),
        ("change_address", {"order": "12", "address": "Oak 7"}),
        ("change_address", {"order": "11"}),
        ("change_address", {"order": "11", "address": 5}),
        ("add_note", {"order": "11", "text": "x" * 101}),
        ("add_note", {"order": ["11"], "text": "x"}),
    ],
)
def test_refusals_change_nothing(name: str, arguments: dict[str, Any]) -> None:
    database = shop()
    assert DeskTool(name, database).call(arguments).startswith("error: ")
    assert database == shop()


@given(SEEDS)
def test_every_goal_can_be_reached_and_changes_something(seed: int) -> None:
    database = draw_database(4, Key.of(seed))
    known = goals(database)
    assert {goal.wish for goal in known} == set(WISHES)
    for goal in known:
        before = copy.deepcopy(database)
        after = goal.done(database)
        assert database == before
        assert (after == database) == (goal.wish == "track")
        assert goal.known(database)["final_hash"] == database_hash(after)


def test_a_goal_out_of_reach_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be reached"):
        Goal("cancel", {"order": "12"}).done(shop())


# ---------------------------------------------------------------- customers


def customer(goal: Goal, manner: Manner | None = None, seed: int = 0) -> Customer:
    return Customer(goal, manner or Manner(), Key.of(seed))


def replies(who: Customer, *said: str) -> list[str | None]:
    async def spoken() -> list[str | None]:
        return [await who.reply(one) for one in said]

    return asyncio.run(spoken())


CHANGE = Goal("address", {"order": "11", "address": "Oak 7"})


def test_customers_tell_what_they_are_asked_for_and_no_more() -> None:
    assert asyncio.run(customer(CHANGE).open()) == "I want to change the address of an order."
    said = replies(customer(CHANGE), "Which order?", "Which ADDRESS?", "What order and what address?", "Why?", "Done.")
    assert said == ["It is order 11.", "It is Oak 7.", "It is order 11. It is Oak 7.", PUZZLED, None]
    assert replies(customer(Goal("cancel", {"order": "11"})), "Which address?") == [PUZZLED]


def test_customers_lose_patience() -> None:
    assert replies(customer(CHANGE, Manner(patience=3)), "Why?", "Why?", "Why?") == [PUZZLED, PUZZLED, None]


def test_chance_is_as_often_as_told_and_fixed_by_the_key() -> None:
    manner = Manner(volunteer=0.3, deaf=0.4)
    opened = [asyncio.run(customer(CHANGE, manner, seed).open()) for seed in range(400)]
    assert 0.2 < sum("order 11" in one for one in opened) / 400 < 0.4
    heard = [replies(customer(CHANGE, manner, seed), "Which order?")[0] for seed in range(400)]
    assert 0.3 < sum(one == DEAF for one in heard) / 400 < 0.5
    assert heard == [replies(customer(CHANGE, manner, seed), "Which order?")[0] for seed in range(400)]


def test_manners_out_of_range_are_refused() -> None:
    for wrong in ({"volunteer": 1.5}, {"deaf": 1.0}, {"patience": 0}):
        with pytest.raises(ConfigurationError):
            Manner(**wrong)


def test_the_ceiling_by_counting() -> None:
    known = [(shop(), goal) for goal in goals(shop(), ("note",))]
    assert len(known) == 6
    assert ceiling(known, Manner()) == pytest.approx(1 / 6)
    assert ceiling(known, Manner(volunteer=1.0)) == pytest.approx(1 / 3)
    assert ceiling(known, Manner(volunteer=0.5)) == pytest.approx(1 / 4)
    tracking = [(shop(), goal) for goal in goals(shop(), ("track",))]
    assert ceiling(tracking, Manner()) == 1.0


# ---------------------------------------------------------------- talks


def test_a_talk_that_asks_calls_and_reports() -> None:
    said = ["Which order?", "Which address?", call("change_address", order="11", address="Oak 7"), "Done."]
    played = talk(CHANGE, said)
    heard = [turn.prompt[-1] for turn in played.turns]
    assert [message["content"] for message in heard] == [
        "I want to change the address of an order.",
        "It is order 11.",
        "It is Oak 7.",
        "changed",
    ]
    assert heard[-1]["role"] == "tool"
    assert played.info["said"] == ["Which order?", "Which address?", "Done."]
    assert (played.info["calls"], played.info["closed"], played.terminated) == (1, True, True)
    assert DatabaseMatch().judge(played) == 1.0


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ([call("refund", order="12"), "It is 20."], 1.0),
        ([call("refund", order="12"), "Done."], 0.0),
        ([call("refund", order="12"), call("look_up", order="12"), "You get 20 back"], 1.0),
        ([call("refund", order="12"), call("add_note", order="12", text="x"), "It is 20."], 0.0),
        (["It is 20."], 0.0),
        ([call("refund", order="12", why="20"), "Done."], 0.0),
    ],
)
def test_what_a_refund_takes(last: list[str], expected: float) -> None:
    assert DatabaseMatch().judge(talk(Goal("refund", {"order": "12"}), last)) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        "<tool_call>",
        "<tool_call></tool_call>",
        "<tool_call>[1]</tool_call>",
        "<tool_call>{}</tool_call>",
        '<tool_call>{"name": "drop"}</tool_call>',
        '<tool_call>{"name": "cancel", "arguments": 5}</tool_call>',
        '<tool_call>{"name": ["cancel"], "arguments": {}}</tool_call>',
        "<tool_call>" + "[" * 100_000,
    ],
)
def test_broken_calls_are_told(wrong: str) -> None:
    desk = OrderDesk()
    scenario = desk.scenario("s", shop(), CHANGE)
    script = iter([wrong[:900], "Done."])
    (played,) = rehearse(SimulatedUser(desk), scenario, lambda request: next(script))
    answer = played.turns[1].prompt[-1]
    assert answer["role"] == "tool"
    assert answer["content"].startswith("error: ")
    assert played.info["database"] == shop()


def test_several_calls_of_a_reply_are_answered_in_order() -> None:
    made = (
        call("look_up", order="11") + call("change_address", order="11", address="Oak 7") + call("look_up", order="11")
    )
    played = talk(CHANGE, [made, "Done."])
    told = [message["content"] for message in played.turns[1].prompt if message["role"] == "tool"]
    assert told == ["lamp, price 30, to Elm 4, open", "changed", "lamp, price 30, to Oak 7, open"]
    assert played.info["calls"] == 3
    assert DatabaseMatch().judge(played) == 1.0


def test_a_talk_that_is_never_closed_is_truncated() -> None:
    played = talk(CHANGE, [call("look_up", order="11")] * 3, turns=3)
    assert played.truncated
    assert "closed the talk" in played.info["limit"]
    assert not played.info["closed"]


def test_the_scenario_stays_as_it_is() -> None:
    desk = OrderDesk()
    scenario = desk.scenario("s", shop(), CHANGE)
    rehearse(SimulatedUser(desk), scenario, [call("cancel", order="11"), "Done."] * 2, samples=1)
    assert scenario.metadata["database"] == shop()


def test_a_policy_may_play_the_user() -> None:
    desk = OrderDesk()
    scenario = desk.scenario("s", shop(), CHANGE)
    workflow = SimulatedUser(desk, played=True)
    assert workflow.roles == ("agent", "user")
    scripts = {
        "agent": ["Which order and address?", call("change_address", order="11", address="Oak 7"), "Done."],
        "user": ["Change my address.", "Order 11, to Oak 7.", "Thanks. ###STOP###"],
    }
    (played,) = rehearse(workflow, scenario, scripts)
    assert [turn.agent for turn in played.turns] == ["user", "agent", "user", "agent", "agent", "user"]
    assert "order 11, address Oak 7" in played.turns[0].prompt[0]["content"]
    assert played.turns[3].prompt[-1]["content"] == "Order 11, to Oak 7."
    assert DatabaseMatch().judge(played) == 1.0
    assert played.info["closed"]


def test_dialogues_of_one_task_differ_by_the_users_chance() -> None:
    desk = OrderDesk(Manner(volunteer=0.5))
    scenario = desk.scenario("s", shop(), CHANGE)
    script = ["Done."] * 12
    played = rehearse(SimulatedUser(desk), scenario, script, samples=12)
    assert len({one.turns[0].prompt[-1]["content"] for one in played}) == 2


# ---------------------------------------------------------------- the task


def test_right_calls_solve_every_scenario() -> None:
    task = find("order-desk?orders=3&deaf=0")
    for split, number in (("train", 0), ("train", 1), ("train", 2), ("eval", 0), ("eval", 1)):
        scenario = task.scenario(split, number)
        right = [call(one["name"], **one["arguments"]) for one in json.loads(scenario.answer)]
        said = ["Which order, address, note?", *right, "Done. " + " ".join(scenario.metadata["outputs"])]
        (played,) = rehearse(task.workflow, scenario, said)  # type: ignore[attr-defined]
        assert task.success(played) == 1.0
        assert task.describe(played)["asked"] == 1.0
        assert scenario == find("order-desk?orders=3&deaf=0").scenario(split, number)


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ("orders=1", "turns=0", "volunteer=2", "patience=0"):
        with pytest.raises(ConfigurationError):
            find(f"order-desk?{wrong}").scenario("train", 0)

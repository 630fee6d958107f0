"""Fetch and carry: who knows what, what moves do, what is paid, and what the script makes of it."""

import pytest

from hocket import tasks
from hocket.core.components import from_plain
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Scenario
from hocket.zoo.carry import HOME, Carries
from hocket.zoo.tasks.carry import WRITE, CarryQuestion, answer, drafted, nearest_first


def opened(seed=0, **settings):
    carry = Carries(**settings).make(Scenario("carry"))
    carry.reset(Key.of(seed))
    return carry


def both(carry, move):
    return carry.act(dict.fromkeys(carry.acting, move))


def walk(carry, agent, room):
    while carry.places[agent] != room:
        carry.act({one: f"go {room}" if one == agent else "wait" for one in carry.acting})


def test_a_step_leads_nearer_along_the_longer_side():
    world = Carries(size=4)
    for here in range(1, 17):
        for there in range(1, 17):
            if here != there:
                then = world.towards(here, there)
                assert world.apart(here, then) == 1
                assert world.apart(then, there) == world.apart(here, there) - 1
    assert (world.towards(1, 10), world.towards(1, 7), world.towards(6, 1)) == (5, 2, 5)


def test_what_a_room_holds_is_known_to_who_was_there_until_it_is_told():
    carry = opened(known=0)
    thing, room = next(iter(carry.lies.items()))
    walk(carry, "alice", room)
    assert ("alice", f"{thing} is in {room}.") in carry.progress
    assert f"fetch {thing}" in carry.subtasks("alice")
    assert f"fetch {thing}" not in carry.subtasks("bob")
    assert room in carry.unseen("bob")
    assert room not in carry.unseen("alice")
    assert carry.subtasks("alice")[f"fetch {thing}"] == "here"
    carry.share()
    assert carry.subtasks("bob")[f"fetch {thing}"] == f"in {room}"
    radio = opened(known=0, radio=True)
    walk(radio, "alice", room)
    assert f"fetch {thing}" in radio.subtasks("bob")


def test_things_are_taken_where_they_lie_by_the_first_and_dropped_at_home_for_pay():
    carry = opened(known=4)
    thing, room = next(iter(carry.lies.items()))
    for agent in carry.agents:
        walk(carry, agent, room)
    both(carry, f"take {thing}")
    assert (carry.holds, carry.illegal) == ({"alice": thing, "bob": None}, {"alice": 0, "bob": 1})
    assert carry.subtasks("alice")[f"fetch {thing}"] == "in hand"
    assert f"fetch {thing}" not in carry.subtasks("bob")
    assert f"fetch {thing} (with alice)" in carry.observe("bob").text
    assert both(carry, "drop") == {"alice": 0.0, "bob": 0.0}
    walk(carry, "alice", HOME)
    paid = carry.act({"alice": "drop", "bob": "wait"})
    assert paid == dict.fromkeys(carry.agents, (1 - carry.time / 60) / 4)
    assert carry.brought == (thing,)
    assert ("alice", f"alice brought {thing}.") in carry.progress


@pytest.mark.parametrize("said", ["", "go", "go 0", "go 10", "go 1", "take", "take hat", "drop", "wait here", "dance"])
def test_what_is_no_legal_move_loses_the_step_and_is_counted(said):
    carry = opened(known=4)
    both(carry, said)
    assert carry.illegal == {"alice": 1, "bob": 1}
    assert set(carry.places.values()) == {HOME}


def test_a_moved_thing_is_missed_where_it_was_and_then_all_is_searched_again():
    carry = opened(seed=3, known=4, surprise=1)
    before = dict(carry.lies)
    both(carry, "wait")
    (thing,) = (name for name in before if before[name] != carry.lies[name])
    assert carry.progress == ()
    assert carry.subtasks("alice")[f"fetch {thing}"] == f"in {before[thing]}"
    walk(carry, "alice", before[thing])
    assert ("alice", f"{thing} is gone from {before[thing]}.") in carry.progress
    assert carry.missing("alice") == (thing,)
    assert set(carry.unseen("alice")) == set(range(2, 10)) - {before[thing]}
    assert carry.missing("bob") == ()
    carry.share()
    assert carry.missing("bob") == (thing,)
    walk(carry, "bob", carry.lies[thing])
    carry.share()
    assert carry.subtasks("alice")[f"fetch {thing}"] == f"in {carry.lies[thing]}"


def test_it_ends_with_everything_home_or_its_steps_and_a_copy_goes_its_own_way():
    carry = opened(things=1, known=1, length=3)
    copy = carry.clone()
    for _ in range(3):
        both(carry, "wait")
    assert carry.truncated
    assert not carry.acting
    assert copy.time == 0
    thing, room = next(iter(copy.lies.items()))
    copy.places["alice"], copy.lies[thing] = room, room
    copy.act({"alice": f"take {thing}", "bob": "wait"})
    copy.places["alice"] = HOME
    copy.act({"alice": "drop", "bob": "wait"})
    assert copy.done
    assert not copy.truncated


def test_equal_keys_and_moves_give_equal_episodes_and_scenarios_name_their_world():
    seen = []
    for _ in range(2):
        carry = opened(seed=7, surprise=2, size=4)
        while carry.acting:
            carry.act({one: answer(carry.observe(one).text) for one in carry.acting})
        seen.append((carry.time, carry.brought, carry.lies))
    assert seen[0] == seen[1]
    task = tasks.find("carry?size=4&surprise=2")
    assert from_plain(task.scenario("eval", 0).metadata["world"]) == task.workflow.world == Carries(4, surprise=2)


def test_the_script_reads_what_it_is_told():
    carry = opened(seed=2, known=2)
    heard = CarryQuestion.of(f"{carry.situation('alice')}\n{WRITE}")
    assert (heard.size, dict(heard.places)) == (3, {"alice": 1, "bob": 1})
    assert list(heard.todo) == list(carry.subtasks("alice"))
    plan = drafted(heard)
    assert sorted(one for mine in plan.values() for one in mine) == sorted(heard.todo)
    fetch = next(one for one in heard.todo if one.startswith("fetch"))
    assert nearest_first(heard, "alice", [fetch]) == ([fetch], 2 * heard.apart(1, heard.room(fetch)) + 2)
    moved = drafted(
        CarryQuestion.of(f"{carry.situation('alice')}\nPlan:\nalice: {fetch}\n{WRITE}"), f"give {fetch} to bob"
    )
    assert fetch in moved["bob"]


def test_lessons_hold_all_parts_and_fit_the_shipped_model():
    task = tasks.find("lessons:carry")
    kinds, longest = set(), 0
    for number in range(80):
        scenario = task.scenario("train", number)
        question = str(scenario.prompt[0]["content"])
        said = scenario.metadata["demonstration"][0]["content"]
        kinds.add(question.rpartition("\n")[2][:8])
        assert said
        longest = max(longest, len(question) + len(said))
    assert {"Write th", "Say agre", "You: ali"} <= kinds
    assert longest < 900


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("carry?size=1", "2 to 6 rows"),
        ("carry?things=9", "1 to 8 things"),
        ("carry?team=5", "team is 1 to 4"),
        ("carry?sizes=4", "did you mean 'size'"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(name, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        tasks.find(name)

"""Households: every house can be done, plans are shortest, moves obey, splits are apart."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.agents.environments.solitary import NOTHING, PLAYER
from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.keys import Key
from hocket.tasks import find
from hocket.tasks.split import split_of
from hocket.zoo.household import (
    Household,
    Households,
    beginning,
    moves,
    plan,
    reached,
)
from hocket.zoo.household_house import ERRANDS, House, HouseGoal, Receptacle, draw_house

SEEDS = st.integers(0, 10**6)


def begun(world: Households, house: House) -> Household:
    made = Household(world, house)
    made.reset(Key.of(0))
    return made


def by_hand() -> House:
    """A kitchen whose fridge holds the apple that belongs, cold, on the table."""
    places = (Receptacle("fridge", 0, True, "cool"), Receptacle("table", 0), Receptacle("nightstand", 1, False, "lamp"))
    return House(
        ("kitchen", "bedroom"), places, ("apple", "book"), ("apple", "book"), (0, 1), 1, HouseGoal("cool", "apple", 1)
    )


def shortest_by_search(house: House) -> int:
    """The length of a shortest plan among all moves, none left out."""
    first = beginning(house)
    far, queue = {first: 0}, deque([first])
    while queue:
        now = queue.popleft()
        if reached(house, now):
            return far[now]
        for move in moves(house, now):
            if move.then not in far:
                far[move.then] = far[now] + 1
                queue.append(move.then)
    raise AssertionError("no plan")


def test_a_plan_by_hand() -> None:
    expected = ("enter kitchen", "go to fridge", "open fridge", "take apple", "cool apple", "go to table", "put apple")
    assert plan(by_hand()) == expected


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from((1, 2, 3)))
def test_every_house_is_solvable_and_the_plan_wins(seed: int, size: int) -> None:
    world = Households(size)
    house = draw_house(size, Key.of(seed))
    steps = plan(house)
    played = begun(world, house)
    earned = []
    for step in steps:
        assert not played.over
        assert step in (played.observe(PLAYER).actions or ())
        earned.append(played.act({PLAYER: step})[PLAYER])
    assert earned == [0.0] * (len(steps) - 1) + [1.0]
    assert played.over
    assert not played.truncated
    assert len(steps) <= world.limit // 2
    assert played.illegal == {PLAYER: 0}


@pytest.mark.parametrize("seed", range(12))
def test_plans_are_shortest_among_all_moves(seed: int) -> None:
    house = draw_house(1, Key.of(seed))
    assert len(plan(house)) == shortest_by_search(house)


@pytest.mark.parametrize("errand", ERRANDS)
def test_every_errand_occurs(errand: str) -> None:
    houses = (draw_house(3, Key.of(seed)) for seed in range(100))
    assert any(house.goal.errand == errand for house in houses)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sampled_from((1, 2, 3)))
def test_houses_are_well_formed(seed: int, size: int) -> None:
    house = draw_house(size, Key.of(seed))
    assert house == draw_house(size, Key.of(seed))
    assert len(house.rooms) == size
    assert len({place.name for place in house.places}) == len(house.places)
    assert len(set(house.things)) == len(house.things)
    assert not reached(house, beginning(house))


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.lists(st.integers(0, 30), max_size=25))
def test_random_play_keeps_the_laws(seed: int, choices: list[int]) -> None:
    house = draw_house(2, Key.of(seed))
    played = begun(Households(2), house)
    for choice in choices:
        if played.over:
            break
        seen = played.observe(PLAYER)
        assert seen.actions
        assert len(set(seen.actions)) == len(seen.actions)
        assert seen.state == played.now.key
        assert len(seen.told()) < 500
        played.act({PLAYER: seen.actions[choice % len(seen.actions)]})
        assert sum(at == -1 for at in played.now.where) <= 1
        if played.now.at is not None:
            assert house.places[played.now.at].room == played.now.room


def test_what_lies_under_a_lid_is_hidden() -> None:
    played = begun(Households(2), by_hand())
    for step in ("enter kitchen", "go to fridge"):
        played.act({PLAYER: step})
    seen = played.observe(PLAYER)
    assert "which is shut" in seen.text
    assert "In it" not in seen.text
    assert "take apple" not in (seen.actions or ())
    played.act({PLAYER: "open fridge"})
    assert "In it: apple" in played.observe(PLAYER).text


def test_what_was_seen_is_recalled_only_where_asked() -> None:
    for recall in (True, False):
        played = begun(Households(2, recall=recall), by_hand())
        for step in ("enter kitchen", "go to table", "go to fridge"):
            played.act({PLAYER: step})
        assert ("Seen: table: book." in played.observe(PLAYER).text) == recall
        assert "Task" not in (played.observe(PLAYER).news or "")


def test_equal_situations_have_equal_keys_whatever_the_way() -> None:
    one, other = (begun(Households(2), by_hand()) for _ in range(2))
    for step in ("enter kitchen", "go to table"):
        one.act({PLAYER: step})
    for step in ("enter kitchen", "go to fridge", "open fridge", "close fridge", "go to table"):
        other.act({PLAYER: step})
    assert one.observe(PLAYER).state == other.observe(PLAYER).state
    other.act({PLAYER: "take book"})
    assert one.observe(PLAYER).state != other.observe(PLAYER).state


def test_moves_that_are_not_legal_lose_time_alone() -> None:
    played = begun(Households(1, steps=3), draw_house(1, Key.of(0)))
    before = played.now
    for said in ("fly", "", "take everything"):
        assert played.act({PLAYER: said}) == {PLAYER: 0.0}
        assert played.now == before
    assert played.over
    assert played.truncated
    assert played.illegal == {PLAYER: 3}
    assert NOTHING in played.observe(PLAYER).text
    assert played.observe(PLAYER).actions == ()
    with pytest.raises(HocketError):
        played.act({PLAYER: "fly"})


def test_sub_goals_pay_once_under_their_names() -> None:
    played = begun(Households(2, dense=0.25), by_hand())
    parts = []
    for step in ("enter kitchen", "go to fridge", "open fridge", "take apple", "put apple", "take apple", "cool apple"):
        played.act({PLAYER: step})
        parts.append(dict(played.parts))
    paid = {"found": {PLAYER: 0.25}}, {"made": {PLAYER: 0.25}}
    assert parts == [{}, {}, {}, paid[0], {}, {}, paid[1]]


def test_a_clone_goes_its_own_way() -> None:
    played = begun(Households(2), by_hand())
    played.act({PLAYER: "enter kitchen"})
    twin = played.clone()
    assert twin.observe(PLAYER) == played.observe(PLAYER)
    twin.act({PLAYER: "go to fridge"})
    assert played.now.at is None
    for step in plan(by_hand())[1:]:
        played.act({PLAYER: step})
    assert played.done
    assert not twin.done


def test_settings_out_of_range_are_refused() -> None:
    wrongs: tuple[dict[str, Any], ...] = ({"size": 0}, {"size": 4}, {"steps": 0})
    for wrong in wrongs:
        with pytest.raises(ConfigurationError):
            Households(**wrong)


# ---------------------------------------------------------------- in few words


def brief_and_long(size: int, seed: int) -> tuple[Household, Household]:
    house = draw_house(size, Key.of(seed))
    return begun(Households(size, steps=40, brief=True), house), begun(Households(size, steps=40), house)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from((1, 2, 3)), st.lists(st.integers(0, 30), max_size=25))
def test_brief_households_have_the_same_moves_in_few_words(seed: int, size: int, choices: list[int]) -> None:
    brief, long = brief_and_long(size, seed)
    for choice in choices:
        if brief.over:
            break
        few, many = brief.observe(PLAYER), long.observe(PLAYER)
        assert few.actions
        assert many.actions
        assert len(set(few.actions)) == len(few.actions) == len(many.actions)
        assert few.state == many.state
        assert len(few.told()) < len(many.told()) < 500
        place = choice % len(few.actions)
        said = few.actions[place] if choice % 2 else many.actions[place]
        assert brief.act({PLAYER: said}) == long.act({PLAYER: many.actions[place]})
        assert brief.now == long.now
    assert brief.over == long.over
    assert brief.illegal == long.illegal == {PLAYER: 0}


def test_a_brief_errand_by_hand() -> None:
    played = begun(Households(2, brief=True), by_hand())
    for told, step in (
        ("apple: cool 1, to 2. In bedroom. New 3.\nLegal moves: 3, kitchen", "kitchen"),
        ("apple: cool 1, to 2. In kitchen. New 1 2.\nLegal moves: 1, 2, bedroom", "1"),
        ("apple: cool here, to 2. At 1: shut. New 2.\nLegal moves: 2, bedroom, open", "open"),
        ("apple: cool here, to 2. At 1: apple. New 2.\nLegal moves: 2, bedroom, close, take", "take"),
        ("apple: cool here, to 2. At 1: none. Hold apple. New 2.\nLegal moves: 2, bedroom, close, put, cool", "cool"),
        ("apple: cool here, to 2. At 1: none. Hold cold apple. New 2.\nLegal moves: 2, bedroom, close, put, use", "2"),
        ("apple: cool 1, to here. At 2: none. Hold cold apple.\nLegal moves: 1, bedroom, put", "put"),
    ):
        assert played.observe(PLAYER).told() == told
        assert played.act({PLAYER: step}) == {PLAYER: float(step == "put")}
    assert played.over
    assert not played.truncated


def test_a_brief_household_tells_other_things_by_name_and_where_the_right_ones_were() -> None:
    places = (Receptacle("desk", 0, False, "lamp"), Receptacle("shelf", 0), Receptacle("sofa", 0))
    house = House(
        ("study",), places, ("pen 1", "pen 2", "key"), ("pen", "pen", "key"), (0, 0, 1), 0, HouseGoal("two", "pen", 2)
    )
    played = begun(Households(1, brief=True), house)
    played.act({PLAYER: "1"})
    assert played.observe(PLAYER).told().endswith("At 1: pen 1, pen 2. New 2 3.\nLegal moves: 2, 3, take, pen 2, use")
    played.act({PLAYER: "2"})
    assert played.observe(PLAYER).told() == "pen: two, to 3. At 2: none. New 3. Seen 1.\nLegal moves: 1, 3, key"
    played.act({PLAYER: "key"})
    assert "Hold other." in played.observe(PLAYER).text
    played.act({PLAYER: "take"})
    assert played.illegal == {PLAYER: 1}
    assert NOTHING not in played.observe(PLAYER).text
    blind = begun(Households(1, brief=True, recall=False), house)
    assert blind.observe(PLAYER).text == "pen: two, to 3. In study."


def test_a_brief_household_has_half_the_moves() -> None:
    assert [Households(size, brief=True).limit for size in (1, 2, 3)] == [15, 22, 30]
    assert Households(1, brief=True, steps=40).limit == 40


# ---------------------------------------------------------------- the task


def test_a_household_by_name_is_brief_unless_told_otherwise() -> None:
    brief, long = find("household"), find("household?brief=false")
    scenario = brief.scenario("train", 3)
    assert scenario == long.scenario("train", 3)
    for task, instructed in ((brief, False), (long, True), (find("household?instruct=true"), True)):
        workflow = task.workflow  # type: ignore[attr-defined]
        assert workflow.instruct == instructed
        assert workflow.world.brief == (task is not long)


def test_splits_are_apart_by_content_and_scenarios_fixed() -> None:
    task = find("household?size=1")
    world = Households(1)
    houses = {
        split: [world.house(Key.of(task.scenario(split, n).metadata["house"])) for n in range(30)]
        for split in ("train", "eval")
    }
    for split, drawn in houses.items():
        assert {split_of(house.text) for house in drawn} == {split}
    assert not {h.text for h in houses["train"]} & {h.text for h in houses["eval"]}
    assert task.scenario("train", 7) == find("household?size=1").scenario("train", 7)
    for number, house in itertools.islice(enumerate(houses["eval"]), 5):
        assert task.scenario("eval", number).metadata["shortest"] == len(plan(house))

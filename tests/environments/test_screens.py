"""Pages in words: what is told, right moves and wrong ones, wrong pages and the way back, excerpts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.rewards.moves import argument_match, attempts, made, parsed
from hocket.tasks import find
from hocket.tasks.split import split_of
from hocket.zoo.screens import SEAT, OnScreen, Screen, ScreenGoal, Screens, any_of

PAGE = Screen(
    ("button", "field", "label"),
    ("", "", "58"),
    (ScreenGoal("press 1", "click 1"), ScreenGoal("write 17 in 2", "type 2 17"), ScreenGoal("read 3", "say 58")),
)


def begun(step: int | None = None, seed: int = 0, **world: Any) -> OnScreen:
    made = OnScreen(PAGE, Screens(**world), step)
    made.reset(Key.of(seed))
    return made


def told(environment: OnScreen) -> str:
    return environment.observe(SEAT).text


def test_what_is_told_and_marked() -> None:
    played = begun()
    assert told(played) == "press 1; write 17 in 2; read 3\n1 button\n2 field\n3 label 58"
    assert [played.act({SEAT: move})[SEAT] for move in ("Click 1.", "type 2 17")] == [0.0, 0.0]
    assert told(played) == "x press 1; x write 17 in 2; read 3\n1 button\n2 field 17\n3 label 58"
    assert played.act({SEAT: "say 58"}) == {SEAT: 1.0}
    assert played.over
    assert not played.truncated


def test_a_wrong_move_changes_nothing_but_takes_time() -> None:
    played = begun(spare=1)
    before = told(played)
    for move in ("click 2", "press 1", ""):
        assert played.act({SEAT: move}) == {SEAT: 0.0}
        assert told(played) == before
    assert not played.truncated
    played.act({SEAT: "click 1"})
    assert played.truncated
    assert played.acting == ()


def test_a_wrong_click_leads_astray_and_back() -> None:
    played = begun(strays=True, spare=4)
    before = told(played)
    played.act({SEAT: "say 12"})
    assert told(played) == before
    played.act({SEAT: "click 2"})
    request, *parts = told(played).split("\n")
    assert request == before.split("\n")[0]
    (back,) = [part.split()[0] for part in parts if part.endswith(" back")]
    assert played.following == f"click {back}"
    wrong = next(number for number in "123" if number != back)
    lost = told(played)
    played.act({SEAT: f"click {wrong}"})
    assert told(played) == lost
    played.act({SEAT: f"click {back}"})
    assert told(played) == before


def test_a_slip_opens_a_wrong_page_at_a_right_move() -> None:
    slipped = 0
    for seed in range(200):
        played = begun(seed=seed, strays=True, slip=0.25, spare=1)
        played.act({SEAT: "click 1"})
        assert (played.astray is None) == (played.done == 1)
        slipped += played.astray is not None
    assert 30 < slipped < 70


def test_an_episode_may_begin_astray() -> None:
    played = begun(lost=True, spare=1)
    for _ in range(4):
        played.act({SEAT: played.following})
    assert played.done == 3


def test_an_excerpt_is_one_move_of_the_right_page() -> None:
    for step, shown in ((0, "press 1; write"), (1, "x press 1; write"), (2, "x press 1; x write")):
        played = begun(step, lost=True, slip=0.9, strays=True, spare=3)
        assert told(played).startswith(shown)
        assert played.following == PAGE.plan[step]
        assert played.act({SEAT: PAGE.plan[step]}) == {SEAT: float(step == 2)}
        assert played.over
    assert "2 field 17" in told(begun(2))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from(["train", "eval"]), st.booleans())
def test_the_plan_of_a_scenario_does_what_is_asked(number: int, split: Any, strays: bool) -> None:
    task: Any = find(f"screens?longest=5&size=5&spare=2&strays={str(strays).lower()}")
    scenario = task.scenario(split, number)
    assert split_of(scenario.prompt) == split
    world = task.workflow.world
    assert 1 <= len(scenario.metadata["plan"]) <= 5
    played, rng = world.make(scenario), np.random.default_rng(number)
    played.reset(Key.of(number))
    assert told(played) == scenario.prompt
    twin = played.clone()
    twin.act({SEAT: any_of(twin.screen, rng)})
    earned = [played.act({SEAT: move})[SEAT] for move in scenario.metadata["plan"]]
    assert earned == [0.0] * (len(earned) - 1) + [1.0]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("size=2", "size at least 3"),
        ("longest=0", "longest is at least 1"),
        ("spare=-1", "spare at least 0"),
        ("slip=1", "slip lies in"),
        ("lost=true", "set spare to 1 or more"),
    ],
)
def test_bad_settings_are_one_sentence(setting: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        find(f"screens?{setting}")


def test_moves_are_read_and_compared() -> None:
    assert parsed("Click  3") == ("click", "3", "")
    assert parsed("type 2 some words") == ("type", "2", "some words")
    assert parsed("say yes") == ("say", "", "yes")
    assert [parsed(text) for text in (None, "", "click", "click x", "type 2", "so click 3")] == [None] * 6
    assert made("click 3.", "click 3")
    assert not made(None, "click 3")
    assert argument_match(("type", "2", "a b"), ("type", "2", "a c")) == 0.75
    assert attempts(["x", "a", "b", "c"], ["a", "b"]) == [["x", "a"], ["b"]]
    assert attempts(["x"], ["a", "b"]) == [["x"], []]
    assert replace(PAGE, texts=("", "17", "58")) == PAGE.typed("type 2 17")

"""How WebPilot reads tasks and moves, and where a judge is silent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hocket.methods.search.claims.webpilot import _step
from hocket.methods.search.webpilot.bench import Mute
from hocket.methods.search.webpilot.method import Asked, Opinion, Rules, acted_on, listed, move_of, split, wanted


def test_a_task_is_split_and_quoted_words_stay_together() -> None:
    cases = {
        "Select Ab, cD and click Submit.": ("Select Ab", "cD", "click Submit"),
        "Click button ONE, then click button TWO.": ("Click button ONE", "click button TWO"),
        'Enter "salt and pepper" and press go.': ('Enter "salt and pepper"', "press go"),
        "Click it.": ("Click it.",),
    }
    assert {task: split(task) for task in cases} == cases
    assert wanted('Enter the name "Jo Ann"') == {"jo", "ann"}
    assert wanted("click Submit") == {"submit"}


def test_a_move_is_the_last_line_of_a_reply() -> None:
    page = "Do it.\n1 button One\n12 field name\nLegal moves: click 1"
    cases = {
        "click 1": ("click 1", "button One"),
        "I think.\n  Click 12. \n\n": ("click 12.", "field name"),
        "type 12 Jo Ann": ("type 12 jo ann", "field name jo ann"),
        "click 7": ("click 7", "click 7"),
        "say 1": ("say 1", "say 1"),
        "  ": ("", ""),
    }
    for text, due in cases.items():
        turn: Any = SimpleNamespace(text=text, prompt=[{"content": "x"}, {"content": page}])
        assert (move_of(turn), acted_on(turn)) == due
    assert listed(page) == {"1": "button One", "12": "field name"}
    assert listed("Nothing.") == {}


def test_where_a_judge_is_silent_the_rules_answer_each_question() -> None:
    planner = Mute("1. find ash\n\n - 2) press *go*\n", None, "  \n")
    plans = Asked(planner).plan(["all", "pick ash and pick oak", "pick fir, pick yew"])
    assert plans == [("find ash", "press *go*"), ("pick ash", "pick oak"), ("pick fir", "pick yew")]
    parts = ("one", "two", "three")
    refining = Mute("look for two\nthen three", None)
    assert Asked(refining).refined("all", parts, ["link fir (no)"], 1) == ("look for two", "then three")
    assert Asked(refining).refined("all", parts, [], 2) == ("two", "one", "three")
    assert "Still to do:\none\ntwo\nthree\n" in refining.asked[0]
    assert "\nlink fir (no)\n" in refining.asked[0]
    assert "What was tried:\nnothing\n" in refining.asked[1]
    steps = [_step("ash", ["link oak", "link ash"], True), _step("ash", ["link fir"], False, "link ash")]
    rules = Rules().opinions(steps)
    crew = Mute("It  helped.\nSo far.", None, "no", None, None, "3", "10", None)
    first, second = Asked(crew).opinions(steps)
    assert first == Opinion(1.0, 1.0, False, "It helped. So far.")
    assert second == Opinion(0.3, rules[1].future, rules[1].done, rules[1].reflection)
    assert "Acted on: link oak; link ash" in crew.asked[0]
    assert "Next would be acted on: link ash" in crew.asked[7]

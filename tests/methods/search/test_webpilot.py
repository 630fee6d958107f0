"""How WebPilot reads tasks and moves, and where a judge is silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hocket.core.columns import LIMIT
from hocket.core.errors import HocketError
from hocket.core.keys import Key
from hocket.methods.search.claims.webpilot import _step, explorer, player, solved, tried
from hocket.methods.search.webpilot.bench import Mute, ended, turn, unscored
from hocket.methods.search.webpilot.method import (
    Asked,
    Opinion,
    PageSearch,
    Rules,
    Seen,
    acted_on,
    listed,
    move_of,
    share,
    split,
    wanted,
)
from hocket.methods.search.webpilot.world import Wizards
from hocket.rewards.judging import Answer, Judge, Question
from hocket.train.aio import run_async
from hocket.train.loop import Playing
from hocket.types import PAUSED, Assignment, Scenario, Trajectory


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


class Scripted(Judge):
    """A model in the crew's places: plans as it is told, says yes to whatever was done, and grades by a rule."""

    def __init__(self) -> None:
        super().__init__("scripted")
        self.asked: list[str] = []

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        self.asked += [one.prompt for one in questions]
        return [Answer(self._said(one.prompt)) for one in questions]

    def _said(self, prompt: str) -> str:
        if prompt.startswith("A task"):
            task = prompt.split(": ", 1)[1].split("\n")[0]
            return "\n".join(f"{n}. {part}" for n, part in enumerate(split(task), 1))
        part = prompt.partition("Subtask: ")[2].split("\n")[0]
        acted = prompt.partition("Acted on: ")[2].split("\n")[0].split("; ")[-1]
        hit = share(part, acted) == 1
        if "complete?" in prompt:
            return "yes" if hit else "no"
        return ("10" if hit else "0") if "from 0 (worst)" in prompt else "It was the wrong one."


def test_with_a_judge_a_model_has_all_parts() -> None:
    class Keeping(Scripted):
        """Refines a plan to what is left of it."""

        def _said(self, prompt: str) -> str:
            _, refines, rest = prompt.partition("Still to do:\n")
            return rest.partition("\nThe first of these failed")[0] if refines else super()._said(prompt)

    judge = Keeping()
    asked = [Assignment(Scenario(f"s{number}", "", seed=number)) for number in range(8)]
    play = Playing(player(Wizards(4), explorer(0.6)), Key.of(0))
    found = run_async(PageSearch(judge=judge).errands(asked, play=play, score=unscored))
    kinds = [
        sum(word in one for one in judge.asked)
        for word in ("Split it", "What was tried", "complete?", "How well", "How likely", "came of each")
    ]
    grades = [errand.seen[node].worth for errand in found for node in errand.root.below() if node.aside is not None]
    assert min(kinds) > 0
    assert set(grades) <= {0.0, 1.0}
    assert any("It was the wrong one." in seen.aside for errand in found for seen in errand.seen.values())
    assert solved(found) > 0.8


def test_where_a_search_goes_on() -> None:
    search = PageSearch(ends=2, refinements=0, moves=60)
    errand, nodes = tried(("one", "two"), 0.2, 0.9, 0.4)
    assert search._place(errand, Rules()) is errand.here is nodes[1]
    errand, nodes = tried(("one", "two"), 0.2, 0.9, 1.0)
    nodes[2].episodes.append(ended())
    assert search._failed(errand, Rules())
    assert errand.here is nodes[1]
    assert errand.parts == ("two",)
    errand, nodes = tried(("one",), 0.2)
    assert not search._failed(errand, Rules())
    assert [search._asked(errand, errand.root).first for _ in range(2)] == [6, 7]
    errand.here, errand.parts, below = nodes[0], (), nodes[0].add(turn("click 9"))
    errand.seen[below] = Seen()
    asides = [search._aside(errand, node) for node in (errand.root, nodes[0], below)]
    assert asides == ["Tried: click 0 (so)", "Tried: click 9 ()", "Before: click 9 ()"]
    wasted = [search._grown(errand, errand.root, one) for one in (ended(failure="gone"), ended(turns=0))]
    assert wasted == [None, None]
    assert errand.seen[errand.root].spent == 2
    for earned, worth in ((2.5, 1.0), (-1.0, 0.0), (0.4, 0.4)):
        search._over(errand, below, ended(earned=earned))
        assert errand.seen[below].worth == worth


def test_ended_episodes_are_scored_alone_and_a_page_that_is_gone_is_an_error() -> None:
    search, kept = PageSearch(ends=2, refinements=0, moves=60), list[Trajectory]()

    async def score(played: Sequence[Trajectory]) -> None:
        kept.extend(played)

    async def broken(asked: Sequence[Assignment]) -> list[Trajectory]:
        return [replace(one, failure="gone") for one in await play(asked)]

    asked, play = [Assignment(Scenario("s", "", seed=1))], Playing(player(Wizards(2), explorer(0.5)), Key.of(0))
    run_async(search.errands(asked, play=play, score=score))
    assert kept
    assert all(LIMIT.get(one) != PAUSED for one in kept)
    with pytest.raises(HocketError, match=r"^a page cannot be looked at: gone$"):
        run_async(search.errands(asked, play=broken, score=score))

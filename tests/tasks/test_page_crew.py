"""The pages of `page-crew` and their lessons: what a script says of moves is what the pages did."""

from __future__ import annotations

import re

from hocket import tasks
from hocket.agents.environments.solitary import PLAYER
from hocket.core.keys import Key
from hocket.methods.search.webpilot.prompts import Step, fresh
from hocket.methods.search.webpilot.task import PageCrew, planned, refined, verdict
from hocket.methods.search.webpilot.world import Wizard, Wizards
from hocket.types import Scenario


def task() -> PageCrew:
    found = tasks.find("page-crew?pages=2&links=3")
    assert isinstance(found, PageCrew)
    return found


def wizard_of(scenario: Scenario) -> Wizard:
    """The pages of a scenario, at their beginning."""
    world = task().workflow.world
    assert isinstance(world, Wizards)
    wizard = world.make(scenario)
    wizard.reset(Key.of(0))
    return wizard


def asked(number: int) -> list[tuple[str, str]]:
    """The questions and answers of an episode's lessons."""
    found = task().lessons.play(task().scenario("train", number), Key.of(number).numpy())
    return [(str(one.prompt[0]["content"]), str(one.said[0]["content"])) for one in found]


def test_a_move_completes_a_subtask_where_the_page_counts_it_right() -> None:
    for seed in range(30):
        wizard = wizard_of(Scenario("", seed=seed))
        name, page = wizard.wanted[0], wizard.observe(PLAYER).text
        for number, thing in re.findall(r"^(\d+) (.+)$", page, re.MULTILINE):
            after = wizard.clone()
            after.act({PLAYER: f"click {number}"})
            step = Step(wizard.asked, f"Choose {name}", (thing,), page, after.observe(PLAYER).text, "button Submit")
            found, link = verdict(step), thing.split()[1]
            right = after.page == 1
            assert (found.done, found.effect == 10, found.future == 10) == (right,) * 3
            assert right == (link == name)
            assert found.reflection == f"{link}, {'right' if right else 'wrong'}"


def test_all_right_is_paid_at_the_end() -> None:
    wizard = wizard_of(task().scenario("eval", 0))
    earned = [wizard.act({PLAYER: f"click {right + 1}"})[PLAYER] for right in wizard.right]
    assert [*earned, wizard.act({PLAYER: "click 1"})[PLAYER]] == [0.0, 0.0, 1.0]


def test_a_step_tells_what_is_new() -> None:
    assert fresh("Do.\n1 box\n2 go", "Do.\n1 box (on)\n2 go") == "1 box (on)"
    assert fresh("Do.", "Do.") == "nothing"


def test_a_plan_names_each_thing_and_a_refined_one_says_the_first_otherwise() -> None:
    parts = planned(["ash", "oak"])
    assert parts == ("Choose ash", "Choose oak", "click Submit")
    assert refined(parts) == ("Look again for ash", "Choose oak", "click Submit")


def test_lessons_teach_every_word_of_the_crew() -> None:
    talks = [one for number in range(20) for one in asked(number)]
    words = ("Split it", "Still to do", "came of each act", "complete?", "How well", "How likely", "Say your move")
    assert all(any(word in question for question, _ in talks) for word in words)
    decided = {answer for question, answer in talks if "complete?" in question}
    assert decided == {"yes", "no"}
    moves = [answer for question, answer in talks if "Say your move" in question]
    assert all(re.fullmatch(r"click [1-3]", move) for move in moves)

"""Questions posed in formats that get harder, how each is graded, and samples that are kept."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from hocket.core.keys import Key
from hocket.methods.group_relative.curr_reft import FormatGrade, FormatStages, posed
from hocket.tasks import find
from hocket.types import Scenario

QUESTION = Scenario("q", "What is 3 + 4?", 7)


def formats(curriculum, count):
    scenarios = curriculum(find("sums"), 0, count, None, Key.of(0))
    return [scenario.metadata["format"] for scenario in scenarios]


def test_a_shuffled_order_draws_all_formats_by_position():
    curriculum = FormatStages(prompts=2, per_stage=3, order="shuffled")
    drawn = formats(curriculum, 60)
    assert set(drawn) == {"binary", "choice", "open"}
    assert formats(curriculum, 10) == drawn[:10]


def test_the_same_questions_are_asked_in_any_format():
    task, key = find("sums"), Key.of(3)
    staged = FormatStages(prompts=4, per_stage=1)(task, 0, 4, None, key)
    plain = FormatStages(prompts=4, stages=("open",))(task, 0, 4, None, key)
    assert [one.origin or one.id for one in staged] == [one.id for one in plain]


@pytest.mark.parametrize("number", range(20))
def test_posed_questions_have_the_answer_they_ask_for(number):
    key = Key.of(number)
    binary, choice = posed(QUESTION, "binary", key), posed(QUESTION, "choice", key)
    (shown,) = re.findall(r"Is it (-?\d+)\? Answer yes or no\.$", binary.prompt)
    assert (shown == "7") == (binary.answer == "yes")
    options = dict(re.findall(r"([A-Z])\) (-?\d+)", choice.prompt))
    assert [*options] == [*"ABCD"]
    assert options[choice.answer] == "7"
    assert len({*options.values()}) == 4
    assert {abs(int(one) - 7) for one in (shown, *options.values())} <= {0, 1, 2, 3, 10}
    grade = FormatGrade().grade
    for one in (binary, choice):
        assert grade(f"<answer>{one.answer}</answer>", one.answer, one.metadata["format"]) == 1.0
        assert one.id != QUESTION.id


@pytest.mark.parametrize(
    "scenario", [Scenario("w", "Who?", "me"), Scenario("c", None, None), Scenario("f", "?", "1.5")]
)
def test_what_cannot_be_posed_stays_open(scenario):
    for form in ("binary", "choice", "open"):
        found = posed(scenario, form, Key.of(0))
        assert (found.id, found.answer, found.metadata["format"]) == (scenario.id, scenario.answer, "open")


def test_settings_that_make_no_sense_are_refused():
    for settings in ({"prompts": 0}, {"per_stage": 0}, {"stages": ()}, {"order": "random"}):
        with pytest.raises(ValueError, match=r"prompts|order"):
            FormatStages(**settings)


def test_yes_and_no_and_all_letters_are_right_about_as_often():
    posed_so = [posed(QUESTION, form, Key.of(number)) for number in range(200) for form in ("binary", "choice")]
    counts = Counter(one.answer for one in posed_so)
    assert abs(counts["yes"] - 100) < 35
    assert min(counts[letter] for letter in "ABCD") > 25
    assert all(one.origin == QUESTION.id for one in posed_so)

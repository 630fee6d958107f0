"""Questions posed in formats that get harder."""

from __future__ import annotations

import pytest

from hocket.core.keys import Key
from hocket.methods.group_relative.curr_reft import FormatGrade, FormatStages, posed
from hocket.tasks import find
from hocket.types import Scenario

QUESTION = Scenario("q", "What is 3 + 4?", 7)


def formats(curriculum, count):
    scenarios = curriculum(find("sums"), 0, count, None, Key.of(0))
    return [scenario.metadata["format"] for scenario in scenarios]


def test_stages_follow_each_other_and_the_last_stays():
    curriculum = FormatStages(prompts=2, per_stage=3)
    assert formats(curriculum, 8) == ["binary"] * 3 + ["choice"] * 3 + ["open"] * 2


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
    assert ("Is it 7?" in binary.prompt) == (binary.answer == "yes")
    assert f"{choice.answer}) 7" in choice.prompt
    assert len({part.split()[0] for part in choice.prompt.split(") ")[1:]}) == 4, "four different options"
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

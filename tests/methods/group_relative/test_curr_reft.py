"""Questions posed in formats that get harder, how each is graded, and samples that are kept."""

from __future__ import annotations

import pytest
from rewards_cases import AlwaysRight
from rollout_cases import Stage, assignments

from hocket.core.keys import Key
from hocket.methods.group_relative.curr_reft import FormatGrade, FormatStages, chosen_share, posed
from hocket.rewards.verifiers import token_match
from hocket.rollout.selected import Selected
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


def test_formats_are_graded_each_in_its_way():
    grade = FormatGrade().grade
    assert [grade("Yes.", "yes", "binary"), grade("no", "yes", "binary")] == [1.0, 0.0]
    assert [grade(text, "AC", "choice") for text in ("A", "C, A", "AB", "none")] == [0.5, 1.0, 0.0, 0.0]
    assert [grade("4.0", 4), grade("5", 4), grade("red big box", "box red")] == [1.0, 0.0, pytest.approx(0.8)]
    assert grade("4", None) is None
    assert chosen_share("", "A") == 0.0
    assert token_match("", "a") == 0.0


class _First(AlwaysRight):
    """Thinks well of the first sample alone."""

    async def __call__(self, trajectories, *, key):
        return [float(trajectory.sample == 0) for trajectory in trajectories]


def test_rejection_sampling_keeps_what_scores_and_convinces():
    stage = Stage(lambda name, sample: None if sample == 3 else sample / 2)
    found = stage.collect(Selected(samples=4, least=0.5), assignments("a"))
    assert [t.sample for t in found.trajectories] == [1, 2]
    assert [t.sample for t in found.discarded] == [0, 3]
    assert found.metrics == {"rollout/kept": 0.5}
    assert [t.sample for t in stage.collect(Selected(4, 0.0, _First()), assignments("a")).trajectories] == [0]

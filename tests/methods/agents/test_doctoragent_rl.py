"""Consultations: casebooks, patients, what is known when, how a talk is graded, and the task."""

from __future__ import annotations

import asyncio
import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_cases import asking

from hocket.agents.workflows.library import find as workflow
from hocket.agents.workflows.simulated_user import SimulatedUser
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.agents.doctoragent_rl.casebook import Casebook, symptoms_of
from hocket.methods.agents.doctoragent_rl.method import GradedDiagnosis, QuestionInformation
from hocket.methods.agents.doctoragent_rl.reward import Compliance, Consultation, DiagnosisQuality
from hocket.methods.agents.doctoragent_rl.world import (
    BEFORE,
    ONE_QUESTION,
    UNKNOWN,
    Clinic,
    Patient,
    answered,
    bound,
    ceiling,
    draw_book,
    fewest,
    possible,
)
from hocket.tasks import find
from hocket.testing import rehearse
from hocket.types import Scenario, Trajectory

BOOK: Casebook = {
    "flu": {"symptoms": ["cough", "fever"], "advice": "rest"},
    "gout": {"symptoms": ["cramps", "fever"], "advice": "diet"},
    "malaria": {"symptoms": ["chills", "cramps", "fever"], "advice": "tablets"},
    "asthma": {"symptoms": ["cough"], "advice": "rest"},
}
BOOKS = st.builds(draw_book, st.integers(2, 8), st.integers(4, 6), st.integers(0, 999).map(Key.of))


def talk(*messages: str, condition: str = "gout", turns: int = 8, **setting: Any) -> Trajectory:
    scenario = Clinic().scenario("p", BOOK, condition, ["fever"])
    (found,) = rehearse(SimulatedUser(Clinic(), turns, **setting), scenario, list(messages))
    assert found.failure is None
    return found


def grades(trajectory: Trajectory) -> tuple[float | None, ...]:
    return tuple(part.judge(trajectory) for part in (DiagnosisQuality(), QuestionInformation(), Compliance()))


def test_a_patient_answers_what_is_asked_and_ends_with_the_diagnosis() -> None:
    found = talk("Any cough or cramps?", "Any gold?", "Why? How?", "Cramps?", answered(BOOK, "gout"))
    heard = [turn.prompt[-1]["content"] for turn in found.turns]
    assert heard[0].endswith("asthma: cough; rest\nI have fever.")
    assert heard[1:] == ["No cough. Yes, cramps.", UNKNOWN, ONE_QUESTION, BEFORE]
    case = Consultation.of(found)
    assert case is not None
    assert case.kinds == ("question", "unknown", "malformed", "repeated", "final")
    assert case.left() == ["gout", "malaria"]
    assert found.terminated
    assert grades(found) == (1.0, pytest.approx(math.log2(3 / 2)), pytest.approx(-(1 + 2 + 2 + 4 * 0.2)))


def test_thoughts_are_not_said() -> None:
    found = talk("<think>Diagnosis: flu? Rash? Cough?</think>Any cramps?", "<think>so</think> diagnosis: Gout.")
    assert [turn.prompt[-1]["content"] for turn in found.turns][1] == "Yes, cramps."
    assert grades(found)[0] == 0.5


def test_several_names_are_no_diagnosis_and_none_costs_most() -> None:
    assert grades(talk("Diagnosis: gout or flu. Recommendation: diet"))[0] == 0.5
    assert grades(talk("Diagnosis: gout. Recommendation: diet or rest"))[0] == 0.5
    late = talk("Any cough?", "Any cramps?", turns=2)
    assert late.truncated
    assert grades(late) == (0.0, pytest.approx(math.log2(3 / 2)), pytest.approx(-5.4))
    assert QuestionInformation(count="answers").judge(late) == 2.0


def test_other_scenarios_are_no_consultations() -> None:
    assert grades(Trajectory(Scenario("s", "1 + 1?"), [])) == (None, None, None)


@settings(max_examples=40)
@given(BOOKS, st.data())
def test_bits_never_exceed_the_entropy_and_are_had_when_all_is_asked(book: Casebook, data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(sorted(book)))
    complaint = [data.draw(st.sampled_from(book[condition]["symptoms"]))]
    scenario = Clinic().scenario("p", book, condition, complaint)
    every = data.draw(st.permutations(symptoms_of(book)))
    count = data.draw(st.integers(0, len(every)))
    some, all_of_them = (
        Trajectory(scenario, [], info={"said": [f"Any {one}?" for one in asked]}) for asked in (every[:count], every)
    )
    known = QuestionInformation().judge
    entropy = bound(book, complaint)
    assert -1e-12 <= float(known(some) or 0.0) <= float(known(all_of_them) or 0.0) + 1e-12
    assert known(all_of_them) == pytest.approx(entropy)
    assert ceiling(book, complaint) == pytest.approx(2**-entropy)
    assert condition in possible(book, complaint)
    assert fewest(book, complaint) >= entropy - 1e-9


@settings(max_examples=25)
@given(BOOKS, st.data())
def test_the_fewest_questions_are_those_of_the_best_order(book: Casebook, data: st.DataObject) -> None:
    """An independent search: the best tree costs one question plus the best trees of both answers."""
    complaint = [data.draw(st.sampled_from(symptoms_of(book)))]
    if not possible(book, complaint):
        return

    def best(left: frozenset[str]) -> float:
        if len(left) == 1:
            return 0.0
        found = []
        for symptom in symptoms_of(book):
            yes = frozenset(one for one in left if symptom in book[one]["symptoms"])
            if yes and yes != left:
                parts = (yes, left - yes)
                found.append(1 + sum(len(part) / len(left) * best(part) for part in parts))
        return min(found)

    assert fewest(book, complaint) == pytest.approx(best(frozenset(possible(book, complaint))))


@given(BOOKS)
def test_drawn_conditions_differ(book: Casebook) -> None:
    sets = [tuple(one["symptoms"]) for one in book.values()]
    assert len(set(sets)) == len(sets)
    assert all(sets)


@settings(max_examples=40)
@given(BOOKS, st.lists(st.text(max_size=30), max_size=4))
def test_no_message_breaks_a_patient(book: Casebook, messages: list[str]) -> None:
    condition = next(iter(book))
    patient = Patient(book, condition, book[condition]["symptoms"][:1])
    for message in messages:
        asyncio.run(patient.reply(message))
    scenario = Clinic().scenario("p", book, condition, book[condition]["symptoms"][:1])
    assert all(
        grade is not None and math.isfinite(grade)
        for grade in grades(Trajectory(scenario, [], info={"said": messages}))
    )


def test_a_model_may_play_the_patient() -> None:
    scenario = Clinic().scenario("p", BOOK, "gout", ["fever"])
    replies = {"agent": ["Any cough?", answered(BOOK, "gout")], "user": ["I am hot.", "No."]}
    (found,) = rehearse(SimulatedUser(Clinic(), played=True), scenario, replies)
    assert [turn.role for turn in found.turns] == ["user", "agent", "user", "agent"]
    told = found.turns[0].prompt[0]["content"]
    assert "You have cramps, fever, but no chills, cough." in told
    assert found.turns[1].prompt[-1]["content"].startswith("Casebook:")
    assert found.turns[1].prompt[-1]["content"].endswith("\nI am hot.")
    assert found.terminated


@pytest.mark.parametrize(
    "name", ["consultation", "consultation?conditions=8", "consultation?known=false&conditions=4&symptoms=4&turns=3"]
)
def test_the_task_draws_patients_that_a_right_answer_cures(name: str) -> None:
    task = find(name)
    seen = {split: {str(task.scenario(split, n).metadata) for n in range(12)} for split in ("train", "eval")}
    assert not seen["train"] & seen["eval"]
    for number in range(4):
        scenario = task.scenario("train", number)
        assert scenario == task.scenario("train", number)
        (found,) = rehearse(task.workflow, scenario, [str(scenario.answer)])  # type: ignore[attr-defined]
        assert task.success(found) == 1.0
        assert task.describe(found) == {"closed": 1.0, "asked": 0.0, "compliant": 1.0}
        (paid,) = task.rewards
        advice = str(scenario.answer).partition("Recommendation: ")[2]
        half = next(
            f"Diagnosis: {one}. Recommendation: {advice}"
            for one in scenario.metadata["book"]
            if one not in str(scenario.answer)
        )
        (other,) = rehearse(task.workflow, scenario, [half])  # type: ignore[attr-defined]
        assert [asyncio.run(paid([one], key=Key.of(0))) for one in (found, other)] == [[1.0], [0.0]]
    for wrong in ("conditions=1", "conditions=20", "known=false&symptoms=40", "turns=0"):
        with pytest.raises(ConfigurationError):
            find(f"consultation?{wrong}")


def test_desks_have_names() -> None:
    assert workflow("simulated-user?desk=consultation&turns=3") == SimulatedUser(Clinic(), 3)
    assert workflow("simulated-user").roles == ("agent",)
    with pytest.raises(ConfigurationError, match="consultation"):
        workflow("simulated-user?desk=consultations")


def test_amounts_and_counts_must_make_sense() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        Compliance(turn=-1.0)
    with pytest.raises(ValueError, match="count"):
        QuestionInformation(count="words")  # type: ignore[arg-type]


def test_a_judge_gives_two_grades_against_the_record() -> None:
    def say(prompt: str) -> str:
        if "probably gout" not in prompt:
            return "no number"
        return "5/5" if "condition of a patient" in prompt else "2"

    played = [talk("Diagnosis: probably gout. Eat well."), talk("Any cough?", turns=1), talk("Diagnosis: flu.")]
    played.append(Trajectory(Scenario("s", "1 + 1?"), []))
    asked = asyncio.run(asking(GradedDiagnosis(), say)(played, key=Key.of(0)))
    assert asked == [pytest.approx((1.0 + 0.4) / 2), 0.0, None, None]
    ruled = asyncio.run(GradedDiagnosis()(played, key=Key.of(0)))
    assert ruled == [DiagnosisQuality().judge(one) for one in played]


def test_the_patient_answers_only_what_was_asked() -> None:
    asked = wrong = 0
    for number in range(20):
        book = draw_book(6, 5, Key.of(number))
        for name, symptom in itertools.product(book, symptoms_of(book)):
            has = book[name]["symptoms"]
            text = str(asyncio.run(Patient(book, name, has[:1]).reply(f"Do you have {symptom}?")))
            other = [one for one in symptoms_of(book) if one in text] != [symptom]
            asked += 1
            wrong += symptom not in has[:1] and (other or text.startswith("Yes") != (symptom in has))
    assert wrong == 0

"""The task `wireless`: what its checker takes for one formula, its questions, its lessons, and what is refused."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import tagged
from hocket.methods.applications.wirelessmathlm.formulas import same
from hocket.methods.applications.wirelessmathlm.method import FormulaMatch
from hocket.methods.applications.wirelessmathlm.questions import FIELDS, KINDS, draw
from hocket.methods.applications.wirelessmathlm.task import SKILL, Wireless
from hocket.tasks.lessons import LessonTask
from hocket.types import Scenario


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("g*p/n", "p*g/n"),
        ("G * P / N", "G*P/N"),
        ("2^(r/b)-1", "exp(r/b*log(2))-1"),
        ("log2((n+p*g)/n)", "log2(1+p*g/n)"),
        ("1-1/exp(t/s)", "1-exp(-t/s)"),
        ("a/(1+a/b)", "a*b/(a+b)"),
        ("sqrt(x*x)", "x"),
        ("B", "B"),
    ],
)
def test_equal_forms_are_the_same(given: str, known: str) -> None:
    assert same(given, known)
    assert same(known, given)


@pytest.mark.parametrize(
    "given",
    [
        "p*g/n+1/9999",
        "p*g/k",
        "p*g*n",
        "pg/n",
        "p*g/",
        "p*g/n)+(0",
        "",
        "p*g/n if p else p",
        "True*p*g/n",
        "__import__('os')",
        "p.g",
        "p*g/n+9**9**9**9",
        "p*g/n+0/0",
        "(" * 150 + "p" + ")" * 150,
        "+".join(["p"] * 150),
    ],
)
def test_other_texts_are_not(given: str) -> None:
    assert not same(given, "p*g/n")


def test_what_is_put_in_a_blank_stands_for_itself() -> None:
    assert same("n+i", "i+n", "s/_")
    assert not same("n", "i+n", "s/_")
    assert not same("i)+(n", "i+n", "s/_")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_question_has_one_right_answer_and_wrong_ones(field: str, kind: str) -> None:
    for number in range(60):
        question = draw(field, (kind,), Key.of(number).numpy())
        assert same(question.answer, question.answer, question.frame)
        assert question.wrong
        assert not any(same(slip, question.answer, question.frame) for slip in question.wrong)


@pytest.mark.parametrize("name", ["wireless", "wireless?kind=blank", "wireless?field=general&kind=choice"])
def test_a_task_is_found_by_its_name(name: str) -> None:
    task = tasks.find(name)
    assert task.name == name
    assert task.scenario("eval", 3) == tasks.find(name).scenario("eval", 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wireless?field=genral", "field = genral is unknown; did you mean 'general'"),
        ("wireless?kind=choices", "kind = choices is unknown; did you mean 'choice'"),
        ("wireless?level=3", "level"),
    ],
)
def test_bad_settings_are_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tasks.find(name)


def test_half_of_the_lessons_are_right_and_a_third_of_other_fields() -> None:
    task = Wireless()
    right, other = [], []
    rng = np.random.default_rng(0)
    for number in range(300):
        scenario = task.scenario("train", number)
        (lesson,) = task.lessons.play(scenario, rng)
        other.append(lesson.prompt != scenario.messages)
        if not other[-1]:
            right.append(task.verify(str(lesson.said[0]["content"]), scenario))
    assert abs(fmean(float(mark or 0) for mark in right) - SKILL) < 0.1
    assert abs(fmean(other) - 1 / 3) < 0.08
    demonstration = LessonTask(task, "wireless").scenario("train", 0).metadata["demonstration"]
    assert tagged(demonstration[0]["content"]) is not None


def test_a_scenario_without_an_answer_has_no_verdict() -> None:
    assert FormulaMatch().verify("<answer>x</answer>", Scenario("s", "?")) is None
    assert FormulaMatch().verify("x", Scenario("s", "?", "x")) == 0.0

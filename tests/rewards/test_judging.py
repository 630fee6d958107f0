"""What judges are asked and how their answers are read."""

from __future__ import annotations

import math

import pytest
from judged_cases import Scripted, asking
from rewards_cases import answered, graded

from hocket.core.errors import ConfigurationError, HocketError
from hocket.rewards.judging import (
    Answer,
    JudgedBy,
    Question,
    choice_in,
    compared,
    counting,
    grades,
    picked,
    said,
    verdicts,
)
from hocket.rewards.verifiers import ExactMatch


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("yes", "yes"),
        ("No, although one might say yes.", "no"),
        ("The text says so, hence: YES", "yes"),
        ("**No**", "no"),
        ("nobody knows, yesterday", None),
        ("", None),
        (None, None),
        ("0.7", "yes"),
        ("0.2", "no"),
    ],
)
def test_verdicts_in_many_words(text: str | None, choice: str | None) -> None:
    assert choice_in(text, ("yes", "no")) == choice


def test_numbers_and_letters_are_read_whole() -> None:
    assert choice_in("12", ("1", "2", "12")) == "12"
    assert choice_in("Step 2 is wrong", ("0", "1", "2")) == "2"
    assert choice_in("a text", ("A", "B")) is None
    assert choice_in("I prefer B", ("A", "B", "tie")) == "B"


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("7", 0.7),
        ("7/10", 0.7),
        ("Grade: 7 out of 10.", 0.7),
        ("6.5", 0.65),
        ("11", None),
        ("-1", None),
        ("good", None),
    ],
)
def test_grades_in_many_words(text: str, grade: float | None) -> None:
    assert grades(Scripted(lambda prompt: text), ["?"]) == [grade]


def test_the_judge_is_told_the_scale_and_the_choices() -> None:
    judge = Scripted(lambda prompt: "3")
    assert grades(judge, ["How good?"], scale=4) == [0.75]
    assert "0 (worst) to 4 (best)" in judge.asked[0].prompt
    picked(judge, [("Which?", ("left", "right"))])
    assert "left, right" in judge.asked[1].prompt


def test_a_judge_that_tells_log_probs_gives_the_expected_grade() -> None:
    logp = (math.log(0.5), math.log(0.25), math.log(0.25))
    judge = Scripted(lambda prompt: Answer("0", logp=logp))
    assert grades(judge, ["?"], scale=2) == [pytest.approx(0.375)]


def better(prompt: str) -> str:
    """Prefers the text with more letters x; names a tie where they have equally many."""
    one, other = prompt.split("A:\n")[1].split("\n\nWhich")[0].split("\n\nB:\n")
    difference = one.count("x") - other.count("x")
    return "A" if difference > 0 else "B" if difference < 0 else "tie"


def test_comparisons_are_asked_in_both_orders() -> None:
    pairs = [("rule", "xx", "x"), ("rule", "x", "xx"), ("rule", "x", "x")]
    judge = Scripted(better)
    assert compared(judge, pairs) == [1.0, 0.0, 0.5]
    assert len({question.prompt for question in judge.asked}) == 3, "of the equal pair both orders are one question"
    assert compared(Scripted(lambda prompt: "A"), pairs) == [0.5] * 3, "whoever stands first is preferred: a tie"
    assert compared(Scripted(lambda prompt: "hm"), pairs) == [None] * 3


def test_the_same_question_is_asked_once() -> None:
    judge = Scripted(lambda prompt: prompt.upper())
    with counting() as count:
        assert said(judge, ["a", "b", "a"]) == ["A", "B", "A"]
        with counting() as within:
            assert said(judge, ["b"]) == ["B"]
        assert [question.prompt for question in judge.asked] == ["a", "b"]
        assert judge([Question("a", longest=3)])[0].text == "A"
    assert len(judge.asked) == 3, "another length is another question"
    assert (count.questions, count.failed, count.calls, count.problems) == (4, 0, 3, [])
    assert (within.questions, within.calls) == (1, 0)
    assert said(judge, ["a"]) == ["A"]
    assert count.metrics()["judge/questions"] == 4.0


def test_thoughts_are_no_part_of_an_answer() -> None:
    judge = Scripted(lambda prompt: "<think>3 or 5, yes, ['a']</think>\n4. No")
    assert said(judge, ["?"]) == ["4. No"]
    assert verdicts(judge, ["?"]) == [False]
    assert grades(judge, ["?"], scale=5) == [0.8]


def test_answers_are_journalled_and_replayed() -> None:
    class Kept(dict):  # type: ignore[type-arg]
        put = dict.__setitem__

    journal, moods = Kept(), iter("abc")
    first = said(Scripted(lambda prompt: next(moods), journal), ["one", "two"])
    assert said(Scripted(lambda prompt: next(moods), journal), ["two", "one", "three"]) == [*first[::-1], "c"]


def test_a_judge_that_worked_may_fail_and_one_that_never_did_stops_the_run() -> None:
    judge = Scripted(lambda prompt: HocketError("the line is dead") if prompt == "b" else "yes")
    with pytest.raises(ConfigurationError, match="scripted: the line is dead"):
        said(judge, ["b"])
    assert verdicts(judge, ["a"]) == [True]
    with counting() as count:
        assert said(judge, ["b", "c"]) == [None, None]
    assert count.failed == 2
    assert len(count.problems) == 1
    assert "the line is dead" in count.problems[0]
    assert said(judge, ["a"]) == ["yes"]


def test_an_answer_that_the_limit_cut_off_is_no_verdict_but_may_be_words() -> None:
    judge = Scripted(lambda prompt: Answer("Yes. 7", cut=True))
    with counting() as count:
        assert verdicts(judge, ["?"]) == [None]
        assert grades(judge, ["?"]) == [None]
        assert said(judge, ["?"]) == ["Yes. 7"]
        assert said(Scripted(lambda prompt: Answer("<think>Yes. 7", cut=True)), ["?"]) == [None]
    assert (count.questions, count.failed, count.unclear, count.verdicts) == (4, 0, 3, 1)
    assert "(1 cut off by the limit of tokens), as in 'Yes. 7'" in count.problems[0]


def test_answers_without_a_verdict_are_counted_and_said() -> None:
    judge = Scripted(lambda prompt: {"a": "yes", "b": "It depends.\nReally."}.get(prompt[0]))
    with counting() as count:
        assert verdicts(judge, ["a", "b", "b", "c"]) == [True, None, None, None]
    assert (count.questions, count.failed, count.unclear, count.verdicts) == (4, 1, 2, 1)
    assert count.metrics()["judge/unclear"] == 2.0
    assert count.problems == [
        "judge scripted: 2 of 4 answers name no one of the choices, as in 'It depends. Really.'; they are no opinion"
    ]
    with counting() as count:
        assert grades(judge, ["a", "b"], scale=5) == [None, None]
    assert "2 of 2 answers name no one grade from 0 to 5, as in 'yes'" in count.problems[0]


def test_that_an_answer_was_cut_off_is_journalled_too() -> None:
    class Kept(dict):  # type: ignore[type-arg]
        put = dict.__setitem__

    journal = Kept()
    assert verdicts(Scripted(lambda prompt: Answer("yes", cut=True), journal), ["?"]) == [None]
    assert verdicts(Scripted(lambda prompt: Answer("yes"), journal), ["?"]) == [None]


def test_a_reward_goes_by_its_rule_until_there_is_a_judge() -> None:
    reward = JudgedBy(ExactMatch(), "{prompt}|{answer}|{text}")
    texts = [answered("<answer>7</answer>", answer="7"), answered("seven", answer="7")]
    assert graded(reward, *texts) == [1.0, 0.0]
    by_words = asking(reward, lambda prompt: "yes" if "seven" in prompt else "no")
    assert graded(by_words, *texts) == [0.0, 1.0]
    assert graded(asking(reward, lambda prompt: None if "seven" in prompt else "no"), *texts) == [0.0, None]
    scaled = JudgedBy(ExactMatch(), "{text}", scale=5)
    assert graded(asking(scaled, lambda prompt: "4"), *texts) == [0.8, 0.8]
    assert not by_words.outside, "the judge's own journal replays it"


def test_questions_with_unknown_fields_are_refused() -> None:
    for wrong in ("{nobody}", "{", "{0}"):
        with pytest.raises(ValueError, match="prompt"):
            JudgedBy(ExactMatch(), wrong)

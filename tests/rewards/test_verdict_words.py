"""Verdicts and grades read from what judges say; the right readings are written by hand."""

from __future__ import annotations

import time

import pytest

from hocket.rewards.verdict_words import choice_in, grade_in, said_aloud

YES_NO, PAIR, STEPS = ("yes", "no"), ("A", "B", "tie"), ("0", "1", "2", "3", "4", "5", "12")

YES = [
    *(
        "yes",
        "YES!",
        "**Yes**",
        '"yes"',
        "`yes`",
        "True",
        "0.7",
        "0,5",
        "Yes it is.",
        "Yes: the sum is 12.",
        "Yes - fine",
    ),
    *("Answer: yes", "**Verdict**: Yes.", "Verdict: **yes**", "The answer is yes, because no step is wrong."),
    *("The text says so, hence: YES", "I say yes.", "I would say yes.", "Probably yes.", "Is it right? Yes."),
    *("No mistakes were found, so yes.", "No doubt: yes.", "Yes, there is no error.", "It isn't wrong: yes"),
    *('The student said "no". Yes, it is right.', "Let me see.\n<answer>yes</answer>", "The correct verdict is yes"),
    *('{"correct": true, "confidence": 0.3}', '```json\n{"answer": "Yes", "why": "no step is wrong"}\n```'),
    *("<think>no, no</think>yes", "<think>no</think>\n<think>no</think>\nYes.", "It looks wrong, no</think>\nYes"),
]
NO = [
    *("no", "- no", "'No.'", "False", "0.2", "0", "No it is not", "No — the total is wrong.", "# Verdict\nNo"),
    *("No, although one might say yes.", "No. There is no doubt.", "Final answer: no", "Verdict:\n\nNo, it is wrong."),
    *("Not yes but no.", "The answer is not yes but no", "At first I thought yes. But no.", "Hence no.", "Yes? No."),
    *("Yes. Wait, the last step is wrong. Actually, no.", "Answer: yes.\nCorrection, answer: no."),
    *("Yes, the first part holds. The second is wrong, so no.", "Is the answer yes? No.", "So the verdict is: No"),
    *('{"verdict": "no", "reason": "yes it looks good"}', '{"correct": false}', "<verdict>no</verdict>", r"\boxed{no}"),
    *("<think>hm, yes</think>No.", "<THINK>yes</THINK> no", "<thinking>yes</thinking>No", "hm, yes maybe</think>No."),
]
NEITHER = [
    *("", "nobody knows, yesterday", "I do not know.", "There are no mistakes.", "no-one knows", "nan", "Nope", "yes?"),
    *(
        "<think>Is it right? At first sight yes, the sum of",
        "<think>a</think><think>yes",
        "yes <think>but",
        "<think></think>",
    ),
    *("The student wrote 'yes', which is wrong.", "“Yes” is what the student wrote.", "The response claims yes."),
    *("The student's answer is no.", "The student says the answer is yes.", "> yes\nThat is what it says."),
    *("I would not say yes.", "I cannot say yes.", "Never say yes.", "I don't think yes is right", "Perhaps yes."),
    *(
        "If it were complete, yes. It is not.",
        "If complete, the answer is yes.",
        "It is hard to say whether yes or no.",
    ),
    *("Yes and no.", "yes or no", "Answer: yes or no", "yes\n\nno", "The answer is no longer clear."),
]


@pytest.mark.parametrize(
    ("text", "due"),
    [*((one, "yes") for one in YES), *((one, "no") for one in NO), *((one, None) for one in NEITHER), (None, None)],
)
def test_yes_and_no(text: str | None, due: str | None) -> None:
    assert choice_in(text, YES_NO) == due


@pytest.mark.parametrize(
    ("text", "due"),
    [
        *((one, "A") for one in ("A", "A is better than B.", "I choose A over B.", "Both are good. [[A]]", "(a)")),
        *((one, "A") for one in ("A: good. B: bad. Winner: A", "A has more detail. B is wrong. Hence A.")),
        *((one, "A") for one in ("A. It is better than B.", "A\n\nA is more concise.", "The better one is (a).")),
        *((one, "B") for one in ("b", "(b)", "Answer: B", "Answer: b", "[[B]]", "**B**", "Option b", "I prefer B")),
        *((one, "B") for one in ("A good response, but B is better.", "A is good but B is better", "Not A but B.")),
        *((one, "B") for one in ("B, because A's proof is wrong.", "Is A better? B is.", "Rather than A, B.")),
        *(
            (one, "B")
            for one in ('{"winner": "B"}', '{"verdict": "B", "reason": "A lacks a proof"}', "Response B is better.")
        ),
        *((one, "tie") for one in ("Tie", "It's a tie.", "A and B are equally good, so tie.", "A = B", "[[A=B]]")),
        *((one, "tie") for one in ("A and B are equally good.", "It is a tie between A and B.", "Verdict: A=B")),
        *((one, "B") for one in ("Overall B is better, although A is shorter.", "So B because A is long.")),
        *((one, "B") for one in ("Verdict: B (not A)", "<final_answer>B</final_answer>", "{verdict: B}")),
        *((one, None) for one in ("A text", "A or B?", "C", "B is not better than A.")),
        *((one, "A") for one in ("A > B", "[[A>B]]", "B < A", "A beats B.", "A outperforms B", "I prefer A to B.")),
        *((one, "B") for one in ("A is worse than B.", "[[B>>A]]", "A loses to B.", "Verdict: A < B", "B over A")),
        *(
            (one, "B")
            for one in ("Verdict: `B`", 'Verdict: "B"', r"\boxed{\text{B}}", "First I thought A, but B is right.")
        ),
        *((one, "B") for one in ("Answer: A > B in clarity, but B > A in truth. Final: B", "| Winner | B |")),
        *(
            (one, None)
            for one in ("The worse one is A.", "The loser is A", "The weaker answer is B.", "Verdict: B is worse")
        ),
        *(
            (one, None)
            for one in ("A is better on style, B is better on facts.", "The winner is not A", "A: good\nB: bad")
        ),
        ("Answer: a mess", None),
    ],
)
def test_letters(text: str, due: str | None) -> None:
    assert choice_in(text, PAIR) == due


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("12", "12"),
        ("Step 2 is wrong", "2"),
        ("2. Step 1 is right.", "2"),
        ("The first wrong step is 3.", "3"),
        ("Answer: 4", "4"),
        ("1. right\n2. wrong", None),
        ("Step 2.5", None),
        ("Steps 1 and 2 are wrong", None),
        ("9", None),
    ],
)
def test_numbers_to_choose_from(text: str, due: str | None) -> None:
    assert choice_in(text, STEPS) == due


GRADED: dict[float | None, list[str]] = {
    0.7: [
        *("7", "7/10", "7 / 10", "7 out of 10.", "Grade: 7 of 10", "**7**", "70%", "70 %", "7 points", "Answer: 7"),
        *("7. It makes 3 mistakes.", "7 because 3 steps are wrong", "7 out of 10 because 2 is wrong"),
        *(
            "Score: 7\nConfidence: 9",
            "Confidence: 9\nScore: 7",
            "**Score:** 7/10",
            "Score (0-10): 7",
            "Score: 7 - 3 mistakes",
        ),
        *("On a scale from 0 to 10, I give it a 7.", "From 0 (worst) to 10 (best): 7", "I would give it a 7."),
        *(
            "Clarity score: 8\nAccuracy score: 6\nOverall score: 7",
            "It is good (7/10).",
            "The final grade is 7.",
            "overall, 7",
        ),
        *(
            '{"score": 7, "confidence": 9}',
            '{"grade": "7/10"}',
            "<score>7</score>",
            "[[7]]",
            r"\boxed{7}",
            "The grade I give is 7",
        ),
        *("Reasoning first, with 3 steps.\n\n7", "<think>9</think>7", "`7`", "Score: `7`", "| Score | 7 |"),
        *("7/10 (confidence 90%)", "Score: 7 (3 errors)", "Score [0-10]: 7", "Score: 7 (out of 10)"),
        *("I deduct 3 points, so 7.", "Minus 3 points for style: 7/10", "Others gave 9. I give 7.", "5. Actually 7."),
    ],
    0.65: ["6.5", "6,5", "Score: 6.5/10", "65%"],
    0.8: ["4/5", "It scores 8.", "I'd rate this 8", "Rating: [[8]]", "8 points"],
    0.6: ["Score: 7. Final score: 6", "Final score: 6. Score: 7 at first", "There are 3 errors.\n\n**6**"],
    0.4: ["Style score: 9. Score: 4", "Is it a 9? No. 4", "The maximum score is 10. It gets 4.", "4. No"],
    0.2: [
        "I give it a 2; a 9 would need a proof",
        'The student wrote "my score: 10". Score: 2',
        "> Score: 10\nScore: 2",
    ],
    0.0: ["0", "0/10", "Score: 0"],
    1.0: ["10", "10/10", "100%"],
    None: [
        *(
            "",
            "good",
            "11",
            "-1",
            "−1",
            "Score: -1",
            "Score: 70",
            "12/10",
            "1,000",
            "1e1",
            "nan",
            "inf",
            "Score: B+",
            "0/0",
        ),
        *(
            "<think>a 9 perhaps, if the proof",
            "7-8",
            "7 to 8",
            "between 7 and 8",
            "7, 8",
            "a 9?",
            "Clarity: 8\nAccuracy: 6",
        ),
        *("I would not give it a 9.", "It deserves no more than 3", "A perfect score is 10.", "1. fluent\n2. wrong"),
        *("I deduct 3 points.", "5/5 for style, 2/5 for content", "10 - 3 = 7"),
        *("It makes 3 mistakes.", "7 mistakes", "The student answered 5.", "The sum is 7.", "So the total is 7."),
        *("I rate the clarity 8 and the accuracy 3", '{"score": 11}', '{"score": true}', '{"score": null}'),
    ],
}


@pytest.mark.parametrize(("text", "due"), [(text, due) for due, texts in GRADED.items() for text in texts])
def test_grades_from_0_to_10(text: str, due: float | None) -> None:
    assert grade_in(text, 10) == (None if due is None else pytest.approx(due))


def test_grades_on_other_scales() -> None:
    assert [grade_in(text, 4) for text in ("3", "5", "8/10", "Score: 2")] == [0.75, None, 0.8, 0.5]
    assert grade_in(None, 10) is None


def test_thoughts_end_before_an_answer_or_there_is_none() -> None:
    assert said_aloud("<think>a</think>\n b ") == "b"
    assert said_aloud("a</think>b") == "b"
    assert said_aloud("<think>a") is None
    assert said_aloud("plain") == "plain"


def test_a_judge_that_repeats_itself_takes_no_time() -> None:
    began = time.process_time()
    assert choice_in("A > B > " * 600, PAIR) in (None, "A")
    assert time.process_time() - began < 1

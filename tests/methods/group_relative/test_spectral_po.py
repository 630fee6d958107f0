"""Groups without a right answer are scored by steps."""

from __future__ import annotations

import pytest
from judged_cases import Scripted, asking
from rewards_cases import read

from hocket.core.signals import returns
from hocket.methods.group_relative.spectral_po import StepScores, right_share, steps_of


def test_only_groups_without_a_right_answer_are_scored_by_steps():
    rows = [
        {"scores": {"reward": 0.0}, "text": "1 + 1 = 3"},
        {"scores": {"reward": 0.0}, "text": "1 + 1 = 2"},
        {"scores": {"reward": 0.0}, "text": "1 + 1 = 2", "group": "b"},
        {"scores": {"reward": 1.0}, "text": "1 + 1 = 2", "group": "b"},
    ]
    batch = read(*rows)
    found = returns(StepScores()(batch)).tolist()
    assert found[2:] == [0.0, 1.0]
    assert 0 < found[0] < 0.5 < found[1] < 1
    assert StepScores()(read(*rows[2:])).scores is not None
    assert returns(StepScores()(read(*rows[2:]))).tolist() == [0.0, 1.0]


def test_a_judge_names_the_first_wrong_step_of_failed_groups_alone():
    texts = ["One. Two is wrong.\nThree", "One", "Right. Right.", "", "x"]
    failed = {"scores": {"reward": 0.0}}
    rows = [{**failed, "text": text, "info": {"prompt": f"Problem {n}"}} for n, text in enumerate(texts)]
    rows += [{"scores": {"reward": 1.0}, "text": "Lucky", "group": "b", "info": {"prompt": "Other"}}]
    told = {"Problem 0": "Step 2 is wrong", "Problem 1": "1", "Problem 2": "0", "Problem 4": None}
    judge = Scripted(lambda prompt: next(word for name, word in told.items() if name in prompt))
    found = returns(StepScores(slope=1.0, threshold=0.0, judge=judge)(read(*rows))).tolist()
    shares = [5 / len(texts[0]), 0.0, 1.0, 0.0, 0.0]
    assert found == [*(pytest.approx(1 / (1 + 2.718281828459045**-share)) for share in shares), 1.0]
    assert len(judge.asked) == 4, "texts without steps, and groups with a right answer, cost nothing"
    assert "2. Two is wrong." in judge.asked[0].prompt
    assert judge.asked[0].choices == ("0", "1", "2", "3")


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("7 - 3 = 4", 1.0),
        ("7 - 3 = 10", 0.0),
        ("2 * 3 = 6", 1.0),
        ("2 * 3 = 5", 0.0),
        ("2 + 3 = 5; 9 - 2 = 7; 4 * 2 = 2", 22 / 31),
    ],
)
def test_sums_differences_and_products_are_checked(text, share):
    assert right_share(text) == share


def test_steps_are_sentences_and_lines():
    assert steps_of("1.5 + 2 = 3.5. Then\n\n so") == [(0, "1.5 + 2 = 3.5."), (15, "Then"), (22, "so")]
    assert steps_of(" \n") == []


def test_a_score_named_rts_comes_before_the_judge():
    rows = [{"scores": {"reward": 0.0, "rts": share}, "text": "a"} for share in (0.2, 0.9)]
    by_score = returns(asking(StepScores(), lambda prompt: "0")(read(*rows))).tolist()
    assert by_score == returns(StepScores()(read(*rows))).tolist()

"""Groups without a right answer are scored by steps."""

from __future__ import annotations

import pytest
from judged_cases import asking
from rewards_cases import read

from hocket.core.signals import returns
from hocket.methods.group_relative.spectral_po import StepScores, right_share, steps_of


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

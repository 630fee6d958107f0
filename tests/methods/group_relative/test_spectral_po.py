"""Groups without a right answer are scored by steps."""

from __future__ import annotations

from judged_cases import asking
from rewards_cases import read

from hocket.core.signals import returns
from hocket.methods.group_relative.spectral_po import StepScores


def test_a_score_named_rts_comes_before_the_judge():
    rows = [{"scores": {"reward": 0.0, "rts": share}, "text": "a"} for share in (0.2, 0.9)]
    by_score = returns(asking(StepScores(), lambda prompt: "0")(read(*rows))).tolist()
    assert by_score == returns(StepScores()(read(*rows))).tolist()

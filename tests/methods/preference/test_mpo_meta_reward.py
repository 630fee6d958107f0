"""Names that a rubric's checklist gets wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hocket.core.errors import ConfigurationError
from hocket.lab.microscope import RecordedBatch
from hocket.methods.preference.claims.mpo_meta_reward import LISTED, Meta, answers, graded, rows
from hocket.methods.preference.mpo_meta_reward import START, EvolvingRubric


@pytest.mark.parametrize(
    ("checklist", "truth", "missing"),
    [
        ({"solidd": 1.0}, "right", "solidd"),
        ({"solid": 1.0}, "rihgt", "rihgt"),
        ({"solid": 1.0, "flashy": 1.0}, "right", "flashy"),
    ],
)
def test_a_name_that_is_no_score_is_told(checklist: dict[str, float], truth: str, missing: str) -> None:
    row = {"id": "0", "group": "a", "scores": {"solid": 0.5, "right": 1.0}, "logp": [-1.0]}
    batch = RecordedBatch({"version": 1, "trajectories": [row]}).batch
    rubric = EvolvingRubric(checklist=checklist, truth=truth)
    with pytest.raises(ConfigurationError, match=f"reads a score '{missing}' of trajectories, and there is none"):
        rubric(batch, rubric.init())


def test_the_middle_step_is_in_neither_half() -> None:
    means = [{"solid": solid, "truth": 0.0} for solid in (0.5, 0.1, 0.6)]
    middle = LISTED.revised({"solid": 1.0}, means) == {"solid": 0.5}
    uncounted = [{**row, "source": "baseline"} for row in rows(1)]
    kept = [len(graded(one, [rows(0), uncounted])["means"]) for one in (LISTED, replace(LISTED, every=0))]
    assert middle
    assert kept == [1, 0]


def test_a_silent_judge_leaves_the_rubric() -> None:
    silent, calm = (EvolvingRubric(every=1, judge=Meta(silent)) for silent in (True, False))
    one = graded(silent, [answers(0)])["rubric"]
    other = graded(calm, [[row for row in answers(0) if "pad" not in row["text"]]])["rubric"]
    plain = EvolvingRubric(every=1, prescreen=False, merge=False, judge=Meta())
    last = graded(plain, [answers(0)])["rubric"]
    assert one == other == START
    assert last == "rubric: no padding"


def test_without_a_merge_the_last_rubric_is_taken() -> None:
    judge = Meta(naming=True)
    rubric = EvolvingRubric(every=1, prescreen=False, merge=False, judge=judge)
    last = graded(rubric, [answers(0)])["rubric"]
    whole = len(judge.asked) == 18 and all("question 0" in prompt for prompt in judge.asked)
    cases = [prompt for prompt in judge.asked if "Say where the rubric" in prompt]
    told = ["Grade: 0.90 of 1" in prompt for prompt in cases] == [False, True, False, True, False, False]
    assert last == "not like well"
    assert whole
    assert told

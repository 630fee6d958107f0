"""Names that a rubric's checklist gets wrong."""

from __future__ import annotations

import pytest

from hocket.core.errors import ConfigurationError
from hocket.lab.microscope import RecordedBatch
from hocket.methods.preference.mpo_meta_reward import EvolvingRubric


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

"""Which costs the Lagrangian of Safe RLHF reads."""

from __future__ import annotations

from typing import Any

import pytest

from hocket.core.errors import ConfigurationError
from hocket.lab.microscope import RecordedBatch
from hocket.methods.preference.safe_rlhf_v import Lagrangian


@pytest.mark.parametrize("scores", [{}, {"token_scores": {"cost": [0.0]}}])
def test_a_cost_that_is_not_of_answers_is_asked_for(scores: dict[str, Any]) -> None:
    row = {"group": "g", "scores": {"reward": 1.0}, "logp": [-1.0], **scores}
    shape = Lagrangian()
    with pytest.raises(ConfigurationError):
        shape(RecordedBatch({"version": 1, "trajectories": [row, row]}).batch, shape.init())

"""Lookahead trees: settings that cannot be, and engines that tell too little."""

from __future__ import annotations

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.methods.data_and_rollout.latr import Growing, LookaheadTrees
from hocket.types import Assignment, Scenario, Trajectory, Turn


@pytest.mark.parametrize(
    "setting",
    [
        {"samples": 1},
        *({"candidates": 0}, {"height": 0}, {"least": 1.0}, {"gap": 0.0}, {"distance": 1.1}),
        *({"ages": ()}, {"ages": (0,)}, {"shares": ()}, {"shares": (1.5,)}, {"shares": (1.0, 0.5)}),
        {"shares": (1.0, 0.5, 0.0), "until": (5, 5)},
    ],
)
def test_a_tree_that_cannot_be_is_refused(setting):
    with pytest.raises(ValueError, match=r"\w"):
        LookaheadTrees(**setting)


def test_an_engine_that_tells_no_alternatives_is_refused():
    asked = Scenario("0", "0", "")
    tree = Growing(LookaheadTrees(), Assignment(asked), None)
    turn = Turn("policy", "policy", np.zeros(1, np.int64), np.ones(1, np.int64), np.zeros(1, np.float32))
    with pytest.raises(ConfigurationError, match="does not tell"):
        tree.read(tree.live[0], Trajectory(asked, [turn]))

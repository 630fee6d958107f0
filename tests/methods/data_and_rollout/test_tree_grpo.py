"""Trees of steps."""

from __future__ import annotations

import pytest

from hocket.methods.data_and_rollout.tree_grpo import StepTrees


@pytest.mark.parametrize("setting", [{"keep": 4}, {"keep": 0}, {"trees": 0}, {"expand": 0}])
def test_more_ends_than_a_tree_has_or_none_are_refused(setting):
    with pytest.raises(ValueError, match=r"\w"):
        StepTrees(**setting)

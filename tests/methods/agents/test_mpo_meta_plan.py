"""Plans carried out several times: which of them are compared."""

from __future__ import annotations

import pytest

from hocket.core.components import from_plain, to_plain
from hocket.methods.agents.mpo_meta_plan import PlanPairs, PlanRuns
from hocket.recipes import find


def test_they_are_values_and_refuse_nonsense():
    recipe = find("mpo-meta-plan")
    assert from_plain(to_plain(recipe)) == recipe
    with pytest.raises(ValueError, match="plans must be at least 2"):
        PlanRuns(plans=1)
    with pytest.raises(ValueError, match="margin"):
        PlanPairs(margin=-1.0)

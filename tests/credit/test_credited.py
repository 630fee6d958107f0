"""What has no credit leaves sums, means and denominators."""

from __future__ import annotations

import pytest

from hocket.credit.nonzero_credit import CreditedOnly
from hocket.lab.microscope import inspect
from hocket.methods.base.grpo import GRPO
from hocket.objectives.log_ratio import LogRatioPenalty


def answer(group, reward, logp):
    return {
        "group": group,
        "scores": {"reward": reward},
        "logp": [logp] * 2,
        "logp_behaviour": [-1.0] * 2,
    }


def test_constant_groups_are_neither_averaged_over_nor_regularised():
    rows = [answer("a", 1.0, -0.9), answer("a", 0.0, -1.2), answer("b", 1.0, -0.8), answer("b", 1.0, -1.1)]
    recipe = GRPO.but({"regularisers": (LogRatioPenalty(level="decision"),), "correction": CreditedOnly()})
    found = inspect(recipe, {"version": 1, "trajectories": rows})
    alone = inspect(recipe, {"version": 1, "trajectories": rows[:2]})
    assert found["kept"] == [True, True, False, False]
    assert found["loss"] == pytest.approx(alone["loss"], abs=1e-12)
    assert found["gradient"] == [*alone["gradient"], [0.0, 0.0], [0.0, 0.0]]
    whole = inspect(
        GRPO.but({"regularisers": (LogRatioPenalty(level="decision"),)}), {"version": 1, "trajectories": rows}
    )
    assert all(slope != 0 for row in whole["gradient"] for slope in row)


def test_a_batch_without_any_credit_is_no_loss():
    rows = [answer("b", 1.0, -0.8), answer("b", 1.0, -1.1)]
    found = inspect(GRPO.but({"correction": CreditedOnly()}), {"version": 1, "trajectories": rows})
    assert found["loss"] == 0.0
    assert not any(found["kept"])

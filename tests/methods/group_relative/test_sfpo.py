"""Slow and fast steps, and the alarm that ends them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from core_cases import uneven_bench
from hypothesis import given
from hypothesis import strategies as st

from hocket.methods.group_relative.sfpo import SlowFastStep, entropy_alarm


def test_an_alarmed_run_makes_the_steps_of_grpo():
    alarmed, plain = uneven_bench("sfpo"), uneven_bench("grpo")
    alarmed.learner.memory["update"] = {"entropies": [], "alarmed": True}
    alarmed.run(3)
    plain.run(3)
    assert torch.equal(alarmed.policy.logits.detach(), plain.policy.logits.detach())


@given(st.lists(st.floats(0.1, 3.0), min_size=1, max_size=12), st.integers(1, 12))
def test_the_alarm_is_a_z_score(entropies, window):
    found = entropy_alarm(entropies, window, 1.0)
    if len(entropies) < window:
        assert not found
        return
    last = np.array(entropies[-window:])
    score = (last[-1] - last.mean()) / (last.std() + 1e-9)
    assert found == (score >= 1.0) or abs(score - 1.0) < 1e-9


@pytest.mark.parametrize("changes", [{"fast": 0}, {"alpha": 1.1}, {"window": -1}, {"moments": "lost"}])
def test_slow_fast_settings_are_checked(changes):
    with pytest.raises(ValueError, match="must"):
        SlowFastStep(**changes)

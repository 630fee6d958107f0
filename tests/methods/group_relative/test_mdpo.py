"""The step size of mirror descent over a run."""

from __future__ import annotations

import pytest
import torch

from hocket.methods.group_relative.mdpo import ForwardKLDrift


def test_the_mirror_step_size_falls_over_the_run():
    x, a = torch.tensor([0.3]).double(), torch.ones(1).double()
    drift = ForwardKLDrift(first=2.0, last=0.5)
    early, middle, late = (float(drift(x, a, progress)) for progress in (0.0, 0.5, 1.0))
    assert [early * 2.0, middle * 1.25, late * 0.5] == pytest.approx([float(ForwardKLDrift(1.0, 1.0)(x, a, 0.0))] * 3)

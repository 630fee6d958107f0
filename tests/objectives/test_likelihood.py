"""Maximum likelihood beside preferences: the rejected answer is not imitated."""

from __future__ import annotations

import torch

from hocket.lab.bandit import flat
from hocket.lab.microscope import inspect
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.objectives.likelihood import NegativeLogLikelihood

ROWS = [
    {"group": "g", "scores": {"reward": float(right)}, "logp": [-1.0, -0.5], "logp_ref": [-1.0, -0.5]}
    for right in (1, 0)
]


def test_the_preferred_answer_alone_is_imitated():
    document = {"version": 1, "trajectories": ROWS}
    plain = flat(inspect(ONLINE_DPO, document))
    both = flat(inspect(ONLINE_DPO.but({"regularisers": (NegativeLogLikelihood(),)}), document))
    torch.testing.assert_close(both - plain, torch.tensor([-0.5, -0.5, 0.0, 0.0], dtype=torch.float64))

"""Guards on patrol."""

from __future__ import annotations

import numpy as np

from hocket.core.keys import Key
from hocket.lab.exact.mdp import softmax
from hocket.methods.marl.primal_dual_general_utility_marl.networks import (
    patrol,
)


def test_no_answer_is_above_the_optimum():
    world, draw = patrol(2), Key.of(0).derive("policies").numpy()
    highest = max(world.value(softmax(2 * draw.normal(size=(2, 3, 2)))) for _ in range(300))
    alone, near = patrol(1), -np.inf
    cells = np.linspace(0, 1, 41)
    for walks in np.stack(np.meshgrid(cells, cells, cells), -1).reshape(-1, 3):
        near = max(near, alone.value(np.stack([1 - walks, walks], -1)[None]))
    assert highest <= world.optimum
    assert near <= alone.optimum < near + 0.03

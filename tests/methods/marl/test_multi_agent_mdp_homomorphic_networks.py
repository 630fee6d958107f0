"""What neighbours see of each other, and first weights."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.methods.marl.claims.multi_agent_mdp_homomorphic_networks import WORLD, _course, _seat
from hocket.policies.control_sets import Turning, in_fours, turned_moves


def test_only_neighbours_are_seen():
    course = _course(WORLD, 200, 2)
    slots, far, near = cast(Any, _seat().slots), 0, 0
    before = [one.copy() for one in course.seen()]
    apart = np.linalg.norm(course.place[:, :, None] - course.place[:, None], axis=-1)
    course.speed[:, 2] += 1.0
    for number in (0, 1):
        changed = np.abs(course.seen()[number] - before[number]).max(1) > 0
        reached = apart[:, number, 2] <= WORLD.reach
        assert np.array_equal(changed, reached)
        near, far = near + int(reached.sum()), far + int((~reached).sum())
    for slot, row in enumerate(before[0][:, slots.own :].reshape(200, 2, -1)):
        for place, other in enumerate((1, 2)):
            gap_there = course.place[slot, other] - course.place[slot, 0]
            told = [1.0, *gap_there, *before[other][slot, : slots.own]]
            wanted = np.array(told if apart[slot, 0, other] <= WORLD.reach else np.zeros(len(told)), np.float32)
            np.testing.assert_allclose(row[place], wanted, rtol=0, atol=1e-6)
    assert min(near, far) > 20


def test_layers_begin_equivariant_and_orthogonal():
    errors = {}
    moves = turned_moves(cast(Any, _seat().plane).moves)
    for name, into, onto in (("square", in_fours(16), in_fours(16)), ("last", in_fours(16), moves)):
        layer = Turning(into, onto, gain=0.7, key=Key.of(2))
        weight, bias = (one.detach() for one in layer.even())
        gram = weight @ weight.T if len(weight) <= weight.shape[1] else weight.T @ weight
        errors[name] = float((gram - 0.49 * torch.eye(len(gram))).abs().max())
        errors[f"{name}, projected"] = float((weight - layer.weight.detach()).abs().max()) + float(bias.abs().max())
    assert max(errors.values()) < 1e-5

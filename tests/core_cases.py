"""A bench of a recipe on a small world, from a table that is not uniform."""

from __future__ import annotations

import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.world import World
from hocket.recipes import find


def sums_world():
    return World(questions=2, tokens=3, horizon=2, reward=lambda question, answer: float(sum(answer) % 3 == question))


def uneven_bench(recipe="trpo", **changes):
    base = find(recipe).but({"rollout.samples": 8, **changes})
    return Bench(sums_world(), base, seed=0, start=lambda policy: policy.logits.copy_(uneven(policy.logits)))


def uneven(like):
    return torch.from_numpy(Key.of(6).numpy().normal(size=tuple(like.shape)))

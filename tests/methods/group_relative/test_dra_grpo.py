"""Rewards discounted by redundancy: cosines, recorded embeddings, groups of one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.toys.recorded_answers import said, shaped
from hocket.methods.group_relative.dra_grpo import DRA_GRPO, RedundancyDiscount, redundancy


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_redundancy_is_the_sum_of_cosines(size, seed):
    vectors = torch.from_numpy(Key.of(seed).numpy().normal(size=(size, 3)))
    vectors = vectors / vectors.norm(dim=-1, keepdim=True)
    for row in range(size):
        cosines = [float(sum(vectors[row] * vectors[j])) for j in range(size)]
        assert float(redundancy(vectors, nonnegative=False)[row]) == pytest.approx(sum(cosines))
        assert float(redundancy(vectors)[row]) == pytest.approx(sum(max(0.0, c) for c in cosines))


def test_recorded_embeddings_come_before_texts_and_are_checked():
    same = [said("q", text, 1.0, embedding=[2.0, 0.0]) for text in ("oak", "quartz")]
    assert shaped(DRA_GRPO, same) == pytest.approx([0.5, 0.5], abs=1e-6)
    one_missing = [same[0], said("q", "quartz", 1.0)]
    assert min(shaped(DRA_GRPO, one_missing)) > 0.8
    for wrong in ([1.0], [0.0, 0.0]):
        with pytest.raises(ConfigurationError, match="RedundancyDiscount"):
            shaped(DRA_GRPO, [same[0], said("q", "b", embedding=wrong)])


def test_a_group_of_one_keeps_its_reward_but_for_epsilon():
    assert shaped(DRA_GRPO, [said("q", "", 3.0)]) == pytest.approx([3 / (1 + 1e-6)])


def test_the_released_sum_is_the_plain_one():
    axes = [[1.0, 0.0], [0.6, 0.8], [-0.6, 0.8]]
    rows = [said("q", str(n), 1.0, embedding=axis) for n, axis in enumerate(axes)]
    found = shaped(DRA_GRPO.but({"shaping.0": RedundancyDiscount(nonnegative=False, epsilon=0.0)}), rows)
    sums = [sum(a * c + b * d for c, d in axes) for a, b in axes]
    assert found == pytest.approx([1 / total for total in sums])

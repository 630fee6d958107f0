"""The grid to cover, and worlds that cannot be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.methods.control.subpo import Coverage, cover


def utility(world: Coverage, visited: set[int]) -> float:
    """F of visited states, as a set of items."""
    items = {item for state in visited for item in np.flatnonzero(world.covers[state]).tolist()}
    return float(sum(world.weights[item] for item in sorted(items)))


def test_each_cell_of_the_grid_pays_when_it_is_first_entered():
    world = cover(2, 3)
    paid = [utility(world, {cell}) for cell in range(6)]
    whole = utility(world, set(range(6)))
    shape = (world.horizon, world.moves.states, world.name) == (6, 6, "cover:2x3")
    assert shape
    assert paid == [1, 1, 1, 1, 1, 2]
    assert whole == 7


@pytest.mark.parametrize(
    "change",
    [
        {"moves": replace(cover(2, 2).moves, horizon=None, discount=0.9)},
        {"covers": np.ones((4, 15), bool), "weights": np.ones(15)},
        {"weights": np.array([1.0, -0.1, 1, 1])},
    ],
)
def test_a_world_without_a_horizon_of_more_than_14_items_or_a_weight_below_0_is_refused(change):
    world = cover(2, 2)
    assert replace(world, covers=np.ones((4, 14), bool), weights=np.ones(14)).worth[-1] == 14
    with pytest.raises(ConfigurationError):
        replace(world, **change)

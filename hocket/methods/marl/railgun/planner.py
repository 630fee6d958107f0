"""Priority inheritance with backtracking: a rule that moves all agents of a grid by one step (Okumura et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

NOISE = 6.0
"""Steps by which the order of agents varies."""


def planned(place: Ints, ways: Sequence[Ints], draw: np.random.Generator) -> Ints:
    """The cells after one step, `[n, 2]`: no cell is shared, and no two swap.

    Agents choose in the order of their steps to go, to each of which up to `NOISE` are added at random, and those on
    their goals last; without the noise two may stand in each other's way for good. An agent takes the cell nearest to
    its goal, of equal ones an empty one, else any; who stands there must choose next, and where it cannot leave, the
    next best cell is taken.

    Args:
        place: the cells, `[n, 2]`. ways: of every agent the steps from each cell to its goal `[H, W]`, -1 where there
            is no way. draw: of what is random.
    """
    cells = [(int(row), int(column)) for row, column in place]
    owner = {cell: agent for agent, cell in enumerate(cells)}
    chosen: dict[int, tuple[int, int]] = {}
    taken: set[tuple[int, int]] = set()
    height, width = ways[0].shape

    def options(agent: int) -> list[tuple[int, int]]:
        row, column = cells[agent]
        beside = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1), (row, column)]
        inside = [cell for cell in beside if 0 <= cell[0] < height and 0 <= cell[1] < width and ways[agent][cell] >= 0]
        return sorted(inside, key=lambda cell: (int(ways[agent][cell]), cell in owner, draw.random()))

    def moves(agent: int, pusher: int | None) -> bool:
        for cell in options(agent):
            if cell in taken or (pusher is not None and cell == cells[pusher]):
                continue
            chosen[agent] = cell
            taken.add(cell)
            other = owner.get(cell, agent)
            if other == agent or other in chosen or moves(other, agent):
                return True
        chosen[agent] = cells[agent]
        taken.add(cells[agent])
        return False

    left = np.array([way[cell] for way, cell in zip(ways, cells, strict=True)])
    urgent = np.where(left > 0, left + NOISE * draw.random(len(left)), 0.0)
    for agent in np.argsort(-urgent, kind="stable").tolist():
        if agent not in chosen:
            moves(agent, None)
    return np.array([chosen[agent] for agent in range(len(cells))], np.int64)

"""The small game of units and orders."""

from __future__ import annotations

import numpy as np

from hocket.core.keys import Key
from hocket.methods.marl.sc2le.world import ARMY, MOVE, POINT, RECT, MiniGame


def test_the_grid_goes_by_its_rules():
    game, wrong, fetched = MiniGame(units=2, goals=3, size=4, length=30, pace=2), 0, 0
    wide, alone = game.open(6), game.open(1)
    wide.reset(range(6), range(10, 16))
    alone.reset([0], [13])
    rng, every = Key.of(6).numpy(), np.ones(6, bool)
    army = np.array([[ARMY, 0, 0]] * 6)
    wide.step([army], every)
    alone.step([army[:1]], every[:1])
    for _step in range(29):
        order = np.stack([rng.integers(0, 5, 6), rng.integers(0, 16, 6), rng.integers(0, 16, 6)], 1)
        order[:, 0] = np.where(rng.random(6) < 0.5, MOVE, order[:, 0])
        order[:, 0] = np.where(wide.allowed()[0][np.arange(6), order[:, 0]], order[:, 0], ARMY)
        units = list(zip(wide.place[3].tolist(), wide.sent[3].tolist(), wide.selected[3].tolist(), strict=True))
        goals, asked = set(np.flatnonzero(wide.goal[3]).tolist()), order[3].tolist()
        paid = wide.step([order], every).rewards[3, 0]
        same = alone.step([order[3:4]], every[:1]).rewards[0, 0]
        expected, here, left = _played(units, goals, asked, game)
        fetched += expected
        after = list(zip(wide.place[3].tolist(), wide.sent[3].tolist(), wide.selected[3].tolist(), strict=True))
        wrong += same != paid or after != here
        # Fresh goals may be fetched by what is left of the same order.
        wrong += (paid != expected or left != set(np.flatnonzero(wide.goal[3]).tolist())) if left else paid < expected
        wrong += not np.array_equal(wide.seen()[0][3], alone.seen()[0][0])
    assert wrong == 0
    assert fetched >= 3


Unit = tuple[int, int, bool]


def _played(units: list[Unit], goals: set[int], order: list[int], game: MiniGame) -> tuple[int, list[Unit], set[int]]:
    """What an order pays, how units are after it, and which of the goals are left, one unit after the other."""
    function, first, second = order
    size, found, paid = game.size, [], 0
    for place, sent, selected in units:
        row, column = divmod(place, size)
        corners = divmod(first, size), divmod(second, size)
        low, high = (tuple(pick(corner[axis] for corner in corners) for axis in (0, 1)) for pick in (min, max))
        if function == POINT:
            selected = place == first
        elif function == RECT:
            selected = low[0] <= row <= high[0] and low[1] <= column <= high[1]
        elif function == ARMY:
            selected = True
        elif function == MOVE and selected:
            sent = first
        found.append((place, sent, selected))
    for _step in range(game.pace):
        for number, (place, sent, selected) in enumerate(found):
            (row, column), (to_row, to_column) = divmod(place, size), divmod(sent, size)
            row += (to_row > row) - (to_row < row)
            column += (to_column > column) - (to_column < column)
            found[number] = (row * size + column, sent, selected)
        for place, _, _ in found:
            if place in goals:
                goals.remove(place)
                paid += 1
    return paid, found, goals

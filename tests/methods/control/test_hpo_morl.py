"""The sea of treasures."""

from __future__ import annotations

from collections import deque

import numpy as np

from hocket.core.keys import Key
from hocket.lab.exact.fronts import DEPTHS, TREASURES, treasure


def test_the_front_of_the_treasures_is_that_of_the_shortest_dives():
    world = treasure(10)
    ways: dict[float, int] = {}
    rows, ended = DEPTHS[-1] + 1, world.process.states - 1
    queue: deque[tuple[int, int]] = deque([(0, 0)])
    seen = {0}
    while queue:
        state, moves = queue.popleft()
        for action in range(4):
            to = int(world.process.transition[state, action].argmax())
            if to == ended:
                ways.setdefault(world.rewards[state, action, 0], moves + 1)
            elif to not in seen:
                seen.add(to)
                queue.append((to, moves + 1))
    found = sorted(((worth, -moves) for worth, moves in ways.items()))
    same = found == [tuple(point) for point in world.front.tolist()] and [one for one, _ in found] == list(TREASURES)
    draw, small = Key.of(1).numpy(), treasure(4)
    random = np.eye(4)[draw.integers(0, 4, (50, 8, small.process.states))]
    ways_out = np.zeros((1, 4, small.process.states, 4))
    for column in range(4):
        ways_out[0, column, :, 1] = 1
        ways_out[0, column, :column] = np.eye(4)[3]
    best = small.value(ways_out)
    above = max(small.value(one[None]) for one in random)
    assert same
    assert rows == 11
    assert abs(best - small.optimum) < 1e-12
    assert above <= small.optimum

"""Mazes in words: which ways are open here, where the goal lies. Values of any policy are exact sums.

Cells are numbered row by row from the north-west corner; directions are north, east, south, west in this order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.protocol import Observation
from hocket.agents.environments.solitary import PLAYER, Solitary
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.types import Scenario

DIRECTIONS = ("north", "east", "south", "west")
_STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))
NEAREST, FARTHEST = 3, 30
"""Bounds of the shortest way from start to goal, in moves; in a maze too small for the first, its longest way."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """A maze.

    Attributes:
        width, height: in cells.
        ways: where each cell's four directions lead, the cell itself where a wall is.
        start, goal: cells.
    """

    width: int
    height: int
    ways: tuple[tuple[int, int, int, int], ...]
    start: int
    goal: int

    @property
    def cells(self) -> int:
        return self.width * self.height

    def open(self, cell: int) -> tuple[int, ...]:
        """The directions that are no wall."""
        return tuple(number for number, to in enumerate(self.ways[cell]) if to != cell)

    @cached_property
    def distances(self) -> tuple[int, ...]:
        """Moves from each cell to the goal by a shortest way."""
        return tuple(_distances(self.ways, self.goal))

    @property
    def shortest(self) -> int:
        """Moves from start to goal by a shortest way."""
        return self.distances[self.start]

    @property
    def text(self) -> str:
        """The map in characters: `#` walls, `S` start, `G` goal."""
        rows = [["#"] * (2 * self.width + 1) for _ in range(2 * self.height + 1)]
        for cell in range(self.cells):
            row, column = divmod(cell, self.width)
            rows[2 * row + 1][2 * column + 1] = "S" if cell == self.start else "G" if cell == self.goal else " "
            for number in self.open(cell):
                down, right = _STEPS[number]
                rows[2 * row + 1 + down][2 * column + 1 + right] = " "
        return "\n".join("".join(row) for row in rows)


def draw_layout(width: int, height: int, loops: int, key: Key) -> Layout:
    """A maze without rooms: a tree by a random depth-first walk, then `loops` further walls taken away."""
    rng = key.derive("maze").numpy()
    ways = _tree(width, height, rng)
    walls = [
        (cell, number)
        for cell in range(width * height)
        for number in (1, 2)
        if (to := _neighbour(cell, number, width, height)) is not None and ways[cell][number] != to
    ]
    for place in rng.permutation(len(walls))[:loops].tolist():
        cell, number = walls[place]
        _join(ways, cell, number, width, height)
    fixed = tuple((row[0], row[1], row[2], row[3]) for row in ways)
    far = np.array([_distances(fixed, goal) for goal in range(width * height)])
    wanted = (far >= min(NEAREST, far.max())) & (far <= FARTHEST)
    pairs = np.argwhere(wanted)
    goal, start = pairs[int(rng.integers(len(pairs)))].tolist()
    return Layout(width, height, fixed, start, goal)


def _tree(width: int, height: int, rng: np.random.Generator) -> list[list[int]]:
    ways = [[cell] * 4 for cell in range(width * height)]
    path = [int(rng.integers(width * height))]
    visited = {path[0]}
    while path:
        options = [
            number
            for number in range(4)
            if (to := _neighbour(path[-1], number, width, height)) is not None and to not in visited
        ]
        if not options:
            path.pop()
            continue
        to = _join(ways, path[-1], options[int(rng.integers(len(options)))], width, height)
        visited.add(to)
        path.append(to)
    return ways


def _neighbour(cell: int, number: int, width: int, height: int) -> int | None:
    row, column = divmod(cell, width)
    row, column = row + _STEPS[number][0], column + _STEPS[number][1]
    return row * width + column if 0 <= row < height and 0 <= column < width else None


def _join(ways: list[list[int]], cell: int, number: int, width: int, height: int) -> int:
    """Takes away the wall of a cell in a direction; returns the cell behind it."""
    to = _neighbour(cell, number, width, height)
    assert to is not None
    ways[cell][number], ways[to][(number + 2) % 4] = to, cell
    return to


def _distances(ways: Sequence[Sequence[int]], goal: int) -> list[int]:
    far, queue = {goal: 0}, deque([goal])
    while queue:
        cell = queue.popleft()
        for to in ways[cell]:
            if to not in far:
                far[to] = far[cell] + 1
                queue.append(to)
    return [far[cell] for cell in range(len(ways))]


# ---------------------------------------------------------------- the environment


@dataclass(frozen=True)
class Mazes:
    """Mazes as a world.

    Attributes:
        width, height: in cells. loops: walls that are taken away from a maze without loops.
        steps: moves of an episode. slip: how often a move through an opening goes through a random one instead.
        compass: whether observations have the direction of the goal. places: whether they say where the agent stands;
            without, different places may look alike.
        brief: observations in letters, for small models: in `1,2 nw: nes` one stands at 1,2, the goal is north-west,
            and north, east and south are open. Moves are letters too, and an illegal one goes without comment.

    Raises:
        ConfigurationError: for settings out of range.
    """

    width: int = 4
    height: int = 4
    loops: int = 2
    steps: int = 30
    slip: float = 0.0
    compass: bool = True
    places: bool = True
    brief: bool = False

    agents = (PLAYER,)

    def __post_init__(self) -> None:
        if min(self.width, self.height) < 2 or max(self.width, self.height) > 20:
            raise ConfigurationError(f"a maze has 2 to 20 cells a side, not {self.width} and {self.height}")
        if self.loops < 0 or self.steps < 1 or not 0 <= self.slip < 1:
            raise ConfigurationError(
                f"loops = {self.loops} must be at least 0, steps = {self.steps} at least 1 and slip = {self.slip} in "
                "[0, 1)"
            )

    @property
    def name(self) -> str:
        return f"maze?width={self.width}&height={self.height}"

    @property
    def limit(self) -> int:
        """Moves of an episode."""
        return self.steps

    def layout(self, key: Key) -> Layout:
        """The maze of a key."""
        return draw_layout(self.width, self.height, self.loops, key)

    def make(self, scenario: Scenario) -> Maze:
        return Maze(self, self.layout(Key.of(int(scenario.metadata["maze"]))))


class Maze(Solitary):
    """One way through a maze: 1 on reaching the goal.

    Attributes:
        layout: the maze. cell: where the agent stands.
    """

    def __init__(self, world: Mazes, layout: Layout) -> None:
        super().__init__(world.steps)
        self.world, self.layout = world, layout
        self.cell = layout.start

    def _begin(self) -> None:
        self.cell = self.layout.start

    @property
    def done(self) -> bool:
        return self.cell == self.layout.goal

    def _moves(self) -> tuple[str, ...]:
        words = tuple(DIRECTIONS[number] for number in self.layout.open(self.cell))
        return tuple(word[0] for word in words) if self.world.brief else words

    def observe(self, agent: str) -> Observation:
        return self._in_letters() if self.world.brief else super().observe(agent)

    def _in_letters(self) -> Observation:
        row, column = divmod(self.cell, self.layout.width)
        words = [f"{column},{row}"] if self.world.places else []
        if self.world.compass:
            words.append("".join(word[0] for word in self._bearing().split("-") if word) or "here")
        return Observation(f"{' '.join(words)}: {''.join(self._moves())}".lstrip(": "), state=str(self.cell))

    def _seen(self) -> Observation:
        open_ways = self.layout.open(self.cell)
        ways = [f"{name} {'open' if number in open_ways else 'wall'}" for number, name in enumerate(DIRECTIONS)]
        lines = [f"You see: {', '.join(ways)}."]
        if self.world.places:
            row, column = divmod(self.cell, self.layout.width)
            lines.insert(0, f"You are at {column},{row}.")
        if self.world.compass:
            lines.append("You are at the goal." if self.done else f"The goal lies {self._bearing()}.")
        return Observation(" ".join(lines), state=str(self.cell))

    def _bearing(self) -> str:
        (row, column), (to_row, to_column) = (divmod(c, self.layout.width) for c in (self.cell, self.layout.goal))
        down = "north" if to_row < row else "south" if to_row > row else ""
        right = "west" if to_column < column else "east" if to_column > column else ""
        return "-".join(part for part in (down, right) if part)

    def _make(self, move: str) -> float:
        way = self.layout.ways[self.cell]["nesw".index(move[0])]
        if self.world.slip:
            rng = self._key.derive("slip", self.steps).numpy()
            if rng.random() < self.world.slip:
                options = self.layout.open(self.cell)
                way = self.layout.ways[self.cell][options[int(rng.integers(len(options)))]]
        self.cell = way
        return float(self.done)


# ---------------------------------------------------------------- exact values


class Values(NamedTuple):
    """What a policy is worth.

    Attributes:
        state: value of each cell with k moves left, `[K + 1, C]`; 0 at the goal, where the episode is over.
        action: value of each direction there and then, `[K + 1, C, 4]`; a wall costs the move. All 0 for k = 0.
    """

    state: Floats
    action: Floats


Policy = Floats | Callable[[int], Floats]
"""Probabilities of the directions in each cell, `[C, 4]`, or a function of the moves left that gives them."""


def transitions(layout: Layout, slip: float = 0.0) -> Floats:
    """Where each direction leads from each cell, `[C, 4, C]`; the goal is left no more."""
    chance = np.zeros((layout.cells, 4, layout.cells))
    for cell, ways in enumerate(layout.ways):
        options = layout.open(cell)
        for number, to in enumerate(ways):
            if to == cell or cell == layout.goal:
                chance[cell, number, cell] = 1.0
                continue
            chance[cell, number, to] += 1.0 - slip
            for option in options:
                chance[cell, number, ways[option]] += slip / len(options)
    return chance


def values(layout: Layout, policy: Policy, steps: int, slip: float = 0.0, discount: float = 1.0) -> Values:
    """The expected discounted reward under a policy with up to `steps` moves left, by dynamic programming."""

    def under(left: int, action: Floats) -> Floats:
        chances: Floats = policy(left) if callable(policy) else policy
        return np.asarray((chances * action).sum(-1))

    return _backward(layout, under, steps, slip, discount)


def optimal(layout: Layout, steps: int, slip: float = 0.0, discount: float = 1.0) -> Values:
    """The same under the best policy, which knows how many moves are left."""
    return _backward(layout, lambda _, action: action.max(-1), steps, slip, discount)


def _backward(
    layout: Layout, value: Callable[[int, Floats], Floats], steps: int, slip: float, discount: float
) -> Values:
    chance = transitions(layout, slip)
    elsewhere = np.arange(layout.cells) != layout.goal
    arriving = chance[..., layout.goal] * elsewhere[:, None]
    state, action = np.zeros((steps + 1, layout.cells)), np.zeros((steps + 1, layout.cells, 4))
    for left in range(1, steps + 1):
        action[left] = (arriving + discount * chance @ state[left - 1]) * elsewhere[:, None]
        state[left] = value(left, action[left]) * elsewhere
    return Values(state, action)


def uniform(layout: Layout) -> Floats:
    """The policy that takes every opening evenly, `[C, 4]`."""
    chances: list[Any] = []
    for cell in range(layout.cells):
        options = layout.open(cell)
        chances.append([float(number in options) / len(options) for number in range(4)])
    return np.array(chances)

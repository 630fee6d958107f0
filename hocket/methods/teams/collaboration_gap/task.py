"""Mazes of which two agents see half of the cells each, and what it costs to have to talk about them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hocket.core.columns import MESSAGES
from hocket.core.errors import ConfigurationError
from hocket.core.intervals import mean_interval
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.methods.teams.collaboration_gap.workflow import ROUTE_AGREED, Route, SplitMap, route_in
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario, Trajectory

STEPS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
TRIES = 2000
"""Mazes drawn at most until one has a route of the wanted length and belongs to the split."""

QUESTION = (
    "A maze, row by row from the north: . is open, # is a wall, ? is unknown. Find a route from S to G; its moves are "
    "north, east, south and west."
)


@dataclass(frozen=True)
class SplitMaze:
    """A maze on a grid and who sees what of it. Cells are numbered row by row.

    Attributes:
        width: of a row. walls: by cell. start, goal: cells, which everybody sees.
        hidden: the cells that the first agent does not see, and those that the second does not.
    """

    width: int
    walls: tuple[bool, ...]
    start: int
    goal: int
    hidden: tuple[frozenset[int], frozenset[int]]

    def text(self, without: frozenset[int] = frozenset()) -> str:
        """The map, a line per row, with some cells unknown."""
        marks = ["#" if wall else "." for wall in self.walls]
        for cell in without:
            marks[cell] = "?"
        marks[self.start], marks[self.goal] = "S", "G"
        rows = [marks[place : place + self.width] for place in range(0, len(marks), self.width)]
        return "\n".join("".join(row) for row in rows)

    @property
    def halves(self) -> tuple[str, str]:
        """What each agent sees."""
        return self.text(self.hidden[0]), self.text(self.hidden[1])

    def beside(self, cell: int, move: str) -> int | None:
        """The cell that a move leads to, walls or not; None off the grid."""
        row, column = divmod(cell, self.width)
        row, column = row + STEPS[move][0], column + STEPS[move][1]
        inside = 0 <= row < len(self.walls) // self.width and 0 <= column < self.width
        return row * self.width + column if inside else None

    def after(self, cell: int, move: str) -> int | None:
        """The cell that a valid move leads to; None into a wall or off the grid."""
        to = self.beside(cell, move)
        return None if to is None or self.walls[to] else to

    def distances(self) -> dict[int, int]:
        """Moves to the goal from every cell that has a way there."""
        far, queue = {self.goal: 0}, deque([self.goal])
        while queue:
            cell = queue.popleft()
            for move in STEPS:
                to = self.after(cell, move)
                if to is not None and to not in far:
                    far[to] = far[cell] + 1
                    queue.append(to)
        return far

    def shortest(self) -> Route | None:
        """A shortest route, of equal ones the first in the order north, east, south, west; None without any."""
        far, cell, route = self.distances(), self.start, list[str]()
        if cell not in far:
            return None
        while cell != self.goal:
            move, cell = next(
                (move, to)
                for move in STEPS
                if (to := self.after(cell, move)) is not None and far.get(to, math.inf) < far[cell]
            )
            route.append(move)
        return tuple(route)

    def grade(self, route: Sequence[str]) -> float:
        """1 for valid moves that lead to the goal; else the share of the way that was made, `1 - d(cell) / d(start)`.

        Moves count up to the first that is not valid, and not after the goal; d is the distance to the goal from where
        they end. A route that ends no nearer than it began is worth 0, as every route of a maze without any.
        """
        cell, far = self.start, self.distances()
        if cell not in far:
            return 0.0
        for move in route:
            to = self.after(cell, move)
            if to is None or cell == self.goal:
                break
            cell = to
        return max(0.0, 1.0 - far[cell] / far[self.start])


def draw_maze(width: int, height: int, density: float, least: int, most: int, key: Key) -> SplitMaze | None:
    """A maze whose cells are walls independently, kept if its shortest route has `least` to `most` moves, else None.

    Start, goal and who sees what are drawn first, without regard to the walls; half of the other cells is hidden from
    each agent, the odd one from the second.
    """
    rng, cells = key.numpy(), width * height
    start, goal = (int(cell) for cell in rng.permutation(cells)[:2])
    rest = [int(cell) for cell in rng.permutation(cells) if cell not in (start, goal)]
    hidden = frozenset(rest[: len(rest) // 2]), frozenset(rest[len(rest) // 2 :])
    walls = rng.random(cells) < density
    walls[[start, goal]] = False
    made = SplitMaze(width, tuple(walls.tolist()), start, goal, hidden)
    return made if least <= made.distances().get(start, -1) <= most else None


class SplitMazes(TextTask):
    """Mazes without end, played by two agents who see half of the cells each; the map decides the split.

    The benchmark of "The Collaboration Gap" (arXiv 2511.02687) with routes graded by rule; its mazes have 6 x 6 cells,
    30 % of them walls. `verify` is 1 for a route to the goal, and less by what is left of the way; `success` counts
    whole routes alone.

    Args:
        width, height: in cells. density: the chance of a wall. least, most: bounds of the shortest route, in moves.
        see, relay, messages: of the workflow `hocket.methods.teams.collaboration_gap.workflow.SplitMap`.
    """

    name = "split-maze"

    def __init__(
        self,
        width: int = 6,
        height: int = 6,
        density: float = 0.3,
        least: int = 5,
        most: int = 9,
        workflow: SplitMap | None = None,
    ) -> None:
        if not (2 <= width <= 20 and 2 <= height <= 20) or not 0 <= density < 1 or not 1 <= least <= most:
            raise ConfigurationError(
                f"split-maze: 2 to 20 cells a side, density in [0, 1) and 1 <= least <= most, not {width} x {height}, "
                f"{density}, {least} and {most}"
            )
        self.width, self.height, self.density, self.least, self.most = width, height, density, least, most
        self.workflow = workflow or SplitMap()

    def maze(self, split: Split, number: int) -> SplitMaze:
        """The maze of a scenario."""
        key = Key.of(0).derive("split maze", self.width, self.height, split, number)
        for tries in range(TRIES):
            made = draw_maze(self.width, self.height, self.density, self.least, self.most, key.derive(tries))
            if made is not None and split_of("\n".join(made.halves)) == split:
                return made
        raise ConfigurationError(
            f"split-maze: {TRIES} mazes of {self.width} x {self.height} cells had no route of {self.least} to "
            f"{self.most} moves in the {split} split; allow other lengths or fewer walls"
        )

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        return posed(self.maze(split, number), f"split_maze/{self.width}x{self.height}/{split}/{number}", number)

    def verify(self, text: str, scenario: Scenario) -> float:
        route = route_in(text)
        return 0.0 if route is None else maze_of(scenario).grade(route)

    def label(self, trajectory: Trajectory) -> str | None:
        route = route_in(trajectory.answer)
        return None if route is None else " ".join(route)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 128}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`agreed`, whether there was one route; `way`, the share of the way it makes; `messages`."""
        found = {"way": self.verify(trajectory.answer, trajectory.scenario)}
        for column in (ROUTE_AGREED, MESSAGES):
            if column.present(trajectory):
                found[column.name] = float(column.get(trajectory))
        return found


def posed(maze: SplitMaze, name: str, seed: int = 0) -> Scenario:
    """A maze as a scenario, its answer a shortest route."""
    about = {
        "halves": maze.halves,
        "map": maze.text(),
        "maze": [maze.width, list(maze.walls), maze.start, maze.goal, [sorted(cells) for cells in maze.hidden]],
    }
    return Scenario(name, QUESTION, ", ".join(maze.shortest() or ()), metadata=about, seed=seed)


def maze_of(scenario: Scenario) -> SplitMaze:
    """The maze of a posed scenario."""
    width, walls, start, goal, (first, second) = scenario.metadata["maze"]
    return SplitMaze(width, tuple(walls), start, goal, (frozenset(first), frozenset(second)))


# ---------------------------------------------------------------- what talking costs


@dataclass(frozen=True)
class CollaborationGap:
    """How much worse a pair does than one agent with all of the map.

    Attributes:
        solo, pair: success rates. gap: `solo - pair`. interval: of the gap, 95 %, from its differences maze by maze.
    """

    solo: float
    pair: float
    interval: tuple[float, float]

    @property
    def gap(self) -> float:
        return self.solo - self.pair

    @staticmethod
    def of(solo: Sequence[float], pair: Sequence[float]) -> CollaborationGap:
        """From the success on the same mazes in the same order, best with solo runs on the merged halves.

        Raises:
            ValueError: when the two are not as many, or none.
        """
        if len(solo) != len(pair) or not solo:
            raise ValueError(f"the gap compares the same mazes, not {len(solo)} and {len(pair)}")
        differences = [one - two for one, two in zip(solo, pair, strict=True)]
        return CollaborationGap(
            solo=math.fsum(solo) / len(solo), pair=math.fsum(pair) / len(pair), interval=mean_interval(differences)
        )


_MAZE = {"width": int, "height": int, "density": float, "least": int, "most": int}
_TALK = {"see": str, "messages": int, "relay": int}


def from_settings(name: str, settings: Mapping[str, str]) -> SplitMazes:
    """The task with these settings."""
    found = checked(name, settings, {**_MAZE, **_TALK})
    try:
        workflow = replace(SplitMap(), **{key: value for key, value in found.items() if key in _TALK})
    except ValueError as error:
        raise ConfigurationError(f"task {name}: {error}") from None
    return SplitMazes(**{key: value for key, value in found.items() if key in _MAZE}, workflow=workflow)


SPLIT_MAZE = TaskForm(
    name="split-maze",
    description="mazes of which two agents see half each, e.g. split-maze?width=4&height=4&relay=2",
    make=from_settings,
    drawn_as="split_maze",
)

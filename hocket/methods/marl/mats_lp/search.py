"""Tree searches of many small path-finding problems in lockstep, agent by agent within a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.zoo.joint.paths import MOVES, without_conflicts

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

PROGRESS = 0.1
"""What an agent is paid for a cell that is nearer to its goal than any since the goal was set."""

Evaluate = Callable[[Ints], tuple[Array, Array]]
"""Of cells `[B, n, 2]` the odds of every agent's moves `[B, n, 5]`, and what each earns from there on, `[B, n]`."""


@dataclass(frozen=True, eq=False)
class Problems:
    """B problems of n agents: `free` `[B, H, W]`; `ways`, the steps from each cell to each goal, `[B, n, H, W]`.

    Attributes:
        present: who is there, `[B, n]`; the first one always is.
    """

    free: NDArray[np.bool_]
    ways: Ints
    present: NDArray[np.bool_]

    def left(self, place: Ints) -> Ints:
        """The steps to go, `[B, n]`."""
        rows, agents = np.arange(len(place))[:, None], np.arange(place.shape[1])[None]
        return self.ways[rows, agents, place[..., 0], place[..., 1]]

    def moved(self, place: Ints, actions: Ints) -> Ints:
        """The cells after a step, `[B, n, 2]`, as worlds of path finding have it."""
        size, rows = self.free.shape[1], np.arange(len(place))[:, None]
        wanted = np.clip(place + MOVES[actions], 0, size - 1)
        wanted = np.where(self.free[rows, wanted[..., 0], wanted[..., 1]][..., None], wanted, place)
        return without_conflicts(place, wanted, size, self.present)


@dataclass(frozen=True)
class StepwiseSearch:
    """Of each problem a tree of joint moves, built of single ones: five branches at a node, whatever n is.

    In a node of the tree one agent chooses, in the order of their numbers, and when all have, all move. The first
    `planners` take the move with the largest `Q + c P sqrt(N) / (1 + N_a)`, where Q is 0 of what was never tried; the
    others are taken to follow the prior, by the largest `P / (1 + N_a)`. Planners earn the sum of what each of them is
    paid, `PROGRESS` for a cell nearer to its goal than any before, discounted by `gamma`; a new leaf is worth what
    `Evaluate` says of those under way.

    Attributes:
        planners: agents that choose by value. searches: leaves of a tree. c: the weight of priors. depth: the most
            steps ahead.
    """

    planners: int = 3
    searches: int = 30
    c: float = 0.5
    depth: int = 6
    gamma: float = 0.95

    def __post_init__(self) -> None:
        if min(self.searches, self.planners) < 1 or self.depth < 1 or self.c <= 0 or not 0 < self.gamma <= 1:
            raise ConfigurationError(
                f"planners, searches and depth = {self.planners, self.searches, self.depth} are at least 1, "
                f"c = {self.c} is positive and gamma = {self.gamma} in (0, 1]"
            )

    def __call__(self, problems: Problems, place: Ints, evaluate: Evaluate) -> tuple[Ints, Array]:
        """How often each move of the first agent was tried at the root, `[B, 5]`, and the root's mean value, `[B]`."""
        tree = Trees(self, problems, place, evaluate)
        for _ in range(self.searches):
            tree.grow()
        visits = tree.visits[:, 0]
        return visits, tree.total[:, 0].sum(1) / visits.sum(1)


class Trees:
    """The nodes of B trees. Node 0 is the root; later agents of a step choose in the state of the first, `origin`."""

    def __init__(self, rule: StepwiseSearch, problems: Problems, place: Ints, evaluate: Evaluate) -> None:
        self.rule, self.problems, self.evaluate = rule, problems, evaluate
        width, self.agents = problems.present.shape
        room, moves = 1 + (rule.searches + 1) * self.agents, len(MOVES)
        self.rows = np.arange(width)
        self.visits = np.zeros((width, room, moves), np.int64)
        self.total = np.zeros((width, room, moves))
        self.child = np.full((width, room, moves), -1)
        self.place = np.zeros((width, room, self.agents, 2), np.int64)
        self.least = np.zeros((width, room, self.agents), np.int64)
        self.prior = np.zeros((width, room, self.agents, moves))
        self.paid, self.worth = np.zeros((2, width, room))
        self.count = np.ones(width, np.int64)
        self.place[:, 0], self.least[:, 0] = place, problems.left(place)
        self._judge(np.zeros(width, np.int64))

    def _judge(self, node: Ints) -> None:
        """Priors and worth of new states."""
        rows = self.rows
        prior, worth = self.evaluate(self.place[rows, node])
        there = self.problems.present & (self.least[rows, node] > 0)
        still = np.zeros(len(MOVES))
        still[0] = 1.0
        self.prior[rows, node] = np.where(self.problems.present[..., None], prior, still)
        self.worth[rows, node] = (worth * there)[:, : self.rule.planners].sum(1)

    def grow(self) -> None:
        """One more leaf of every tree, or another visit to a state at the largest depth."""
        rows, node = self.rows, np.zeros_like(self.rows)
        going = np.ones(len(rows), bool)
        path: list[tuple[Ints, Ints, NDArray[np.bool_]]] = []
        for _ in range(self.rule.depth):
            origin, chosen = node, np.zeros((len(rows), self.agents), np.int64)
            for agent in range(self.agents):
                move = self._best(node, origin, agent)
                chosen[:, agent] = move
                path.append((node, move, going))
                following = self.child[rows, node, move]
                absent = going & (following < 0)
                if absent.any():
                    following = np.where(absent, self.count, following)
                    self.child[rows[absent], node[absent], move[absent]] = following[absent]
                    self.count = self.count + absent
                if agent < self.agents - 1:
                    node = np.where(going, following, node)
            self._step(origin, following, chosen, absent)
            node = np.where(going, following, node)
            going = going & ~absent
            if not going.any():
                break
        self._back(path, self.worth[rows, node])

    def _best(self, node: Ints, origin: Ints, agent: int) -> Ints:
        """The move of each tree at its node, `[B]`."""
        rows, rule = self.rows, self.rule
        visits, prior = self.visits[rows, node], self.prior[rows, origin, agent]
        if agent >= rule.planners:
            followed: Ints = (prior / (1 + visits)).argmax(1)
            return followed
        mean = self.total[rows, node] / np.maximum(visits, 1)
        bonus = rule.c * prior * np.sqrt(np.maximum(visits.sum(1), 1))[:, None] / (1 + visits)
        best: Ints = np.where(prior > 0, mean + bonus, -np.inf).argmax(1)
        return best

    def _step(self, origin: Ints, node: Ints, actions: Ints, new: NDArray[np.bool_]) -> None:
        """Fills in the states of the `new` nodes, to which all have moved from those of `origin`."""
        if not new.any():
            return
        rows = self.rows
        place = self.problems.moved(self.place[rows, origin], actions)
        least, left = self.least[rows, origin], self.problems.left(place)
        nearer = self.problems.present & (left < least) & (left >= 0)
        held = rows[new], node[new]
        self.place[held], self.least[held] = place[new], np.where(nearer, left, least)[new]
        self.paid[held] = PROGRESS * nearer[:, : self.rule.planners].sum(1)[new]
        judged = np.where(new, node, origin)
        keep = self.prior[rows, judged], self.worth[rows, judged]
        self._judge(judged)
        self.prior[rows[~new], judged[~new]], self.worth[rows[~new], judged[~new]] = keep[0][~new], keep[1][~new]

    def _back(self, path: list[tuple[Ints, Ints, NDArray[np.bool_]]], value: Array) -> None:
        """Counts the way down from its end."""
        rows = self.rows
        for number in range(len(path) - 1, -1, -1):
            node, move, going = path[number]
            if number % self.agents == self.agents - 1:
                value = np.where(going, self.paid[rows, self.child[rows, node, move]] + self.rule.gamma * value, value)
            self.visits[rows, node, move] += going
            self.total[rows, node, move] += going * value

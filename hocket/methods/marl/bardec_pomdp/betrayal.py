"""Teams of whom one may be a traitor, in games played a few times in the open: beliefs, replies, max-min values.

One pay for all. A member, drawn evenly, is a traitor with a probability that is told; it alone knows, and moves so that
the team earns little. After every round all moves are seen. This is a Bayesian game in which nature gives types
(Harsanyi 1967); the max-min value is the sequence form's (von Stengel 1996; the adversary's side by duality), for a
team that may draw its moves jointly, so no team that draws them apart earns more in the worst case.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.lab.exact.mdp import Array

Moves = tuple[int, ...]
History = tuple[Moves, ...]
Play = Callable[[History], Array]
"""After a history, how likely each of n members makes each of A moves, `[n, A]`; of a traitor, what it does in place of
each member."""


@dataclass(frozen=True, eq=False)
class Betrayal:
    """A game of n members with A moves each.

    Attributes:
        pay: by everybody's move, `[A] * n`. rounds: how often it is played. prior: how likely there is a traitor.
    """

    pay: Array
    rounds: int
    prior: float

    def __post_init__(self) -> None:
        if len(set(self.pay.shape)) != 1 or self.rounds < 1 or not 0 <= self.prior <= 1:
            raise ConfigurationError(
                "a betrayal needs as many moves for everybody, a round and a prior in [0, 1], not a pay of shape "
                f"{self.pay.shape}, {self.rounds} and {self.prior}"
            )

    @property
    def members(self) -> int:
        return self.pay.ndim

    @cached_property
    def profiles(self) -> tuple[Moves, ...]:
        """Everything that all can do in a round."""
        return tuple(itertools.product(range(self.pay.shape[0]), repeat=self.members))

    def histories(self) -> Iterator[History]:
        """All that can have been seen before a round, the shorter first."""
        for length in range(self.rounds):
            yield from itertools.product(self.profiles, repeat=length)

    # ------------------------------------------------------------ beliefs

    def joint(self, team: Play, traitor: Play, history: History) -> Array:
        """How likely each member is the traitor, or nobody, and a history comes about, `[n + 1]`."""
        found = np.full(self.members + 1, self.prior / self.members)
        found[-1] = 1 - self.prior
        for time, moves in enumerate(history):
            ours, theirs = team(history[:time]), traitor(history[:time])
            here = np.array([ours[member, move] for member, move in enumerate(moves)])
            there = np.array([theirs[member, move] for member, move in enumerate(moves)])
            others = np.array([np.delete(here, member).prod() for member in range(self.members)])
            found *= np.append(others * there, here.prod())
        return found

    def posterior(self, team: Play, traitor: Play, history: History, member: int) -> Array:
        """What a member who is none believes by Bayes' rule, `[n + 1]`; NaN after what cannot have happened."""
        found = self.joint(team, traitor, history)
        found[member] = 0.0
        with np.errstate(invalid="ignore"):
            found /= found.sum()
        return found

    # ------------------------------------------------------------ values

    def earned(self, team: Play, history: History = ()) -> float:
        """What a team without a traitor earns from a history on."""
        if len(history) == self.rounds:
            return 0.0
        ours, total = team(history), 0.0
        for moves in self.profiles:
            likely = float(np.prod([ours[member, move] for member, move in enumerate(moves)]))
            if likely > 0:
                total += likely * (float(self.pay[moves]) + self.earned(team, (*history, moves)))
        return total

    def betrayed(self, team: Play, member: int, history: History = ()) -> float:
        """The least that a team earns from a history on in which this member is the traitor, who knows the team."""
        if len(history) == self.rounds:
            return 0.0
        ours, worth = team(history), np.zeros(self.pay.shape[0])
        for moves in self.profiles:
            likely = float(np.prod([ours[one, move] for one, move in enumerate(moves) if one != member]))
            if likely > 0:
                after = self.betrayed(team, member, (*history, moves))
                worth[moves[member]] += likely * (float(self.pay[moves]) + after)
        return float(worth.min())

    def worst(self, team: Play) -> float:
        """What a team earns against the traitor that is worst for it, in the mean over who is one."""
        least = np.mean([self.betrayed(team, member) for member in range(self.members)])
        return float((1 - self.prior) * self.earned(team) + self.prior * least)

    def security(self, *, watching: bool = True) -> float:
        """The max-min value: the most that a team earns in the worst case, its moves drawn jointly.

        Args:
            watching: whether moves may depend on what was seen; else the team believes to the end what it believed at
                the beginning.

        Raises:
            ConfigurationError: without the package scipy, whose linear programming finds it.
        """
        return _Programme(self, watching).solved()


class _Programme:
    """The linear programme: how likely the team asks for each sequence of moves, and what each traitor leaves of it.

    A node is what the team was asked for and what was seen so far, `((asked, seen), ..)`, which differ at the traitor's
    place alone. A team that does not watch asks alike at all nodes where it was asked for the same.
    """

    def __init__(self, game: Betrayal, watching: bool) -> None:
        self.game, self.watching = game, watching
        self.column: dict[tuple[object, ...], int] = {}
        self.gain: dict[int, float] = {}
        self.equal: list[tuple[dict[int, float], float]] = []
        self.least: dict[tuple[int, History, int], dict[int, float]] = {}

    def solved(self) -> float:
        try:
            from scipy.optimize import linprog
            from scipy.sparse import coo_array
        except ImportError:
            raise ConfigurationError("a team's max-min value needs linear programming: pip install scipy") from None
        self._node((), None)
        for member in range(self.game.members):
            self._add(self.gain, self._left(member, ()), self.game.prior / self.game.members)
        wide = len(self.column)

        def matrix(rows: list[dict[int, float]]) -> object:
            at = [(row, column, value) for row, one in enumerate(rows) for column, value in one.items()]
            row, column, value = zip(*at, strict=True)
            return coo_array((value, (row, column)), shape=(len(rows), wide)).tocsr()

        found = linprog(
            [-self.gain.get(column, 0.0) for column in range(wide)],
            A_ub=matrix(list(self.least.values())),
            b_ub=np.zeros(len(self.least)),
            A_eq=matrix([row for row, _ in self.equal]),
            b_eq=[total for _, total in self.equal],
            bounds=[(None, None) if key[0] == "left" else (0, None) for key in self.column],
        )
        return -float(found.fun)

    def _add(self, row: dict[int, float], column: int, value: float) -> None:
        row[column] = row.get(column, 0.0) + value

    def _named(self, *key: object) -> int:
        return self.column.setdefault(key, len(self.column))

    def _left(self, member: int, seen: History) -> int:
        """The column of what a traitor leaves from a history on, weighted by how likely the others come to it.

        It is at most what comes of each of its moves; these rows are begun here.
        """
        new = ("left", member, seen) not in self.column
        column = self._named("left", member, seen)
        if new:
            for move in range(self.game.pay.shape[0]):
                self.least[member, seen, move] = {column: 1.0}
            if len(seen) + 1 < self.game.rounds:
                for moves in self.game.profiles:
                    after = self._left(member, (*seen, moves))
                    self._add(self.least[member, seen, moves[member]], after, -1.0)
        return column

    def _node(self, node: tuple[tuple[Moves, Moves], ...], parent: int | None) -> None:
        game, seen = self.game, tuple(moves for _, moves in node)
        own = node if self.watching else tuple(asked for asked, _ in node)
        members = range(game.members)
        odd = {one for asked, moves in node for one in members if asked[one] != moves[one]}
        suspects = [one for one in members if odd <= {one}]
        split: dict[int, float] = {} if parent is None else {parent: -1.0}
        known = ("asked", own, game.profiles[0]) in self.column
        for asked in game.profiles:
            column = self._named("asked", own, asked)
            split[column] = 1.0
            if not odd:
                self._add(self.gain, column, (1 - game.prior) * float(game.pay[asked]))
            done = {asked}
            for member in suspects:
                self._left(member, seen)
                for move in range(game.pay.shape[0]):
                    moves = (*asked[:member], move, *asked[member + 1 :])
                    self._add(self.least[member, seen, move], column, -float(game.pay[moves]))
                    done.add(moves)
            if len(node) + 1 < game.rounds:
                for moves in sorted(done):
                    self._node((*node, (asked, moves)), column)
        if not known:
            self.equal.append((split, 1.0 if parent is None else 0.0))

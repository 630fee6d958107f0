"""RAE: equilibria of players who trade mean pay against its variance (Risk-averse equilibrium, recalled).

Each player answers the other's mix p by `argmax_s s^T M p - g s^T C(p) s` over mixes s, C(p) the covariance of what its
moves earn, and g >= 0 its aversion: without it this is a best response, and an equilibrium of such answers is Nash's.
The variance is of what the other does, trembles included, not of one's own mixing; that reading is recalled, as is the
quadratic form.

The answers are averaged over steps (fictitious play). In large games it is the meta-solver of a growing set of moves
(policy-space response oracles): both begin with one move, find the equilibrium among those they know, and add the move
that gains most at it. Which move is first, and how long is sought between additions, is chosen here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.methods.marl.rae.games import MatrixGame

NEGLIGIBLE, TOLERANCE = 1e-6, 1e-12


@dataclass(frozen=True)
class RiskAverse(Solver):
    """See the module.

    Attributes:
        aversion: g, of both. first: the move that both begin with. grow: whether moves are added as they are found,
            else all are known. every: steps from one addition to the next.
    """

    world: ClassVar[type] = MatrixGame

    aversion: float = 0.5
    first: int = 0
    grow: bool = False
    every: int = 20

    def __post_init__(self) -> None:
        if self.aversion < 0 or self.first < 0 or self.every < 1:
            raise ConfigurationError(
                f"method.aversion = {self.aversion}, method.first = {self.first}, method.every = {self.every}: the "
                "first two are at least 0, the last at least 1"
            )

    def init(self, world: MatrixGame, key: Key) -> State:
        if self.first >= min(world.moves):
            raise ConfigurationError(f"method.first = {self.first}: {world.name} has {min(world.moves)} moves, from 0")
        mixes, known = np.zeros((2, max(world.moves))), np.zeros((2, max(world.moves)), bool)
        mixes[:, self.first] = 1
        for player, count in enumerate(world.moves):
            known[player, :count] = not self.grow
        known[:, self.first] = True
        return {"mixes": mixes, "known": known, "made": np.zeros(2, np.int64)}

    def step(self, world: MatrixGame, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        mixes, known = state["mixes"].copy(), state["known"].copy()
        made, since = state["made"].tolist()
        if self.grow and since == self.every:
            known, since = self._grown(world, mixes, known), 0
        rate = 1 / (since + 2)
        answers = [self._answer(world, mixes, known, player) for player in (0, 1)]
        for player, found in enumerate(answers):
            mixes[player] += rate * (found - mixes[player])
        after: State = {"mixes": mixes, "known": known, "made": np.array([made + 1, since + 1])}
        return after, self._figures(world, mixes, known)

    def _grown(self, world: MatrixGame, mixes: Array, known: Array) -> Array:
        """What is known with the move of each player that would raise its utility fastest, where one would."""
        found = known.copy()
        for player, count in enumerate(world.moves):
            mean, spread = world.moments(mixes, player)
            own = mixes[player, :count]
            slope = mean - 2 * self.aversion * (spread @ own)
            if slope.max() > slope @ own + NEGLIGIBLE:
                found[player, int(slope.argmax())] = True
        return found

    def _answer(self, world: MatrixGame, mixes: Array, known: Array, player: int) -> Array:
        """A player's best mix of the moves that it knows, padded."""
        moves = np.flatnonzero(known[player])
        mean, spread = world.moments(mixes, player)
        found = np.zeros(mixes.shape[1])
        found[moves] = answer(mean[moves], spread[np.ix_(moves, moves)], self.aversion)
        return found

    def _figures(self, world: MatrixGame, mixes: Array, known: Array) -> dict[str, float]:
        figures = {"moves known": float(known.sum())}
        gap = 0.0
        for player, (name, count) in enumerate(zip(("row", "column"), world.moves, strict=True)):
            mean, spread = world.moments(mixes, player)
            own = mixes[player, :count]
            best = answer(mean, spread, self.aversion)
            gap += utility(best, mean, spread, self.aversion) - utility(own, mean, spread, self.aversion)
            figures |= {f"{name} mean": float(own @ mean), f"{name} variance": float(own @ spread @ own)}
        return {**figures, "risk gap": gap}

    def answer(self, world: MatrixGame, state: State) -> Array:
        return state["mixes"]


def utility(mix: Array, mean: Array, spread: Array, aversion: float) -> float:
    """`s^T m - g s^T C s`."""
    return float(mix @ mean - aversion * mix @ spread @ mix)


def answer(mean: Array, spread: Array, aversion: float) -> Array:
    """The mix `[A]` of largest utility, exactly: supports grow by the move that raises it fastest (Wolfe 1976).

    Within a support the conditions of optimality are linear; where they ask for less than nothing of a move, the mix
    goes towards them until the first move is gone. Without aversion it is the first best move.
    """
    count = len(mean)
    mix: Array = np.eye(count)[int((mean - aversion * np.diag(spread)).argmax())]
    if aversion == 0:
        return mix
    # A trace of curvature everywhere: on a line where utility has none the end is found by walking there.
    curved = 2 * aversion * spread + 1e-9 * max(1.0, float(np.abs(spread).max())) * np.eye(count)
    held = [int(mix.argmax())]
    for _ in range(20 * count):
        slope = mean - curved @ mix
        if slope.max() <= slope @ mix + TOLERANCE:
            break
        held = [*held, int(slope.argmax())] if int(slope.argmax()) not in held else held
        mix, held = _within(mean, curved, mix, held)
    return mix


def _within(mean: Array, curved: Array, mix: Array, held: list[int]) -> tuple[Array, list[int]]:
    """The best mix of the moves held, and those of them that it uses."""
    while True:
        system = np.ones((len(held) + 1,) * 2)
        system[:-1, :-1] = curved[np.ix_(held, held)]
        system[-1, -1] = 0
        wanted = np.linalg.solve(system, np.append(mean[held], 1.0))[:-1]
        own = mix[held]
        if wanted.min() >= 0:
            found: Array = np.zeros_like(mix)
            found[held] = wanted
            return found, held
        down = wanted < 0
        share = float((own[down] / (own[down] - wanted[down])).min())
        own = np.maximum(own + share * (wanted - own), 0.0)
        own[down & (own <= TOLERANCE)] = 0.0
        mix = np.zeros_like(mix)
        mix[held] = own / own.sum()
        held = [move for move in held if mix[move] > 0]


RAE = SolverMethod(
    name="rae",
    description="players who trade mean pay against its variance",
    solver=RiskAverse(),
    world="stag-hunt:5",
    steps=200,
    source="A Game-Theoretic Framework for Managing Risk in Multi-Agent Systems, recalled",
)

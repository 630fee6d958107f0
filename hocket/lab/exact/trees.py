"""Games in which players move in turn and know different things, as arrays made from OpenSpiel's trees."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError, HocketError
from hocket.lab.exact.mdp import Array

LARGEST = 200_000
"""Histories of a game that is still taken."""


@dataclass(frozen=True, eq=False)
class TreeGame:
    """A game of N players with H histories, I information states and at most A moves.

    A policy is `[I, A]`; rows sum to 1 over the moves of their information state, the first of `moves` of them.

    Attributes:
        pay: `[H, N]`, what each player has at the end of a history; 0 before it.
        parents: `[H]`, of each history, which comes before it; -1 of the first. taken: `[H]`, the move that led there.
        chance: `[H]`, how likely chance led there from the parent; 1 where a player moved.
        known: `[H]`, the information state of who moves at a history; -1 at its end and where chance moves.
        movers, moves: `[I]`, who moves in an information state, and among how many. labels: what it is, in words.
    """

    name: str
    pay: Array
    parents: NDArray[np.int64]
    taken: NDArray[np.int64]
    chance: Array
    known: NDArray[np.int64]
    movers: NDArray[np.int64]
    moves: NDArray[np.int64]
    labels: Sequence[str]

    @property
    def players(self) -> int:
        return int(self.pay.shape[1])

    @property
    def shared(self) -> bool:
        """Whether all always earn the same."""
        return bool(np.allclose(self.pay, self.pay[:, :1]))

    @cached_property
    def legal(self) -> NDArray[np.bool_]:
        """`[I, A]`, which moves there are."""
        return np.arange(self.moves.max())[None] < self.moves[:, None]

    @property
    def even(self) -> Array:
        """Every move with equal probability."""
        return np.asarray(self.legal / self.moves[:, None])

    @cached_property
    def followers(self) -> Sequence[Sequence[int]]:
        """The histories that come next after each, by the number of the move; none after an end."""
        followers: list[list[int]] = [[] for _ in self.parents]
        for place in sorted(range(1, len(self.parents)), key=lambda history: int(self.taken[history])):
            followers[self.parents[place]].append(place)
        return followers

    # ------------------------------------------------------------ exact

    @cached_property
    def _levels(self) -> list[NDArray[np.int64]]:
        """The histories of each depth."""
        depth = np.zeros(len(self.parents), np.int64)
        for place in range(1, len(depth)):
            depth[place] = depth[self.parents[place]] + 1
        return [np.flatnonzero(depth == level) for level in range(int(depth.max()) + 1)]

    @cached_property
    def _move(self) -> NDArray[np.int64]:
        """`[H]`, the move that led to a history, where a player made it; any number that is one elsewhere."""
        return self.taken.clip(0, self.legal.shape[1] - 1)

    def _steps(self, policy: Array, certain: int | None = None) -> Array:
        """`[H]`, how likely the last move of a history was; `certain` counts a player's own as 1."""
        infos = np.where(self.parents >= 0, self.known[self.parents], -1)
        moved = (infos >= 0) & ((certain is None) | (self.movers[infos] != certain))
        return np.where(moved, policy[infos, self._move], self.chance)

    def reach(self, policy: Array, without: int | None = None) -> Array:
        """`[H]`, how likely each history is; `without` counts a player's own moves as certain."""
        steps, chances = self._steps(policy, without), np.ones(len(self.parents))
        for level in self._levels[1:]:
            chances[level] = chances[self.parents[level]] * steps[level]
        return chances

    def values(self, policy: Array) -> Array:
        """`[H, N]`, what each player earns on average from a history on."""
        steps, values = self._steps(policy), self.pay.copy()
        for level in reversed(self._levels[1:]):
            np.add.at(values, self.parents[level], values[level] * steps[level, None])
        return values

    def quality(self, policy: Array) -> Array:
        """`[I, A]`: what who moves earns by a move and the policy after it, over what its history may be.

        The belief over histories is that under the policy; where none is possible it is that of the others' moves
        alone, and where that is not either, the even one.
        """
        return self._summed(self.beliefs(policy), self.values(policy))

    def _summed(self, weights: Array, values: Array) -> Array:
        """`[I, A]`: the mover's values `[H, N]` of what its moves lead to, weighted by where it is, `[H]`."""
        made = np.flatnonzero((self.parents >= 0) & (self.known[self.parents] >= 0))
        infos, sums = self.known[self.parents[made]], np.zeros(self.legal.shape)
        earned = weights[self.parents[made]] * values[made, self.movers[infos]]
        np.add.at(sums, (infos, self.taken[made]), earned)
        return sums

    def beliefs(self, policy: Array) -> Array:
        """`[H]`, how likely a history is among those of its information state; see `quality`."""
        moving = self.known >= 0
        infos, movers = self.known[moving], self.movers[self.known[moving]]
        others = np.stack([self.reach(policy, player) for player in range(self.players)])
        shares = np.zeros(len(self.parents))
        for weight in (np.ones(len(infos)), others[movers, np.flatnonzero(moving)], self.reach(policy)[moving]):
            total = np.bincount(infos, weight, len(self.moves))[infos]
            shares[moving] = np.where(total > 0, weight / np.where(total > 0, total, 1.0), shares[moving])
        return shares

    def returns(self, policy: Array) -> Array:
        """`[N]`, what each player earns on average."""
        earned: Array = self.values(policy)[0]
        return earned

    def answer(self, policy: Array, player: int) -> Array:
        """The policy with a player's best answer to it in place of its own moves; the first of equals.

        Raises:
            HocketError: where histories of one information state lie at several depths.
        """
        response, steps, reach = policy.copy(), self._steps(policy), self.reach(policy, player)
        values = self.pay[:, player].copy()
        for depth in range(len(self._levels) - 1, -1, -1):
            level = self._levels[depth]
            histories = level[(self.known[level] >= 0) & (self.movers[self.known[level]] == player)]
            if depth + 1 < len(self._levels):
                after = self._levels[depth + 1]
                gains = np.where(self.legal, 0.0, -np.inf)
                mine = after[np.isin(self.parents[after], histories)]
                np.add.at(
                    gains, (self.known[self.parents[mine]], self.taken[mine]), reach[self.parents[mine]] * values[mine]
                )
                for info in np.unique(self.known[histories]):
                    if (self.known == info).sum() != (self.known[histories] == info).sum():
                        raise HocketError(f"{self.name}: histories of {self.labels[info]!r} lie at several depths")
                    best = gains[info] >= gains[info].max() - 1e-12
                    response[info] = np.eye(len(best))[int(best.argmax())]
                steps[after] = self._chosen(response, steps, after, player)
                np.add.at(values, self.parents[after], values[after] * steps[after])
        return response

    def _chosen(self, policy: Array, steps: Array, level: NDArray[np.int64], player: int) -> Array:
        """How likely the last moves of a level are where a player's own follow a policy."""
        infos = self.known[self.parents[level]]
        mine = (infos >= 0) & (self.movers[infos] == player)
        return np.where(mine, policy[infos, self._move[level]], steps[level])

    def gains(self, policy: Array) -> Array:
        """`[N]`, what each player would gain by its best answer; all 0 in an equilibrium."""
        current = self.returns(policy)
        best = [self.returns(self.answer(policy, player))[player] for player in range(self.players)]
        gains: Array = np.array(best) - current
        return gains

    # ------------------------------------------------------------ as a world

    def value(self, policy: Array) -> float:
        """The common return where all earn the same, else less what all could gain by best answers (NashConv)."""
        return float(self.returns(policy)[0]) if self.shared else -max(float(self.gains(policy).sum()), 0.0)

    @cached_property
    def optimum(self) -> float:
        """The best common return, over all that the first player may do for certain; 0 in other games."""
        if not self.shared:
            return 0.0
        infosets = np.flatnonzero(self.movers == 0)
        if self.players != 2 or np.prod(self.moves[infosets].astype(float)) > LARGEST:
            raise ConfigurationError(f"{self.name}: the best common return of so large a game is not sought")
        best = -np.inf
        for choice in itertools.product(*(range(count) for count in self.moves[infosets])):
            policy = self.even.copy()
            policy[infosets] = np.eye(policy.shape[1])[list(choice)]
            best = max(best, float(self.returns(self.answer(policy, 1))[0]))
        return best


def of_openspiel(name: str) -> TreeGame:
    """A game of OpenSpiel as arrays; simultaneous moves are made one after the other, unseen.

    Raises:
        ConfigurationError: without the package, or for a game that is unknown or too large.
    """
    try:
        import pyspiel
    except ImportError:
        raise ConfigurationError("this world needs OpenSpiel: pip install 'hocket[games]'") from None
    try:
        game = pyspiel.load_game_as_turn_based(name)
    except Exception as error:
        raise ConfigurationError(f"OpenSpiel has no game {name!r}: {error}") from None
    return _walked(name, game)


def _walked(name: str, game: Any) -> TreeGame:
    """Every history, each after its parent."""
    rows: list[tuple[int, int, float, int]] = []
    pay: list[Sequence[float]] = []
    infos: dict[str, tuple[int, int, int]] = {}
    waiting: list[tuple[Any, int, int, float]] = [(game.new_initial_state(), -1, -1, 1.0)]
    while waiting:
        state, parent, move, likely = waiting.pop()
        place, over, info = len(rows), state.is_terminal(), -1
        if place >= LARGEST:
            raise ConfigurationError(f"{name} has more than {LARGEST} histories; take a smaller game")
        if not over and not state.is_chance_node():
            player = state.current_player()
            label = f"{player}: {state.information_state_string()}"
            info = infos.setdefault(label, (len(infos), player, len(state.legal_actions())))[0]
        rows.append((parent, move, likely, info))
        pay.append(state.returns() if over else [0.0] * game.num_players())
        if not over:
            onward = state.chance_outcomes() if info < 0 else [(action, 1.0) for action in state.legal_actions()]
            children = [(state.child(action), place, number, share) for number, (action, share) in enumerate(onward)]
            waiting += reversed(children)
    parents, taken, chance, known = (np.array(column) for column in zip(*rows, strict=True))
    _, movers, moves = (np.array(column) for column in zip(*infos.values(), strict=True))
    return TreeGame(
        f"openspiel:{name}", np.array(pay, float), parents, taken, chance, known, movers, moves, tuple(infos)
    )

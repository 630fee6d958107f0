"""Games of two who move at once through states that not all is known of: everything they may do, enumerated."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, drawn
from hocket.lab.exact.worlds import WorldFamily

LARGEST = 20_000
"""Pairs of certain policies that are still enumerated."""

LUCK = 0.3173
"""The chance of luck in the hall of `rumours`, which few shares of episodes come near."""


@dataclass(frozen=True)
class Walk:
    """An episode: states `[H + 1]` and the moves of both `[H, 2]`."""

    states: NDArray[np.int64]
    moves: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MarkovGame:
    """S states, M moves of each player, H decisions.

    A policy that is certain names a move at each place of `decisions`; elsewhere move 0 is made. An answer is a share
    for every pair of such policies, `[P * P]`, the second player's the faster.

    Attributes:
        candidates: `[K, S, M, M, S]`, what the transitions may be. truth: which of them they are.
        reward: `[2, S, M, M]`, of each player, by its state and the moves of the first and the second.
        decisions: pairs of a step and a state. start: the state of the first step.

    Raises:
        ConfigurationError: when rows of transitions do not sum to 1, or there are too many policies.
    """

    candidates: Array
    truth: int
    reward: Array
    decisions: tuple[tuple[int, int], ...]
    horizon: int
    start: int = 0
    name: str = "markov-game"

    def __post_init__(self) -> None:
        if not np.allclose(self.candidates.sum(-1), 1) or (self.candidates < 0).any():
            raise ConfigurationError(f"{self.name}: the rows of candidates must be probabilities that sum to 1")
        if self.reward.shape != (2, *self.candidates.shape[1:4]):
            raise ConfigurationError(
                f"{self.name}: reward has the shape {self.reward.shape}, not {(2, *self.candidates.shape[1:4])}"
            )
        if self.moves ** (2 * len(self.decisions)) > LARGEST:
            raise ConfigurationError(f"{self.name}: there are more than {LARGEST} pairs of policies")

    @property
    def moves(self) -> int:
        return int(self.reward.shape[2])

    @property
    def optimum(self) -> float:
        return 0.0

    @cached_property
    def policies(self) -> NDArray[np.int64]:
        """`[P, H, S]`, every certain policy of one player."""
        choices = list(itertools.product(range(self.moves), repeat=len(self.decisions)))
        found = np.zeros((len(choices), self.horizon, self.reward.shape[1]), np.int64)
        for place, (step, state) in enumerate(self.decisions):
            found[:, step, state] = [choice[place] for choice in choices]
        return found

    @cached_property
    def payoffs(self) -> Array:
        """`[K, 2, P, P]`, what each player earns on average by every pair of policies, if nature is a candidate."""
        first, second = self.policies[:, None], self.policies[None]
        states = np.arange(self.reward.shape[1])
        values = np.zeros((len(self.candidates), 2, len(first), len(first), len(states)))
        for step in reversed(range(self.horizon)):
            own, other = first[:, :, step], second[:, :, step]
            onward = self.candidates[:, states, own, other]
            earned = self.reward[:, states, own, other]
            values = earned[None] + np.einsum("kpqst,kipqt->kipqs", onward, values)
        found: Array = values[..., self.start]
        return found

    def value(self, mixture: Array) -> float:
        """Less what the player who could gain most would gain by a policy of its own, not knowing what was drawn."""
        return -gap(self.payoffs[self.truth], mixture.reshape(len(self.policies), -1))

    def walk(self, pair: int, key: Key) -> Walk:
        """An episode of a pair of policies."""
        own, other = divmod(pair, len(self.policies))
        draws = key.numpy().random(self.horizon)
        states, moves = np.full(self.horizon + 1, self.start), np.zeros((self.horizon, 2), np.int64)
        for step, draw in enumerate(draws):
            state = states[step]
            moves[step] = self.policies[own, step, state], self.policies[other, step, state]
            states[step + 1] = drawn(self.candidates[self.truth, state, *moves[step]], draw)
        return Walk(states, moves)


def gap(pay: Array, joint: Array) -> float:
    """The most that a player gains by one policy of its own, from pay `[2, P, Q]` and shares `[P, Q]` of pairs."""
    first = (pay[0] @ joint.sum(0)).max() - (pay[0] * joint).sum()
    second = (joint.sum(1) @ pay[1]).max() - (pay[1] * joint).sum()
    return float(max(first, second, 0.0))


def coarse_equilibrium(pay: Array, rounds: int = 1000) -> Array:
    """Shares `[P, Q]` of pairs from which nobody gains by leaving before the draw, to an error of `1 / sqrt(rounds)`.

    Both play by regret matching (Hart and Mas-Colell 2000); of the average of all rounds and that of the later half
    the one with the smaller gap.
    """
    regrets = [np.zeros(pay.shape[1]), np.zeros(pay.shape[2])]
    sums = np.zeros((2, *pay.shape[1:]))
    for turn in range(rounds):
        own, other = (_matched(one) for one in regrets)
        earned = pay[0] @ other, own @ pay[1]
        regrets[0] += earned[0] - own @ earned[0]
        regrets[1] += earned[1] - other @ earned[1]
        sums[2 * turn // rounds] += np.outer(own, other)
    every = sums.sum(0) / rounds
    late: Array = sums[1] / sums[1].sum()
    return min((late, every), key=lambda one: gap(pay, one))


def _matched(regret: Array) -> Array:
    kept = np.maximum(regret, 0)
    total = kept.sum()
    return kept / total if total > 0 else np.full(len(kept), 1 / len(kept))


def doors(count: int) -> MarkovGame:
    """A hall with doors, of which one opens, nine times of ten, to the first of two, and the second follows.

    Nobody knows which, if any. Staying in the hall pays both 0.05. In the room behind they choose again: 1 and 0.6 or
    0.6 and 1 where they agree on the first or the second move, nothing where they do not.
    """
    moves = count + 1
    candidates = np.zeros((moves, 3, moves, moves, 3))
    candidates[:, 0, :, :, 2] = candidates[:, 1, :, :, 2] = candidates[:, 2, :, :, 2] = 1
    for door in range(1, moves):
        candidates[door, 0, door, :, 1:] = 0.9, 0.1
    reward = np.zeros((2, 3, moves, moves))
    reward[:, 0, 0, :] = 0.05
    reward[:, 1, 0, 0], reward[:, 1, 1, 1] = (1.0, 0.6), (0.6, 1.0)
    return MarkovGame(candidates, count, reward, ((0, 0), (1, 1)), 2, name=f"doors:{count}")


def rumours(count: int) -> MarkovGame:
    """A hall with a door that opens one time in five; so many kinds of nature say it never does, and one, the truth.

    The room behind it is that of `doors`. Staying pays both 0.1 with luck, in some 32 of 100 episodes; those who are
    wrong of the door put that chance a little higher and a little lower in turn, by a 5000th more each time, so what is
    seen in the hall hardly ever speaks best for the truth.
    """
    candidates = np.zeros((count + 1, 4, 2, 2, 4))
    candidates[:, 1:, :, :, 2] = 1
    candidates[:count, 0, 1, :, 2] = 1
    candidates[count, 0, 1, :, 1:3] = 0.2, 0.8
    for kind in range(count + 1):
        off = 0.0 if kind == count else (kind // 2 + 1) * (-1) ** kind / 5000
        candidates[kind, 0, 0, :, 3], candidates[kind, 0, 0, :, 2] = LUCK + off, 1 - LUCK - off
    reward = np.zeros((2, 4, 2, 2))
    reward[:, 3] = 0.1
    reward[:, 1, 0, 0], reward[:, 1, 1, 1] = (1.0, 0.6), (0.6, 1.0)
    return MarkovGame(candidates, count, reward, ((0, 0), (1, 1)), 2, name=f"rumours:{count}")


def strangers(states: int, kinds: int) -> MarkovGame:
    """Two decisions in drawn states with drawn pay, and as many kinds of nature, drawn too."""
    draw = Key.of(0).derive("strangers", states, kinds).numpy()
    candidates = draw.dirichlet(np.full(states, 0.5), size=(kinds, states, 2, 2))
    reward = draw.uniform(size=(2, states, 2, 2))
    places = ((0, 0), *((1, state) for state in range(states)))
    return MarkovGame(candidates, 0, reward, places, 2, name=f"strangers:{states}x{kinds}")


DOORS = WorldFamily(name="doors", description="a room for two behind one of some doors", make=doors, size=(3,))
RUMOURS = WorldFamily(
    name="rumours", description="a door that only one kind of nature opens, for two", make=rumours, size=(2,)
)
STRANGERS = WorldFamily(
    name="strangers", description="states by kinds of nature, for two", make=strangers, size=(3, 12)
)

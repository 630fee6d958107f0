"""Decision processes as arrays: exact values, visits and optima, and episodes drawn by keys.

S states, A actions. With a horizon of H decisions a policy is `[H, S, A]` (one of `[S, A]` is played at every step),
without one `[S, A]`; its last axis sums to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key

Array = NDArray[np.float64]

NEGLIGIBLE = 1e-12
"""Differences of values that do not decide between actions."""


@dataclass(frozen=True)
class ExactEpisode:
    """What was seen: states `[T + 1]`, actions `[T]`, rewards `[T]`."""

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: Array


@dataclass(frozen=True)
class Solution:
    """Of one policy: the policy, its values V and its action values Q.

    Attributes:
        value: `[H + 1, S]`, the last row 0; without a horizon `[S]`. quality: `[H, S, A]` or `[S, A]`.
    """

    policy: Array
    value: Array
    quality: Array


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """A decision process with known arrays.

    Attributes:
        transition: `[S, A, S]`, rows sum to 1. reward: `[S, A]`, what a decision earns, each time.
        start: `[S]`, where episodes begin. horizon: decisions of an episode; None for endless ones, which take a
            `discount` below 1.

    Raises:
        ConfigurationError: when shapes differ, a number is not finite or rows do not sum to 1.
    """

    transition: Array
    reward: Array
    start: Array
    horizon: int | None = None
    discount: float = 1.0
    name: str = "mdp"

    def __post_init__(self) -> None:
        states, actions = self.reward.shape if self.reward.ndim == 2 else (0, 0)
        for what, array, shape in (
            ("reward", self.reward, (states, actions)),
            ("transition", self.transition, (states, actions, states)),
            ("start", self.start, (states,)),
        ):
            if not states or not actions or array.shape != shape:
                raise ConfigurationError(
                    f"{self.name}: {what} has the shape {array.shape}; reward is [S, A], transition [S, A, S], start "
                    "[S], and none is empty"
                )
            if not np.isfinite(array).all():
                raise ConfigurationError(f"{self.name}: {what} holds a number that is not finite")
        for what, rows in (("transition", self.transition), ("start", self.start)):
            if (rows < 0).any() or not np.allclose(rows.sum(-1), 1, rtol=0, atol=1e-9):
                raise ConfigurationError(f"{self.name}: the rows of {what} must be probabilities that sum to 1")
        if not 0 < self.discount <= 1 or (self.horizon is None and self.discount == 1):
            raise ConfigurationError(
                f"{self.name}: discount = {self.discount}; it is above 0 and at most 1, below 1 without a horizon"
            )
        if self.horizon is not None and self.horizon < 1:
            raise ConfigurationError(f"{self.name}: horizon = {self.horizon}; an episode has at least 1 decision")

    # ------------------------------------------------------------ what there is

    @property
    def states(self) -> int:
        return int(self.reward.shape[0])

    @property
    def actions(self) -> int:
        return int(self.reward.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a policy."""
        return self.reward.shape if self.horizon is None else (self.horizon, *self.reward.shape)

    @property
    def even(self) -> Array:
        """Every action with equal probability."""
        return np.full(self.shape, 1 / self.actions)

    def greedy(self, quality: Array) -> Array:
        """Certain of the best action by `quality`, the first of those that differ by less than `NEGLIGIBLE`."""
        best = (quality >= quality.max(-1, keepdims=True) - NEGLIGIBLE).argmax(-1)
        chosen: Array = np.eye(self.actions)[best]
        return chosen

    # ------------------------------------------------------------ exact

    def solved(self, policy: Array) -> Solution:
        """The values of a policy."""
        if self.horizon is not None:
            by_step = np.broadcast_to(policy, self.shape)
            return self._backward(lambda quality, step: by_step[step])
        move = np.einsum("sa,sat->st", policy, self.transition)
        system = np.eye(self.states) - self.discount * move
        value = np.linalg.solve(system, (policy * self.reward).sum(-1))
        return Solution(policy, value, self.backup(value))

    @cached_property
    def best(self) -> Solution:
        """An optimal policy that is certain of its actions, and the optimal values."""
        if self.horizon is not None:
            return self._backward(lambda quality, step: self.greedy(quality))
        solution = self.solved(self.greedy(self.reward))
        while True:  # Policy iteration ends, as no policy comes twice: each is better somewhere and nowhere worse.
            better = self.greedy(solution.quality)
            optimal = ((better - solution.policy) * solution.quality).sum(-1) <= NEGLIGIBLE
            if optimal.all():
                return solution
            solution = self.solved(np.where(optimal[:, None], solution.policy, better))

    @property
    def optimum(self) -> float:
        """The best value from the start."""
        return self._begun(self.best)

    def value(self, policy: Array) -> float:
        """The expected return of a policy from the start."""
        return self._begun(self.solved(policy))

    def visits(self, policy: Array) -> Array:
        """How likely a state and action are under a policy, as `shape`: at each step, or discounted; they sum to 1."""
        if self.horizon is None:
            move = np.einsum("sa,sat->st", policy, self.transition)
            system = np.eye(self.states) - self.discount * move
            discounted: Array = (1 - self.discount) * np.linalg.solve(system.T, self.start)[:, None] * policy
            return discounted
        by_step, visits, at = np.broadcast_to(policy, self.shape), np.zeros(self.shape), self.start
        for step in range(self.horizon):
            visits[step] = at[:, None] * by_step[step]
            at = np.einsum("sa,sat->t", visits[step], self.transition)
        return visits

    def backup(self, value: Array) -> Array:
        """Q = r + discount * P V, `[S, A]`."""
        quality: Array = self.reward + self.discount * self.transition @ value
        return quality

    def _backward(self, choose: object) -> Solution:
        assert self.horizon is not None
        assert callable(choose)
        value, quality, policy = np.zeros((self.horizon + 1, self.states)), np.zeros(self.shape), np.zeros(self.shape)
        for step in reversed(range(self.horizon)):
            quality[step] = self.backup(value[step + 1])
            policy[step] = choose(quality[step], step)
            value[step] = (policy[step] * quality[step]).sum(-1)
        return Solution(policy, value, quality)

    def _begun(self, found: Solution) -> float:
        return float(self.start @ (found.value if self.horizon is None else found.value[0]))

    # ------------------------------------------------------------ drawn

    def episode(self, policy: Array, key: Key, steps: int | None = None) -> ExactEpisode:
        """An episode of `steps` decisions; of the horizon unless given, which an endless world needs."""
        length = steps or self.horizon
        if length is None:
            raise ConfigurationError(f"{self.name} has no horizon; say how many steps an episode has")
        by_step = policy if policy.ndim == 3 else np.broadcast_to(policy, (length, *self.reward.shape))
        draws = key.numpy().random((length, 2))
        states, actions = np.zeros(length + 1, np.int64), np.zeros(length, np.int64)
        states[0] = drawn(self.start, key.derive("start").numpy().random())
        for step in range(length):
            state = states[step]
            actions[step] = drawn(by_step[step, state], draws[step, 0])
            states[step + 1] = drawn(self.transition[state, actions[step]], draws[step, 1])
        return ExactEpisode(states, actions, self.reward[states[:-1], actions])


def softmax(logits: Array) -> Array:
    """Shares in proportion to `exp(logits)`, over the last axis."""
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    shares: Array = raised / raised.sum(-1, keepdims=True)
    return shares


def drawn(shares: Array, uniform: Array | float) -> NDArray[np.int64]:
    """`[..]`, the numbers that uniform draws `[..]` in [0, 1) stand for, of shares `[.., K]`; none without share."""
    edges = shares.cumsum(-1)
    last = (edges < edges[..., -1:]).sum(-1)
    numbers = (np.asarray(uniform)[..., None] * edges[..., -1:] >= edges).sum(-1)
    return np.asarray(np.minimum(numbers, last))


def read(path: Path) -> TabularMDP:
    """A world of a user's: an .npz with `transition`, `reward`, and at will `start` (state 0), `horizon`, `discount`.

    Raises:
        ConfigurationError: when it cannot be read, or holds no such world.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            held = {name: np.asarray(file[name], np.float64) for name in file.files}
    except (OSError, ValueError, EOFError) as error:
        raise ConfigurationError(f"world {path} cannot be read as an .npz of numbers: {error}") from error
    if missing := sorted({"transition", "reward"} - set(held)):
        raise ConfigurationError(f"world {path} has no {missing[0]}; it needs transition [S, A, S] and reward [S, A]")
    if other := sorted(set(held) - {"transition", "reward", "start", "horizon", "discount"}):
        raise ConfigurationError(
            f"world {path} has {other[0]}, which is none of transition, reward, start, horizon and discount"
        )
    for name in {"horizon", "discount"} & set(held):
        if held[name].size != 1 or not np.isfinite(held[name]).all():
            raise ConfigurationError(f"world {path}: {name} is one number")
    start = held.get("start", np.eye(len(held["reward"]) if held["reward"].ndim else 0)[:1].reshape(-1))
    horizon = int(held["horizon"].item()) if "horizon" in held else None
    discount = float(held["discount"].item()) if "discount" in held else (1.0 if horizon else 0.95)
    return TabularMDP(held["transition"], held["reward"], start, horizon, discount, str(path))

"""MBMA: a policy gradient with many actions at each state, the further ones judged by a model (arXiv:2210.13011).

At a state that was visited the gradient averages over N actions, the one that was taken and N - 1 drawn besides,

    g = mean_t 1/N sum_n grad log pi(a_n | s_t) Q(s_t, a_n).

What the further ones would have earned comes from short rollouts of a learnt model, which a critic ends; states that
the model makes up are never differentiated at. `gradient_variance` is the law behind it (Nauman and Cygan): more
actions divide the part of the variance that is due to actions alone, a longer path divides all of it, but by less where
what is done leads back to where the same is done.

Here policy, critic and model are tables: the model counts all decisions so far, and a pair that it has not seen is not
judged. Steps are of each state by itself, along its mean gradient, of advantages that are whitened over all actions of
a step; the authors take PPO's, on networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, TabularMDP, drawn, softmax
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.lab.exact.worlds import World

Ints = NDArray[np.int64]


def gradient_variance(world: TabularMDP, policy: Array, steps: int, actions: int) -> float:
    """The variance, summed over logits, of g over a path of so many steps with so many actions each, with true Q.

    The path begins in the stationary distribution of the policy `[S, A]`. Of the actions one is taken, so that what
    follows depends on it; the others are drawn besides.
    """
    move = np.einsum("sa,sat->st", policy, world.transition)
    share = stationary(move)
    each = scores(policy) * world.solved(policy).quality[..., None]  # [S, A, A]: of state s by its own logits.
    mean = np.einsum("sa,sab->sb", policy, each)
    between = float(share @ (mean**2).sum(1))
    within = float(share @ ((policy[..., None] * each**2).sum((1, 2)) - (mean**2).sum(1)))
    centre = float(((share[:, None] * mean) ** 2).sum())  # States have logits of their own.
    total = steps * (between - centre + within / actions)
    onward = np.eye(len(share))
    for gap in range(1, steps):
        # The chance to be in state s again `gap` steps later, by the action that was taken in s.
        again = np.einsum("sat,ts->sa", world.transition, onward)
        taken = np.einsum("s,sa,sa,sab,sb->", share, policy, again, each, mean)
        besides = np.einsum("s,sa,sa,sb->", share, policy, again, mean**2)
        total += 2 * (steps - gap) * (float(taken) / actions + float(besides) * (1 - 1 / actions) - centre)
        onward = move @ onward
    return total / steps**2


def stationary(move: Array) -> Array:
    """The distribution `[S]` that moves `[S, S]` leave as it is."""
    system = np.vstack([move.T - np.eye(len(move)), np.ones(len(move))])
    share: Array = np.linalg.lstsq(system, np.append(np.zeros(len(move)), 1.0), rcond=None)[0]
    return share


def scores(policy: Array) -> Array:
    """`grad log pi(a|s)` by the logits of s: `[S, A, A]`."""
    result: Array = np.eye(policy.shape[1]) - policy[:, None]
    return result


@dataclass(frozen=True)
class ManyActions(Solver):
    """See the module. A step is a few episodes and a step along their gradient.

    Attributes:
        episodes, length: of a step. further: actions drawn besides at each state, N - 1. horizon: of the model's
            rollouts, after which the critic counts. rate: of the policy. lam: of the advantages of actions taken.
        pace: of the critic.
    """

    episodes: int = 2
    length: int = 10
    further: int = 7
    horizon: int = 3
    rate: float = 1.0
    lam: float = 0.9
    pace: float = 0.5

    def __post_init__(self) -> None:
        if min(self.episodes, self.length, self.horizon) < 1 or self.further < 0:
            raise ConfigurationError(
                f"method.episodes = {self.episodes}, method.length = {self.length} and method.horizon = {self.horizon} "
                f"are at least 1, method.further = {self.further} at least 0"
            )
        if not self.rate > 0 or not 0 < self.pace <= 1 or not 0 <= self.lam <= 1:
            raise ConfigurationError(
                f"method.rate = {self.rate} is positive, method.pace = {self.pace} in (0, 1], method.lam = {self.lam} "
                "in [0, 1]"
            )

    def checked(self, world: World) -> None:
        super().checked(world)
        if isinstance(world, TabularMDP) and world.horizon is not None:
            raise ConfigurationError(
                f"ManyActions learns one table for all steps, and {world.name} has a horizon; take a world without "
                "one, such as random:12x4"
            )

    def init(self, world: TabularMDP, key: Key) -> State:
        shape = world.reward.shape
        return {
            "logits": np.zeros(shape),
            "value": np.zeros(shape[0]),
            "followed": np.zeros(world.transition.shape),
            "paid": np.zeros(shape),
        }

    def step(self, world: TabularMDP, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        policy, value = softmax(state["logits"]), state["value"]
        states, actions, rewards = played(world, policy, self.episodes, self.length, key.derive("episodes"))
        followed, paid = state["followed"].copy(), state["paid"].copy()
        np.add.at(followed, (states[:, :-1], actions), np.eye(world.states)[states[:, 1:]])
        np.add.at(paid, (states[:, :-1], actions), rewards)
        gain, at = self.advantages(states, rewards, value, world.discount), states[:, :-1].ravel()
        taken = actions.ravel()
        besides, judged, known = self.judged(followed, paid, policy, value, at, world.discount, key.derive("besides"))
        further = judged - value[at, None]
        every = np.concatenate([gain.ravel(), further[known]])
        middle, spread = float(every.mean()), max(float(every.std()), 1e-8)
        whitened = (gain.ravel() - middle) / spread, (further - middle) / spread
        slope = averaged(policy, at, taken, whitened[0], besides, whitened[1], known)
        wanted, visits = np.zeros(world.states), np.bincount(at, minlength=world.states)
        np.add.at(wanted, at, gain.ravel())
        logits = state["logits"] + self.rate * slope / np.maximum(visits, 1)[:, None]
        after = {"logits": logits, "value": value + self.pace * wanted / np.maximum(visits, 1)}
        figures = {"paid": float(rewards.mean()), "judged": float(known.mean()) if known.size else 0.0}
        return {**after, "followed": followed, "paid": paid}, figures

    def advantages(self, states: Ints, rewards: Array, value: Array, discount: float) -> Array:
        """Of actions that were taken, `[N, L]`; episodes are cut, so the last value is bootstrapped."""
        errors = rewards + discount * value[states[:, 1:]] - value[states[:, :-1]]
        result, running = np.zeros_like(errors), np.zeros(len(errors))
        for step in reversed(range(errors.shape[1])):
            running = errors[:, step] + discount * self.lam * running
            result[:, step] = running
        return result

    def judged(
        self, followed: Array, paid: Array, policy: Array, value: Array, at: Ints, discount: float, key: Key
    ) -> tuple[Ints, Array, NDArray[np.bool_]]:
        """Actions drawn besides at states `[M]`, their Q by rollouts, and whether the model knows them: `[M, N - 1]`.

        A rollout that comes to a pair without records ends there with the critic's value.
        """
        counts = followed.sum(-1)
        share, mean = followed / np.maximum(counts, 1)[..., None], paid / np.maximum(counts, 1)
        luck = key.numpy().random((2 * self.horizon, len(at), self.further))
        place = np.repeat(at[:, None], self.further, 1)
        first = drawn(policy[place], luck[0])
        action, known = first, counts[place, first] > 0
        total, factor, live = np.zeros(place.shape), np.ones(place.shape), known.copy()
        for step in range(self.horizon):
            total += np.where(live, factor * mean[place, action], 0.0)
            place = np.where(
                live, drawn(np.where(live[..., None], share[place, action], 1.0), luck[2 * step + 1]), place
            )
            factor = np.where(live, factor * discount, factor)
            if step < self.horizon - 1:
                action = drawn(policy[place], luck[2 * step + 2])
                live = live & (counts[place, action] > 0)
        return first, total + factor * value[place], known

    def answer(self, world: TabularMDP, state: State) -> Array:
        """The policy `[S, A]`."""
        return softmax(state["logits"])


def averaged(
    policy: Array,
    states: Ints,
    taken: Ints,
    gain: Array,
    besides: Ints,
    further: Array,
    known: NDArray[np.bool_],
) -> Array:
    """The sum over visited states `[M]` of the mean over their actions of `grad log pi(a|s) A`, `[S, A]`.

    Args:
        taken, gain: the action taken and its advantage, `[M]`. besides, further: the others, `[M, N - 1]`, of which
            those that are not `known` do not count.
    """
    score, result = scores(policy), np.zeros_like(policy)
    weight = 1 / (1 + known.sum(1))
    np.add.at(result, states, score[states, taken] * (weight * gain)[:, None])
    every = score[states[:, None], besides] * (weight[:, None] * further * known)[..., None]
    np.add.at(result, states, every.sum(1))
    return result


def played(world: TabularMDP, policy: Array, count: int, length: int, key: Key) -> tuple[Ints, Ints, Array]:
    """States `[N, L + 1]`, actions and rewards `[N, L]` of some episodes."""
    luck = key.numpy().random((2 * length + 1, count))
    states, actions = np.zeros((count, length + 1), np.int64), np.zeros((count, length), np.int64)
    states[:, 0] = drawn(np.broadcast_to(world.start, (count, world.states)), luck[-1])
    for step in range(length):
        actions[:, step] = drawn(policy[states[:, step]], luck[2 * step])
        row = world.transition[states[:, step], actions[:, step]]
        states[:, step + 1] = drawn(row, luck[2 * step + 1])
    return states, actions, world.reward[states[:, :-1], actions]


MBMA = SolverMethod(
    name="mbma",
    description="a policy gradient with many actions at each state, of which a learnt model judges all but one",
    solver=ManyActions(),
    world="random:12x4",
    steps=60,
    source="On Many-Actions Policy Gradient, arXiv:2210.13011",
)

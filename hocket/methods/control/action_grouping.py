"""Fewer actions by grouping: plan with groups of actions that do nearly the same, as many as the data pay for.

An action's kernel is its group's and a difference, `P(.|s, a) = P_g(.|s) + D_a(.|s)`. Planning with groups loses what
the differences are worth, less the finer the groups; estimating their kernels from N samples loses more the more groups
share them. The number of groups minimises the sum of what both are expected to lose (`loss`).

The paper's text was not at hand, only its abstract. Ours are: how alike actions are is known beforehand (from the true
arrays), as by the power of a transmitter, and what each does is not; groups are complete-linkage clusters by
`distances`; samples are drawn evenly over states and actions, as from a simulator, and serve every grouping; a group's
action is drawn evenly. Both errors are counted in total variation: of the farthest action of a group from its mean, and
of a kernel estimated from n samples from the true one, `e = sum_t sqrt(2 p_t (1 - p_t) / (pi n)) / 2`. The second loses
only where it turns an order, so it counts `e min(1, e / d)`, d the first error of one group of all actions; its
worst-case bound chooses far too few groups. The candidates are powers of four and all actions, so the search looks at
`log4 A` numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.lab.exact.worlds import World, WorldFamily

Labels = NDArray[np.int64]


def distances(world: TabularMDP) -> Array:
    """How far apart actions are in units of values, at the state where most: `max_s |r - r'| + discount span TV`."""
    apart = 0.5 * np.abs(world.transition[:, :, None] - world.transition[:, None]).sum(-1)
    rewards = np.abs(world.reward[:, :, None] - world.reward[:, None])
    found: Array = (rewards + world.discount * span(world) * apart).max(0)
    return found


def span(world: TabularMDP) -> float:
    """The most by which two values may differ."""
    return float(np.ptp(world.reward)) / (1 - world.discount)


def ladder(actions: int) -> list[int]:
    """The numbers of groups to choose from."""
    return [4**rung for rung in range(actions) if 4**rung < actions] + [actions]


def grouped(apart: Array, sizes: Sequence[int]) -> Labels:
    """Complete-linkage clusters of the distances `[A, A]`: the group of each action by number of groups, `[K, A]`."""
    groups = [[action] for action in range(len(apart))]
    between, found = apart.copy(), dict[int, Labels]()
    np.fill_diagonal(between, np.inf)
    while True:
        if len(groups) in sizes:
            found[len(groups)] = np.zeros(len(apart), np.int64)
            for number, members in enumerate(groups):
                found[len(groups)][members] = number
        if len(groups) == 1:
            return np.stack([found[size] for size in sizes])
        one, other = sorted(int(place) for place in np.unravel_index(between.argmin(), between.shape))
        groups[one] = groups[one] + groups.pop(other)
        between[one] = between[:, one] = np.maximum(between[one], between[other])
        between = np.delete(np.delete(between, other, 0), other, 1)
        between[one, one] = np.inf


def expected(world: TabularMDP, labels: Labels, seen: Array) -> tuple[float, float]:
    """What grouping and what estimation are expected to be off by: total variations, means over states and groups.

    Args:
        labels: of one grouping. seen: how often each transition was seen, `[S, A, S]`.
    """
    member: Array = np.eye(int(labels.max()) + 1)[labels]
    even = member / member.sum(0)
    centre = np.einsum("sat,ag->sgt", world.transition, even)[:, labels]
    paid = (world.reward @ even)[:, labels]
    worth = span(world) * world.discount
    apart = 0.5 * np.abs(world.transition - centre).sum(-1)
    apart += np.abs(world.reward - paid) / worth if worth > 0 else 0.0
    pooled = seen.sum(1) + 1 / world.states  # What is seen in a state, whatever is done: the same for all groupings.
    share = pooled / pooled.sum(-1, keepdims=True)
    each = max(float(seen.sum()) / (world.states * member.shape[1]), 1e-9)
    noise = 0.5 * np.sqrt(2 * share * (1 - share) / (math.pi * each)).sum(-1).mean()
    farthest = (apart[:, :, None] * member).max(1)
    return float(farthest.mean()), min(float(noise), 1.0)


def loss(world: TabularMDP, labels: Labels, seen: Array) -> float:
    """What a grouping is expected to lose, up to a factor that all share."""
    near, noise = expected(world, labels, seen)
    every, _ = expected(world, np.zeros_like(labels), seen)
    return near + noise * min(1.0, noise / every if every > 0 else 1.0)


def planned(world: TabularMDP, labels: Labels, seen: Array) -> Array:
    """The best policy of the estimated world of groups, each of its actions as likely, `[S, A]`.

    Args:
        seen: how often each transition was seen, `[S, A, S]`. What a group never did is taken to lead anywhere, for the
            mean reward.
    """
    member: Array = np.eye(int(labels.max()) + 1)[labels]
    counts = np.einsum("sat,ag->sgt", seen, member)
    visits = counts.sum(-1)
    earned = np.einsum("sa,sa,ag->sg", seen.sum(-1), world.reward, member)
    known = visits > 0
    safe = np.where(known, visits, 1)
    transition = np.where(known[..., None], counts / safe[..., None], 1 / world.states)
    reward = np.where(known, earned / safe, earned.sum() / max(visits.sum(), 1))
    model = TabularMDP(transition, reward, world.start, None, world.discount)
    return spread(model.best.policy, labels)


def spread(policy: Array, labels: Labels) -> Array:
    """A policy of groups `[S, k]` as one of actions, even within a group."""
    shares: Array = policy[:, labels] / np.bincount(labels)[labels]
    return shares


@dataclass(frozen=True)
class ActionGrouping(Solver):
    """See the module.

    Attributes:
        groups: how many, a number of the `ladder`; 0 chooses by what is expected. samples: that are drawn each step.
    """

    groups: int = 0
    samples: int = 200

    def __post_init__(self) -> None:
        if self.groups < 0 or self.samples < 1:
            raise ConfigurationError(
                f"method.groups = {self.groups}, method.samples = {self.samples}: groups are 0 (to be chosen) or more, "
                "and a step draws at least 1 sample"
            )

    def checked(self, world: World) -> None:
        super().checked(world)
        one = cast(TabularMDP, world)
        if one.horizon is not None:
            raise ConfigurationError(f"action-grouping plans without a horizon, and {world.name} has one; take chain:8")
        if self.groups and self.groups not in ladder(one.actions):
            raise ConfigurationError(f"method.groups = {self.groups}: choose from 0, {str(ladder(one.actions))[1:-1]}")

    def init(self, world: TabularMDP, key: Key) -> State:
        labels = grouped(distances(world), ladder(world.actions))
        return {"labels": labels, "seen": np.zeros_like(world.transition), "policy": world.even}

    def step(self, world: TabularMDP, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        seen, sizes = drawn(world, state["seen"], self.samples, key), ladder(world.actions)
        off = [loss(world, labels, seen) for labels in state["labels"]]
        rung = sizes.index(self.groups) if self.groups else int(np.argmin(off))
        policy = planned(world, state["labels"][rung], seen)
        figures = {"groups": float(sizes[rung]), "samples": float(seen.sum())}
        return {**state, "seen": seen, "policy": policy}, figures

    def answer(self, world: TabularMDP, state: State) -> Array:
        return state["policy"]


def drawn(world: TabularMDP, seen: Array, samples: int, key: Key) -> Array:
    """Counts with so many more samples of states and actions, drawn evenly."""
    noise, found = key.numpy(), seen.copy()
    states, actions = noise.integers(world.states, size=samples), noise.integers(world.actions, size=samples)
    edges = world.transition[states, actions].cumsum(-1)
    after = (noise.random((samples, 1)) * edges[:, -1:] >= edges).sum(-1)
    np.add.at(found, (states, actions, after), 1)
    return found


def clusters(groups: int, actions: int, *, width: float = 0.2, seed: int = 0) -> TabularMDP:
    """Actions that do one of a few things, each with a difference of its own: of the size `width`, drawn."""
    states, noise = 6, Key.of(seed).derive("clusters", groups, actions).numpy()
    kernel = noise.dirichlet(np.full(states, 0.3), size=(states, groups))
    label = np.append(np.arange(groups), noise.integers(groups, size=max(actions - groups, 0)))[:actions]
    own = noise.dirichlet(np.full(states, 0.3), size=(states, actions))
    transition = (1 - width) * kernel[:, label] + width * own
    reward = np.repeat(noise.random((states, 1)), actions, 1)
    start = np.full(states, 1 / states)
    return TabularMDP(transition, reward, start, discount=0.8, name=f"clusters:{groups}x{actions}")


CLUSTERS = WorldFamily(
    name="clusters", description="groups by actions that nearly do the same; endless", make=clusters, size=(4, 64)
)

ACTION_GROUPING = SolverMethod(
    name="action-grouping",
    description="plans with groups of like actions, as many as the data pay for",
    solver=ActionGrouping(),
    world="clusters:4x64",
    steps=50,
    source="Achieving Sample and Computational Efficient Reinforcement Learning by Action Space Reduction via Grouping",
)

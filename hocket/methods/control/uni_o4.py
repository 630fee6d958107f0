"""Uni-O4: one on-policy objective for recorded and for fresh decisions (Lei et al., arXiv:2311.03351).

Offline, from recorded decisions of several behaviours alone:

1. K clones fit the likelihood of the data, and besides disagree, so that together they cover what was done,
   `1/K sum_k E log pi_k(a|s) + alpha E log Z(s)`,  `Z(s) = sum_a max_k pi_k(a|s)`.
2. Q and V are fitted in-sample: Q backs up V, V is an upper expectile of Q over the recorded actions.
3. Every clone is improved by PPO's clipped surrogate at recorded states, `E min(rho A, clip(rho) A)` with
   `rho = pi / pi_k` and `A = Q - V`. The anchor pi_k is replaced by pi only if a learnt model says that it got better:
   `J(pi) = E sum_{t < H} Q(s_t, a_t)`, rolled out in the model, is above J(pi_k).

Online, the member with the largest J goes on with plain PPO from its own episodes, and V as its critic: no pessimism
has to be taken back.

Here everything is a table: policies are logits, the model counts, and its rollouts are expectations. Of the paper's
disagreement the idea alone was at hand; log Z, the mass of the largest of all members, is our form of it. A pair that
was never recorded has Q = V; the model leaves the state there as it is.
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


@dataclass(frozen=True, eq=False)
class RecordedEpisodes:
    """Decisions of N episodes of L steps: states `[N, L + 1]`, actions and rewards `[N, L]`."""

    states: Ints
    actions: Ints
    rewards: Array

    def counts(self, world: TabularMDP) -> Array:
        """How often every pair was recorded, `[S, A]`."""
        result = np.zeros(world.reward.shape)
        np.add.at(result, (self.states[:, :-1], self.actions), 1.0)
        return result


def played(world: TabularMDP, policies: Array, length: int, key: Key) -> RecordedEpisodes:
    """An episode of each policy `[N, S, A]`."""
    count = len(policies)
    luck, every = key.numpy().random((2 * length + 1, count)), np.arange(count)
    states, actions = np.zeros((count, length + 1), np.int64), np.zeros((count, length), np.int64)
    states[:, 0] = drawn(np.broadcast_to(world.start, (count, world.states)), luck[-1])
    for step in range(length):
        at = states[:, step]
        actions[:, step] = drawn(policies[every, at], luck[2 * step])
        states[:, step + 1] = drawn(world.transition[at, actions[:, step]], luck[2 * step + 1])
    return RecordedEpisodes(states, actions, world.reward[states[:, :-1], actions])


@dataclass(frozen=True, eq=False)
class CountedModel:
    """What decisions were followed by, `[S, A, S]`, and paid, `[S, A]`, on average."""

    transition: Array
    reward: Array


def counted(world: TabularMDP, data: RecordedEpisodes) -> CountedModel:
    """The model of recorded decisions; a pair without any leaves the state as it is and pays 0."""
    at, counts = data.states[:, :-1], data.counts(world)
    followed, paid = np.zeros(world.transition.shape), np.zeros(world.reward.shape)
    np.add.at(followed, (at, data.actions, data.states[:, 1:]), 1.0)
    np.add.at(paid, (at, data.actions), data.rewards)
    stay = np.broadcast_to(np.eye(world.states)[:, None], followed.shape)
    some = np.maximum(counts, 1)
    return CountedModel(np.where(counts[..., None] > 0, followed / some[..., None], stay), paid / some)


def in_sample(model: CountedModel, counts: Array, discount: float, expectile: float) -> tuple[Array, Array]:
    """Q `[S, A]` and V `[S]`, each what the other says: V the expectile of Q over recorded actions."""
    value, share = np.zeros(len(counts)), counts / np.maximum(counts.sum(1, keepdims=True), 1)
    for _ in range(2000):
        quality = model.reward + discount * model.transition @ value
        before, value = value, expectiles(quality, share, expectile)
        if float(np.abs(value - before).max()) < 1e-10:
            break
    return np.where(counts > 0, quality, value[:, None]), value


def expectiles(quality: Array, share: Array, level: float) -> Array:
    """`[S]`, v with `sum_a share_a |level - 1(q_a < v)| (q_a - v) = 0`; 0 where nothing has a share."""
    value: Array = (share * quality).sum(1)
    for _ in range(100):
        weight = share * np.where(quality > value[:, None], level, 1 - level)
        after = (weight * quality).sum(1) / np.maximum(weight.sum(1), 1e-300)
        if np.array_equal(after, value):
            break
        value = after
    return value


def cloning(logits: Array, counts: Array, alpha: float) -> Array:
    """The gradient of the clones' objective by their logits `[K, S, A]`, of each state by itself."""
    policies = softmax(logits)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    likelihood = (share - policies * share.sum(1, keepdims=True)) / len(logits)
    largest = policies.max(0)
    first = np.arange(len(logits))[:, None, None] == policies.argmax(0)
    upstream = first / largest.sum(-1)[:, None]
    covered = policies * (upstream - (policies * upstream).sum(-1, keepdims=True))
    slope: Array = likelihood + alpha * (counts.sum(1) > 0)[:, None] * covered
    return slope


def surrogate(logits: Array, anchor: Array, advantage: Array, clip: float) -> Array:
    """The gradient of `sum_a pi_k min(rho A, clip(rho) A)` by the logits `[.., S, A]`, of each state by itself."""
    policy = softmax(logits)
    ratio = policy / anchor
    moves = np.where(advantage > 0, ratio < 1 + clip, ratio > 1 - clip)
    upstream = moves * advantage
    slope: Array = policy * (upstream - (policy * upstream).sum(-1, keepdims=True))
    return slope


def estimated(states: Ints, actions: Ints, advantage: Array, old: Array) -> Array:
    """What stands for A `[S, A]` in a surrogate of drawn decisions: its mean over a state's draws is that of A pi_k.

    So `sum_a pi_k min(rho A, clip(rho) A)` is the mean of `min(rho A, clip(rho) A)` over the decisions drawn there.
    """
    total, visits = np.zeros_like(old), np.zeros(len(old))
    np.add.at(total, (states, actions), advantage)
    np.add.at(visits, states, 1.0)
    shares: Array = total / (np.maximum(visits, 1)[:, None] * np.maximum(old, 1e-12))
    return shares


def score(policies: Array, model: CountedModel, quality: Array, start: Array, steps: int) -> Array:
    """J of every policy `[K, S, A]`: the sum of Q over so many steps in the model, `[K]`."""
    at, total = np.broadcast_to(start, policies.shape[:2]), np.zeros(len(policies))
    for _ in range(steps):
        pairs = at[..., None] * policies
        total += (pairs * quality).sum((1, 2))
        at = np.einsum("ksa,sat->kt", pairs, model.transition)
    return total


@dataclass(frozen=True)
class OfflineToOnline(Solver):
    """See the module. A step is one round: of gradients and a vote on each anchor offline, of fresh episodes online.

    Attributes:
        episodes, length: of the recorded data; half of the episodes are of even odds, half of a policy that is fair.
        skill: how sharply that policy follows the best values. members: K. alpha: of their disagreement.
        cloning: gradients of the clones. expectile: of V. offline: rounds before going online. rows: recorded states of
            a round, for each of which the anchor draws an action. gradients: of a round. rate: of all gradients.
        clip: of the ratio. horizon: H of J. gated: whether J decides on an anchor; else every round replaces it.
        fresh: episodes of a round online. lam: of the advantages there.
    """

    episodes: int = 40
    length: int = 20
    skill: float = 2.0
    members: int = 4
    alpha: float = 0.1
    cloning: int = 300
    expectile: float = 0.7
    offline: int = 40
    rows: int = 32
    gradients: int = 10
    rate: float = 0.5
    clip: float = 0.2
    horizon: int = 10
    gated: bool = True
    fresh: int = 32
    lam: float = 0.9

    def __post_init__(self) -> None:
        counts = (self.episodes, self.length, self.members, self.rows, self.gradients, self.horizon, self.fresh)
        if min(counts) < 1 or self.cloning < 0 or self.offline < 0 or self.alpha < 0:
            raise ConfigurationError(
                f"method.episodes, length, members, rows, gradients, horizon and fresh = {counts} are at least 1, "
                f"cloning = {self.cloning}, offline = {self.offline} and alpha = {self.alpha} at least 0"
            )
        if not 0 < self.expectile < 1 or not 0 < self.clip < 1 or not self.rate > 0 or not 0 <= self.lam <= 1:
            raise ConfigurationError(
                f"method.expectile = {self.expectile} and method.clip = {self.clip} lie between 0 and 1, method.rate = "
                f"{self.rate} is positive, method.lam = {self.lam} in [0, 1]"
            )

    def checked(self, world: World) -> None:
        super().checked(world)
        if isinstance(world, TabularMDP) and world.horizon is not None:
            raise ConfigurationError(
                f"OfflineToOnline learns one table for all steps, and {world.name} has a horizon; take a world without "
                "one, such as random:12x4"
            )

    # ------------------------------------------------------------ the data and what is fitted to them

    def recorded(self, world: TabularMDP, key: Key) -> RecordedEpisodes:
        """The data of a key."""
        best = world.best.quality
        fair = softmax(self.skill * (best - best.mean(1, keepdims=True)) / max(float(best.std(1).mean()), 1e-12))
        half = self.episodes // 2
        pair = np.concatenate([np.tile(world.even, (half, 1, 1)), np.tile(fair, (self.episodes - half, 1, 1))])
        return played(world, pair, self.length, key.derive("data"))

    def init(self, world: TabularMDP, key: Key) -> State:
        data = self.recorded(world, key)
        counts, model = data.counts(world), counted(world, data)
        quality, value = in_sample(model, counts, world.discount, self.expectile)
        logits = 0.1 * key.derive("members").numpy().normal(size=(self.members, *counts.shape))
        for _ in range(self.cloning):
            logits = logits + self.rate * self.members * cloning(logits, counts, self.alpha)
        fitted = {"transition": model.transition, "reward": model.reward, "counts": counts}
        policies = {"logits": logits, "anchors": logits.copy(), "lead": np.zeros((), np.int64)}
        return {**fitted, **policies, "quality": quality, "value": value, "round": np.zeros((), np.int64)}

    # ------------------------------------------------------------ rounds

    def step(self, world: TabularMDP, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        number = int(state["round"])
        after = dict(state) | {"round": np.array(number + 1)}
        if number < self.offline:
            figures = self.improved(world, after, key)
        else:
            figures = self.continued(world, after, key)
        return after, {**figures, "online": float(number >= self.offline)}

    def improved(self, world: TabularMDP, state: dict[str, NDArray[np.generic]], key: Key) -> Mapping[str, float]:
        """A round offline, in place: gradients of every member, then the vote on its anchor."""
        logits, anchors = np.asarray(state["logits"], np.float64), np.asarray(state["anchors"], np.float64)
        quality, value = np.asarray(state["quality"], np.float64), np.asarray(state["value"], np.float64)
        old, visits = softmax(anchors), np.asarray(state["counts"], np.float64).sum(1)
        luck, drawn_from = key.numpy().random((2, len(logits), self.rows)), visits / visits.sum()
        states = drawn(np.broadcast_to(drawn_from, (*luck.shape[1:], len(visits))), luck[0])
        actions = drawn(old[np.arange(len(old))[:, None], states], luck[1])
        gain = (quality - value[:, None])[states, actions]
        rows = zip(states, actions, gain, old, strict=True)
        advantage = np.stack([estimated(at, taken, worth, odds) for at, taken, worth, odds in rows])
        for _ in range(self.gradients):
            logits = logits + self.rate * surrogate(logits, old, advantage, self.clip)
        model = CountedModel(np.asarray(state["transition"], np.float64), np.asarray(state["reward"], np.float64))
        scores = [score(softmax(tables), model, quality, world.start, self.horizon) for tables in (logits, anchors)]
        swaps = scores[0] > scores[1] if self.gated else np.ones(len(logits), bool)
        anchors = np.where(swaps[:, None, None], logits, anchors)
        state |= {"logits": logits, "anchors": anchors}
        state["lead"] = np.array(np.where(swaps, scores[0], scores[1]).argmax())
        return {"swaps": float(swaps.sum()), "score": float(np.where(swaps, *scores).max())}

    def continued(self, world: TabularMDP, state: dict[str, NDArray[np.generic]], key: Key) -> Mapping[str, float]:
        """A round of PPO on fresh episodes, in place, of the member that leads."""
        lead, value = int(state["lead"]), np.array(state["value"], np.float64)
        anchors = np.array(state["anchors"], np.float64)
        old = softmax(anchors[lead])
        fresh = played(world, np.broadcast_to(old, (self.fresh, *old.shape)), self.length, key)
        advantage = advantages(fresh, value, world.discount, self.lam)
        states = fresh.states[:, :-1]
        scaled = estimated(states, fresh.actions, advantage, old)
        for _ in range(self.gradients):
            anchors[lead] += self.rate * surrogate(anchors[lead], old, scaled, self.clip)
        wanted = np.zeros(len(value))
        np.add.at(wanted, states, advantage)
        value += 0.5 * wanted / np.maximum(fresh.counts(world).sum(1), 1)
        state |= {"anchors": anchors, "logits": anchors.copy(), "value": value}
        return {"paid": float(fresh.rewards.mean())}

    def answer(self, world: TabularMDP, state: State) -> Array:
        """The policy `[S, A]` of the member that leads."""
        return softmax(state["anchors"][int(state["lead"])])


def advantages(data: RecordedEpisodes, value: Array, discount: float, lam: float) -> Array:
    """Generalised advantages `[N, L]`; episodes are cut, so the last value is bootstrapped."""
    held = value[data.states]
    errors = data.rewards + discount * held[:, 1:] - held[:, :-1]
    result, running = np.zeros_like(errors), np.zeros(len(errors))
    for step in reversed(range(errors.shape[1])):
        running = errors[:, step] + discount * lam * running
        result[:, step] = running
    return result


UNI_O4 = SolverMethod(
    name="uni-o4",
    description="clones of recorded decisions, improved by clipped steps that a model votes on, then by fresh episodes",
    solver=OfflineToOnline(),
    world="random:12x4",
    steps=80,
    source="Uni-O4: Unifying Online and Offline Deep Reinforcement Learning, arXiv:2311.03351",
    note="tables in place of networks, with which every step is nearly always for the better, so that the model's vote "
    "is needed was not seen",
)

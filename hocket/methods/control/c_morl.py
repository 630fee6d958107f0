"""C-MORL: a front of policies by weighted sums, then filled by constrained steps (Liu et al., arXiv:2410.02236).

The first stage trains a policy for each of a few weights w on `w . J`. The second picks policies beside the largest
gaps of the front, by crowding distance, and extends each along every objective i,

    max J_i(pi)   with   J_j(pi) >= b J_j(start)   for j != i,

by steps along `grad (J_i + mu log(J_j - b J_j(start)))`, the authors' log barrier. Every policy met is kept if no other
dominates it; an unseen preference gets the best stored one.

Here policies are tables whose returns and gradients are exact, in the place of the authors' networks and PPO; what is
kept is the greedy policy of a table. Returns count from the world's reference point, so that the bound `b J_j` makes
sense of returns below 0. Our own are also: steps of a fixed size in the largest entry, halved until the bound holds and
J_i has risen, and that a policy which was extended without finding anything waits until all others were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.fronts import TwoAims, hypervolume
from hocket.lab.exact.mdp import Array, softmax
from hocket.lab.exact.solver import Solver, SolverMethod, State

HALVINGS = 8
"""How often a step is halved before an extension ends."""

FARTHEST = 8.0
"""How far below the largest a logit may be, so that no policy is beyond change."""


@dataclass(frozen=True)
class ConstrainedFront(Solver):
    """See the module. A step of the solver is a round: of the first stage, or of extending one policy.

    Attributes:
        weights: policies of the first stage. rounds: of the first stage. inner: gradient steps of a round; of an
            extension along each objective. rate: of the first stage. size: of the largest entry of a constrained step.
        bound: b, what the other objective keeps of itself. barrier: mu, in shares of the scaled returns.
        extends: whether there is a second stage; without it the first one goes on.
    """

    world: ClassVar[type] = TwoAims

    weights: int = 5
    rounds: int = 4
    inner: int = 25
    rate: float = 4.0
    size: float = 1.0
    bound: float = 0.85
    barrier: float = 0.01
    extends: bool = True

    def __post_init__(self) -> None:
        if self.weights < 2 or self.rounds < 1 or self.inner < 1 or not 0 < self.bound < 1:
            raise ConfigurationError(
                f"method.weights = {self.weights}, method.rounds = {self.rounds}, method.inner = {self.inner}, "
                f"method.bound = {self.bound}: weights is at least 2, rounds and inner 1, bound between 0 and 1"
            )
        if not self.rate > 0 or not self.size > 0 or not self.barrier > 0:
            raise ConfigurationError(
                f"method.rate = {self.rate}, method.size = {self.size}, method.barrier = {self.barrier}: all positive"
            )

    def init(self, world: TwoAims, key: Key) -> State:
        shape = world.process.reward.shape
        return {
            "weighted": np.zeros((self.weights, *shape)),
            "archive": np.zeros((0, *shape)),
            "returns": np.zeros((0, 2)),
            "tried": np.zeros(0, np.int64),
            "rounds": np.zeros((), np.int64),
        }

    def step(self, world: TwoAims, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        rounds = int(state["rounds"])
        after = dict(state) | {"rounds": np.array(rounds + 1)}
        slack = 1.0
        if rounds < self.rounds or not self.extends:
            after["weighted"] = self.weighed(world, state["weighted"])
            if rounds >= self.rounds - 1:
                after |= archived(world, state, after["weighted"])
        else:
            parent = chosen(state["returns"], state["tried"])
            after["tried"] = state["tried"] + (np.arange(len(state["tried"])) == parent)
            for aim in range(2):
                met, keep = self.extended(world, state["archive"][parent], aim)
                slack = min(slack, keep)
                after |= archived(world, after, met)
        volume = hypervolume(after["returns"], world.reference)
        figures = {"policies": float(len(after["returns"])), "hypervolume": volume, "least_slack": slack}
        return after, {**figures, "utility": utility(world, after["returns"])}

    def weighed(self, world: TwoAims, logits: Array) -> Array:
        """After `inner` natural gradient steps of each weighted sum."""
        share = np.linspace(0, 1, self.weights)
        weights = np.stack([share, 1 - share], -1)
        for _ in range(self.inner):
            _, gradient, visits = sloped(world, softmax(logits))
            step = np.einsum("kj,kjsa->ksa", weights, gradient) / np.maximum(visits, 1e-300)[..., None]
            logits = near(logits + self.rate * step / np.maximum(softmax(logits), 1e-300))
        return logits

    def extended(self, world: TwoAims, logits: Array, aim: int) -> tuple[Array, float]:
        """The tables `[M, S, A]` met from one while it raises an aim, and the least slack of the bound, scaled."""
        other, met, least = 1 - aim, [], 1.0
        scaled, gradient, _ = sloped(world, softmax(logits[None]))
        bound = self.bound * scaled[0, other]
        for _ in range(self.inner):
            slope = gradient[0, aim] + self.barrier / (scaled[0, other] - bound) * gradient[0, other]
            largest, length = float(np.abs(slope).max()), self.size
            if largest < 1e-300:
                break
            for _ in range(HALVINGS):
                proposal = near(logits + length * slope / largest)
                reached, onward, _ = sloped(world, softmax(proposal[None]))
                if reached[0, other] > bound and reached[0, aim] > scaled[0, aim]:
                    break
                length /= 2
            else:
                break
            logits, scaled, gradient = proposal, reached, onward
            met.append(logits)
            least = min(least, float(scaled[0, other] - bound))
        return np.array(met).reshape(-1, *logits.shape), least

    def answer(self, world: TwoAims, state: State) -> Array:
        """The greedy policies of the archive `[1, M, S, A]`; at first, those of the first stage."""
        tables = state["archive"] if len(state["archive"]) else state["weighted"]
        return greedy(tables)[None]


def near(logits: Array) -> Array:
    """Logits with the largest of a state at 0 and none farther below than `FARTHEST`."""
    moved: Array = np.maximum(logits - logits.max(-1, keepdims=True), -FARTHEST)
    return moved


def greedy(logits: Array) -> Array:
    """The policies `[.., S, A]` that are certain of the largest logit, the first of equals."""
    certain: Array = np.eye(logits.shape[-1])[logits.argmax(-1)]
    return certain


def sloped(world: TwoAims, policies: Array) -> tuple[Array, Array, Array]:
    """Of policies `[K, S, A]`: scaled returns `[K, 2]`, their gradients by logits `[K, 2, S, A]`, visits `[K, S]`.

    Returns count from the reference, in units of the way from it to the best of each aim.
    """
    process, span = world.process, world.front.max(0) - world.reference
    assert process.horizon is not None
    at = np.broadcast_to(process.start, (len(policies), process.states))
    paths = [at]
    for _ in range(process.horizon - 1):
        paths.append(np.einsum("ks,ksa,sat->kt", paths[-1], policies, process.transition, optimize=True))
    value = np.zeros((len(policies), process.states, 2))
    gradient = np.zeros((len(policies), 2, *process.reward.shape))
    for visited in reversed(paths):
        quality = world.rewards + np.einsum("sat,ktj->ksaj", process.transition, value, optimize=True)
        value = np.einsum("ksa,ksaj->ksj", policies, quality)
        gain = (quality - value[:, :, None]) * policies[..., None] * visited[..., None, None]
        gradient += np.moveaxis(gain, -1, 1)
    earned = np.einsum("s,ksj->kj", process.start, value)
    return (earned - world.reference) / span, gradient / span[:, None, None], np.sum(paths, 0)


def archived(world: TwoAims, state: State, tables: Array) -> dict[str, Array]:
    """The archive with the tables whose greedy policies nothing dominates, and without those that they dominate."""
    archive, returns, tried = (state[name] for name in ("archive", "returns", "tried"))
    for table, point in zip(tables, world.returns(greedy(tables)), strict=True):
        if (returns >= point - 1e-9).all(-1).any():
            continue
        keep = ~(returns <= point + 1e-9).all(-1)
        archive = np.concatenate([archive[keep], table[None]])
        returns = np.concatenate([returns[keep], point[None]])
        tried = np.append(tried[keep], 0)
    return {"archive": archive, "returns": returns, "tried": tried}


def crowding(returns: Array) -> Array:
    """`[M]`, of points that nothing dominates: the scaled distance of the neighbours of each; infinite at the ends."""
    distance = np.zeros(len(returns))
    for aim in range(2):
        order = np.argsort(returns[:, aim], kind="stable")
        ordered = returns[order, aim]
        span = max(float(ordered[-1] - ordered[0]), 1e-300)
        distance[order[[0, -1]]] = np.inf
        distance[order[1:-1]] += (ordered[2:] - ordered[:-2]) / span
    return distance


def chosen(returns: Array, tried: Array) -> int:
    """The policy in the sparsest part of the front, of those that were extended least."""
    distance = np.where(tried == tried.min(), crowding(returns), -1.0)
    return int(distance.argmax())


def utility(world: TwoAims, returns: Array) -> float:
    """The mean over even weights of the best scaled weighted sum; 0 without policies."""
    if not len(returns):
        return 0.0
    share = np.linspace(0, 1, 101)
    scaled = (returns - world.reference) / (world.front.max(0) - world.reference)
    return float((np.stack([share, 1 - share], -1) @ scaled.T).max(-1).mean())


C_MORL = SolverMethod(
    name="c-morl",
    description="a front of policies: weighted sums, then constrained steps into its gaps",
    solver=ConstrainedFront(),
    world="treasure:5",
    steps=10,
    source="C-MORL: Efficient Discovery of Pareto Front, arXiv:2410.02236",
)

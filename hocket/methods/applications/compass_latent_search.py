"""One policy for many ways of solving, and a search among them: COMPASS (Chalumeau et al., arXiv:2311.13569).

A constructive policy reads a latent z, uniform in a box, which stays through an episode. In training N latents are
drawn for an instance, and the best alone gives a gradient,

    grad = (R(z*) - b) grad log pi(tau | z*),   z* = argmax_z R(z),

so that regions of the box specialise. For a new instance the weights stay, and CMA-ES searches for z (`search_latent`).

The latent is a setting of routes, `routes:tsp?latent=16`: a decision before the first whose action is z.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hocket.agents.environments.wrapper import WrappedCourse, WrappedWorld
from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointWorld, Moved, Seat
from hocket.core.wrappers import WorldWrapper
from hocket.credit.units import trajectory_units
from hocket.methods.base.rloo import RLOO
from hocket.policies.control import ControlPolicy
from hocket.policies.control_heads import NEVER, Categorical
from hocket.policies.control_parts import Links
from hocket.stages import Credit

Array = NDArray[np.float64]

# ---------------------------------------------------------------- the world


@dataclass(frozen=True)
class RowAndLatent:
    """An `ActionForm`: one of `rows`, then `size` numbers in [-1, 1], evenly drawn; actions are `[B, 1 + size]`.

    Log-probs are those of the row: the density of what is evenly drawn is the same everywhere. The mode has 0 there.
    """

    rows: int
    size: int

    @property
    def draws(self) -> int:
        return 1 + self.size

    def actor(self, link: Links) -> nn.Module:
        return link(self.rows, "actor", 0)

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> LatentHead:
        logits = outputs if allowed is None else outputs.masked_fill(~allowed, NEVER)
        return LatentHead(Categorical(logits), self.size)

    def config(self) -> Mapping[str, Any]:
        return {"latent": self.size}


@dataclass(frozen=True)
class LatentHead:
    """The distribution of a row, and of numbers that no weight decides."""

    row: Categorical
    size: int

    def tempered(self, temperature: Tensor) -> LatentHead:
        return LatentHead(self.row.tempered(temperature), self.size)

    def logp(self, action: Tensor) -> Tensor:
        return self.row.logp(action[:, 0])

    def entropy(self) -> Tensor:
        return self.row.entropy()

    def kl(self, other: LatentHead) -> Tensor:
        return self.row.kl(other.row)

    def mode(self) -> Tensor:
        row = self.row.mode()[:, None].float()
        return torch.cat([row, row.new_zeros(len(row), self.size)], 1)

    def draw(self, uniforms: Tensor) -> Tensor:
        row = self.row.draw(uniforms[:, :1])[:, None].float()
        return torch.cat([row, (2 * uniforms[:, 1:] - 1).float()], 1)


@dataclass(frozen=True)
class LatentWorld(WrappedWorld):
    """`world` after a decision that chooses a latent of `size` numbers; it is seen before all else from then on.

    At that decision the row is 0 and nothing is paid. Later decisions' latents are ignored.
    """

    size: int = 16

    def __post_init__(self) -> None:
        seat = self.world.seats[0]
        if self.size < 1 or len(self.world.seats) > 1 or seat.slots is None or seat.slots.pointers != 1:
            raise ConfigurationError(
                f"task {self.world.name}: latent = {self.size} is for one agent that chooses a row, as in routes:tsp, "
                "and of at least 1 number"
            )

    @property
    def seats(self) -> tuple[Seat, ...]:
        (seat,) = self.world.seats
        assert seat.slots is not None
        slots = replace(seat.slots, own=seat.slots.own + self.size)
        wide = seat.observations + self.size
        return (replace(seat, observations=wide, slots=slots, action_form=RowAndLatent(seat.actions, self.size)),)

    def oracle(self, seed: int) -> Any:
        """Of the world."""
        known = getattr(self.world, "oracle", None)
        return None if known is None else known(seed)

    def open(self, width: int) -> LatentCourse:
        return LatentCourse(self, width)


class LatentCourse(WrappedCourse):
    """Attributes: latent: `[B, size]`. chosen: whether it has been, `[B]`."""

    def __init__(self, world: LatentWorld, width: int) -> None:
        super().__init__(world.world.open(width))
        self.latent, self.chosen = np.zeros((width, world.size), np.float32), np.zeros(width, bool)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        self.latent[list(slots)], self.chosen[list(slots)] = 0.0, False
        return self._course.reset(slots, seeds)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        action, moves = actions[0], live & self.chosen
        first = live & ~self.chosen
        self.latent = np.where(first[:, None], action[:, 1:], self.latent).astype(np.float32)
        moved = self._course.step([action[:, 0].astype(np.int64)], moves)
        self.chosen = self.chosen | live
        playing = moves[:, None]
        return Moved(
            np.where(playing, moved.rewards, 0.0), moved.terminated & playing, moved.truncated & playing, moved.failures
        )

    def seen(self) -> list[NDArray[np.float32]]:
        return [np.concatenate([self.latent, self._course.seen()[0]], 1)]

    def allowed(self) -> list[NDArray[np.bool_]]:
        mask = self._course.allowed()[0]
        assert mask is not None
        return [np.where(self.chosen[:, None], mask, np.arange(mask.shape[1]) == 0)]


def _latent(world: JointWorld, latent: int = 0) -> JointWorld:
    return LatentWorld(world, latent) if latent else world


LATENT = WorldWrapper(
    name="latent=NUMBER",
    description="a latent of so many numbers, chosen before the first decision, for worlds whose actions are rows",
    settings={"latent": int},
    layer=5,
    wrap=_latent,
)

# ---------------------------------------------------------------- learning


@dataclass(frozen=True)
class BestOfGroup(Credit):
    """`A_i = R_i - mean_{j != i} R_j` of the best sample of a group, and 0 of all others.

    Of equal ones the first that was asked for is best. A group of one has the baseline 0, so its credit is the return.

    Attributes:
        by: what makes samples comparable.
    """

    by: GroupBy = GroupBy("scenario")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        units = trajectory_units(batch)
        group, size = units.groups(self.by, batch)
        advantage = torch.zeros_like(units.value)
        for number in range(size):
            members = torch.nonzero(units.counted & (group == number)).flatten()
            if len(members):
                members = members[batch.order[units.trajectory[members]].argsort()]
                rewards = units.value[members]
                best = int(rewards.argmax())
                others = rewards.sum() - rewards[best]
                advantage[members[best]] = rewards[best] - others / max(1, len(members) - 1)
        return replace(batch.occurrences, advantage=advantage[units.member])


COMPASS_LATENT_SEARCH = RLOO.but(
    name="compass-latent-search",
    title="COMPASS: a latent space of policies, searched for each instance",
    source="Chalumeau et al., Combinatorial Optimization with Policy Adaptation using Latent Space Search, "
    "arXiv:2311.13569",
    catalogue_ids=("compass-latent-search",),
    axes=("policy", "search", "objective"),
    formula="grad = (R(z*) - 1/(N-1) sum_{z != z*} R(z)) grad log pi(tau | z*),  z* = argmax_z R(z),  z ~ U[-1, 1]^16",
    conventions={
        **RLOO.conventions,
        "baseline": "the mean of the other latents' returns, 0 for a single one; the paper's is of several starts",
        "starts": "one, the depot",
        "latent": "a decision before the first, of the action's own numbers; the query reads it",
        "search": "CMA-ES of greedy rollouts, begun at the middle with deviation 0.5",
    },
    task="routes:tsp?latent=16",
    credit=BestOfGroup(),
)

# ---------------------------------------------------------------- search


def rollouts(
    policy: ControlPolicy, world: JointWorld, seeds: Sequence[int], latents: Array | None, key: Key | None
) -> Array:
    """The returns `[B]` of an episode of each seed, greedy where there is no key, sampled else.

    Args:
        latents: `[B, size]`, for a `LatentWorld`; None for a world without.
    """
    count = len(seeds)
    course, live, earned = world.open(count), np.ones(count, bool), np.zeros(count)
    course.reset(range(count), seeds)
    carried = np.zeros((count, policy.carries), np.float32)
    warm = np.full(count, float(key is not None), np.float32)
    draw, step = (key or Key.of(0)).numpy(), 0
    while live.any():
        uniforms = np.clip(draw.random((count, policy.draws)), 1e-12, 1 - 1e-12)
        (mask,) = course.allowed()
        action, _ = policy.sample(course.seen()[0], uniforms, warm, mask, carried)
        if latents is not None and step == 0:
            action = np.concatenate([action[:, :1], latents], 1)
        moved = course.step([action], live)
        earned += np.where(live, moved.rewards[:, 0], 0.0)
        live = live & ~(moved.terminated | moved.truncated)[:, 0]
        step += 1
    return earned


class Evolution:
    """CMA-ES (Hansen, arXiv:1604.00772) in the box [-1, 1]^n: points outside are judged where they are clipped to.

    Args:
        size: n. population: points in a generation.
    """

    def __init__(self, size: int, population: int) -> None:
        parents = population // 2
        raw = math.log(parents + 0.5) - np.log(np.arange(1, parents + 1))
        self.weights = raw / raw.sum()
        mass = 1 / float((self.weights**2).sum())
        self.population, self.mass = population, mass
        self.step_rate = (mass + 2) / (size + mass + 5)
        self.damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (size + 1)) - 1) + self.step_rate
        self.path_rate = (4 + mass / size) / (size + 4 + 2 * mass / size)
        self.one_rate = 2 / ((size + 1.3) ** 2 + mass)
        self.many_rate = min(1 - self.one_rate, 2 * (mass - 2 + 1 / mass) / ((size + 2) ** 2 + mass))
        self.length = math.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size**2))
        self.mean, self.deviation, self.covariance = np.zeros(size), 0.5, np.eye(size)
        self.step_path, self.path, self.generations = np.zeros(size), np.zeros(size), 0

    def ask(self, draw: np.random.Generator) -> Array:
        """The points `[population, n]` of the next generation."""
        values, self.basis = np.linalg.eigh(self.covariance)
        self.roots = np.sqrt(np.maximum(values, 1e-20))
        normal = draw.standard_normal((self.population, len(self.mean)))
        return np.asarray(np.clip(self.mean + self.deviation * (normal * self.roots) @ self.basis.T, -1, 1), np.float64)

    def tell(self, points: Array, worth: Array) -> None:
        """Moves towards the points of highest worth."""
        best = points[np.argsort(-worth, kind="stable")[: len(self.weights)]]
        moves = (best - self.mean) / self.deviation
        move = self.weights @ moves
        self.mean, self.generations = self.mean + self.deviation * move, self.generations + 1
        white = self.basis @ ((self.basis.T @ move) / self.roots)
        rate = self.step_rate
        self.step_path = (1 - rate) * self.step_path + math.sqrt(rate * (2 - rate) * self.mass) * white
        size = float(np.linalg.norm(self.step_path))
        moving = size / math.sqrt(1 - (1 - rate) ** (2 * self.generations)) < (1.4 + 2 / (len(move) + 1)) * self.length
        rate = self.path_rate
        self.path = (1 - rate) * self.path + moving * math.sqrt(rate * (2 - rate) * self.mass) * move
        rank_one, rank_many = self.one_rate, self.many_rate
        decay = 1 - rank_one - rank_many + (not moving) * rank_one * rate * (2 - rate)
        spread = (moves * self.weights[:, None]).T @ moves
        self.covariance = decay * self.covariance + rank_one * np.outer(self.path, self.path) + rank_many * spread
        self.deviation *= math.exp(self.step_rate / self.damping * (size / self.length - 1))


def search_latent(
    policy: ControlPolicy, world: LatentWorld, seed: int, budget: int, key: Key, population: int = 20
) -> Array:
    """The best return of an instance after each of `budget` greedy rollouts, whose latents CMA-ES chooses."""
    search, draw = Evolution(world.size, population), key.numpy()
    returns = list[Array]()
    for _ in range(math.ceil(budget / population)):
        points = search.ask(draw)
        worth = rollouts(policy, world, [seed] * population, points, None)
        search.tell(points, worth)
        returns.append(worth)
    return np.asarray(np.maximum.accumulate(np.concatenate(returns)[:budget]), np.float64)

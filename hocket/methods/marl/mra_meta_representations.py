"""MRA: one network of strategies for any number of players, chosen by a latent (Zhang et al., arXiv:2108.12988).

A policy reads a latent z. Training takes two turns: every game looks for the latent whose policy can least be exploited
in it, and those policies are improved by self-play in their games; latents that no game chose take the one that is
served worst. Besides, the information between latent and action
is kept above a bound,

    max  sum_g pi_z(g) u_g(pi_z(g))   with   I(z; a) = H(mean_z pi_z) - mean_z H(pi_z) >= c,

by a multiplier, so that latents stay different. At play the latent is chosen by game,
or moved by a few gradient steps with the network as it is.

Of the paper the abstract was at hand; games are those of one decision, so payoffs and exploitability are exact. The
multiplier and what idle latents do are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, softmax
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.lab.exact.worlds import WorldFamily


@dataclass(frozen=True, eq=False)
class Crowds:
    """Players choose one of K places at the same time; the fuller a place, the less it pays.

    A place pays `worth - price` times the number of others there, so the best mixture depends on how many play. An
    answer is the policies of some latents `[M, K]`, which all players of a game share; its value is minus the mean over
    games of the least exploitability.

    Attributes:
        worth, price: of each place, `[K]`. players: of each game, `[G]`.
    """

    worth: Array
    price: Array
    players: NDArray[np.int64]
    name: str

    @property
    def optimum(self) -> float:
        return 0.0

    def paid(self, policies: Array, players: NDArray[np.int64]) -> Array:
        """What each place pays among players of these policies: `[.., K]`, of policies `[.., K]` and players `[..]`."""
        expected: Array = self.worth - self.price * (players[..., None] - 1) * policies
        return expected

    def exploitability(self, policies: Array, players: NDArray[np.int64]) -> Array:
        """What one player gains by its best place, `[..]`."""
        paid = self.paid(policies, players)
        gain: Array = paid.max(-1) - (policies * paid).sum(-1)
        return gain

    def gaps(self, policies: Array) -> Array:
        """`[M, G]`, of every policy in every game."""
        return self.exploitability(policies[:, None], np.broadcast_to(self.players, (len(policies), len(self.players))))

    def value(self, answer: Array) -> float:
        return -float(self.gaps(answer).min(0).mean())


def crowds(games: int) -> Crowds:
    """Games of 2, 4, 8, .. players.

    Raises:
        ConfigurationError: for more than 8 games.
    """
    if games > 8:
        raise ConfigurationError(f"world crowds:{games}: it has at most 8 games")
    worth, price = np.array([1.0, 0.6, 0.4]), np.array([0.3, 0.1, 0.03])
    return Crowds(worth, price, 2 ** np.arange(1, games + 1), f"crowds:{games}")


CROWDS = WorldFamily(
    name="crowds", description="games of more and more players for the same places, for mra", make=crowds, size=(4,)
)


@dataclass(frozen=True)
class LatentNetwork:
    """`softmax(out tanh(into z + ..) + ..)`; the last column of a matrix is what is added.

    Attributes:
        latents: `[M, Z]`. into: `[H, Z + 1]`. out: `[K, H + 1]`.
    """

    latents: Array
    into: Array
    out: Array

    def policies(self) -> Array:
        """Of every latent, `[M, K]`."""
        return softmax(_more(self.hidden()) @ self.out.T)

    def hidden(self) -> Array:
        units: Array = np.tanh(_more(self.latents) @ self.into.T)
        return units

    def slope(self, upstream: Array) -> LatentNetwork:
        """The gradients of a sum whose derivatives by `policies()` are `upstream` `[M, K]`."""
        policies, hidden = self.policies(), self.hidden()
        logits = policies * (upstream - (policies * upstream).sum(-1, keepdims=True))
        below = (logits @ self.out[:, :-1]) * (1 - hidden**2)
        return LatentNetwork(below @ self.into[:, :-1], below.T @ _more(self.latents), logits.T @ _more(hidden))


def _more(x: Array) -> Array:
    """With a column of ones."""
    return np.hstack([x, np.ones((len(x), 1))])


def information(policies: Array) -> float:
    """I(z; a) of even latents, in nats."""
    mean = policies.mean(0)
    return float((policies * (np.log(policies) - np.log(mean))).sum(-1).mean())


def by_policies(policies: Array) -> Array:
    """The derivatives of the information, `[M, K]`."""
    slope: Array = (np.log(policies) - np.log(policies.mean(0))) / len(policies)
    return slope


@dataclass(frozen=True)
class LatentStrategies(Solver):
    """See the module. A step is some gradients of all weights and latents.

    Attributes:
        latents: how many, M. size, hidden: numbers of a latent and units of the network. gradients: of a step. lr: of
            Adam. least: c, in nats; 0 leaves the information alone. pace: of its multiplier.
    """

    world: ClassVar[type] = Crowds

    latents: int = 4
    size: int = 2
    hidden: int = 16
    gradients: int = 20
    lr: float = 0.01
    least: float = 0.15
    pace: float = 0.1

    def __post_init__(self) -> None:
        counts = (self.latents, self.size, self.hidden, self.gradients)
        if min(counts) < 1 or not self.lr > 0 or self.least < 0 or self.pace < 0:
            raise ConfigurationError(
                f"method.latents, size, hidden and gradients = {counts} are at least 1, lr = {self.lr} is positive, "
                f"least = {self.least} and pace = {self.pace} are at least 0"
            )

    def init(self, world: Crowds, key: Key) -> State:
        draw, places = key.numpy(), len(world.worth)
        weights = {
            "latents": draw.normal(size=(self.latents, self.size)),
            "into": np.hstack([draw.normal(size=(self.hidden, self.size)), np.zeros((self.hidden, 1))]),
            "out": np.hstack([draw.normal(size=(places, self.hidden)) / self.hidden, np.zeros((places, 1))]),
        }
        moments = {
            f"{kind}_{name}": np.zeros_like(item) for kind in ("mean", "square") for name, item in weights.items()
        }
        return {**weights, **moments, "multiplier": np.zeros(()), "count": np.zeros((), np.int64)}

    def step(self, world: Crowds, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        after = {name: np.array(item) for name, item in state.items()}
        for _ in range(self.gradients):
            network = LatentNetwork(*(after[name] for name in ("latents", "into", "out")))
            policies = network.policies()
            slopes = network.slope(self.upstream(world, policies, float(after["multiplier"])))
            if self.least:
                missing = self.least - information(policies)
                after["multiplier"] = np.maximum(after["multiplier"] + self.pace * missing, 0.0)
            count = int(after["count"]) + 1
            after["count"] = np.array(count)
            for name, slope in vars(slopes).items():
                mean, square = after[f"mean_{name}"], after[f"square_{name}"]
                mean += 0.1 * (slope - mean)
                square += 0.001 * (slope**2 - square)
                spread = np.sqrt(square / (1 - 0.999**count)) + 1e-8
                after[name] = after[name] + self.lr * mean / (1 - 0.9**count) / spread
        policies = self.answer(world, after)
        gaps = world.gaps(policies)
        figures = {"worst_gap": float(gaps.min(0).max()), "latents_used": float(len(set(gaps.argmin(0).tolist())))}
        return after, {**figures, "information": information(policies), "multiplier": float(after["multiplier"])}

    def upstream(self, world: Crowds, policies: Array, multiplier: float) -> Array:
        """The derivatives by policies `[M, K]`: what places pay in the games that chose them, and the information's."""
        gaps, result = world.gaps(policies), multiplier * by_policies(policies)
        chosen = [(int(latent), game) for game, latent in enumerate(gaps.argmin(0))]
        idle = sorted(set(range(len(policies))) - {latent for latent, _ in chosen})
        chosen += [(latent, int(gaps.min(0).argmax())) for latent in idle]
        for latent, game in chosen:
            result[latent] += world.paid(policies[latent], world.players[game]) / len(chosen)
        return result

    def answer(self, world: Crowds, state: State) -> Array:
        """The policies of all latents `[M, K]`."""
        return LatentNetwork(state["latents"], state["into"], state["out"]).policies()


def adapted(world: Crowds, state: State, players: int, steps: int, rate: float = 0.3) -> tuple[Array, Array]:
    """A latent moved for a game by gradient steps of self-play, and its exploitability before each and at the end.

    It begins as the latent that can least be exploited in the game; the network stays as it is.
    """
    count = np.array(players)
    network = LatentNetwork(state["latents"], state["into"], state["out"])
    first = int(world.exploitability(network.policies(), np.full(len(network.latents), players)).argmin())
    latent, gaps = network.latents[first : first + 1], []
    for _ in range(steps + 1):
        moved = LatentNetwork(latent, network.into, network.out)
        policy = moved.policies()
        gaps.append(float(world.exploitability(policy[0], count)))
        latent = latent + rate * moved.slope(world.paid(policy, count[None])).latents
    return policy[0], np.array(gaps)


MRA_META_REPRESENTATIONS = SolverMethod(
    name="mra-meta-representations",
    description="one network of strategies for any number of players, chosen and adapted by a latent",
    solver=LatentStrategies(),
    world="crowds:4",
    steps=60,
    source="Learning Meta Representations for Agents in Multi-Agent Reinforcement Learning, arXiv:2108.12988",
)

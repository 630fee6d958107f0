"""MDS and MMDS: search at decision time that makes the step which an update of the whole policy would make there.

Who must move samples what the others may hold from its belief under the policy that all play (the blueprint), estimates
by rollouts what each of its moves earns when all go on by the blueprint, `q(a)`, and plays

    pi'(a)  ~  [ pi(a) exp(eta q(a)) rho(a)^(eta alpha) ]^(1 / (1 + eta alpha)),

the step of magnetic mirror descent with magnet `rho` and temperature `alpha` (MMDS, for opposed interests); without a
magnet, `pi'(a) ~ pi(a) exp(eta q(a))`, it is the one of mirror descent (MDS, for one common interest). No public
subgame is solved, so the cost does not grow with what is hidden. `pi'` is what maximises
`<p, q> - alpha KL(p, rho) - KL(p, pi) / eta`.

Source: Sokota et al., "The Update-Equivalence Framework for Decision-Time Planning", recalled. Ours are: the magnet is
the even policy; a step of the solver searches at every information state and takes what was found as the next
blueprint, so that many steps are self-play; beliefs are read off the arrays of the game, which therefore must be small;
estimates are of `samples` rollouts for each move, or exact.
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
from hocket.lab.exact.trees import TreeGame


@dataclass(frozen=True)
class DecisionTimePlanning(Solver):
    """See the module.

    Attributes:
        eta: length of the step. alpha: pull of the magnet; None is 0.1, and 0 where all players earn the same.
        samples: rollouts for each move; 0 is their limit, the exact mean.
    """

    world: ClassVar[type] = TreeGame

    eta: float = 0.2
    alpha: float | None = None
    samples: int = 0

    def __post_init__(self) -> None:
        if self.eta <= 0 or (self.alpha is not None and self.alpha < 0) or self.samples < 0:
            raise ConfigurationError(
                f"method.eta = {self.eta}, method.alpha = {self.alpha}, method.samples = {self.samples}: eta is "
                "positive, the others are at least 0"
            )

    def init(self, world: TreeGame, key: Key) -> State:
        return {"policy": world.even}

    def step(self, world: TreeGame, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        blueprint = state["policy"]
        exact = None if self.samples else world.quality(blueprint)
        found = np.zeros_like(blueprint)
        for info in range(len(found)):
            quality = rolled(world, blueprint, info, self.samples, key.derive(info)) if exact is None else exact[info]
            found[info] = self.searched(world, blueprint, info, quality)
        return {"policy": found}, {f"return {n}": float(one) for n, one in enumerate(world.returns(found))}

    def searched(self, world: TreeGame, blueprint: Array, info: int, quality: Array) -> Array:
        """What is played in one information state whose moves are worth `quality`, both `[A]`."""
        count = int(world.moves[info])
        alpha = (0.0 if world.shared else 0.1) if self.alpha is None else self.alpha
        found: Array = np.zeros_like(blueprint[info])
        found[:count] = stepped(blueprint[info, :count], quality[:count], np.full(count, 1 / count), self.eta, alpha)
        return found

    def answer(self, world: TreeGame, state: State) -> Array:
        return state["policy"]


def stepped(policy: Array, quality: Array, magnet: Array, eta: float, alpha: float) -> Array:
    """`pi'`, see the module; all `[A]`. What the policy never plays it goes on to never play."""
    with np.errstate(divide="ignore"):
        logits = (np.log(policy) + eta * quality + eta * alpha * np.log(magnet)) / (1 + eta * alpha)
    raised = np.exp(logits - logits.max())
    shares: Array = raised / raised.sum()
    return shares


def rolled(game: TreeGame, blueprint: Array, info: int, samples: int, key: Key) -> Array:
    """q of each move by as many rollouts of the blueprint from histories drawn from the belief, the same for each."""
    draw, here = key.numpy(), np.flatnonzero(game.known == info)
    starts = draw.choice(here, samples, p=game.beliefs(blueprint)[here])
    found, mover = np.zeros(blueprint.shape[1]), int(game.movers[info])
    for move in range(int(game.moves[info])):
        found[move] = np.mean([_ended(game, blueprint, game.followers[int(one)][move], mover, draw) for one in starts])
    return found


def _ended(game: TreeGame, policy: Array, history: int, player: int, draw: np.random.Generator) -> float:
    """What a player has at the end of an episode that goes on from a history."""
    while game.followers[history]:
        onward = game.followers[history]
        info = int(game.known[history])
        shares = policy[info, : len(onward)] if info >= 0 else game.chance[onward]
        history = onward[int(draw.choice(len(onward), p=shares / shares.sum()))]
    return float(game.pay[history, player])


MDS_MMDS = SolverMethod(
    name="mds-mmds",
    description="search at each decision that makes the step of a mirror descent there",
    solver=DecisionTimePlanning(),
    world="openspiel:kuhn_poker",
    steps=400,
    source="The Update-Equivalence Framework for Decision-Time Planning, recalled",
)

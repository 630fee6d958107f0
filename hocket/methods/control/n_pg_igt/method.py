"""N-PG-IGT and N-HARPG: policy gradients of one trajectory a step whose momentum looks where the policy is now.

Momentum averages gradients of earlier policies, which are biased for the present one. Two ways out, without importance
weights:

*Transport* (N-PG-IGT). The trajectory is drawn at a point extrapolated so far that the average comes right:
`y_t = th_t + ((1 - eta_t) / eta_t) (th_t - th_{t-1})`, `d_t = (1 - eta_t) d_{t-1} + eta_t g(tau ~ pi_{y_t})`. Where the
objective is quadratic, `d_t` is the gradient at `th_t` on average, exactly.

*Curvature* (N-HARPG). At a point drawn evenly between the last two policies a second trajectory is drawn, and the
average is moved by `v_t = H(tau) (th_t - th_{t-1})`, an estimate of the difference of their gradients without bias for
any objective: `d_t = (1 - eta_t) (d_{t-1} + v_t) + eta_t g(tau ~ pi_{th_t})`.

Both step by `th_{t+1} = th_t + gamma_t d_t / |d_t|`. With `Phi(tau) = sum_t log pi(a_t | s_t) R_t` for rewards to go
`R`, `g = grad Phi` and `H v = grad Phi <grad log p(tau), v> + Hess Phi v`.

Source: Fatkhullin, Barakat, Kireeva and He, "Stochastic Policy Gradient Methods: Improved Sample Complexity for
Fisher-non-degenerate Policies", recalled. Ours are: a table of logits per step of the episode as policy, which is not
Fisher-non-degenerate where it becomes certain; `eta_t = (2 / (t + 2))^(4/5)` with transport and `2 / (t + 2)` with
curvature, and `gamma_t = rate / (t + 1)^(decay)`.

Seen here: both leave REINFORCE behind on tables (`episodes:6x3`, 1,000 episodes: gaps of .61, .72 and .92), and plain
momentum is as good there (.59). In a linear regulator (`regulator:3`), with steps of 1/t, the gap of
transport falls faster in episodes than that of REINFORCE at its best step, from far behind it after 1,000 episodes to
about equal after 16,000; curvature's own estimate, of two episodes a step, is noisier there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.mdp import Array, ExactEpisode, TabularMDP, softmax
from hocket.lab.exact.solver import EpisodicSolver, SolverMethod, State
from hocket.lab.exact.worlds import World
from hocket.methods.control.n_pg_igt.regulators import Drive, Regulator

Drawn = TypeVar("Drawn", ExactEpisode, Drive)

Way = Literal["transport", "curvature", "momentum", "none"]

WAYS: tuple[Way, ...] = get_args(Way)
"""How gradients are averaged; `momentum` is the plain way, `none` is REINFORCE: the last gradient, as long as it is."""


@dataclass(frozen=True)
class Ascent:
    """A point on its way up: where it is, where it was, the average of gradients, and the steps it made."""

    point: Array
    before: Array
    average: Array
    made: int = 0

    def step(
        self,
        way: Way,
        share: float,
        length: float,
        gradient: Callable[[Array], Array],
        curved: Callable[[Array, Array], Array],
        between: float,
    ) -> Ascent:
        """The next one.

        Args:
            share: eta, of the new gradient; the first step takes all of it. length: of the step.
            gradient: an estimate at a point. curved: of the Hessian at a point times a vector.
            between: in [0, 1), how far from the point before to this one the curvature is looked at.
        """
        share = 1.0 if self.made == 0 or way == "none" else share
        moved = self.point - self.before
        ahead = (1 - share) / share if way == "transport" else 0.0
        kept = self.average
        if way == "curvature" and share < 1:
            kept = kept + curved(self.before + between * moved, moved)
        average = (1 - share) * kept + share * gradient(self.point + ahead * moved)
        norm = 1.0 if way == "none" else float(np.linalg.norm(average)) or 1.0
        return Ascent(self.point + average * (length / norm), self.point, average, self.made + 1)


@dataclass(frozen=True)
class NormalisedAscent(EpisodicSolver):
    """See the module.

    Attributes:
        way: how gradients are averaged, see `WAYS`. rate, decay: of the steps' lengths. power: of eta; None is 4/5 with
            transport and momentum, 1 with curvature.
    """

    way: Way = "transport"
    rate: float = 1.0
    decay: float = 0.5
    power: float | None = None

    def __post_init__(self) -> None:
        if self.way not in WAYS:
            raise ConfigurationError(f"method.way = {self.way!r}: choose from {', '.join(WAYS)}")
        if self.rate <= 0 or not 0 <= self.decay <= 1 or (self.power is not None and not 0 < self.power <= 1):
            raise ConfigurationError(
                f"method.rate = {self.rate}, method.decay = {self.decay}, method.power = {self.power}: the first is "
                "positive, the others are at most 1, and power is positive"
            )

    def init(self, world: TabularMDP | Regulator, key: Key) -> State:
        none = np.zeros(world.shape)
        return {"point": none, "before": none, "average": none, "made": np.array(0)}

    def checked(self, world: World) -> None:
        if not isinstance(world, Regulator):
            super().checked(world)

    def step(self, world: TabularMDP | Regulator, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        episodes = Episodes(world, key)
        now = Ascent(state["point"], state["before"], state["average"], int(state["made"]))
        found = now.step(
            self.way,
            self.share(now.made),
            self.rate / (now.made + 1) ** self.decay,
            episodes.slope,
            episodes.curvature,
            float(key.derive("place").numpy().random()),
        )
        after: State = {"point": found.point, "before": found.before, "average": found.average}
        figures = {"return": episodes.earned[-1], "episodes": float(len(episodes.earned))}
        return {**after, "made": np.array(found.made)}, {**figures, "average": float(np.linalg.norm(found.average))}

    def share(self, made: int) -> float:
        """eta after so many steps."""
        power = (1.0 if self.way == "curvature" else 0.8) if self.power is None else self.power
        return float((2 / (made + 2)) ** power)

    def answer(self, world: TabularMDP | Regulator, state: State) -> Array:
        return state["point"] if isinstance(world, Regulator) else softmax(state["point"])


@dataclass
class Episodes:
    """What is drawn in a step: at a point an episode, and of it an estimate. `earned` is their returns."""

    world: TabularMDP | Regulator
    key: Key
    earned: list[float] = field(default_factory=list)

    def slope(self, point: Array) -> Array:
        """Of the gradient."""
        if isinstance(self.world, Regulator):
            return self.world.slope(self._told(self.world.drawn(point, self.key.derive("episode"))))
        return slope(point, self._told(self.world.episode(softmax(point), self.key.derive("episode"))))

    def curvature(self, point: Array, vector: Array) -> Array:
        """Of the Hessian times the vector."""
        if isinstance(self.world, Regulator):
            return self.world.curvature(self._told(self.world.drawn(point, self.key.derive("between"))), vector)
        return curvature(point, self._told(self.world.episode(softmax(point), self.key.derive("between"))), vector)

    def _told(self, drawn: Drawn) -> Drawn:
        self.earned.append(float(drawn.rewards.sum()))
        return drawn


def slope(logits: Array, episode: ExactEpisode) -> Array:
    """g: of `sum_t log pi(a_t | s_t) R_t`, `[H, S, A]` as the logits."""
    return _gathered(logits, episode, _to_go(episode))


def curvature(logits: Array, episode: ExactEpisode, vector: Array) -> Array:
    """`H v`, see the module; all `[H, S, A]`."""
    to_go = _to_go(episode)
    scores = _gathered(logits, episode, np.ones_like(to_go))
    steps = np.arange(len(to_go))
    shares, along = softmax(logits)[steps, episode.states[:-1]], vector[steps, episode.states[:-1]]
    bent = np.zeros_like(logits)
    bent[steps, episode.states[:-1]] = -to_go[:, None] * shares * (along - (shares * along).sum(-1, keepdims=True))
    found: Array = _gathered(logits, episode, to_go) * float((scores * vector).sum()) + bent
    return found


def _to_go(episode: ExactEpisode) -> Array:
    """What was earned from each decision on, `[H]`."""
    return episode.rewards[::-1].cumsum()[::-1]


def _gathered(logits: Array, episode: ExactEpisode, weights: Array) -> Array:
    """`sum_t w_t grad log pi(a_t | s_t)`: a step of the episode has logits of its own, so no place is met twice."""
    steps, states = np.arange(len(weights)), episode.states[:-1]
    found = np.zeros_like(logits)
    found[steps, states] = -weights[:, None] * softmax(logits)[steps, states]
    found[steps, states, episode.actions] += weights
    return found


N_PG_IGT = SolverMethod(
    name="n-pg-igt",
    description="policy gradient of an episode a step, with momentum that is transported to the present policy",
    solver=NormalisedAscent(),
    world="episodes:6x3",
    steps=2000,
    source="Stochastic Policy Gradient Methods: Improved Sample Complexity for Fisher-non-degenerate Policies",
)

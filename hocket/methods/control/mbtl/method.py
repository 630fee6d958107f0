"""MBTL: which tasks of a family to train on, so that what was learnt there covers all (Model-Based Transfer Learning).

Tasks are told apart by a context x. Training on x gives J(x), taken for a Gaussian process; used on x' it is taken to
lose in proportion to the distance, `J(x -> x') = J(x) - theta |x - x'|`. With U(x') the best that those trained so far
reach on x', the next task is

    argmax_x mean_x' max(0, mu(x) + sqrt(beta) sigma(x) - theta |x - x'| - U(x'))

The formula is the catalogue's, recalled. Ours are: U is what was seen and not what the model says; theta is the slope
of what was lost against distance, by least squares over all that was trained (`slope` before the first); the prior mean
is the best that was seen, 1 before; a squared-exponential kernel of the length `length` of the range of contexts; and
`beta = 1/4`, chosen on shops and the first five families of poles.

Worlds `poles:1` to `poles:9` are the paper's CartPole with a pole of varying length: half lengths of 0.1 to 6.4 m,
evenly spaced in their logarithm, PPO trained on each for 8 batches of 16 episodes, and worth on another the share of
200 decisions that it keeps that pole up (`poles.json`, a seed each; `examples/poles.py` trains only what is chosen).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.exact.counts import TransitionCounts
from hocket.lab.exact.mdp import Array, TabularMDP
from hocket.lab.exact.solver import Solver, SolverMethod, State
from hocket.lab.exact.worlds import WorldFamily, shop

Chosen = NDArray[np.bool_]

POLE_RETURNS = Path(__file__).with_name("poles.json")
"""Half lengths in metres, and of each seed what networks trained on one are worth on another, `[seeds, N, N]`."""


@dataclass(frozen=True, eq=False)
class Contexts:
    """Tasks in a row, and what training on one is worth on another.

    Attributes:
        table: of policies trained on x, used on x', `[N, N]`. at: the contexts, in [0, 1], `[N]`.
    """

    name: str
    table: Array
    at: Array

    @cached_property
    def apart(self) -> Array:
        """|x - x'|, `[N, N]`."""
        found: Array = np.abs(self.at[:, None] - self.at)
        return found

    @property
    def optimum(self) -> float:
        """With all of them trained."""
        return self.value(np.ones(len(self.at)))

    def rows(self, trained: Chosen) -> Array:
        """What those trained are worth on every task, `[K, N]`; a family may train them only when it is asked."""
        found: Array = self.table[trained]
        return found

    def value(self, policy: Array) -> float:
        """The mean over tasks of the best of those trained, which are not 0 in `[N]`; 0 for none."""
        return float(self.rows(policy > 0).max(0).mean()) if (policy > 0).any() else 0.0


@dataclass(frozen=True)
class TaskChoice(Solver):
    """A task is chosen and trained each step, by the rule of the module, at `random`, or `evenly` spaced.

    Attributes:
        beta: how much what is not known counts. length: of the kernel. noise: its standard deviation. slope: see there.
        trainings: for which the `even` choice is spaced; after them it is as the module's.
    """

    choose: Literal["model", "random", "even"] = "model"
    beta: float = 0.25
    length: float = 0.3
    noise: float = 0.02
    slope: float = 1.0
    trainings: int = 4
    world = Contexts

    def __post_init__(self) -> None:
        if min(self.beta, self.slope) < 0 or min(self.length, self.noise) <= 0 or self.trainings < 1:
            raise ConfigurationError(
                f"method.beta = {self.beta}, method.slope = {self.slope}, method.length = {self.length}, "
                f"method.noise = {self.noise}, method.trainings = {self.trainings}: beta and slope are at least 0, "
                "length and noise positive, trainings at least 1"
            )

    def init(self, world: Contexts, key: Key) -> State:
        return {"trained": np.zeros(len(world.at)), "count": np.zeros((), np.int64)}

    def step(self, world: Contexts, state: State, key: Key) -> tuple[State, Mapping[str, float]]:
        trained, count = state["trained"].copy(), int(state["count"])
        left = np.flatnonzero(trained == 0)
        theta = steepness(world, trained > 0, self.slope)
        if left.size:
            chosen = int(left[self._scores(world, trained > 0, theta, key)[left].argmax()])
            if self.choose == "even" and count < self.trainings:
                place = (2 * count + 1) / (2 * self.trainings)
                chosen = int(left[np.abs(world.at[left] - place).argmin()])
            trained[chosen] = 1
        return {"trained": trained, "count": np.array(count + 1)}, {"trained": float(trained.sum()), "theta": theta}

    def answer(self, world: Contexts, state: State) -> Array:
        return state["trained"]

    def _scores(self, world: Contexts, trained: Chosen, theta: float, key: Key) -> Array:
        if self.choose == "random":
            return key.numpy().random(len(world.at))
        rows = world.rows(trained)
        seen = rows[:, trained].diagonal()
        mean, deviation = posterior(world.at, trained, seen, self.length, self.noise)
        covered = rows.max(0) if seen.size else np.zeros(len(world.at))
        return acquisition(mean + np.sqrt(self.beta) * deviation, theta, world.apart, covered)


def acquisition(hoped: Array, theta: float, apart: Array, covered: Array) -> Array:
    """`mean_x' max(0, hoped(x) - theta |x - x'| - U(x'))` of every x, `[N]`."""
    gained: Array = np.maximum(0, hoped[:, None] - theta * apart - covered).mean(1)
    return gained


def steepness(world: Contexts, trained: Chosen, slope: float) -> float:
    """theta: what was lost against distance, by least squares through the origin; at least 0."""
    apart = world.apart[trained]
    if not apart.size:
        return slope
    rows = world.rows(trained)
    lost = rows[:, trained].diagonal()[:, None] - rows
    return max(0.0, float((lost * apart).sum() / (apart**2).sum()))


def posterior(at: Array, trained: Chosen, seen: Array, length: float, noise: float) -> tuple[Array, Array]:
    """Mean and standard deviation of J everywhere, `[N]` both, from what was seen where it was trained."""
    level = float(seen.max()) if seen.size else 1.0
    kernel = np.exp(-0.5 * ((at[:, None] - at) / length) ** 2)
    known = kernel[np.ix_(trained, trained)] + noise**2 * np.eye(int(trained.sum()))
    weight = np.linalg.solve(known, kernel[trained]).T
    mean: Array = level + weight @ (seen - level)
    return mean, np.sqrt(np.maximum(1 - (weight * kernel[:, trained]).sum(1), 0))


def shops(count: int, *, samples: int = 20, seed: int = 0) -> Contexts:
    """Shops from little demand to much; trained from some samples of each decision, worth relative to the best."""
    at = np.linspace(0, 1, count)
    tasks = [shop(6, 0.3 + 0.6 * one, 0.3, 0.1, f"shop:{0.3 + 0.6 * one:.2f}") for one in at]
    policies = []
    for number, task in enumerate(tasks):
        noise = Key.of(seed).derive("shops", number).numpy()
        counts = TransitionCounts(noise.multinomial(samples, task.transition.clip(0, 1)).astype(np.float64))
        model = TabularMDP(counts.mean(), task.reward, task.start, discount=task.discount)
        policies.append(model.best.policy)
    table = np.array([[task.value(policy) / task.optimum for task in tasks] for policy in policies])
    return Contexts(f"shops:{count}", table, at)


def poles(family: int) -> Contexts:
    """Poles of all lengths, and networks trained with the seed `family - 1`.

    Raises:
        ConfigurationError: for a family that was not measured.
    """
    kept = json.loads(POLE_RETURNS.read_text(encoding="utf-8"))
    if family > len(kept["returns"]):
        raise ConfigurationError(
            f"world = 'poles:{family}': there are the families 1 to {len(kept['returns'])}; take one of them"
        )
    return Contexts(f"poles:{family}", np.array(kept["returns"][family - 1]), spaced(kept["lengths"]))


def spaced(lengths: Sequence[float]) -> Array:
    """Contexts of lengths: their logarithms, from 0 to 1."""
    logs = np.log(np.asarray(lengths, float))
    found: Array = (logs - logs.min()) / (logs.max() - logs.min())
    return found


SHOPS = WorldFamily(name="shops", description="shops from little to much demand, for mbtl", make=shops, size=(21,))

POLES = WorldFamily(
    name="poles",
    description="CartPole with poles of 13 lengths and PPO on each (nine families), for mbtl",
    make=poles,
    size=(1,),
)

MBTL = SolverMethod(
    name="mbtl",
    description="chooses which tasks of a family to train on",
    solver=TaskChoice(),
    world="poles:1",
    steps=8,
    source="Model-Based Transfer Learning for Contextual Reinforcement Learning",
    note="on CartPole of varying length it leaves random choice behind, but even spacing that knows the number of "
    "trainings only with two: with three to six that is as good or better",
)

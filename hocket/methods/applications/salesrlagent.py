"""Whether a sales dialogue will end in a purchase, predicted after each turn by RL (arXiv:2503.23303).

The state is the dialogue so far, the action a probability p, and what is paid its nearness to the outcome y,

    r_t = -(p_t - y)^2 / T,

so that a return is minus the Brier score of an episode. No action changes the dialogue: this is the supervised
estimation of a probability in the form of RL, and an honest test expects no gain from that form.

The authors have a language model write dialogues. Here a customer is a hidden Markov chain of three moods, whose
probability to buy depends on the last: what is known after a turn has an exact answer, `posterior`. The world brings no
learner, so the row is no recipe: `hocket train --task sales --recipe ppo`. `Familiarity` stands in for the authors'
meta part, which estimates whether a dialogue is one that the predictor can know about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.core.analyses import Analysis
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved, Seat
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

MOODS = ("cold", "curious", "keen")
FIRST = np.array([0.5, 0.4, 0.1])
CHANGES = np.array([[0.92, 0.07, 0.01], [0.08, 0.82, 0.10], [0.01, 0.07, 0.92]])
"""The mood of the next turn by that of the last."""

BUYS = np.array([0.03, 0.25, 0.85])
"""How likely the last mood is to buy."""

SPEECHES = ("refusal", "objection", "small talk", "question", "price", "agreement")
SPEAKS = np.array(
    [
        [0.25, 0.30, 0.25, 0.10, 0.07, 0.03],
        [0.05, 0.20, 0.20, 0.35, 0.12, 0.08],
        [0.02, 0.08, 0.10, 0.25, 0.25, 0.30],
    ]
)
"""How likely each kind of speech is in each mood."""

LENGTHS = np.array([-0.5, 0.2, 0.3])
"""The mean of the logarithm of a reply's length in each mood; the deviation is 1."""

FEATURES = 2 * len(SPEECHES) + 3


@dataclass(frozen=True)
class Sales:
    """A dialogue of `length` turns, after each of which the probability of a purchase is named: (1 + action) / 2.

    What is seen: the share of each kind of speech so far, the last one, the mean and the last of the lengths, and the
    share of the turns that are over.

    Attributes:
        shift: how far customers speak otherwise, from 0 to 1: so much of the time in the words of the opposite mood.
    """

    length: int = 8
    shift: float = 0.0

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ConfigurationError(f"task sales: length = {self.length}; a dialogue has at least 1 turn")
        if not 0 <= self.shift <= 1:
            raise ConfigurationError(f"task sales: shift = {self.shift}; it is from 0 to 1")

    @property
    def name(self) -> str:
        return "sales"

    @property
    def agents(self) -> tuple[str, ...]:
        return ("predictor",)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(FEATURES, 1, discrete=False),)

    @property
    def joint(self) -> int:
        return 0

    @property
    def speaks(self) -> Array:
        """How likely each mood `[3]` is to say each kind of speech `[6]`."""
        mixed: Array = (1 - self.shift) * SPEAKS + self.shift * SPEAKS[::-1]
        return mixed

    def dialogue(self, seed: int) -> tuple[Integers, Array, bool]:
        """The kinds of speech and the lengths of a dialogue, `[T]` each, and whether it ends in a purchase."""
        draw = Key.of(seed).derive("sales").numpy()
        chances, noise = draw.random((self.length, 2)), draw.normal(size=self.length)
        following, speaks = CHANGES.cumsum(1), self.speaks.cumsum(1)
        moods, speeches, row = list[int](), list[int](), FIRST.cumsum()
        for change, word in chances:
            moods.append(min(int(row.searchsorted(change, "right")), len(MOODS) - 1))
            speeches.append(min(int(speaks[moods[-1]].searchsorted(word, "right")), len(SPEECHES) - 1))
            row = following[moods[-1]]
        return np.array(speeches), LENGTHS[moods] + noise, bool(draw.random() < BUYS[moods[-1]])

    def posterior(self, speeches: Integers, sizes: Array) -> Array:
        """The probability of a purchase after each turn `[B, T]` of dialogues `[B, T]`: nobody can know more."""
        chance = np.empty(speeches.shape)
        belief = np.broadcast_to(FIRST, (len(speeches), len(MOODS)))
        for turn in range(self.length):
            if turn:
                belief = belief @ CHANGES
            weight = self.speaks[:, speeches[:, turn]].T * np.exp(-((sizes[:, turn, None] - LENGTHS) ** 2) / 2)
            belief = belief * weight / (belief * weight).sum(1, keepdims=True)
            chance[:, turn] = belief @ np.linalg.matrix_power(CHANGES, self.length - 1 - turn) @ BUYS
        return chance

    def open(self, width: int) -> Dialogues:
        return Dialogues(self, width)


def features(speeches: Integers, sizes: Array) -> Array:
    """What is seen after each turn of dialogues `[B, T]`, `[B, T, FEATURES]`."""
    turns = np.arange(1, speeches.shape[1] + 1)
    kinds = np.eye(len(SPEECHES))[speeches]
    shares = kinds.cumsum(1) / turns[:, None]
    mean = sizes.cumsum(1) / turns
    time = np.broadcast_to(turns / len(turns), sizes.shape)
    return np.concatenate([shares, kinds, np.stack([mean, sizes, time], -1)], -1)


class Dialogues(JointEnvironment):
    """Dialogues in as many copies.

    Attributes:
        shown: what is seen after each turn, `[B, T, FEATURES]`. bought: whether each ends in a purchase, `[B]`.
    """

    def __init__(self, world: Sales, width: int) -> None:
        self.world, self.time = world, np.zeros(width, np.int64)
        self.shown, self.bought = np.zeros((width, world.length, FEATURES)), np.zeros(width)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> dict[int, str]:
        places = list(slots)
        drawn = [self.world.dialogue(seed) for seed in seeds]
        self.shown[places] = features(np.array([row[0] for row in drawn]), np.array([row[1] for row in drawn]))
        self.bought[places] = [row[2] for row in drawn]
        self.time[places] = 0
        return {}

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        named = (1 + np.clip(np.asarray(actions[0], np.float64)[:, 0], -1, 1)) / 2
        paid = -((named - self.bought) ** 2) / self.world.length
        self.time = self.time + live
        over = (self.time >= self.world.length)[:, None]
        return Moved(paid[:, None], over, np.zeros_like(over))

    def seen(self) -> list[NDArray[np.float32]]:
        turn = np.minimum(self.time, self.world.length - 1)
        return [self.shown[np.arange(len(turn)), turn].astype(np.float32)]


@dataclass(frozen=True, eq=False)
class Familiarity:
    """How far what is seen lies from dialogues that are known, turn by turn: the squared distance of Mahalanobis.

    Attributes:
        centre: `[T, F]`. inverse: of the covariance, with 0.01 added to its diagonal, `[T, F, F]`. limit: the distance
            that a share of the known dialogues exceeds, `[T]`.
    """

    centre: Array
    inverse: Array
    limit: Array

    @classmethod
    def of(cls, known: Array, share: float = 0.05) -> Familiarity:
        """Of known dialogues `[B, T, F]`."""
        centre = known.mean(0)
        apart = known - centre
        spread = np.einsum("btf,btg->tfg", apart, apart) / len(known) + 0.01 * np.eye(known.shape[2])
        inverse = np.linalg.inv(spread)
        distance = np.einsum("btf,tfg,btg->bt", apart, inverse, apart)
        return cls(centre, inverse, np.quantile(distance, 1 - share, axis=0))

    def strange(self, shown: Array) -> NDArray[np.bool_]:
        """Whether dialogues `[B, T, F]` lie beyond the limit after each turn, `[B, T]`."""
        apart = shown - self.centre
        beyond: NDArray[np.bool_] = np.einsum("btf,tfg,btg->bt", apart, self.inverse, apart) > self.limit
        return beyond


_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 128,
    "rollout.samples": 1,
    "steps": 60,
    "credit.gamma": 0.0,
    "update.lr": 2e-3,
    "update.epochs": 4,
    "update.minibatches": 4,
}


def _sales(name: str, settings: Mapping[str, str]) -> JointTask:
    return native_task(name, settings, {"length": int, "shift": float}, Sales, _SUGGESTED)


SALES = TaskForm(
    name="sales",
    description="the probability that a dialogue ends in a purchase, after each turn, e.g. sales?length=8",
    make=_sales,
)

SALESRLAGENT = Analysis(
    name="salesrlagent",
    title="SalesRLAgent: a reinforcement learning approach for real-time sales conversion prediction and optimisation",
    where="docs/applications.md",
    kind="application",
)

"""PRISM: preferences between segments of play by a labeller that looks ahead (arXiv:2503.10177).

Preference-based reinforcement learning: somebody says which of two segments of play is better, a reward net is fitted
to that after Bradley and Terry, `P(s1 > s2) = exp(sum_t r(s1_t)) / (exp(sum_t r(s1_t)) + exp(sum_t r(s2_t)))`, and the
policy learns from the net's rewards, not from the task's (`LearntReward`). In PRISM a language model that reads point
clouds is the labeller, and reasons about what will happen later before it picks a winner. Here the scene is a list of
points too (where prizes lie, how the policy moves), and the labeller is scripted: `SceneLabeller` imagines how a scene
goes on for `ahead` decisions; with 0 it is myopic. The abstract names the parts; net, schedule and labeller are chosen
here, in their standard form. Task `point-trap` is a scene whose near prize is a trap.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import softplus

from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.core.signals import REWARD, counted_trajectories
from hocket.methods.base.ppo import PPO
from hocket.objectives.entropy import EntropyBonus
from hocket.policies.control_networks import Perceptron
from hocket.stages import Reward, Shaping, Split, State
from hocket.tasks.form import TaskForm
from hocket.tasks.gym import ACTOR_CRITIC
from hocket.types import Scenario, Trajectory

# ---------------------------------------------------------------- the scene


@dataclass(frozen=True)
class Scene:
    """What a point of mass 1 finds in space: a plain prize, and nearer a greater one that is a trap.

    Positions are relative to the point. A prize pays its worth times exp(-(distance/width)^2) at every decision. Who
    comes within `touch` of the trap falls `delay` decisions later, wherever they are then: the episode ends at `loss`.

    Attributes:
        thrust: what a decision adds to the velocity, along an axis. drag: the share of the velocity that is lost.
        limit: decisions of an episode.
    """

    plain: float = 1.0
    tempting: float = 2.0
    width: float = 0.5
    touch: float = 0.35
    delay: int = 10
    loss: float = 40.0
    thrust: float = 0.1
    drag: float = 0.3
    limit: int = 30

    def pays(self, to_prize: Any, to_trap: Any) -> Any:
        """What distances to both pay, in their shape: numbers, or arrays of numpy."""
        plain, tempting = (np.exp(-((distance / self.width) ** 2)) for distance in (to_prize, to_trap))
        return self.plain * plain + self.tempting * tempting


SCENE = Scene()

THRUSTS: NDArray[np.float64] = np.concatenate([np.zeros((1, 3)), np.eye(3), -np.eye(3)])
"""What the actions are: nothing, or a thrust along an axis."""

SIZE = 9
"""Numbers of an observation: where the prize, the trap and the velocity point."""


class Flight:
    """One episode of a scene, in a controller's terms."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.prize, self.trap, self.velocity = (np.zeros(3) for _ in range(3))
        self.step_number, self.falls = 0, math.inf

    def reset(self, seed: int) -> NDArray[np.float32]:
        """The prize lies anywhere at a distance of 1, the trap about opposite at 0.7."""
        draw = Key.of(0).derive("point-trap", seed).numpy()
        to = draw.normal(size=3)
        self.prize = to / np.linalg.norm(to)
        away = 0.3 * draw.normal(size=3) - self.prize
        self.trap = 0.7 * away / np.linalg.norm(away)
        self.velocity = np.zeros(3)
        self.step_number, self.falls = 0, math.inf
        return self._seen()

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool]:
        scene = self.scene
        self.velocity = (1 - scene.drag) * self.velocity + scene.thrust * THRUSTS[int(action)]
        self.prize, self.trap = self.prize - self.velocity, self.trap - self.velocity
        self.step_number += 1
        to_prize, to_trap = (math.hypot(*one) for one in (self.prize, self.trap))
        if to_trap < scene.touch:
            self.falls = min(self.falls, self.step_number + scene.delay)
        fell = self.step_number >= self.falls
        reward = float(scene.pays(to_prize, to_trap)) - scene.loss * fell
        return self._seen(), reward, fell, self.step_number >= scene.limit

    def close(self) -> None:
        """Nothing is held."""

    def _seen(self) -> NDArray[np.float32]:
        return np.concatenate([self.prize, self.trap, self.velocity]).astype(np.float32)


class PointTrap:
    """Flights through scenes without end: a scenario is a seed, its verifier the scene's own rewards."""

    name: str = "point-trap"  # Annotated: it is no workflow.
    kind: Literal["control"] = "control"
    environment = "point-trap"
    discrete = True
    actions = len(THRUSTS)
    observations = SIZE
    rewards: Sequence[Reward] = ()

    def size(self, split: Split) -> int | None:
        return None

    def scenario(self, split: Split, number: int) -> Scenario:
        seed = 2 * number + (split == "eval")
        return Scenario(id=f"point-trap/{seed}", seed=seed)

    def success(self, trajectory: Trajectory) -> float:
        """The return of the episode."""
        score = trajectory.scores.get("reward")
        return 0.0 if score is None else float(np.sum(np.asarray(score.value, dtype=np.float64)))

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`trapped`: whether the point fell."""
        return {"trapped": float(trajectory.terminated)}

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**ACTOR_CRITIC, "steps": 60, "curriculum.prompts": 32, "update.minibatches": 4}

    def make(self) -> Flight:
        """One environment."""
        return Flight(SCENE)


def from_settings(name: str, settings: Mapping[str, str]) -> PointTrap:
    """The task; it has no settings."""
    checked(name, settings, {})
    return PointTrap()


POINT_TRAP = TaskForm(
    name="point-trap",
    description="a point of mass 1 in space, a plain prize and a nearer one that is a trap; for control policies",
    make=from_settings,
)


# ---------------------------------------------------------------- who compares


class Labeller(ABC):
    """Says which of two segments is better, by a number of what each is worth."""

    @abstractmethod
    def worth(self, observations: Tensor) -> Tensor:
        """Of segments `[S, L, O]`, `[S]` float64; the better of two has the greater, and equal ones are a tie."""


@dataclass(frozen=True)
class SceneLabeller(Labeller):
    """Reads scenes of `point-trap`, and imagines how each goes on with nothing done, for `ahead` decisions.

    A segment is worth what it pays, and what the imagined rest pays; whoever touches the trap is seen to fall
    `SCENE.delay` decisions later where the imagination reaches so far, and to get nothing afterwards. The task's
    rewards are not read.

    Attributes:
        ahead: how far it looks; 0 judges by the segment alone.
    """

    ahead: int = 20

    def __post_init__(self) -> None:
        if self.ahead < 0:
            raise ValueError(f"ahead must be at least 0, not {self.ahead}")

    def worth(self, observations: Tensor) -> Tensor:
        if observations.shape[-1] != SIZE:
            raise ConfigurationError(
                f"SceneLabeller reads scenes of point-trap, {SIZE} numbers, not {observations.shape[-1]}; give "
                "LearntReward a labeller of your own for another task (shaping.0.labeller)"
            )
        seen = observations.double().numpy()
        prize, trap = seen[..., :3], seen[..., 3:6]
        # With nothing done, k decisions move a point by its velocity times (1 - drag) + ... + (1 - drag)^k.
        ways = np.cumsum((1 - SCENE.drag) ** np.arange(1, self.ahead + 1))
        moved = ways[:, None] * seen[:, -1:, 6:]
        to_prize, to_trap = (
            np.linalg.norm(np.concatenate([one, one[:, -1:] - moved], 1), axis=-1) for one in (prize, trap)
        )
        time = np.arange(to_trap.shape[1])
        falls = np.where(to_trap < SCENE.touch, time, len(time)).min(1) + SCENE.delay
        paid = np.where(time <= falls[:, None], SCENE.pays(to_prize, to_trap), 0.0).sum(1)
        return torch.from_numpy(paid - SCENE.loss * (falls < len(time)))


@dataclass(frozen=True)
class LearntReward(Shaping):
    """Takes the place of the task's rewards: a net r(observation), fitted to preferences between segments.

    At each step `queries` pairs of segments of `length` decisions are drawn from the batch's trajectories, which the
    labeller puts in order, ties left out. The net takes `fits` steps of Adam on the Bradley-Terry loss of 128 of the
    newest `window` pairs. Its rewards (see `rewards` for their scale) become those of the batch's
    decisions; those of the task are dropped unread. Stateful: net and pairs.

    Raises ConfigurationError, on a call, for a task in words.

    Attributes:
        labeller: who says which segment is better. hidden: units of each layer. lr: of Adam.
    """

    labeller: Labeller = SceneLabeller()
    length: int = 5
    queries: int = 256
    window: int = 8192
    hidden: int = 64
    fits: int = 50
    lr: float = 3e-3

    def __post_init__(self) -> None:
        if min(self.length, self.queries, self.hidden, self.fits) < 1 or self.window < self.queries or self.lr <= 0:
            raise ValueError(
                "length, queries, hidden and fits must be at least 1, window at least queries and lr positive, not "
                f"{self.length}, {self.queries}, {self.hidden}, {self.fits}, {self.window} and {self.lr}"
            )

    def init(self) -> State:
        """No net, no pairs."""
        return {"calls": 0, "net": [], "better": None, "worse": None}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        if any(np.ndim(one) != 2 for one in batch.observation):
            raise ConfigurationError(
                "LearntReward reads what a controller saw before each decision, and this is a task in words; take one "
                "of control, such as point-trap"
            )
        key = Key.of(0).derive("prism", state["calls"])
        seen = torch.from_numpy(np.concatenate(batch.observation))
        better, worse = self.compared(batch, seen, key)
        if state["better"] is not None:
            better = torch.cat([state["better"], better])[-self.window :]
            worse = torch.cat([state["worse"], worse])[-self.window :]
        net = self.net(seen.shape[-1], state)
        self.fit(net, better, worse, key)
        weights = [one.detach() for one in net.parameters()]
        after: State = {"calls": state["calls"] + 1, "net": weights, "better": better, "worse": worse}
        reward = rewards(net, seen, better, worse)[batch.occurrences.decision]
        others = {name: one for name, one in batch.scores.items() if name not in REWARD.values()}
        told = {REWARD[Level.DECISION]: LevelScores(Level.DECISION, reward)}
        return batch.but(scores={**others, **told}), after

    def compared(self, batch: Batch, seen: Tensor, key: Key) -> tuple[Tensor, Tensor]:
        """Segments `[P, L, O]` of the batch in pairs, the better ones and the others."""
        lengths, counted = batch.lengths().tolist(), counted_trajectories(batch).tolist()
        first, starts = 0, list[int]()
        for length, counts in zip(lengths, counted, strict=True):
            starts += range(first, first + length - self.length + 1) if counts else ()
            first += length
        if not starts:
            empty = torch.zeros(0, self.length, seen.shape[-1])
            return empty, empty
        drawn = torch.from_numpy(key.derive("pairs").numpy().integers(len(starts), size=(self.queries, 2)))
        places = torch.tensor(starts)[drawn][..., None] + torch.arange(self.length)
        segments = seen[batch.occurrences.decision[places]]
        worth = self.labeller.worth(segments.flatten(0, 1)).reshape(-1, 2)
        told = worth[:, 0] != worth[:, 1]
        segments, best = segments[told], worth[told].argmax(1)
        rows = torch.arange(len(segments))
        return segments[rows, best], segments[rows, 1 - best]

    def net(self, inputs: int, state: State) -> Perceptron:
        """The net as it is remembered, or a new one that says little."""
        net = Perceptron((inputs, self.hidden, self.hidden, 1), last_gain=0.1, key=Key.of(0).derive("prism", "net"))
        with torch.no_grad():
            for parameter, known in zip(net.parameters(), state["net"], strict=bool(state["net"])):
                parameter.copy_(known)
        return net

    def fit(self, net: nn.Module, better: Tensor, worse: Tensor, key: Key) -> None:
        """Steps of Adam on pairs drawn by the key; none without pairs."""
        adam, draw = torch.optim.Adam(net.parameters(), lr=self.lr), key.derive("fit").torch()
        for _ in range(self.fits if len(better) else 0):
            rows = torch.randint(len(better), (128,), generator=draw)
            with torch.enable_grad():
                loss = bradley_terry(net, better[rows], worse[rows])
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()


def bradley_terry(net: nn.Module, better: Tensor, worse: Tensor) -> Tensor:
    """The mean of -log P(better > worse) over pairs of segments `[P, L, O]`."""
    ahead: Tensor = net(better).sum((1, 2)) - net(worse).sum((1, 2))
    return softplus(-ahead).mean()


def rewards(net: nn.Module, seen: Tensor, better: Tensor, worse: Tensor) -> Tensor:
    """r of observations `[T, O]`, with mean 0 over the worse segments and deviation 1 over all; `[T]` float64.

    Preferences between segments of one length tell neither; with this origin it pays to stay where segments are good.
    """
    if not len(worse):
        return torch.zeros(len(seen), dtype=torch.float64)
    with torch.no_grad():
        told, low, high = (net(one).double().squeeze(-1) for one in (seen, worse, better))
    scaled: Tensor = (told - low.mean()) / torch.cat([low, high]).std(correction=0).clamp(min=1e-6)
    return scaled


PRISM = PPO.but(
    name="prism-3d-pbrl",
    title="PRISM: PPO on a reward learnt from a labeller that looks ahead",
    source="arXiv:2503.10177 (abstract); Christiano et al., arXiv:1706.03741, for net and segments",
    family="preference",
    catalogue_ids=("prism-3d-pbrl",),
    axes=("reward", "policy", "environment"),
    formula="P(s1 > s2) = sigmoid(sum_t r(s1_t) - sum_t r(s2_t)),  s1 better where pay(s1) + imagined pay of the next "
    "20 decisions is greater;  PPO on r, + 0.01 H(pi)",
    task="point-trap",
    conventions={
        **PPO.conventions,
        "labeller": "scripted, reads where things lie and imagines 20 decisions in which nothing is done; any other by "
        "shaping.0.labeller",
        "segments": "5 decisions, 256 pairs a step from the batch, of which the newest 8192 are fitted; ties left out",
        "net": "of the observation alone, two layers of 64, Adam at 3e-3, 50 steps of 128 pairs each step",
        "scale": "mean 0 over the worse segments, deviation 1 over all; preferences of equally long ones tell neither",
        "task's rewards": "not learnt from; evaluation still reads them",
        "entropy": "a bonus of 0.01: without it what the net says at first settles some policies for good",
    },
    shaping=(LearntReward(),),
    regularisers=(*PPO.regularisers, EntropyBonus(coefficient=0.01)),
)

"""Snapshot RL: in early training, episodes begin in states of a teacher's episodes (Zhao et al., arXiv:2403.00673).

A teacher plays some episodes, and every state that it passes is kept (`snapshot` of `hocket.core.worlds`). For the
first steps of training most episodes of the student begin in one of them, restored, instead of at the start; then all
begin at the start, so that what is learnt last is what is asked. The learner is left as it is, here PPO.

S3RL adds two rules, both on as shipped. States are clustered by what is seen there (k-means), and a cluster is drawn
evenly, then a state in it; and an episode that began in a snapshot is cut after some decisions, as by a limit of time,
so that a batch has many beginnings.

The teacher is a world's own (`teacher`, as `doors:10` has), or a policy that was trained before:

    hocket train --recipe snapshot-rl
    hocket train --recipe snapshot-rl --task recall:corridor --hooks.0.teacher runs/RUN/checkpoints/step-000040/policy
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.wrapper import WrappedCourse, WrappedWorld
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.worlds import JointEnvironment, Moved
from hocket.methods.base.ppo import PPO
from hocket.rollout.joint import JointController, JointPlayer
from hocket.stages import Hook, HookContext, Player, State
from hocket.types import Assignment

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 20
"""Of k-means."""

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Starts:
    """States where episodes may begin, with what is seen in each, `[N, O]`, and the cluster of each, `[N]`."""

    states: Sequence[Mapping[str, Any]]
    seen: Floats
    cluster: Ints

    @cached_property
    def members(self) -> tuple[Ints, ...]:
        """The states of every cluster that has any."""
        return tuple(np.flatnonzero(self.cluster == number) for number in np.unique(self.cluster))

    def draw(self, rng: np.random.Generator) -> int:
        """A state, of a cluster that is drawn evenly."""
        cluster = self.members[int(rng.integers(len(self.members)))]
        return int(cluster[int(rng.integers(len(cluster)))])


def clusters(points: Floats, count: int, rng: np.random.Generator) -> Ints:
    """The cluster of every point `[N, D]` by k-means, `[N]`; dimensions count by their deviation.

    The first centres are drawn one by one, each with odds in proportion to the squared distance from those before
    (k-means++); there are at most as many as there are different points.
    """
    scale = points.std(0)
    scaled = points / np.where(scale > 0, scale, 1.0)
    centres = scaled[[int(rng.integers(len(scaled)))]]
    while len(centres) < count:
        far = _squares(scaled, centres).min(1)
        if far.sum() < 1e-12:
            break
        centres = np.concatenate([centres, scaled[[int(rng.choice(len(scaled), p=far / far.sum()))]]])
    for _ in range(ROUNDS):
        nearest = _squares(scaled, centres).argmin(1)
        means = [scaled[nearest == number].mean(0) for number in range(len(centres)) if (nearest == number).any()]
        if len(means) == len(centres) and np.allclose(means, centres):
            break
        centres = np.stack(means)
    return _squares(scaled, centres).argmin(1)  # type: ignore[no-any-return]


def _squares(points: Floats, centres: Floats) -> Floats:
    distance: Floats = ((points[:, None] - centres) ** 2).sum(-1)
    return distance


@dataclass(frozen=True)
class SnapshotStarts(WrappedWorld):
    """`world`, some of whose episodes begin in a state of `starts`, by the episode's own seed.

    Attributes:
        share: of the episodes. cut: after so many steps such an episode is truncated; 0 for never.
    """

    starts: Starts
    share: float
    cut: int

    def open(self, width: int) -> JointEnvironment:
        return _Started(self, width)


class _Started(WrappedCourse):
    def __init__(self, world: SnapshotStarts, width: int) -> None:
        super().__init__(world.world.open(width))
        self.world, self.left = world, np.full(width, NEVER)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        failed, world = self._course.reset(slots, seeds), self.world
        for slot, seed in zip(slots, seeds, strict=True):
            rng = Key.of(seed).derive("snapshot").numpy()
            self.left[slot] = NEVER
            if slot not in failed and rng.random() < world.share:
                self._course.restore(slot, world.starts.states[world.starts.draw(rng)])
                self.left[slot] = world.cut or NEVER
        return failed

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        moved = self._course.step(actions, live)
        self.left = self.left - live
        return replace(moved, truncated=moved.truncated | ((self.left <= 0)[:, None] & ~moved.terminated))


@dataclass(frozen=True)
class StateRecording(WrappedWorld):
    """`world`, which keeps the state before every step, and what all agents see there, in `into`.

    States after the end of an agent are not kept, for all agents begin together.
    """

    into: list[tuple[Mapping[str, Any], NDArray[np.float32]]]

    def open(self, width: int) -> JointEnvironment:
        return _Kept(self, width)


class _Kept(WrappedCourse):
    def __init__(self, world: StateRecording, width: int) -> None:
        super().__init__(world.world.open(width))
        self.into, self.ended = world.into, np.zeros(width, bool)

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> Mapping[int, str]:
        self.ended[list(slots)] = False
        return self._course.reset(slots, seeds)

    def step(self, actions: Sequence[NDArray[Any]], live: NDArray[np.bool_]) -> Moved:
        views = np.concatenate([np.asarray(view, np.float32) for view in self._course.seen()], 1)
        self.into += [
            (self._course.snapshot(slot), views[slot]) for slot in np.flatnonzero(live & ~self.ended).tolist()
        ]
        moved = self._course.step(actions, live)
        self.ended |= (moved.terminated | moved.truncated).any(1)
        return moved


@dataclass(frozen=True)
class Snapshots(Hook):
    """Begins a share of the episodes of the first steps in states of a teacher's episodes; see the module.

    Attributes:
        teacher: a folder with the weights of a policy like the student; empty for the world's own teacher.
        episodes: that it plays. share: of the student's episodes. until: the last step with snapshots.
        clusters: of states; 1 draws evenly over all states. cut: decisions of an episode from a snapshot; 0 for as many
            as it takes.
    """

    teacher: str = ""
    episodes: int = 32
    share: float = 0.8
    until: int = 30
    clusters: int = 10
    cut: int = 5

    def __post_init__(self) -> None:
        if self.episodes < 1 or self.clusters < 1 or self.cut < 0 or not 0 <= self.share <= 1:
            raise ValueError(
                f"episodes and clusters are at least 1, cut at least 0 and share in [0, 1], not {self.episodes}, "
                f"{self.clusters}, {self.cut} and {self.share}"
            )

    def check(self, run: HookContext) -> None:
        super().check(run)
        if not isinstance(run.player, JointPlayer):
            raise ConfigurationError(
                f"recipe {run.method} begins episodes in states of a native world, and task {run.task.name} is none; "
                "use doors:10"
            )
        world = run.player.world
        if not self.teacher and not hasattr(world, "teacher"):
            raise ConfigurationError(
                f"task {world.name} has no teacher of its own, so recipe {run.method} needs one: train a policy and "
                "name its folder by hooks.0.teacher"
            )
        if self.teacher and not Path(self.teacher).is_dir():
            raise ConfigurationError(f"hooks.0.teacher = {self.teacher}: there is no such folder")

    async def before(self, run: HookContext, step: int, memory: Any) -> Any:
        """Lets the teacher play, once; a resumed run lets it play the same again."""
        if step > self.until or "starts" in memory:
            return memory
        joint, record = cast(JointPlayer, run.player), list[tuple[Mapping[str, Any], NDArray[np.float32]]]()
        policies = {name: self.taught(run, name) for name in joint.policies}
        player = replace(joint, world=StateRecording(joint.world, record), policies=policies, _open=[])
        key = run.key.derive("teacher")
        scenarios = [run.task.scenario("train", number) for number in range(self.episodes)]
        await player.play([Assignment(scenario) for scenario in scenarios], key=key)
        player.close()
        views = np.stack([view for _, view in record]).astype(np.float64)
        cluster = clusters(views, self.clusters, key.derive("clusters").numpy())
        return {"starts": Starts([state for state, _ in record], views, cluster)}

    def taught(self, run: HookContext, name: str) -> JointController:
        """Who plays in the place of a policy."""
        joint = cast(JointPlayer, run.player)
        if not self.teacher:
            return cast(JointController, joint.world.teacher)  # type: ignore[attr-defined]
        copy = run.trained[name].frozen_copy()
        copy.load(Path(self.teacher))
        return cast(JointController, copy)

    def seat(self, player: Player, run: HookContext, step: int, memory: Any) -> Player:
        if step > self.until:
            return player
        joint = cast(JointPlayer, player)
        return replace(joint, world=SnapshotStarts(joint.world, memory["starts"], self.share, self.cut), _open=[])

    def state(self, memory: Any, run: HookContext) -> State:
        """Nothing: what a teacher plays is drawn by the run's key."""
        return {}


SNAPSHOT_RL = PPO.but(
    name="snapshot-rl",
    title="Snapshot RL: episodes that begin where a teacher has been",
    source="Snapshot Reinforcement Learning, arXiv:2403.00673",
    catalogue_ids=("snapshot-rl",),
    axes=("rollout", "environment"),
    formula="s_1 ~ 0.8 U(clusters of the teacher's states) + 0.2 start  up to step 30, of which the former are cut "
    "after 5 decisions;  s_1 = start  from there on;  all else as ppo",
    conventions={
        **PPO.conventions,
        "teacher": "the world's own, which slips in one of twenty decisions, or a trained policy (hooks.0.teacher)",
        "clusters": "k-means on what is seen over its deviation, from k-means++",
        "phases": "snapshots in the first 30 steps, which is half of the run in `doors:10`",
        "cut": "a truncation: the value of the last state is bootstrapped",
        "world": "a lock of doors stands in for MuJoCo",
    },
    task="doors:10",
    hooks=(Snapshots(),),
)

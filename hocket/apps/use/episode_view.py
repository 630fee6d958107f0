"""Episodes of a policy as people look at them: played as `hocket eval` plays them, drawn where that is possible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hocket.apps.report.evaluation import EvaluationSubject
from hocket.core import sums
from hocket.core.errors import ConfigurationError, HocketError
from hocket.rollout.vector import VectorEnvironment, VectorPlayer
from hocket.stages import Player, Task
from hocket.train.aio import run_async
from hocket.train.kinds import kind_of
from hocket.train.kinds.control import Control
from hocket.types import Assignment, Trajectory

View = Callable[[Any, float | None], None]
"""Takes a drawing of the environment, and the reward of the step that led to it; None at the beginning."""


class _ViewedEnvironment:
    """An environment that is looked at after every step."""

    def __init__(self, environment: Any, view: View, *, drawn: bool) -> None:
        self._environment, self._view, self._drawn = environment, view, drawn

    def reset(self, seed: int) -> NDArray[np.float32]:
        first: NDArray[np.float32] = self._environment.reset(seed)
        self._show(None)
        return first

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool]:
        outcome: tuple[NDArray[np.float32], float, bool, bool] = self._environment.step(action)
        self._show(outcome[1])
        return outcome

    def close(self) -> None:
        self._environment.close()

    def _show(self, reward: float | None) -> None:
        self._view(self._environment.world.render() if self._drawn else None, reward)


@dataclass(frozen=True)
class ViewedTask:
    """A task of one agent whose environments are looked at: a `VectorWorld`.

    Attributes:
        mode: how they are drawn, `human`, `rgb_array` or `ansi`; None is not at all.

    Raises:
        ConfigurationError: for a task that is not drawn so.
    """

    task: Any
    view: View
    mode: str | None = None

    def __post_init__(self) -> None:
        if self.mode is None:
            return
        if not hasattr(self.task, "rendered"):
            raise ConfigurationError(f"task {self.task.name} draws nothing; leave --render and --video out")
        object.__setattr__(self, "task", self.task.rendered(self.mode))

    @property
    def name(self) -> str:
        return str(self.task.name)

    def make(self) -> VectorEnvironment:
        return _ViewedEnvironment(self.task.make(), self.view, drawn=self.mode is not None)


def is_control(task: Task) -> bool:
    """Whether controllers play a task."""
    return isinstance(kind_of(task), Control)


def check_control(task: Task) -> None:
    """Refuses tasks that controllers do not play."""
    if kind_of(task).textual:
        raise ConfigurationError(f"act: task {task.name} is played by a language model; talk to it: hocket play RUN")
    if not is_control(task):
        raise ConfigurationError(
            f"act: task {task.name} is {kind_of(task).name}, and only the episodes of controllers are shown; measure "
            "it with hocket eval RUN"
        )


def viewed_player(subject: EvaluationSubject, view: View, mode: str | None) -> Player:
    """The run's player, its environment looked at.

    Raises:
        ConfigurationError: for a world of several agents, which is not drawn.
    """
    player = subject.parts.player
    if not isinstance(player, VectorPlayer):
        raise ConfigurationError(f"task {subject.name} draws nothing; leave --render and --video out")
    task = ViewedTask(subject.task, view, mode)
    return VectorPlayer(task, player.policy, agent=player.agent, width=player.width)


def play_episode(subject: EvaluationSubject, player: Player, number: int, *, greedy: bool = True) -> Trajectory:
    """Unseen episode `number` as `hocket eval` plays it, greedily or sampled.

    Raises:
        HocketError: when the environment fails.
    """
    decoding, key = subject.config.decoding, subject.parts.key.derive("evaluation")
    key = (key if greedy else key.derive("sampled")).derive("evaluate")
    decoding = replace(decoding, temperature=0.0) if greedy else decoding
    scenario = subject.task.scenario("eval", number)
    (trajectory,) = run_async(player.play([Assignment(scenario, decoding=decoding)], key=key))
    if trajectory.failure is not None:
        raise HocketError(f"episode {scenario.id} failed: {trajectory.failure}")
    return trajectory


# ---------------------------------------------------------------- steps in words


@dataclass(frozen=True)
class EpisodeStep:
    """What the agents did at one time, and the reward of each, by agent."""

    time: int
    actions: Mapping[str, Any]
    rewards: Mapping[str, float]


def steps_of(trajectory: Trajectory) -> list[EpisodeStep]:
    """The steps of an episode of control, in order of time."""
    score = trajectory.scores.get("reward")
    earned: Iterator[float] = iter([] if score is None else np.asarray(score.value, np.float64).ravel().tolist())
    actions: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    rewards: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for turn in trajectory.turns:
        times: Sequence[int] = range(len(turn)) if turn.time is None else turn.time.tolist()
        for place, time in enumerate(times):
            actions[time][turn.agent] = turn.action[place].tolist()
            rewards[time][turn.agent] = next(earned, 0.0)
    return [EpisodeStep(time, actions[time], rewards[time]) for time in sorted(actions)]


def returns_of(steps: Sequence[EpisodeStep]) -> dict[str, float]:
    """The undiscounted return of each agent."""
    agents = dict.fromkeys(agent for step in steps for agent in step.rewards)
    return {agent: sums.total(step.rewards[agent] for step in steps if agent in step.rewards) for agent in agents}


def in_words(step: EpisodeStep) -> str:
    """A step as a line: a column per agent where there are several."""
    alone = len(step.actions) == 1
    parts = [
        f"{'action' if alone else agent} {_short(action)}  {'reward ' if alone else ''}{step.rewards[agent]:g}"
        for agent, action in step.actions.items()
    ]
    return f"step {step.time + 1:>4}  " + "   ".join(parts)


def _short(action: Any) -> str:
    return " ".join(f"{number:.3g}" for number in action) if isinstance(action, list) else str(action)


# ---------------------------------------------------------------- films

RATE = 25.0
"""Pictures a second at most; of faster environments some are left out."""


class Film:
    """Pictures of episodes, written as an animated GIF.

    Args:
        file: where to, `FILE.gif`. rate: pictures a second that the environment draws.

    Raises:
        ConfigurationError: for another kind of file, or without Pillow.
    """

    def __init__(self, file: str | Path, rate: float = 30.0) -> None:
        self.file = Path(file)
        if self.file.suffix.lower() != ".gif":
            raise ConfigurationError(f"--video {file}: films are written as GIF; name a file that ends in .gif")
        if not self.file.parent.is_dir():
            raise ConfigurationError(f"--video {file}: there is no folder {self.file.parent}; make it first")
        try:
            import PIL.Image
        except ImportError:
            raise ConfigurationError("--video needs Pillow: pip install pillow") from None
        self._image = PIL.Image
        self._every = max(1, round(rate / RATE))
        self._milliseconds = round(1000 * self._every / rate)
        self._pictures: list[Any] = []
        self._count = 0

    def add(self, picture: Any, reward: float | None) -> None:
        """Takes the next picture, `[H, W, 3]` uint8."""
        if self._count % self._every == 0 or reward is None:
            # A palette takes a third of the memory.
            self._pictures.append(self._image.fromarray(np.asarray(picture, np.uint8)).quantize(64))
        self._count += 1

    def write(self) -> Path:
        """Writes the file and returns its path."""
        first, *rest = self._pictures
        first.save(self.file, save_all=True, append_images=rest, duration=self._milliseconds, loop=0)
        return self.file

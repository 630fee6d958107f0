"""A task that is evaluated on the scenarios of another: what `--eval-task` makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from hocket.agents.workflows.environment import PlayEnvironment
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.rewards.opinions import Opinions, opinions_of
from hocket.stages import Reward, Split, Task
from hocket.tasks.data import Data
from hocket.tasks.text import TextTask
from hocket.types import Scenario, Trajectory

SETTING = "eval_task"
"""The setting in a task's name that names the task to evaluate on."""

PREFIX = "evaluation/"
"""What the ids of scenarios of the other task begin with."""


@dataclasses.dataclass(frozen=True)
class EachTask(Reward):
    """A reward of the task in training and one of the task in evaluation, each on its own trajectories.

    Where one is missing, its trajectories get no opinion.
    """

    trained: Reward | None
    evaluated: Reward | None
    name: str = "correct"
    weight: float = 1.0

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        values: list[float | None] = [None] * len(trajectories)
        feedback: list[str | None] = [None] * len(trajectories)
        problems: list[str] = []
        for reward, evaluation in ((self.trained, False), (self.evaluated, True)):
            places = [place for place, item in enumerate(trajectories) if _of_other(item.scenario) == evaluation]
            if reward is None or not places:
                continue
            judged = [_restored(trajectories[place]) for place in places]
            opinions = opinions_of(await reward(judged, key=key), len(judged), self.name)
            problems += opinions.problems
            for place, value, words in zip(places, opinions, opinions.feedback, strict=True):
                values[place], feedback[place] = value, words
        return Opinions(values, feedback, problems)


class EvaluatedTask(TextTask):
    """The scenarios of `trained` to train on, and those of `evaluated`, another task, to evaluate on.

    The task that a scenario is of judges and describes its answers. Training rows of
    data whose prompt is in the data to evaluate on are left out.

    Raises:
        ConfigurationError: when one of both is not in words, or they are played in different ways.
    """

    def __init__(self, trained: Task, evaluated: Task, name: str | None = None) -> None:
        self.name = name or f"{trained.name}?{SETTING}={evaluated.name}"
        for task in (trained, evaluated):
            if task.kind != "text":
                raise ConfigurationError(f"eval_task: task {task.name} is not in words; evaluate on its own scenarios")
        played, other = getattr(trained, "workflow", None), getattr(evaluated, "workflow", None)
        if other != played and (other is not None or isinstance(played, PlayEnvironment)):
            raise ConfigurationError(
                f"eval_task: {trained.name} and {evaluated.name} are played in different ways; evaluate on a task of "
                "the same kind, or measure the finished run: hocket eval RUN --task NAME"
            )
        if isinstance(trained, Data) and isinstance(evaluated, Data):
            trained = trained.without(evaluated.contents("eval"))
        self.trained, self.evaluated = trained, evaluated
        self.extract = getattr(trained, "extract", TextTask.extract)

    def __getattr__(self, name: str) -> Any:
        """Whatever else a task may have, such as lessons or examples, is the training task's."""
        if name.startswith("_") or name in ("trained", "evaluated"):
            raise AttributeError(name)
        return getattr(self.trained, name)

    @property
    def remarks(self) -> Sequence[str]:  # type: ignore[override]
        """What both have to say."""
        return (*getattr(self.trained, "remarks", ()), *getattr(self.evaluated, "remarks", ()))

    def size(self, split: Split) -> int | None:
        return self.evaluated.size("eval") if split == "eval" else self.trained.size(split)

    def scenario(self, split: Split, number: int) -> Scenario:
        if split != "eval":
            return self.trained.scenario(split, number)
        scenario = self.evaluated.scenario("eval", number)
        return dataclasses.replace(scenario, id=PREFIX + scenario.id)

    def every_row(self) -> Iterator[tuple[str, Callable[[], Scenario]]]:
        """The rows of both, where they are data."""
        for task in (self.evaluated, self.trained):
            yield from task.every_row() if isinstance(task, Data) else ()

    @property
    def rewards(self) -> Sequence[Reward]:
        pairs = list(zip_longest(self.trained.rewards, self.evaluated.rewards))
        named = [(mine, other, mine or other) for mine, other in pairs]
        return [
            EachTask(mine, other, name=known.name, weight=0.0 if mine is None else mine.weight)
            for mine, other, known in named
            if known is not None
        ]

    def verify(self, text: str, scenario: Scenario) -> float | None:
        verify = getattr(self._task_of(scenario), "verify", None)
        return None if verify is None else verify(text, _own(scenario))

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        """Those of training, with room for the longer answers of both."""
        suggestions = dict(self.trained.suggest(recipe))
        lengths = [task.suggest(recipe).get("decoding.max_tokens") for task in (self.trained, self.evaluated)]
        stated = [int(length) for length in lengths if length is not None]
        if len(stated) == len(lengths):
            suggestions["decoding.max_tokens"] = max(stated)
        return suggestions

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        return self._task_of(trajectory.scenario).describe(_restored(trajectory))

    def label(self, trajectory: Trajectory) -> str | None:
        label = getattr(self._task_of(trajectory.scenario), "label", None)
        return None if label is None else label(_restored(trajectory))

    def success(self, trajectory: Trajectory) -> float:
        restored = _restored(trajectory)
        if restored is not trajectory:
            # The other task knows its scores by its own names.
            pairs = zip(self.rewards, self.evaluated.rewards, strict=False)
            names = {mine.name: other.name for mine, other in pairs}
            restored.scores = {names.get(name, name): score for name, score in trajectory.scores.items()}
        return self._task_of(trajectory.scenario).success(restored)

    def _task_of(self, scenario: Scenario) -> Task:
        return self.evaluated if _of_other(scenario) else self.trained


def _of_other(scenario: Scenario) -> bool:
    return scenario.id.startswith(PREFIX)


def _own(scenario: Scenario) -> Scenario:
    """A scenario as its own task made it."""
    return dataclasses.replace(scenario, id=scenario.id.removeprefix(PREFIX)) if _of_other(scenario) else scenario


def _restored(trajectory: Trajectory) -> Trajectory:
    """A trajectory whose scenario is as its own task made it; scores are shared."""
    if not _of_other(trajectory.scenario):
        return trajectory
    return dataclasses.replace(trajectory, scenario=_own(trajectory.scenario))

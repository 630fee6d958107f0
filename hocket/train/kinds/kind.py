"""What a kind of decider is: everything about a run that depends on what its decisions are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example
from hocket.core.intervals import mean_interval, wilson
from hocket.policies.settings import NetworkSettings
from hocket.recipe import Recipe
from hocket.stages import Player, Policy, Reward, Task
from hocket.train.examples import replayed
from hocket.train.journal import Journal
from hocket.train.settings import Config

if TYPE_CHECKING:
    from hocket.policies.family import Precision


@dataclass(frozen=True)
class Measure:
    """What evaluation averages: a share of right answers, a return, or a metric of the loss on held-out data.

    Attributes:
        name: in metrics (`eval/NAME`), summaries and studies.
        share: whether values are successes in [0, 1], which can be right or wrong.
        title: of what it is a measure, in words. each: what it is over. answers: whether a policy acts to be measured.
        falls: whether less is better.
    """

    name: str
    share: bool
    title: str = "Accuracy"
    each: str = "unseen problems"
    answers: bool = True
    falls: bool = False

    def interval(self, values: Sequence[float]) -> tuple[float, float]:
        """The 95 % interval of the mean of independent values."""
        return wilson(sum(values), len(values)) if self.share else mean_interval(values)


ACCURACY = Measure("accuracy", share=True)
RETURN = Measure("return", False, "Mean return", "unseen episodes")

HELD_OUT = {
    measure.name: measure
    for measure in (
        Measure("pairs/accuracy", True, "Preference accuracy", "unseen pairs", answers=False),
        Measure("labels/accuracy", True, "Label accuracy", "unseen labels", answers=False),
        Measure("lists/accuracy", True, "Ranking accuracy", "unseen lists", answers=False),
        Measure("scores/explained", False, "Share of variance explained", "unseen scores", answers=False),
        Measure("loss", False, "Loss", "unseen examples", answers=False, falls=True),
    )
}
"""What is measured by a metric of a loss on data that was not trained on, by the metric's name."""

_OF_RECORDED = {
    Example.DEMONSTRATION: "loss",
    Example.PAIR: "pairs/accuracy",
    Example.LABELLED: "labels/accuracy",
    Example.RANKED: "lists/accuracy",
}

MEASURES: Mapping[str, Measure] = {measure.name: measure for measure in (ACCURACY, RETURN, *HELD_OUT.values())}
"""By name, those that are looked for first in metrics first."""


def is_share(measure: str) -> bool:
    """Whether what evaluation averages, by its name, is a share in [0, 1], shown in per cent."""
    return measure in MEASURES and MEASURES[measure].share


def held_out_of(recipe: Recipe) -> str | None:
    """Which metric of its loss tells how a recipe does on held-out data.

    That of its objective where a scorer is learnt, else the one for the responses it takes from scenarios; None for a
    recipe that samples.
    """
    example = replayed(recipe)
    return recipe.objective.held_out or (None if example is None else _OF_RECORDED.get(example))


def measure_of(recipe: Recipe, kind: Kind, *, judged: bool = True) -> Measure:
    """What the evaluation of a run averages: its kind's measure where answers are `judged`, else that of its loss."""
    named = held_out_of(recipe)
    return kind.measure if named is None or (judged and recipe.objective.held_out is None) else HELD_OUT[named]


_PLAYED = {
    "masked": "--model nano-mdlm and a task in words",
    "pictures": "--model nano-flow --task drawn-digits, or a pipeline of diffusers and prompts",
    "latent": "a task in words",
}
"""What has a policy of a kind that rollouts name in `plays`."""

SHIPPED_OF: Mapping[str, str] = {"masked": "nano-mdlm"}
"""The shipped model of a kind that rollouts name in `plays`, for tasks that suggest none."""


class Kind(ABC):
    """What decides in a run: how policies are made, what plays them, how they are measured and shown.

    A task names its kind (`Task.kind`), and the model may choose another one for it (`played_by`). Everything that
    depends on it asks it; policies save and load themselves. A kind holds no state. Derive small networks of your own
    from `hocket.train.kinds.Network`.

    Attributes:
        name: in messages. measure: what evaluation averages.
        textual: whether language models decide: they take `model`, can be talked to and served, and be given problems
            in words that somebody wrote meanwhile.
        picture: rows and columns of what final states show, for tasks that do not say; none where states are pictures
            `[H, W, 3]` themselves. None shows nothing.
    """

    name: str
    measure: Measure = RETURN
    textual: bool = False
    picture: Sequence[int] | None = None

    @abstractmethod
    def build(
        self, config: Config, task: Task, *, workflow: Any, journal: Journal | None, precision: Precision
    ) -> tuple[Mapping[str, Policy], Player]:
        """The policies by name, before any training, and what plays them.

        Args:
            workflow: an object that replaces the one the configuration names. journal: of answers from outside.
            precision: of matrix products.

        Raises:
            ConfigurationError: for settings that mean nothing to this kind, or do not fit together.
        """

    def begins(self, config: Config, policies: Mapping[str, Policy]) -> Mapping[str, Path]:
        """The folders of weights that policies begin with, by their names, beside what `build` has read.

        They are read once the parts that recipes need are installed.

        Raises:
            ConfigurationError: when the configured model is not there, or is of other policies.
        """
        return {}

    def played_by(self, config: Config, task: Task) -> Kind:
        """The kind of decider when the configured model plays a task of this one.

        Raises:
            ConfigurationError: when that model cannot.
        """
        return self

    def check_network(self, config: Config, task: Task) -> None:
        """Refuses settings of control networks, where other policies decide."""
        if config.network != NetworkSettings():
            raise ConfigurationError(
                f"network.* is about the networks of control policies; task {task.name} is {self.name}, so drop it"
            )

    def check_rollouts(self, config: Config, task: Task) -> None:
        """Refuses recipes whose rollout samples from policies of another kind."""
        for recipe, _ in config.phases:
            plays = getattr(recipe.rollout, "plays", self.name)
            if plays != self.name:
                raise ConfigurationError(
                    f"recipe {recipe.name} samples from policies of the kind {plays}, and {config.model} on task "
                    f"{task.name} is {self.name}; use {_PLAYED[plays]}"
                )

    def suggest(self, config: Config, recipe: Recipe) -> Mapping[str, Any]:
        """Settings of a recipe that follow from others of the run, by dotted key; they count as defaults."""
        return {}

    def models(self, config: Config) -> Sequence[Any]:
        """`transformers` configurations of its language models, by which threads and precision are chosen."""
        return ()

    def describe(self, config: Config) -> str:
        """Who is trained, as displays and summaries show it."""
        return "a small network"

    def rewards(self, config: Config, task: Task, workflow: Any) -> tuple[Reward, ...]:
        """The task's own rewards, where they apply."""
        return tuple(task.rewards)

    def needs_reward(self, config: Config, task: Task, workflow: Any) -> bool:
        """Whether nothing scores a trajectory unless some reward does."""
        return False

    def remarks(self, config: Config, task: Task, workflow: Any) -> Sequence[str]:
        """What a person should know of a run before it begins."""
        return ()

    @abstractmethod
    def with_references(self, config: Config, player: Player, references: Mapping[str, Policy]) -> Player:
        """The player, able to play the policies as they were before training (`Assignment.actor`), given by name."""

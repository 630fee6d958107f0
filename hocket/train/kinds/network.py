"""One small network that decides by itself, without words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.stages import Player, Policy, Task
from hocket.train.journal import Journal
from hocket.train.kinds.kind import Kind
from hocket.train.roles import POLICY
from hocket.train.settings import Config

if TYPE_CHECKING:
    from hocket.policies.family import Precision


class OnePolicy(Kind):
    """A kind whose runs have one policy. A subclass gives `name`, `made` and `player`.

    Attributes:
        takes_model: whether `--model` names the network to begin with. takes_run: whether it names a run whose weights
            a network of the task begins with.
        takes_lora: whether `--lora` puts an adapter into that network.
        guided: whether its policy knows `decoding.guidance` without a model to choose.
        instead: recipes to use where one samples words or has problems invented.
    """

    takes_model: bool = False
    takes_run: bool = False
    takes_lora: bool = False
    guided: bool = False
    instead: str = "ppo, a2c or ippo"

    @abstractmethod
    def made(self, config: Config, task: Task) -> Policy:
        """The policy of a run, before any training."""

    @abstractmethod
    def player(self, task: Task, policy: Any) -> Player:
        """What plays the task with it."""

    def build(
        self, config: Config, task: Task, *, workflow: Any, journal: Journal | None, precision: Precision
    ) -> tuple[Mapping[str, Policy], Player]:
        self.check(config, task)
        self.check_network(config, task)
        policy = self.made(config, task)
        place(config, [policy])
        return {POLICY: policy}, self.player(task, policy)

    def check(self, config: Config, task: Task) -> None:
        """Refuses what is for language models or for several agents."""
        self.check_words(config, task)
        if config.roles:
            raise ConfigurationError(
                f"roles.{next(iter(config.roles))}: task {task.name} is {self.name}, where one policy plays alone; "
                "drop it and set the recipe with --recipe"
            )

    def check_words(self, config: Config, task: Task) -> None:
        """Refuses what is for language models."""
        named = config.model != "nano" and not (self.takes_model or self.takes_run)
        adapted = config.lora is not None and not self.takes_lora
        if named or adapted or config.workflow or config.engine.kind != "local":
            model = "" if self.takes_model or self.takes_run else "--model, "
            lora = "" if self.takes_lora else "--lora, "
            raise ConfigurationError(
                f"{model}{lora}--workflow and --engine are for language models; task {task.name} is {self.name}, "
                "so drop them"
            )
        if config.tower.lr is not None:
            raise ConfigurationError(
                f"tower.lr is for language models that read pictures or sounds; task {task.name} is {self.name}, so "
                "drop it"
            )
        if config.decoding.guidance != 1.0 and not (self.takes_model or self.guided):
            raise ConfigurationError(
                f"decoding.guidance is for samplers that read prompts; task {task.name} is {self.name}, so drop it"
            )
        self.check_rollouts(config, task)
        for recipe, _ in config.phases:
            if recipe.curriculum.needs_text:
                raise ConfigurationError(
                    f"task {task.name} is {self.name}, and only problems in words can be invented; use {self.instead}"
                )
            if recipe.rollout.needs_text:
                raise ConfigurationError(
                    f"task {task.name} is {self.name}, and {recipe.name} samples words; use {self.instead}"
                )

    def with_references(self, config: Config, player: Any, references: Mapping[str, Policy]) -> Player:
        player.reference = references[POLICY]
        seated: Player = player
        return seated


def place(config: Config, policies: Iterable[Any]) -> None:
    """Puts networks where `--device` says; without it they are on the processor, which is faster for small ones.

    Raises:
        ConfigurationError: when there is no such device, or a network computes on the processor alone.
    """
    from hocket.train.machine import device_of

    if config.device == "auto":
        return
    device = device_of(config)
    for policy in policies:
        if hasattr(policy, "move"):
            policy.move(device)
        elif device.type != "cpu":
            raise ConfigurationError(
                f"device = {config.device!r}: policy {policy.name!r}, a {type(policy).__name__}, has no method "
                "move(device) and computes on the processor; use --device cpu"
            )


class Network(OnePolicy):
    """A kind whose runs have one policy, that of a small network. A subclass gives `name`, `policy` and `player`."""

    @abstractmethod
    def policy(self, task: Task, name: str, key: Key) -> Policy:
        """A fresh policy for a task, its weights drawn from `key`."""

    def made(self, config: Config, task: Task) -> Policy:
        return self.policy(task, POLICY, Key.of(config.seed).derive("policy", POLICY))

"""Runs of models that read pictures, for claims about what they learn, with a blind control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hocket import tasks
from hocket.agents.workflows.chat import Chat
from hocket.agents.workflows.player import TextPlayer
from hocket.core.examples import Example
from hocket.core.keys import Key
from hocket.core.media import reader_of
from hocket.recipe import Recipe
from hocket.stages import Split, Task
from hocket.tasks.text import TextTask
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure, settled
from hocket.train.evaluate import EvaluationResult, evaluate
from hocket.train.loop import RunContext, train_step
from hocket.types import Scenario

SETTINGS: Mapping[str, Any] = {"model": "nano-vlm", "threads": 1, "precision": "fp32"}


class AnswerLabels(TextTask):
    """A task whose demonstrations are its answers alone, in tags: what supervised fine-tuning has of equal labels."""

    example = Example.DEMONSTRATION

    def __init__(self, task: Any) -> None:
        self.name, self.task = task.name, task

    def scenario(self, split: Split, number: int) -> Scenario:
        posed: Scenario = self.task.scenario(split, number)
        return replace(posed, metadata={**posed.metadata, "demonstration": f"<answer>{posed.answer}</answer>"})

    def verify(self, text: str, scenario: Scenario) -> float | None:
        verdict: float | None = self.task.verify(text, scenario)
        return verdict

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = self.task.suggest(recipe)
        return settings


@dataclass(frozen=True)
class PicturedRun:
    """A run without a folder."""

    parts: RunContext

    @classmethod
    def of(cls, recipe: Recipe, task: str | Task, **settings: Any) -> PicturedRun:
        """Configured as `hocket train` does, with the shipped model that reads pictures."""
        world = tasks.find(task) if isinstance(task, str) else task
        pairs = [("task", world.name), *{**SETTINGS, **settings}.items(), ("recipe", recipe)]
        return cls(build_parts(settled(configure(pairs, world), world), world))

    def train(self, steps: int, first: int = 1) -> PicturedRun:
        """The run after so many steps more."""
        for step in range(first, first + steps):
            run_async(train_step(self.parts, step))
        return self

    def measured(self, n: int = 200, task: str | Task | None = None, temperature: float = 0.0) -> EvaluationResult:
        """On `n` unseen scenarios, of another task where one is named."""
        world = self.parts.task if task is None else tasks.find(task) if isinstance(task, str) else task
        common: dict[str, Any] = {"n": n, "decoding": self.parts.decoding, "key": Key.of(0), "temperature": temperature}
        return run_async(evaluate(world, self.parts.player, (), **common))

    def blind(self, n: int = 200) -> EvaluationResult:
        """The same with grey pictures."""
        self._blindfold(True)
        try:
            return self.measured(n)
        finally:
            self._blindfold(False)

    def _blindfold(self, blind: bool) -> None:
        assert isinstance(self.parts.player, TextPlayer)
        for actor in self.parts.player.actors.values():
            assert isinstance(actor.chat, Chat)
            reader = reader_of(actor.chat.tokenizer)
            assert reader is not None
            reader.blind = blind
            actor.chat.forget()

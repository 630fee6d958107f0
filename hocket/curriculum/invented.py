"""No problems from outside: scenarios that ask for one to be written."""

from __future__ import annotations

from dataclasses import dataclass

from hocket.errors import ConfigurationError
from hocket.keys import Key
from hocket.stages import Curriculum, LedgerView, Task
from hocket.types import Scenario

INVENT = "invent"
"""The entry of `Scenario.metadata` that asks a workflow to have a problem written."""

INSTRUCTION = "Write one problem, neither too easy nor too hard, that has a single short answer. Write nothing else."


@dataclass(frozen=True)
class Invented(Curriculum):
    """`prompts` scenarios per step that ask for a problem in the same words; nothing of the task is shown.

    CPMobius (arXiv 2602.02979). The task's `eval` split still measures.

    Raises:
        ConfigurationError: on a call, for a task that is not in words.
    """

    prompts: int = 8
    instruction: str = INSTRUCTION

    def __post_init__(self) -> None:
        if self.prompts < 1 or not self.instruction:
            raise ValueError("prompts must be at least 1, and instruction some words")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        if task.kind != "text":
            raise ConfigurationError(
                f"task {task.name} is control, and only problems in words can be invented; use ppo"
            )
        return [
            Scenario(f"invented {place}", self.instruction, metadata={INVENT: True})
            for place in range(asked, asked + count)
        ]

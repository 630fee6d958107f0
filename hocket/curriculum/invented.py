"""No problems from outside: scenarios that ask for one to be written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
    """

    prompts: int = 8
    instruction: str = INSTRUCTION
    needs_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.prompts < 1 or not self.instruction:
            raise ValueError("prompts must be at least 1, and instruction some words")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        return [
            Scenario(f"invented {place}", self.instruction, metadata={INVENT: True})
            for place in range(asked, asked + count)
        ]

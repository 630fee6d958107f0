"""A token budget that shrinks over training, told in the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hocket.curriculum.shuffled import Shuffled
from hocket.keys import Key
from hocket.stages import LedgerView, Task
from hocket.types import Message, Scenario


def shrinking_budget(step: int, start: float, decay: float, interval: int) -> int:
    """`max(1, round(B_0 gamma^floor(k / T)))`, k the step from 0."""
    return max(1, round(start * decay ** (step // interval)))


@dataclass(frozen=True)
class ShrinkingBudget(Shuffled):
    """Asks as `Shuffled` does, for exactly as many tokens as the budget has: Train Long, Think Short (2508.08940).

    The budget stands in the scenario's metadata, `budget`, and in a sentence under the prompt. Steps are counted by
    what was asked, `prompts` scenarios each; a rollout that asks for more makes the budget shrink sooner.

    Attributes:
        start: B_0. decay: gamma, in (0, 1]; 1 keeps the budget. interval: T, steps between decays.
        sentence: what the prompt says; `{budget}` is replaced.
    """

    start: int = 128
    decay: float = 0.8
    interval: int = 20
    sentence: str = "Use exactly {budget} tokens."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start < 1 or self.interval < 1 or not 0 < self.decay <= 1:
            raise ValueError(
                f"start and interval must be at least 1 and decay in (0, 1], not {self.start}, {self.interval} and "
                f"{self.decay}"
            )

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        drawn = super().__call__(task, asked, count, ledger, key)
        return [self.budgeted(scenario, (asked + place) // self.prompts) for place, scenario in enumerate(drawn)]

    def budgeted(self, scenario: Scenario, step: int) -> Scenario:
        """The scenario with the budget of `step` (from 0) in its metadata and its prompt."""
        budget = shrinking_budget(step, self.start, self.decay, self.interval)
        told = {**scenario.metadata, "budget": budget}
        return replace(scenario, prompt=with_line(scenario.prompt, self.sentence.format(budget=budget)), metadata=told)


def with_line(prompt: str | tuple[Message, ...] | None, line: str) -> str | tuple[Mapping[str, Any], ...] | None:
    """The prompt with a line of its own under the last user message; no prompt stays none."""
    if prompt is None or not line:
        return prompt
    if isinstance(prompt, str):
        return f"{prompt}\n{line}"
    place = max((number for number, message in enumerate(prompt) if message["role"] == "user"), default=None)
    if place is None:
        return (*prompt, {"role": "user", "content": line})
    message = {**prompt[place], "content": f"{prompt[place]['content']}\n{line}"}
    return (*prompt[:place], message, *prompt[place + 1 :])

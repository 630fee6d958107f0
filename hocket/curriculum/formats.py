"""The same question in formats that get harder: yes or no, a choice, an open answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from hocket.curriculum.shuffled import Shuffled
from hocket.keys import Key
from hocket.stages import Curriculum, LedgerView, Task
from hocket.types import Scenario

Pose = Callable[[Scenario, str, Key], Scenario]
"""A scenario asked in a format."""

LETTERS = "ABCD"


@dataclass(frozen=True)
class FormatStages(Curriculum):
    """Scenarios as `Shuffled` gives them, asked in one format after another (Curr-ReFT, arXiv 2503.07065).

    Each stage but the last lasts `per_stage` scenarios. The paper moves on when a stage's data are used up.

    Attributes:
        prompts: scenarios per step. stages: formats in order.
        order: `staged`, or `shuffled`: each scenario's format is drawn, the comparison of the paper.
        pose: how a scenario is asked in a format; None asks in words, see `posed`.
    """

    prompts: int = 16
    stages: tuple[str, ...] = ("binary", "choice", "open")
    per_stage: int = 320
    order: Literal["staged", "shuffled"] = "staged"
    pose: Pose | None = None

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.per_stage < 1 or not self.stages:
            raise ValueError("prompts and per_stage must be at least 1, and stages name a format")
        if self.order not in ("staged", "shuffled"):
            raise ValueError(f"order must be staged or shuffled, not {self.order!r}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        plain = Shuffled(self.prompts)(task, asked, count, ledger, key)
        pose = self.pose or posed
        return [
            pose(scenario, self.format_at(asked + number, key), key.derive("pose", asked + number))
            for number, scenario in enumerate(plain)
        ]

    def format_at(self, position: int, key: Key) -> str:
        """The format of the scenario at `position` of the run."""
        if self.order == "shuffled":
            return self.stages[key.derive("format", position).word % len(self.stages)]
        return self.stages[min(position // self.per_stage, len(self.stages) - 1)]


def posed(scenario: Scenario, form: str, key: Key) -> Scenario:
    """The question in words as `binary` (is it 17?), `choice` (four letters) or `open` (as it is).

    Wrong answers are numbers near the right one, so a question whose answer is no whole number, or whose prompt is no
    text, stays open. The metadata tell the `format`, the id is apart from the open question's.
    """
    answer = str(scenario.answer).strip().replace(",", "")
    if form == "open" or not isinstance(scenario.prompt, str) or not answer.lstrip("+-").isdigit():
        return replace(scenario, metadata={**scenario.metadata, "format": "open"})
    rng, right = key.numpy(), int(answer)
    near = [right + int(step) for step in rng.permutation([-10, -3, -2, -1, 1, 2, 3, 10])]
    if form == "binary":
        shown, verdict = (right, "yes") if rng.random() < 0.5 else (near[0], "no")
        question, answer = f"{scenario.prompt} Is it {shown}? Answer yes or no.", verdict
    else:
        options = [int(option) for option in rng.permutation([right, *near[: len(LETTERS) - 1]])]
        listed = " ".join(f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=True))
        question, answer = f"{scenario.prompt} {listed}. Answer with the letter.", LETTERS[options.index(right)]
    return replace(
        scenario,
        id=f"{scenario.id}/{form}",
        prompt=question,
        answer=answer,
        metadata={**scenario.metadata, "format": form},
        origin=scenario.id,
    )

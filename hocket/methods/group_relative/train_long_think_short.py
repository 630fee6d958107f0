"""Train Long, Think Short: GRPO under a token budget that shrinks over the run (Hammoud et al., arXiv:2508.08940).

`ShrinkingBudget` asks for just so many tokens and lowers the number by steps; `BudgetLength` pays a length by its
distance to the budget, whether or not the answer is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.core.columns import METADATA
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.signals import returns
from hocket.curriculum.random_order import Shuffled
from hocket.methods.base.conventions import LENGTH
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON
from hocket.rewards.members import with_return
from hocket.rewards.tags import TagFormat
from hocket.stages import LedgerView, Shaping, Task
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

    lengths: ClassVar[tuple[str, ...]] = ("start",)

    start: int = 64
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


Shape = Literal["triangle", "flat", "linear"]


def budget_reward(length: Tensor, budget: Tensor, shape: Shape) -> Tensor:
    """What a length is worth under a budget, `[N]` in [0, 1]; float64.

    `triangle`: `l/B` up to B, `2 - l/B` up to 2B, then 0. `flat`: 1 up to B, then as the triangle. `linear`:
    `1 - l/(2B)` up to 2B, then 0. The last two are ablations of the first.
    """
    share = length.double() / budget.double()
    if shape == "linear":
        return (1 - share / 2).clamp(min=0.0)
    rising = torch.ones_like(share) if shape == "flat" else share
    return torch.where(share <= 1, rising, (2 - share).clamp(min=0.0))


@dataclass(frozen=True)
class BudgetLength(Shaping):
    """Adds what a length is worth under the budget that was asked: Train Long, Think Short (arXiv 2508.08940).

    Reads `metadata["budget"]` of every scenario, which `hocket.curriculum.ShrinkingBudget` writes. Given to right and
    wrong answers alike.

    Attributes:
        weight: of this reward. correct: what the return before it is multiplied by. shape: see `budget_reward`.

    Raises:
        ConfigurationError: on a call, when a scenario has no budget.
    """

    weight: float = 1.0
    correct: float = 1.0
    shape: Shape = "triangle"

    def __post_init__(self) -> None:
        if self.shape not in ("triangle", "flat", "linear"):
            raise ValueError(f"shape must be triangle, flat or linear, not {self.shape!r}")

    def __call__(self, batch: Batch) -> Batch:
        told = [(known or {}).get("budget") for known in METADATA.read(batch, "BudgetLength")]
        if None in told:
            raise ConfigurationError(
                "BudgetLength reads metadata 'budget' of every scenario; set curriculum to "
                "hocket.curriculum.ShrinkingBudget"
            )
        worth = budget_reward(batch.lengths(), torch.tensor(told, dtype=torch.float64), self.shape)
        return with_return(batch, self.correct * returns(batch) + self.weight * worth)


TRAIN_LONG_THINK_SHORT = GRPO.but(
    name="train-long-think-short",
    title="Curriculum over token budgets",
    source="Hammoud et al., Train Long, Think Short, arXiv:2508.08940, section 3",
    catalogue_ids=("train-long-think-short",),
    axes=("reward", "data"),
    formula="R_i = verdict_i + tri(l_i / B_k) + tags_i/2,  tri(x) = x up to 1, 2 - x up to 2, else 0,  "
    "B_k = max(1, B_0 gamma^floor(k/T))",
    conventions={
        **GRPO.conventions,
        **LENGTH,
        "first budget": "half of the longest response, so that what is too long can be said, too",
        "budget": "curriculum.start, decay and interval; rounded; asked for in the prompt's last line",
        "weights": "verdict 1 and length 1 (shaping.0), tags 0.5 together (shaping.1); the paper's are not known here",
        "length reward": "right and wrong answers alike, as published",
    },
    curriculum=ShrinkingBudget(start=HORIZON // 2, decay=0.8, interval=20),
    shaping=(BudgetLength(), TagFormat(weight=0.5, apart=True)),
)

"""Questions with several right options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import ANSWER
from hocket.core.numerals import number
from hocket.rewards.verifiers import allowed_answers
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory


def subset_score(given: Iterable[str], right: Iterable[str]) -> float:
    """`|given| / |right|` if nothing wrong is given, else 0 (TW-GRPO, arXiv 2505.24718)."""
    chosen, wanted = set(given), set(right)
    return len(chosen) / len(wanted) if chosen and chosen <= wanted else 0.0


def options_of(text: str) -> set[str]:
    """The options of a comma-separated answer, the last `<answer>` block's where there is one; see `option`."""
    blocks = ANSWER.findall(text)
    return {option(part) for part in (blocks[-1] if blocks else text).split(",") if part.strip()}


def option(text: str) -> str:
    """What makes two options the same: the value of a number, else the text in any case."""
    value = number(text)
    return text.strip().upper() if value is None else str(value)


@dataclass(frozen=True)
class SubsetMatch(Reward):
    """Partial credit for part of the right options, none once a wrong one is among them; see `subset_score`.

    The scenario's answer is a list of options or text with commas. None without an answer.
    """

    name: str = "options"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.verify(trajectory.text, trajectory.scenario.answer) for trajectory in trajectories]

    def verify(self, text: str, answer: Any) -> float | None:
        """The verdict on one completion."""
        if answer is None:
            return None
        known = allowed_answers(answer)
        right = {option(part) for part in known} if isinstance(answer, (list, tuple)) else options_of(", ".join(known))
        return subset_score(options_of(text), right)


def inverted(scenario: Scenario, *, asks: str = "Which of the options are NOT right? Give all of them.") -> Scenario:
    """A single-choice question turned round: all other options are its answer (TW-GRPO's question inversion).

    `asks` is put under the question. The new scenario's id ends in `/not` and its `origin` is the old one.

    Raises:
        ConfigurationError: for a scenario without a list `options` in its metadata that holds its answer.
    """
    options = [str(option) for option in scenario.metadata.get("options", ())]
    if str(scenario.answer) not in options or len(set(options)) < 2:
        raise ConfigurationError(
            f"scenario {scenario.id!r} has no metadata 'options' with its answer and another one, which inversion needs"
        )
    others = tuple(option for option in options if option != str(scenario.answer))
    messages = [dict(message) for message in scenario.messages]
    messages[-1]["content"] = f"{messages[-1]['content']}\n{asks}"
    prompt = str(messages[-1]["content"]) if isinstance(scenario.prompt, str) else tuple(messages)
    return replace(scenario, id=f"{scenario.id}/not", prompt=prompt, answer=list(others), origin=scenario.id)

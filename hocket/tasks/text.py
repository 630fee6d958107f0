"""What tasks in words have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from hocket.core.errors import ConfigurationError, HocketError
from hocket.core.numerals import number
from hocket.rewards.verifiers import EXTRACTIONS, Extraction, TaskVerifier, check_extraction
from hocket.stages import Reward, Split
from hocket.tasks.arithmetic import has_working
from hocket.types import Scenario, Trajectory

STEPS = 120
"""Training steps unless the run says otherwise."""

INSTRUCTION = (
    "Think before you answer if it helps. Then give the final answer, and nothing else, between <answer> and </answer>."
)
"""What `instruct=true` says in a system message, for models that were not trained on the tags."""


class TextTask(ABC):
    """A task in words. A subclass gives `name`, `scenario` and `verify`, and `size` if it is not endless.

    Attributes:
        extract: what counts as the answer of a completion, see `hocket.rewards.ExactMatch`.
        remarks: what a person should know before a run.
    """

    name: str
    kind: Any = "text"
    extract: Extraction = "answer-tag"
    remarks: Sequence[str] = ()

    def size(self, split: Split) -> int | None:
        """How many scenarios there are; None when they are generated without end."""
        return None

    @abstractmethod
    def scenario(self, split: Split, number: int) -> Scenario:
        """Scenario `number` of a split."""

    @abstractmethod
    def verify(self, text: str, scenario: Scenario) -> float | None:
        """The verdict on a completion, 1 for a right answer; None for no opinion."""

    @property
    def rewards(self) -> Sequence[Reward]:
        return (TaskVerifier(self.verify),)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {"steps": STEPS}

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`format`: whether there is anything to compare; `working`: whether there is a filled `<think>` block."""
        text = trajectory.answer
        return {"format": float(self.extracted(text) is not None), "working": float(has_working(text))}

    def label(self, trajectory: Trajectory) -> str | None:
        """The final answer as a word, by which samples of a scenario agree or differ; None without one.

        Numbers agree by value.
        """
        answer = self.extracted(trajectory.answer)
        value = None if answer is None else number(answer)
        return answer if value is None else str(value)

    def extracted(self, text: str) -> str | None:
        """What counts as the answer in a completion, None if there is nothing of the kind."""
        return EXTRACTIONS[self.extract](text)

    def success(self, trajectory: Trajectory) -> float:
        """1 if the verdict is 1, else 0. Raises `HocketError` if `verify` does not work."""
        try:
            verdict = self.verify(trajectory.answer, trajectory.scenario)
        except Exception as error:
            where = f"task {self.name}: verifying {trajectory.scenario.id}"
            raise HocketError(f"{where} raised {type(error).__name__}: {error}; correct the verifier") from error
        return float(verdict is not None and verdict >= 1.0)


def instructed(question: str, instruct: bool) -> str | tuple[dict[str, str], ...]:
    """The question as prompt, under a system message that asks for the tags where wanted."""
    if not instruct:
        return question
    return ({"role": "system", "content": INSTRUCTION}, {"role": "user", "content": question})


def checked_extraction(task: str, extract: str) -> Extraction:
    """`extract` if it is a way to find an answer, else a `ConfigurationError`."""
    try:
        check_extraction(extract)
    except ConfigurationError as error:
        raise ConfigurationError(f"task {task}: {error}") from None
    return extract  # type: ignore[return-value]


def check_number(name: str, split: Split, number: int, size: int | None = None) -> None:
    """Raises `ConfigurationError` unless a split has a scenario `number`."""
    if split not in ("train", "eval"):
        raise ConfigurationError(f"task {name} has the splits train and eval, not {split!r}")
    if number < 0 or (size is not None and number >= size):
        counted = "" if size is None else f"{size} {split} scenarios, numbered from 0, and "
        raise ConfigurationError(f"task {name} has {counted}no {split} scenario {number}")

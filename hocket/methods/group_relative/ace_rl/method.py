"""ACE-RL: GRPO on the share of a checklist's demands that a text meets (arXiv:2509.04903, after its abstract).

An instruction is taken apart into constraints, each judged on its own, and `Checklist` pays the share that hold: by
rules and programs (`decompose`, `Constraint`), or with `--judge` both by a model. Loss and credit are GRPO's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.base.grpo import GRPO
from hocket.rewards.judging import Judge, prompt_text, said, verdicts
from hocket.stages import Reward
from hocket.types import Trajectory


class Constraint(Protocol):
    """One demand: how it is put in words, and whether a text meets it."""

    @property
    def demand(self) -> str: ...

    def __call__(self, text: str) -> bool: ...


@dataclass(frozen=True)
class WordRange:
    """At least `least` and at most `most` words."""

    least: int = 0
    most: int = 10**9

    pattern: ClassVar[str] = r"use (\d+) to (\d+) words"

    @property
    def demand(self) -> str:
        return f"use {self.least} to {self.most} words"

    def __call__(self, text: str) -> bool:
        return self.least <= len(text.split()) <= self.most


@dataclass(frozen=True)
class Mentions:
    """The word appears, whatever its case."""

    word: str

    pattern: ClassVar[str] = r"mention '([^']+)'"

    @property
    def demand(self) -> str:
        return f"mention '{self.word}'"

    def __call__(self, text: str) -> bool:
        return re.search(rf"\b{re.escape(self.word)}\b", text, re.IGNORECASE) is not None


@dataclass(frozen=True)
class WordOrder:
    """Both words appear, the first occurrence of `first` before that of `second`."""

    first: str
    second: str

    pattern: ClassVar[str] = r"mention '([^']+)' before '([^']+)'"

    @property
    def demand(self) -> str:
        return f"mention '{self.first}' before '{self.second}'"

    def __call__(self, text: str) -> bool:
        words = [word.strip(".,;:!?").lower() for word in text.split()]
        both = self.first.lower() in words and self.second.lower() in words
        return both and words.index(self.first.lower()) < words.index(self.second.lower())


@dataclass(frozen=True)
class EndsWith:
    """The last word is `word`, whatever its case and the punctuation behind it."""

    word: str

    pattern: ClassVar[str] = r"end with '([^']+)'"

    @property
    def demand(self) -> str:
        return f"end with '{self.word}'"

    def __call__(self, text: str) -> bool:
        words = text.split()
        return bool(words) and words[-1].strip(".,;:!?").lower() == self.word.lower()


@dataclass(frozen=True)
class HasSection:
    """A line begins with `title` and a colon."""

    title: str

    pattern: ClassVar[str] = r"have a section '([^']+)'"

    @property
    def demand(self) -> str:
        return f"have a section '{self.title}'"

    def __call__(self, text: str) -> bool:
        return any(line.strip().lower().startswith(f"{self.title.lower()}:") for line in text.splitlines())


READERS: tuple[tuple[str, Callable[..., Constraint]], ...] = (
    (WordRange.pattern, lambda least, most: WordRange(int(least), int(most))),
    (Mentions.pattern, Mentions),
    (WordOrder.pattern, WordOrder),
    (EndsWith.pattern, EndsWith),
    (HasSection.pattern, HasSection),
)
"""How each kind of demand is worded, and what it becomes."""


def instruction(constraints: Sequence[Constraint]) -> str:
    """The demands as one instruction in words."""
    return "Write a text: " + "; ".join(constraint.demand for constraint in constraints) + "."


def decompose(text: str) -> tuple[Constraint, ...]:
    """The constraints an instruction asks for, in its order: the inverse of `instruction`, by rules instead of a model.

    Raises:
        ConfigurationError: for a demand that no kind of constraint knows.
    """
    demands = text.strip().removeprefix("Write a text: ").removesuffix(".")
    return tuple(_constraint(demand) for demand in demands.split("; "))


def _constraint(demand: str) -> Constraint:
    for pattern, kind in READERS:
        found = re.fullmatch(pattern, demand)
        if found:
            return kind(*found.groups())
    raise ConfigurationError(f"no constraint is known for the demand {demand!r}; give metadata 'constraints' instead")


def satisfied(text: str, constraints: Sequence[Constraint]) -> list[bool]:
    """The verdict on each constraint."""
    return [bool(constraint(text)) for constraint in constraints]


LIST = "List every demand that the instruction below makes of a text, one on each line, without numbers."
MET = "Here is a text.\n\n{text}\n\nDoes it meet this demand: {demand}?"
MOST = 16
"""Demands of an instruction that count, from the first on."""


@dataclass(frozen=True)
class Checklist(Reward):
    """R = 1/m sum_i s_i, the share of the scenario's m constraints that the last turn's text meets.

    ACE-RL (arXiv 2509.04903); a judge says of each constraint whether it is met, and takes an instruction without
    constraints apart. Without one, each constraint is a program. The length term is left out. No opinion without
    constraints, nor where the judge gives no verdict.

    Attributes:
        key: the entry of the scenario's metadata that holds the constraints, objects that take a text; for a judge
            their `demand`s, or demands in words.
    """

    key: str = "constraints"
    name: str = "checklist"
    weight: float = 1.0
    judge: Judge | None = None
    outside: ClassVar[bool] = False
    asks_judge: ClassVar[bool] = True

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        if self.judge is not None:
            return await asyncio.to_thread(self._judged, self.judge, trajectories)
        return [self.share(trajectory.text, trajectory.scenario.metadata) for trajectory in trajectories]

    def _judged(self, judge: Judge, trajectories: Sequence[Trajectory]) -> list[float | None]:
        given = [trajectory.scenario.metadata.get(self.key) for trajectory in trajectories]
        asked = [f"{LIST}\n\n{prompt_text(trajectory.scenario)}" for trajectory in trajectories]
        missing = [prompt for prompt, constraints in zip(asked, given, strict=True) if constraints is None]
        listed = dict(zip(missing, said(judge, missing), strict=True))
        demands = [
            _listed(listed[prompt])
            if constraints is None
            else [getattr(one, "demand", str(one)) for one in constraints]
            for prompt, constraints in zip(asked, given, strict=True)
        ]
        forms = [
            MET.format(text=trajectory.text, demand=demand)
            for trajectory, every in zip(trajectories, demands, strict=True)
            for demand in every
        ]
        told = iter(verdicts(judge, forms))
        rows = [[one for one in (next(told) for _ in every) if one is not None] for every in demands]
        return [sum(row) / len(row) if row else None for row in rows]

    def share(self, text: str, metadata: Mapping[str, Any]) -> float | None:
        """The share of constraints met, None without any."""
        verdicts = satisfied(text, metadata.get(self.key) or ())
        return sum(verdicts) / len(verdicts) if verdicts else None


def _listed(text: str | None) -> list[str]:
    """The demands of a list, one a line, without what lists begin lines with."""
    lines = [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line).strip() for line in (text or "").splitlines()]
    return [line for line in lines if line][:MOST]


ACE_RL = GRPO.but(
    name="ace-rl",
    title="ACE-RL: the share of a checklist's constraints that are met",
    source="ACE-RL, arXiv:2509.04903 (abstract; its further terms are left out)",
    catalogue_ids=("ace-rl",),
    axes=("reward", "data"),
    formula="R = 1/m sum_i s_i,  s_i the verdict on constraint i of the instruction's checklist",
    task="demands",
    conventions={
        **GRPO.conventions,
        "verdicts": "--judge says yes or no to every demand (`MET`); without one, programs (`Constraint`, its forms)",
        "decomposition": "metadata 'constraints', which `decompose` reads from worded demands; else --judge lists at "
        "most 16 demands (`LIST`)",
        "length": "no term of its own; a WordRange is a constraint",
    },
    rewards=(Checklist(),),
)

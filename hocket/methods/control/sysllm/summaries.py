"""Summaries of how an agent behaves: who writes them, and what comes of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hocket.core.discovery import Registry, constant
from hocket.methods.control.sysllm.captions import Log
from hocket.methods.control.sysllm.statements import Verdict

SUMMARISERS = Registry("summariser", ("hocket.agents.search", "hocket.methods"), constant("SummaryMethod"))
"""Every summariser of the library and of installed packages by name."""

Ask = Callable[[Sequence[str]], Sequence[str | None]]
"""A language model: prompts to what it says to each, None where it says nothing."""


@dataclass(frozen=True)
class Said:
    """A sentence, and whether the record bears it out."""

    text: str
    verdict: Verdict


@dataclass(frozen=True)
class Summary:
    """What was written of a record.

    Attributes:
        said: every sentence of the summary. parts: the summaries that it was merged from, of parts of the record.
    """

    said: tuple[Said, ...]
    parts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The sentences that the record does not refute, those that it bears out before those it says nothing of."""
        kept = [one for verdict in ("true", "unbacked") for one in self.said if one.verdict == verdict]
        return "\n".join(one.text for one in kept)

    @property
    def true(self) -> tuple[str, ...]:
        """What the record bears out."""
        return tuple(one.text for one in self.said if one.verdict == "true")

    def counts(self) -> Mapping[str, int]:
        """Sentences by verdict."""
        return {name: sum(one.verdict == name for one in self.said) for name in ("true", "false", "unbacked")}

    def to_json(self) -> dict[str, Any]:
        """As in `hocket summarise --json`."""
        told = [{"text": one.text, "verdict": one.verdict} for one in self.said]
        return {"summary": self.text, "sentences": told, "counts": dict(self.counts()), "parts": list(self.parts)}


class Summariser(ABC):
    """A frozen dataclass: its fields are its settings."""

    @abstractmethod
    def summarise(self, log: Log, ask: Ask | None = None) -> Summary:
        """What is typical of the agent of a record, by a language model, or without one by counting."""

    @abstractmethod
    def identify(self, summaries: Sequence[Sequence[str]], logs: Sequence[Log]) -> tuple[int, ...]:
        """Which of the records each summary is most likely of, every record once; the records are other ones."""


@dataclass(frozen=True)
class SummaryMethod:
    """A summariser by name.

    Attributes:
        name: as `hocket summarise --method` takes it; a paper's is its catalogue id. source: the paper.
        note: what is weaker than in the paper; such a row is partial.
    """

    name: str
    description: str
    summariser: Summariser
    source: str = ""
    note: str = ""

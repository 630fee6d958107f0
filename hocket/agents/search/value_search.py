"""Searches for an answer at inference, guided by a trained value of transcripts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from hocket.agents.search.beam import beam_search, best_of
from hocket.agents.search.mcts import tree_search
from hocket.agents.search.result import Opinion, SearchResult
from hocket.core.keys import Key
from hocket.rollout.message_search import UCT
from hocket.stages import Play, Policy
from hocket.types import Assignment


@runtime_checkable
class Guide(Protocol):
    """An objective that trains a value of transcripts, for searches at inference."""

    def guide(self, policy: Policy, reference: Policy | None) -> Opinion:
        """The value of transcripts that `policy` learnt."""


@dataclass(frozen=True)
class ValueSearch(ABC):
    """A search; its fields are the settings after its name, `beam?width=2`."""

    title: ClassVar[str]

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, not {number}")

    @abstractmethod
    async def seek(self, play: Play, asking: Assignment, value: Opinion, key: Key) -> SearchResult:
        """The chosen episode for one scenario."""


@dataclass(frozen=True)
class Best(ValueSearch):
    """The best of `samples` complete episodes."""

    samples: int = 4

    title = "best of several"

    async def seek(self, play: Play, asking: Assignment, value: Opinion, key: Key) -> SearchResult:
        return await best_of(play, asking, value, samples=self.samples)


@dataclass(frozen=True)
class Beam(ValueSearch):
    """A beam of `width` transcripts, each continued by `candidates` messages (`hocket.agents.search.beam_search`)."""

    width: int = 2
    candidates: int = 2

    title = "beam search"

    async def seek(self, play: Play, asking: Assignment, value: Opinion, key: Key) -> SearchResult:
        return await beam_search(play, asking, value, width=self.width, candidates=self.candidates)


@dataclass(frozen=True)
class TreeSearch(ValueSearch):
    """`searches` through a tree of messages by UCT, with a value instead of rollouts (`tree_search`)."""

    searches: int = 8
    candidates: int = 4

    title = "tree search"

    async def seek(self, play: Play, asking: Assignment, value: Opinion, key: Key) -> SearchResult:
        rule = UCT(candidates=self.candidates)
        result, _ = await tree_search(play, asking, value, searches=self.searches, key=key, rule=rule, value=value)
        return result

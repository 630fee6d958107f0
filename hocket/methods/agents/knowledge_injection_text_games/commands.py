"""Text worlds for networks that score commands: every verb with every object that a world names, legal or not.

What is told becomes numbers of words, and what is known, a graph: `(you, sees, OBJECT)` of objects that the text names,
and the triples of an environment that has such (`Knowing`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hocket.agents.environments.protocol import UNREADABLE, Environment
from hocket.methods.agents.knowledge_injection_text_games.reader import Commands

Triple = tuple[str, str, str]
"""A node, a relation, and a node; nodes are names of verbs and objects, or `YOU`."""

YOU, SEES = "you", "sees"


@runtime_checkable
class Knowing(Protocol):
    """An environment with a graph of its own.

    Attributes:
        relations: those that its triples may have; none where it tells no graph.
    """

    @property
    def relations(self) -> tuple[str, ...]: ...

    def triples(self, agent: str) -> Sequence[Triple]:
        """What is known now."""
        ...


def relations_of(environment: Environment) -> tuple[str, ...]:
    """The relations of an environment's graph; none where it has no graph."""
    return environment.relations if isinstance(environment, Knowing) else ()


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters, without signs."""
    return re.findall(r"[a-z0-9]+", text.lower())


def objects_of(environment: Environment) -> tuple[str, ...]:
    """The objects that an environment names: those whose affordances it knows."""
    return tuple(getattr(environment.bare, "affordances", ()))


def graph_of(environment: Environment, agent: str, text: str) -> list[Triple]:
    """All triples: of objects named in a text, then of what the environment knows."""
    spoken = f" {' '.join(words_of(text))} "
    named = (name for name in objects_of(environment) if f" {' '.join(words_of(name))} " in spoken)
    known = environment.triples(agent) if isinstance(environment, Knowing) else ()
    return [*((YOU, SEES, name) for name in named), *known]


@dataclass(frozen=True)
class Lexicon:
    """How the episodes of a world are put into numbers.

    Attributes:
        words: in the order of their numbers, from 1; all others share the number after the last. verbs: of commands.
            relations: of the graph; none where there is none. objects, length, span, triples: how many there are at
            most, see `Commands`; of a text the last words are kept, of a graph the last triples.
    """

    words: tuple[str, ...]
    verbs: tuple[str, ...]
    relations: tuple[str, ...]
    objects: int
    length: int
    span: int
    triples: int

    @property
    def commands(self) -> Commands:
        """The layout."""
        count = len(self.words) + 1
        triples = self.triples if self.relations else 0
        return Commands(count, self.length, len(self.verbs), self.objects, self.span, len(self.relations), triples)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words, 1)}

    def spelt(self, text: str, size: int) -> list[int]:
        """The numbers of a text's last words, after zeros."""
        found = [self._number.get(word, len(self.words) + 1) for word in words_of(text)][-size:]
        return [0] * (size - len(found)) + found

    def row(self, environment: Environment, agent: str) -> NDArray[np.float32]:
        """What an agent sees, as `Commands` say."""
        text, objects = environment.observe(agent).text, objects_of(environment)[: self.objects]
        names = [*self.verbs, *objects, *[""] * (self.objects - len(objects))]
        spelt = [number for name in names for number in self.spelt(name, self.span)]
        graph = self._graph(environment, agent, text) if self.relations else []
        told = [*self.spelt(text, self.length), *spelt, *graph, environment.illegal.get(agent, 0)]
        return np.array(told, np.float32)

    def _graph(self, environment: Environment, agent: str, text: str) -> list[int]:
        objects = objects_of(environment)[: self.objects]
        node = {name: place for place, name in enumerate(self.verbs, 1)}
        node |= {name: place for place, name in enumerate(objects, len(self.verbs) + 1)}
        node[YOU] = self.commands.nodes
        known = [
            (node[first], self.relations.index(relation) + 1, node[second])
            for first, relation, second in graph_of(environment, agent, text)
            if first in node and second in node
        ][-self.triples :]
        flat = [number for triple in known for number in triple]
        return flat + [0] * (3 * self.triples - len(flat))


class Commanded:
    """An environment of one agent in a controller's terms: rows of numbers in, the number of a command out.

    Args:
        begun: an episode of a seed, at its beginning. lexicon: how it is put into numbers.
    """

    def __init__(self, begun: Callable[[int], Environment], lexicon: Lexicon) -> None:
        self._begun, self.lexicon = begun, lexicon
        self.environment: Environment | None = None

    def reset(self, seed: int) -> NDArray[np.float32]:
        self.close()
        self.environment = self._begun(seed)
        return self.lexicon.row(self.environment, self.environment.agents[0])

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool]:
        made = self.environment
        assert made is not None
        agent = made.agents[0]
        earned = made.act({agent: self.said(int(action))}).get(agent, 0.0)
        earned += sum(part.get(agent, 0.0) for part in made.parts.values())
        return self.lexicon.row(made, agent), earned, made.over and not made.truncated, made.truncated

    def said(self, action: int) -> str:
        """A command in words."""
        assert self.environment is not None
        verb, place = divmod(action, self.lexicon.objects)
        objects = objects_of(self.environment)[: self.lexicon.objects]
        return f"{self.lexicon.verbs[verb]} {objects[place]}" if place < len(objects) else UNREADABLE

    def close(self) -> None:
        if self.environment is not None:
            self.environment.close()
        self.environment = None

"""How a reply is read as a move."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hocket.agents.environments.protocol import same_move


class MoveParser(Protocol):
    """Finds the move in a reply."""

    @property
    def instruction(self) -> str:
        """The instruction on the form of an agent's answers."""
        ...

    def __call__(self, reply: str, actions: Sequence[str] | None) -> str | None:
        """The move in words, legal or not; None when there is none to be read. `actions` are the legal moves."""
        ...

    def written(self, move: str, actions: Sequence[str] | None = None) -> str:
        """The shortest reply that says a move, one of `actions` where these are given."""
        ...


@dataclass(frozen=True)
class WholeText:
    """The whole reply, after its thought if it has one.

    Attributes:
        loose: if what is read is no legal move, but names exactly one of them, it counts as that one.
    """

    loose: bool = False

    @property
    def instruction(self) -> str:
        return "Answer with your move alone."

    def __call__(self, reply: str, actions: Sequence[str] | None) -> str | None:
        return _settled(_spoken(reply), actions, self.loose)

    def written(self, move: str, actions: Sequence[str] | None = None) -> str:
        return move


@dataclass(frozen=True)
class LastLine:
    """The last line that is not empty, after the thought if there is one.

    Attributes:
        loose: see `WholeText`.
    """

    loose: bool = False

    @property
    def instruction(self) -> str:
        return "Say your move on the last line."

    def __call__(self, reply: str, actions: Sequence[str] | None) -> str | None:
        spoken = _spoken(reply)
        lines = [line.strip() for line in (spoken or "").splitlines() if line.strip()]
        return _settled(lines[-1] if lines else None, actions, self.loose)

    def written(self, move: str, actions: Sequence[str] | None = None) -> str:
        return move


@dataclass(frozen=True)
class Tagged:
    """What stands in the last closed pair of tags, after the thought if there is one.

    Attributes:
        tag: the word in the tags. loose: see `WholeText`.
    """

    tag: str = "move"
    loose: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w+", self.tag):
            raise ValueError(f"tag must be one word, not {self.tag!r}")

    @property
    def instruction(self) -> str:
        return f"Write your move between <{self.tag}> and </{self.tag}>."

    def __call__(self, reply: str, actions: Sequence[str] | None) -> str | None:
        inside = re.findall(rf"<{self.tag}>(.*?)</{self.tag}>", _spoken(reply) or "", re.DOTALL)
        return _settled(inside[-1].strip() if inside else None, actions, self.loose)

    def written(self, move: str, actions: Sequence[str] | None = None) -> str:
        return f"<{self.tag}>{move}</{self.tag}>"


@dataclass(frozen=True)
class Numbered:
    """The number of a legal move, from 1 in the order of the observation, in the last closed pair of tags.

    For models that answer in numbers and know few words. Where moves are not listed, no number is one.

    Attributes:
        tag: see `Tagged`.
    """

    tag: str = "answer"

    def __post_init__(self) -> None:
        Tagged(self.tag)

    @property
    def instruction(self) -> str:
        return f"Write the number of your move among them, from 1, between <{self.tag}> and </{self.tag}>."

    def __call__(self, reply: str, actions: Sequence[str] | None) -> str | None:
        number = Tagged(self.tag)(reply, actions)
        places = {str(place): action for place, action in enumerate(actions or (), start=1)}
        return None if number is None else places.get(number)

    def written(self, move: str, actions: Sequence[str] | None = None) -> str:
        return Tagged(self.tag).written(str(tuple(actions).index(move) + 1) if actions else move)


READINGS: dict[str, MoveParser] = {
    "line": LastLine(),
    "answer": Tagged("answer"),
    "move": Tagged("move"),
    "whole": WholeText(),
    "number": Numbered(),
}
"""By the word that a task's name takes: `openspiel:kuhn_poker?reading=answer`."""


def _spoken(reply: str) -> str | None:
    """What follows the thought; None when the thought was not ended or nothing follows it."""
    before, closed, after = reply.rpartition("</think>")
    if not closed and "<think>" in reply:
        return None
    return (after if closed else before + after).strip() or None


def _settled(move: str | None, actions: Sequence[str] | None, loose: bool) -> str | None:
    """The move as it was read, or the one legal move that it names."""
    if move is None or not loose or not actions or same_move(move, tuple(actions)):
        return move
    named = [action for action in actions if _named(action, move)]
    # Of "bid" and "bid high" the longer one was meant.
    longest = [action for action in named if not any(action != other and _named(action, other) for other in named)]
    return longest[0] if len(longest) == 1 else move


def _named(action: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(action)}(?!\w)", text, re.IGNORECASE) is not None

"""Prompts of turns, stored as the new messages since the turn before, so that a long conversation is stored once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from hocket.types import Message

if TYPE_CHECKING:
    from hocket.types import Turn


class MessageHistory(Sequence[Message]):
    """The messages of a parent turn, its answer, and `new` ones; equal to a tuple of the same messages."""

    __slots__ = ("_length", "_new", "_parent")

    def __init__(self, parent: Turn, new: tuple[Message, ...]) -> None:
        self._parent, self._new = parent, new
        self._length = len(parent.prompt) + 1 + len(new)

    @staticmethod
    def of(messages: tuple[Message, ...], parent: Turn | None) -> Sequence[Message]:
        """`messages`, stored as the new ones since `parent` if they continue it."""
        if parent is None:
            return messages
        past = len(parent.prompt)
        message = {"role": "assistant", "content": parent.text}
        if len(messages) <= past or messages[past] != message or messages[:past] != tuple(parent.prompt):
            return messages
        return MessageHistory(parent, messages[past + 1 :])

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        return iter(self._whole())

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, place: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(place, int) and -len(self._new) <= place < 0:
            return self._new[place]
        return self._whole()[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, MessageHistory)) and len(other) == len(self) and self._whole() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._length)

    def __repr__(self) -> str:
        return repr(self._whole())

    def _whole(self) -> tuple[Message, ...]:
        parts: list[Sequence[Message]] = []
        links: Sequence[Message] = self
        while isinstance(links, MessageHistory):
            parts += [links._new, ({"role": "assistant", "content": links._parent.text},)]
            links = links._parent.prompt
        parts.append(links)
        return tuple(message for part in reversed(parts) for message in part)

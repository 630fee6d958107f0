"""What nodes of a swarm send: groups of answers as bounded, checked data. A message is never a program, nor trusted.

Rewards have no place in it. Whatever else a sender adds is skipped when it is read.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from hocket.core.errors import HocketError
from hocket.rollout.sharing import SharedGroup
from hocket.types import Scenario

LARGEST = 2**20
"""Bytes of a message."""

DEEPEST = 32
"""How deep what a scenario holds may be nested."""

_Name = Annotated[str, Meta(min_length=1, max_length=100)]
_Text = Annotated[str, Meta(max_length=2**16)]
_Count = Annotated[int, Meta(ge=0, lt=2**53)]
_Plain = str | int | float | bool | None | list[Any] | dict[str, Any]


class Oversized(HocketError):
    """A message is larger than `LARGEST`."""


class Malformed(HocketError):
    """A message is not what one must be."""


class PromptMessage(Struct, frozen=True):
    """A message of the prompt."""

    role: _Name
    content: _Text


class GroupMessage(Struct, frozen=True, kw_only=True):
    """A group on its way.

    Attributes:
        node, step: who published it, and when by its own count. id, seed: which scenario of the task it is.
        prompt: the question. answer: what the sender holds for the right one. metadata: of the scenario.
        answers: texts. logps: the log-prob of each under the sender, in nats; for reports alone.
    """

    version: Literal[1] = 1
    node: _Name
    step: _Count
    id: Annotated[str, Meta(min_length=1, max_length=500)]
    seed: Annotated[int, Meta(gt=-(2**53), lt=2**53)] = 0
    prompt: _Text | Annotated[list[PromptMessage], Meta(max_length=64)]
    answer: _Plain = None
    metadata: Annotated[dict[str, _Plain], Meta(max_length=64)] = {}
    answers: Annotated[list[_Text], Meta(min_length=1, max_length=256)]
    logps: Annotated[list[float | None], Meta(max_length=256)] = []


_READER = msgspec.msgpack.Decoder(GroupMessage)


def encoded(group: SharedGroup, node: str, step: int) -> bytes:
    """A group as bytes.

    Raises:
        Malformed: when its scenario holds what is no plain data, or no words.
        Oversized: when it is too large.
    """
    scenario = group.scenario
    prompt = scenario.prompt
    if not isinstance(prompt, str):
        prompt = [PromptMessage(str(message.get("role")), message.get("content", "")) for message in scenario.messages]  # type: ignore[assignment]
    fields = {
        "version": 1,
        "node": node,
        "step": step,
        "id": scenario.id,
        "seed": scenario.seed,
        "prompt": prompt,
        "answer": scenario.answer,
        "metadata": dict(scenario.metadata),
        "answers": list(group.answers),
        "logps": list(group.logps),
    }
    try:
        data = msgspec.msgpack.encode(fields)
    except (TypeError, ValueError, OverflowError) as error:
        raise Malformed(f"scenario {scenario.id!r} cannot be shared: {error}") from error
    decoded(data)
    return data


def decoded(data: bytes) -> GroupMessage:
    """A message, checked.

    Raises:
        Oversized: when it is too large. Malformed: when it is not a message.
    """
    if len(data) > LARGEST:
        raise Oversized(f"a message of {len(data)} bytes; at most {LARGEST} are read")
    try:
        message = _READER.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Malformed(f"no message: {error}") from error
    if message.logps and len(message.logps) != len(message.answers):
        raise Malformed(f"{len(message.answers)} answers and {len(message.logps)} log-probs")
    if not all(logp is None or math.isfinite(logp) for logp in message.logps):
        raise Malformed("a log-prob is no finite number")
    if not _plain([message.answer, message.metadata]):
        raise Malformed("the scenario holds what is no plain data")
    return message


def group_of(message: GroupMessage, scenario: Scenario | None = None) -> SharedGroup:
    """A message as a group, about `scenario` where the receiver knows it itself."""
    return SharedGroup(
        scenario or scenario_of(message), tuple(message.answers), tuple(message.logps), message.node, message.step
    )


def scenario_of(message: GroupMessage) -> Scenario:
    """The scenario as its sender tells it."""
    prompt = message.prompt if isinstance(message.prompt, str) else tuple(_message(part) for part in message.prompt)
    return Scenario(message.id, prompt, message.answer, message.metadata, message.seed)


def _message(message: PromptMessage) -> dict[str, Any]:
    return {"role": message.role, "content": message.content}


def _plain(value: Any, depth: int = DEEPEST) -> bool:
    """Texts, finite numbers and collections of such; the reader also makes dates and bytes of what it finds."""
    if isinstance(value, dict):
        return depth > 0 and all(isinstance(name, str) and _plain(part, depth - 1) for name, part in value.items())
    if isinstance(value, list):
        return depth > 0 and all(_plain(part, depth - 1) for part in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (str, bool, int))

"""What tasks of one agent in a world share: settings of the world, and of how it is played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hocket.agents.environments.protocol import World
from hocket.agents.environments.reading import READINGS
from hocket.agents.workflows.environment import PlayEnvironment
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.options import checked


class BoundedWorld(World, Protocol):
    """A world whose episodes have at most `limit` moves."""

    @property
    def limit(self) -> int: ...


_PLAY = {"memory": bool, "own_chance": bool, "instruct": bool, "reading": str}


def played(
    name: str, settings: Mapping[str, str], world: Callable[..., BoundedWorld], hints: Mapping[str, Any]
) -> PlayEnvironment:
    """The play of a world whose settings are those of `hints`; the others say how it is played.

    Observations tell all there is to know, so each turn is a conversation of its own unless `memory=true`: an episode
    in one conversation would soon be longer than a small model's context.

    Raises:
        ConfigurationError: for settings that are unknown or wrong.
    """
    options = checked(name, settings, {**_PLAY, **hints})
    play = {"memory": False, **{key: options.pop(key) for key in _PLAY if key in options}}
    reading: Any = play.pop("reading", None)
    if reading is not None and reading not in READINGS:
        raise ConfigurationError(f"task {name}: reading = {reading!r} is unknown{nearest(reading, READINGS)}")
    made = world(**options)
    return PlayEnvironment(made, reading=None if reading is None else READINGS[reading], turns=made.limit, **play)

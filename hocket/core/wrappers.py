"""Wrappers of joint worlds, found by the settings that ask for them: `mpe:spread?messages=4`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from hocket.core.discovery import Registry, constant
from hocket.core.worlds import JointWorld


@dataclass(frozen=True)
class WorldWrapper:
    """A change of any native joint world, for which settings in a task's name ask.

    A constant of this class is found by its name, the first thing it says, in the source; its file is imported when
    one of its settings is set.

    Attributes:
        name: its settings as a task's name has them, with what each takes in capitals: `attack=NAME&budget=NUMBER`.
        description: in a line.
        settings: the type of each setting.
        layer: its place among the wrappers of one world. Lower layers are nearer to the world: 1 which others are seen,
            2 in which order agents decide, 3 what they say to each other, 4 errors in what they see, 5 who decides.
        wrap: makes the wrapped world of the world and, as keywords, the settings that are set.
        team: whether it is for worlds of one team alone, in which any member may be replaced by another.
        form: the class of the wrapped world's tasks; None for the world's own.
        identified: whether it tells agents of one policy apart, unless all its settings are 0 or false.
        suggested: settings of a run that suit the wrapped world, over the world's own, unless as before.
        clash: reads all settings of the name, and says in a clause why they cannot stand together; None where they can.

    Raises:
        ValueError: when the name and `settings` are not of the same settings.
    """

    name: str
    description: str
    settings: Mapping[str, type]
    layer: int
    wrap: Callable[..., JointWorld]
    team: bool = False
    form: type[Any] | None = None
    identified: bool = False
    suggested: Mapping[str, Any] = field(default_factory=dict)
    clash: Callable[[Mapping[str, Any]], str | None] | None = None

    def __post_init__(self) -> None:
        if _settings(self.name) != set(self.settings):
            raise ValueError(f"the wrapper {self.name!r} has the settings {', '.join(self.settings)}; name just these")


WRAPPERS = Registry(
    "wrapper of worlds",
    ("hocket.agents.environments", "hocket.tasks", "hocket.zoo", "hocket.methods"),
    constant("WorldWrapper"),
)
"""Every wrapper of the library and of installed packages."""


def wrappers_of(settings: Collection[str] | None, *, team: bool) -> list[WorldWrapper]:
    """The wrappers for which any of these settings asks, or all where None, innermost first.

    Those for teams alone only where the world is of a `team`.
    """
    names = [name for name in WRAPPERS.declared if settings is None or _settings(name) & set(settings)]
    loaded: list[WorldWrapper] = [WRAPPERS.load(name) for name in names]
    fitting = [wrapper for wrapper in loaded if team or not wrapper.team]
    return sorted(fitting, key=lambda wrapper: (wrapper.layer, wrapper.name))


def _settings(name: str) -> set[str]:
    """The settings of a wrapper, by its name."""
    return {part.partition("=")[0] for part in name.split("&")}

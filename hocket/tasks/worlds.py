"""Native joint worlds as tasks, within the wrappers for which their names ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.options import checked
from hocket.core.worlds import JointWorld
from hocket.core.wrappers import WorldWrapper, wrappers_of
from hocket.tasks.joint import JointTask

PARTICLES: Mapping[str, Any] = {"curriculum.prompts": 64, "steps": 60, "credit.gamma": 0.95, "update.lr": 1.5e-3}
"""Settings for episodes of 25 steps: many in a batch."""

GRIDS: Mapping[str, Any] = {"curriculum.prompts": 64, "steps": 60, "credit.gamma": 0.97, "update.lr": 1e-3}
"""Settings for worlds on a grid."""


def native_task(
    name: str,
    settings: Mapping[str, str],
    hints: Mapping[str, Any],
    make: Callable[..., JointWorld],
    suggested: Mapping[str, Any],
    *,
    identified: bool = True,
    team: bool = False,
    form: type[JointTask] = JointTask,
) -> JointTask:
    """The task of a native world, whose settings are its own, `ids` and those of every wrapper.

    Args:
        name: of the task without settings. settings: as text.
        hints: the types of the world's own settings. make: makes the world of them; `agents` is its `count`.
        suggested: settings of a run that suit the world.
        identified: whether agents of one policy are distinguished, unless the setting `ids` or a wrapper decides.
        team: whether the agents are one team, in which any member may be replaced by another.
        form: the class of the task.

    Raises:
        ConfigurationError: for settings that are unknown or wrong, or clash, and whatever the world refuses.
    """
    extra: dict[str, Any] = {"ids": bool, **hints}
    strange = settings.keys() - extra.keys()
    wrappers = wrappers_of(strange, team=team)
    # Where nothing takes a setting, the refusal names all that are taken.
    known = wrappers if strange <= _types(wrappers).keys() else wrappers_of(None, team=team)
    options = checked(name, settings, {**_types(known), **extra})
    for wrapper in wrappers:
        if wrapper.clash is not None and (why := wrapper.clash(options)):
            raise ConfigurationError(f"task {name}: {why}")
    world = make(**{"count" if key == "agents" else key: options[key] for key in hints if key in options})
    for wrapper in wrappers:
        values = {key: options[key] for key in wrapper.settings if key in options}
        world = wrapper.wrap(world, **values)
        form = wrapper.form or form
        if any(values.values()):
            identified, suggested = identified or wrapper.identified, {**suggested, **wrapper.suggested}
    return form(world, identified=bool(options.get("ids", identified)), suggested=suggested)


def _types(wrappers: Sequence[WorldWrapper]) -> dict[str, type]:
    """Of the settings of all these wrappers."""
    return {key: kind for wrapper in wrappers for key, kind in wrapper.settings.items()}

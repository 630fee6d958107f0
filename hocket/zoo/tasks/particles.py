"""Particle worlds, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hocket.core.errors import ConfigurationError, nearest
from hocket.core.worlds import JointWorld
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import PARTICLES, native_task
from hocket.zoo.joint.evasion import Flee
from hocket.zoo.joint.particles import SpeakerListener, Spread, Tag

_MPE: Mapping[str, tuple[Callable[..., JointWorld], Mapping[str, Any]]] = {
    "spread": (
        Spread,
        {
            "agents": int,
            "local": float,
            "length": int,
            "hidden": bool,
            "own": bool,
            "graph": bool,
            "reach": float,
            "rows": bool,
        },
    ),
    "flee": (
        Flee,
        {"agents": int, "pursuers": str, "come": str, "go": str, "length": int, "room": int},
    ),
    "tag": (Tag, {"hunters": int, "agents": int, "obstacles": int, "length": int}),
    "speaker-listener": (SpeakerListener, {"length": int}),
}
"""The particle worlds, and what their names may set."""


def _particles(name: str, settings: Mapping[str, str]) -> JointTask:
    kind = name.removeprefix("mpe:")
    if kind not in _MPE:
        raise ConfigurationError(f"there is no task mpe:{kind}{nearest(kind, _MPE)}")
    make, hints = _MPE[kind]
    return native_task(name, settings, hints, make, PARTICLES, team=True)


MPE = TaskForm(
    name="mpe:WORLD",
    description="a particle world for control policies: mpe:spread?agents=5, mpe:flee, mpe:tag or mpe:speaker-listener",
    family="worlds",
    make=_particles,
)

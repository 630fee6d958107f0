"""Native joint worlds by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hocket.agents.environments.joint.attacked import Attacked
from hocket.agents.environments.joint.betrayed import Betrayed
from hocket.agents.environments.joint.dilemmas import Dilemma
from hocket.agents.environments.joint.flickering import Flickering
from hocket.agents.environments.joint.foraging import Foraging
from hocket.agents.environments.joint.gathering import Gathering
from hocket.agents.environments.joint.messaged import Messaged
from hocket.agents.environments.joint.networked import Networked
from hocket.agents.environments.joint.once import OncePaths
from hocket.agents.environments.joint.particles import SpeakerListener, Spread, Tag
from hocket.agents.environments.joint.paths import LifelongPaths
from hocket.agents.environments.joint.planned import PlannedPaths
from hocket.agents.environments.joint.pursued import Flee
from hocket.agents.environments.joint.routing import Routing
from hocket.agents.environments.joint.sequenced import Sequenced
from hocket.agents.environments.joint.skirmish import Skirmish
from hocket.agents.environments.pogema import Pogema
from hocket.core.errors import ConfigurationError, nearest
from hocket.core.options import checked
from hocket.core.worlds import JointWorld
from hocket.tasks.betrayed import BetrayedTask
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.paths import PathsTask

_PARTICLES: Mapping[str, Any] = {"curriculum.prompts": 64, "steps": 60, "credit.gamma": 0.95, "update.lr": 1.5e-3}
"""Episodes of 25 steps: many in a batch."""

_TOLD: Mapping[str, Any] = {"curriculum.prompts": 256, "update.lr": 3e-3, "update.epochs": 4}
"""Words mean nothing at first, and begin to by small differences that few episodes hide and many passes overlook."""

_GRIDS: Mapping[str, Any] = {"curriculum.prompts": 64, "steps": 60, "credit.gamma": 0.97, "update.lr": 1e-3}


_ALWAYS = {"ids": bool, "sequenced": bool, "networked": bool, "messages": int}
_ALWAYS |= {"attack": str, "budget": float, "collected": int, "flicker": int}
"""What every world of this module takes: whether agents of one policy are told apart, whether they decide one by one or
along a network, of how many symbols a central agent's messages to them are, which attack there is on what they see, and
how many others they see at most at a time, where they see others row by row.
"""

_TEAMS: Mapping[str, Any] = {"traitor": float}
"""What worlds take in which anybody may be a traitor: how likely there is one."""


def _task(
    name: str,
    settings: Mapping[str, str],
    hints: Mapping[str, Any],
    make: Callable[..., JointWorld],
    suggested: Mapping[str, Any],
    *,
    identified: bool = True,
    form: type[JointTask] = JointTask,
) -> JointTask:
    """The task of the world that `make` makes of the settings; `agents` is its count."""
    given = checked(name, settings, {**hints, **_ALWAYS})
    symbols = given.pop("messages", None)
    attack = {key: given.pop(key) for key in ("attack", "budget", "collected") if key in given}
    prior = given.pop("traitor", None)
    if symbols:
        suggested = {**suggested, **_TOLD}
    told, sequenced = given.pop("ids", identified or bool(symbols)), given.pop("sequenced", False)
    networked, flicker = given.pop("networked", False), given.pop("flicker", None)
    if networked and (sequenced or symbols is not None or attack):
        raise ConfigurationError(
            f"task {name}: networked=true says who is told of whose moves; drop sequenced, messages and attack"
        )
    world = make(**{"count" if key == "agents" else key: value for key, value in given.items()})
    world = world if flicker is None else Flickering(world, flicker)
    world = Sequenced(world) if sequenced else world
    world = Networked(world) if networked else world
    world = world if symbols is None else Messaged(world, symbols)
    world = Attacked(world, **attack) if attack else world
    if prior is not None:
        return BetrayedTask(Betrayed(world, prior), identified=bool(told), suggested=suggested)
    return form(world, identified=bool(told), suggested=suggested)


_MPE: Mapping[str, tuple[Callable[..., JointWorld], Mapping[str, Any]]] = {
    "spread": (
        Spread,
        {"agents": int, "local": float, "length": int, "hidden": bool, "own": bool, "graph": bool, "reach": float},
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
        raise ConfigurationError(f"there is no task mpe:{kind}{nearest(kind, _MPE) or '; choose ' + ', '.join(_MPE)}")
    make, hints = _MPE[kind]
    return _task(name, settings, {**hints, **_TEAMS}, make, _PARTICLES)


_GATHERING: Mapping[str, Any] = {
    "curriculum.prompts": 256,
    "steps": 200,
    "credit.gamma": 1.0,
    "update.lr": 3e-3,
    "update.epochs": 8,
    "update.minibatches": 1,
}
"""Episodes of two decisions, of which one in three or fewer has what is to be learnt."""


def _dilemma(name: str, settings: Mapping[str, str]) -> JointTask:
    if name == "dilemma:gathering":
        hints = {"agents": int, "rounds": int, "whole": float, "safe": float, **_TEAMS}
        return _task(name, settings, hints, Gathering, _GATHERING)
    return _task(name, settings, {"rounds": int}, partial(Dilemma, name.removeprefix("dilemma:")), _PARTICLES)


def _forage(name: str, settings: Mapping[str, str]) -> JointTask:
    found = re.fullmatch(r"forage:(\d+)x(\d+)-(\d+)p-(\d+)f", name)
    if found is None or found[1] != found[2]:
        raise ConfigurationError(f"there is no task {name!r}; write forage:8x8-2p-2f, a square, players and foods")
    hints = {"coop": bool, "sight": int, "length": int, "penalty": float, **_TEAMS}
    return _task(name, settings, hints, partial(Foraging, int(found[1]), int(found[3]), int(found[4])), _GRIDS)


def _skirmish(name: str, settings: Mapping[str, str]) -> JointTask:
    found = re.fullmatch(r"skirmish:(\d+)v(\d+)", name)
    if found is None:
        raise ConfigurationError(f"there is no task {name!r}; write skirmish:3v3, soldiers and foes")
    names = ("size", "sight", "reach", "radio", "hops", "health", "strength", "spread", "length")
    make = partial(Skirmish, int(found[1]), int(found[2]))
    return _task(name, settings, {**dict.fromkeys(names, int), **_TEAMS}, make, _GRIDS)


_MAPF: Mapping[str, tuple[Callable[..., JointWorld], Mapping[str, Any]]] = {
    "lifelong": (LifelongPaths, {"guide": bool}),
    "planned": (PlannedPaths, {"crowd": float, "avoid": float}),
    "once": (OncePaths, {"guide": bool, "stay": bool}),
}
"""The worlds of path finding, and what their names may set besides what all may."""


def _paths(name: str, settings: Mapping[str, str]) -> JointTask:
    kind = name.removeprefix("mapf:")
    if kind not in _MAPF:
        hint = nearest(kind, _MAPF) or f"; choose from {', '.join(f'mapf:{one}' for one in _MAPF)}"
        raise ConfigurationError(f"there is no task {name!r}{hint}")
    make, own = _MAPF[kind]
    hints = {"size": int, "agents": int, "density": float, "length": int, "sight": int, "map": str, **own}
    return _task(name, settings, hints, make, _GRIDS, identified=False, form=PathsTask)


_ROUTES: Mapping[str, Any] = {"curriculum.prompts": 32, "steps": 60, "credit.gamma": 0.95, "update.lr": 2e-3}


def _routing(name: str, settings: Mapping[str, str]) -> JointTask:
    if name != "camar:routing":
        raise ConfigurationError(f"there is no task {name!r}; write camar:routing")
    hints: dict[str, Any] = dict.fromkeys(("agents", "size", "length", "frames", "near", "maps"), int)
    hints |= dict.fromkeys(("density", "accel", "goal", "window", "shaping"), float) | {"guide": bool}
    return _task(name, settings, hints, Routing, _ROUTES, identified=False)


def _pogema(name: str, settings: Mapping[str, str]) -> JointTask:
    hints = {"size": int, "agents": int, "density": float, "length": int, "sight": int, "collisions": str}
    given = checked(name, settings, hints)
    names = {"agents": "num_agents", "length": "max_episode_steps", "sight": "obs_radius"}
    names |= {"collisions": "collision_system"}
    settled = {"num_agents": 4, **{names.get(key, key): value for key, value in given.items()}}
    world = Pogema(name.removeprefix("pogema:"), {"collision_system": "soft", **settled})
    return JointTask(world, identified=False, suggested=_GRIDS)


MPE = TaskForm(
    name="mpe:WORLD",
    description="a particle world for control policies: mpe:spread?agents=5, mpe:flee, mpe:tag or mpe:speaker-listener",
    make=_particles,
)

DILEMMA = TaskForm(
    name="dilemma:NAME",
    description="a game by a table of pay: of two, e.g. dilemma:prisoners?rounds=10, or of three, dilemma:gathering",
    make=_dilemma,
)

FORAGE = TaskForm(
    name="forage:WORLD",
    description="level-based foraging for teams of control policies, e.g. forage:8x8-2p-2f?coop=true",
    make=_forage,
)

SKIRMISH = TaskForm(
    name="skirmish:WORLD",
    description="soldiers of control policies against scripted foes on a grid, e.g. skirmish:3v3?hops=2",
    make=_skirmish,
)

MAPF = TaskForm(
    name="mapf:WORLD",
    description="path finding of many agents on a grid: mapf:lifelong?size=10&agents=8, mapf:planned or mapf:once",
    make=_paths,
)

CAMAR = TaskForm(
    name="camar:WORLD",
    description="routes of discs in a plane by continuous forces: camar:routing?agents=4&size=5&density=0.15",
    make=_routing,
)

POGEMA = TaskForm(
    name="pogema:WORLD",
    description="path finding by the package pogema: pogema:lifelong?size=8&agents=4, pogema:once or pogema:together",
    make=_pogema,
)

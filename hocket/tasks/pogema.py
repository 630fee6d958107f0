"""Path finding by the package pogema, by name."""

from __future__ import annotations

from collections.abc import Mapping

from hocket.agents.environments.pogema import Pogema
from hocket.core.options import checked
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import GRIDS


def _pogema(name: str, settings: Mapping[str, str]) -> JointTask:
    hints = {"size": int, "agents": int, "density": float, "length": int, "sight": int, "collisions": str}
    options = checked(name, settings, hints)
    names = {"agents": "num_agents", "length": "max_episode_steps", "sight": "obs_radius"}
    names |= {"collisions": "collision_system"}
    settled = {"num_agents": 4, **{names.get(key, key): value for key, value in options.items()}}
    world = Pogema(name.removeprefix("pogema:"), {"collision_system": "soft", **settled})
    return JointTask(world, identified=False, suggested=GRIDS)


POGEMA = TaskForm(
    name="pogema:WORLD",
    description="path finding by the package pogema: pogema:lifelong?size=8&agents=4, pogema:once or pogema:together",
    family="packages",
    make=_pogema,
)

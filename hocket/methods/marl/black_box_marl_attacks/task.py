"""Level-based foraging, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from hocket.core.errors import ConfigurationError
from hocket.methods.marl.black_box_marl_attacks.foraging import Foraging
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import GRIDS, native_task


def _forage(name: str, settings: Mapping[str, str]) -> JointTask:
    found = re.fullmatch(r"forage:(\d+)x(\d+)-(\d+)p-(\d+)f", name)
    if found is None or found[1] != found[2]:
        raise ConfigurationError(f"there is no task {name!r}; write forage:8x8-2p-2f, a square, players and foods")
    hints = {"coop": bool, "sight": int, "length": int, "penalty": float}
    make = partial(Foraging, int(found[1]), int(found[3]), int(found[4]))
    return native_task(name, settings, hints, make, GRIDS, team=True)


FORAGE = TaskForm(
    name="forage:WORLD",
    description="level-based foraging for teams of control policies, e.g. forage:8x8-2p-2f?coop=true",
    make=_forage,
)

"""The room of two keys, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.options import checked
from hocket.methods.control.sysllm.keys import KeyRoom
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 64,
    "rollout.samples": 1,
    "steps": 60,
    "credit.gamma": 0.95,
    "credit.lam": 0.9,
    "update.lr": 3e-3,
}


def _keys(name: str, settings: Mapping[str, str]) -> JointTask:
    hints = {"size": int, "length": int, "red": float, "blue": float, "lava": float}
    return JointTask(KeyRoom(**checked(name, settings, hints)), suggested=_SUGGESTED)


KEYS = TaskForm(
    name="keys:room",
    description="a room with two keys, lava and a door, where agents may prefer one thing or another: keys:room?blue=0",
    make=_keys,
)

"""Lot sizing, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.errors import ConfigurationError
from hocket.core.options import checked
from hocket.methods.control.pdppo.world import LotSizing
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 32,
    "rollout.samples": 1,
    "steps": 60,
    "credit.gamma": 0.9,
    "update.lr": 1e-3,
    "update.epochs": 8,
    "update.minibatches": 8,
}


def _lots(name: str, settings: Mapping[str, str]) -> JointTask:
    if name != "lots:sizing":
        raise ConfigurationError(f"there is no task {name!r}; choose lots:sizing")
    hints = dict.fromkeys(("goods", "length", "lot", "room", "demand"), int)
    return JointTask(LotSizing(**checked(name, settings, hints)), suggested=_SUGGESTED)


LOTS = TaskForm(
    name="lots:sizing",
    description="what one machine makes before demand is known, e.g. lots:sizing?goods=3; a decision, then chance",
    make=_lots,
)

"""Job shops, by size or by the name of a classic instance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task
from hocket.zoo.joint.shop import Shop, classic

SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 32,
    "rollout.samples": 8,
    "steps": 60,
    "credit.gamma": 1.0,
    "update.lr": 1e-3,
    "update.epochs": 1,
    "update.minibatches": 1,
    "network.body": "pointer",
    "network.hidden": [32, 32],
}


def _shop(name: str, settings: Mapping[str, str]) -> JointTask:
    text = name.removeprefix("shop:")
    if size := re.fullmatch(r"(\d+)x(\d+)", text):
        jobs, machines, instance = int(size[1]), int(size[2]), ""
    else:
        (jobs, machines), instance = classic(text)[0].shape, text

    def make(**given: Any) -> Shop:
        return Shop(jobs, machines, instance, **given)

    return native_task(name, settings, {"exact": bool}, make, SUGGESTED)


SHOP = TaskForm(
    name="shop:SIZE",
    description="job shops: drawn ones, shop:6x6, or a classic instance, shop:ft06; ?exact=true asks CP-SAT",
    family="worlds",
    make=_shop,
)

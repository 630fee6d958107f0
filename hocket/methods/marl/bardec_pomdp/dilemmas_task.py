"""Games by a table of pay, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from hocket.methods.marl.bardec_pomdp.dilemmas import Dilemma
from hocket.methods.marl.bardec_pomdp.gathering import Gathering
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import PARTICLES, native_task

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
        hints = {"agents": int, "rounds": int, "whole": float, "safe": float}
        return native_task(name, settings, hints, Gathering, _GATHERING, team=True)
    return native_task(name, settings, {"rounds": int}, partial(Dilemma, name.removeprefix("dilemma:")), PARTICLES)


DILEMMA = TaskForm(
    name="dilemma:NAME",
    description="a game by a table of pay: of two, e.g. dilemma:prisoners?rounds=10, or of three, dilemma:gathering",
    make=_dilemma,
)

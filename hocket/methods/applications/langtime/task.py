"""`forecast`: forecasts of glucose and sea temperature, patch by patch, as a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.methods.applications.langtime.series import Forecasts
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 256,
    "rollout.samples": 1,
    "steps": 60,
    "credit.gamma": 1.0,
    "update.lr": 3e-4,
    "update.epochs": 3,
    "update.minibatches": 4,
}


def _forecast(name: str, settings: Mapping[str, str]) -> JointTask:
    return native_task(name, settings, {"series": str, "patches": int}, Forecasts, _SUGGESTED)


FORECAST = TaskForm(
    name="forecast",
    description="glucose and sea temperature, patch by patch, e.g. forecast?series=sea&patches=6",
    make=_forecast,
)

"""`campaign`: a campaign in two scenarios as a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.methods.applications.mardpg_ads.scenarios import Campaign
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 64,
    "rollout.samples": 1,
    "steps": 200,
    "credit.gamma": 1.0,
    "update.lr": 1e-3,
}


def _campaign(name: str, settings: Mapping[str, str]) -> JointTask:
    hints = {"interaction": float, "length": int, "budget": float}
    return native_task(name, settings, hints, Campaign, _SUGGESTED)


CAMPAIGN = TaskForm(
    name="campaign",
    description="a campaign's bids in a feed and a search, e.g. campaign?interaction=0",
    make=_campaign,
)

"""Markets, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hocket.core.errors import ConfigurationError, nearest
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.tasks.worlds import native_task
from hocket.zoo.joint.market import Market

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 256,
    "rollout.samples": 1,
    "steps": 50,
    "credit.gamma": 0.0,  # Nobody moves prices: a decision changes no later one but for the cost of turnover.
    "update.lr": 3e-3,
    "update.epochs": 1,  # Returns are mostly noise, which more passes over a batch would fit.
    "update.minibatches": 4,
}

_HINTS: Mapping[str, Any] = {"length": int, "window": int, "cost": float}
_MORE: Mapping[str, Mapping[str, Any]] = {
    "gaussian": {"regulated": bool, "grant": float, "tax": float},
    "sp500": {"begin": int, "end": int},
}


def _market(name: str, settings: Mapping[str, str]) -> JointTask:
    source = name.removeprefix("market:")
    if source not in _MORE:
        raise ConfigurationError(f"there is no task {name!r}{nearest(source, _MORE)}; choose from {', '.join(_MORE)}")
    hints = {**_HINTS, **_MORE[source]}
    return native_task(name, settings, hints, lambda **given: Market(source, **given), _SUGGESTED)


MARKET = TaskForm(
    name="market:SOURCE",
    description="shares of wealth in assets: market:gaussian?regulated=true, or real stocks, market:sp500?begin=1990",
    family="worlds",
    make=_market,
)

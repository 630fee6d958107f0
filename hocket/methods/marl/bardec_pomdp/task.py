"""Worlds in which one of a team may be a traitor, as tasks: it is the team that is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hocket.core.wrappers import WorldWrapper
from hocket.methods.marl.bardec_pomdp.traitor import TRAITOR, Betrayed
from hocket.tasks.joint import JointTask
from hocket.types import Trajectory


@dataclass(frozen=True)
class BetrayedTask(JointTask):
    """A `JointTask` of a `Betrayed` world, whose success is the mean of the true members' returns.

    `betrayed` says whether there was a traitor. A recipe with a belief about every member is told how many there are.
    """

    def success(self, trajectory: Trajectory) -> float:
        score, earned, start = trajectory.scores.get("reward"), [], 0
        values = np.zeros(0) if score is None else np.asarray(score.value, dtype=np.float64)
        for turn in trajectory.turns:
            if turn.agent != TRAITOR:
                earned.append(float(values[start : start + len(turn)].sum()))
            start += len(turn)
        return float(np.mean(earned)) if earned else 0.0

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        betrayed = any(turn.agent == TRAITOR for turn in trajectory.turns)
        return {**super().describe(trajectory), "betrayed": float(betrayed)}

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        places = [place for place, stage in enumerate(recipe.regularisers) if hasattr(stage, "members")]
        told = {f"regularisers.{place}.members": len(self.world.agents) - 1 for place in places}
        return {**super().suggest(recipe), **told}


BETRAYED = WorldWrapper(
    name="traitor=PRIOR",
    description="with this probability a traitor acts in the place of one member of the team",
    settings={"traitor": float},
    layer=5,
    wrap=lambda world, traitor: Betrayed(world, traitor),
    team=True,
    form=BetrayedTask,
)

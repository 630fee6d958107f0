"""Tasks of several kinds, which may follow one another in a run: errands on a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hocket.core.options import checked
from hocket.methods.systems.l2rlcf.world import Errands
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.joint import JointTask
from hocket.types import Scenario, Trajectory

_SUGGESTED: Mapping[str, Any] = {
    "curriculum.prompts": 64,
    "rollout.samples": 1,
    "steps": 160,
    "credit.gamma": 0.9,
    "credit.lam": 0.9,
    "update.lr": 3e-3,
}


class ErrandsTask(JointTask):
    """A `JointTask` whose scenario n is of the kinds in turn, and says of which (`kind` in its metadata).

    Of an episode it tells the success under the letter of its kind.
    """

    world: Errands

    @property
    def kinds(self) -> Sequence[str]:
        """The names of the tasks."""
        return tuple(self.world.kinds)

    def scenario(self, split: Split, number: int) -> Scenario:
        plain = super().scenario(split, number)
        return replace(plain, metadata={**plain.metadata, "kind": self.world.kind(plain.seed or 0)})

    def describe(self, trajectory: Trajectory) -> Mapping[str, float]:
        return {**super().describe(trajectory), trajectory.scenario.metadata["kind"]: self.success(trajectory)}


def _errands(name: str, settings: Mapping[str, str]) -> JointTask:
    kinds = name.removeprefix("errands:").upper()
    world = Errands(kinds, **checked(name, settings, dict.fromkeys(("size", "length"), int)))
    return ErrandsTask(world, suggested=_SUGGESTED)


ERRANDS = TaskForm(
    name="errands:KINDS",
    description="several tasks on one small grid, of which a network easily forgets some for others: errands:ABC",
    make=_errands,
)

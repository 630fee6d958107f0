"""Several teachers of one policy: a column of the task says which one reads a trajectory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.columns import info_or_metadata
from hocket.core.errors import ConfigurationError
from hocket.core.evaluating import evaluate_detached, evaluation
from hocket.stages import Metrics, Policy
from hocket.types import Evaluation, Quantity


class RoutedTeachers:
    """Teachers by name, as the one reference of a policy. Each decision is compared with its trajectory's teacher.

    Args:
        teachers: by name. column: of the scenarios' metadata, whose value is the name of a teacher.
    """

    version = 0
    default_lr = 0.0

    def __init__(self, name: str, teachers: Mapping[str, Policy], column: str) -> None:
        self.name, self.teachers, self.column = name, dict(teachers), column
        self.module = nn.ModuleList([teacher.module for teacher in self.teachers.values()])

    @property
    def granularity(self) -> Level:
        return Level.TRAJECTORY

    def require(self, needs: frozenset[Quantity]) -> None:
        """Nothing can be added to them."""

    def routed(self, batch: Batch, decisions: Tensor) -> list[tuple[Policy, Tensor]]:
        """Each teacher with those of `decisions` `[K]` that are its own, in their order.

        Raises:
            ConfigurationError: for a trajectory whose column names none of them.
        """
        names = info_or_metadata(batch, self.column)
        known = {name: number for number, name in enumerate(self.teachers)}
        # A decision that trajectories share belongs to the first; all of them answer one scenario.
        trajectory = torch.zeros(batch.decisions, dtype=torch.long)
        occurrences = batch.occurrences
        trajectory[occurrences.decision.flip(0)] = occurrences.trajectory.flip(0)
        rows = trajectory[decisions].tolist()
        strangers = [names[row] for row in rows if str(names[row]) not in known]
        if strangers:
            raise ConfigurationError(
                f"teacher: {self.column} = {strangers[0]!r} of a scenario names none of the teachers "
                f"{', '.join(known)}; give the task this column, or name another by by=COLUMN"
            )
        teacher = torch.tensor([known[str(names[row])] for row in rows], dtype=torch.long)
        parts = [(policy, decisions[teacher == number]) for number, policy in enumerate(self.teachers.values())]
        return [(policy, chosen) for policy, chosen in parts if len(chosen)]

    def chunks(self, batch: Batch, decisions: Tensor) -> list[Tensor]:
        return [part for teacher, mine in self.routed(batch, decisions) for part in teacher.chunks(batch, mine)]

    def evaluate(
        self,
        batch: Batch,
        needs: Iterable[Quantity],
        decisions: Tensor | None = None,
        *,
        reference: Policy | None = None,
    ) -> Evaluation:
        """Each teacher's log-probs of the decisions that are its own, `[T]`."""
        chosen = torch.arange(batch.decisions) if decisions is None else decisions
        logp = torch.zeros(batch.decisions)
        for teacher, mine in self.routed(batch, chosen):
            logp[mine] = evaluate_detached(teacher, batch, needs, mine).logp[mine]
        return evaluation({Quantity.LOGP: logp})

    def costs(self) -> Metrics:
        """The sums of what the teachers behind servers cost."""
        total: dict[str, float] = {}
        for teacher in self.teachers.values():
            for name, cost in (teacher.costs() if hasattr(teacher, "costs") else {}).items():
                total[name] = total.get(name, 0.0) + cost
        return total

    def final_values(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.trajectories)

    def frozen_copy(self) -> RoutedTeachers:
        return self

    def save(self, folder: Path) -> None:
        """Writes each into a folder of its name's number."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, teacher in enumerate(self.teachers.values()):
            teacher.save(folder / f"teacher-{number}")
        (folder / "teachers.json").write_text(json.dumps(list(self.teachers)), encoding="utf-8")

    def load(self, folder: Path) -> None:
        for number, teacher in enumerate(self.teachers.values()):
            teacher.load(folder / f"teacher-{number}")


def joined(parts: Sequence[Evaluation], batch: Batch) -> Evaluation:
    """Evaluations of disjoint decisions as one: each is 0 at the decisions of the others."""
    names = [quantity.value for quantity in Quantity]
    columns: dict[str, Any] = {}
    for name in names:
        values = [getattr(part, name) for part in parts if getattr(part, name, None) is not None]
        if values:
            columns[name] = torch.stack(values).sum(0)
    return Evaluation(**(columns or {"logp": torch.zeros(batch.decisions)}))

"""Samples of the policy and of the reference, which is the policy before training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hocket.core.keys import Key
from hocket.rollout.dynamic import total
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Trajectory


def asked_of_reference(asking: Assignment, samples: int, line: str | None = None) -> Assignment:
    """An assignment for the reference, with a `line` added below the prompt.

    Its source is `baseline`, so its answers are not learnt from directly. The stage must declare `plays_reference`.
    """
    hint = "\n".join(part for part in (asking.hint, line) if part is not None) or None
    return replace(asking, samples=samples, hint=hint, actor="reference", source="baseline")


@dataclass(frozen=True)
class WithReference(Rollout):
    """`samples` trajectories of the policy per scenario, and `references` of the reference, of source `baseline`.

    The reference's rewards are a baseline for credit (`hocket.credit.ReferenceMargin`,
    `hocket.credit.RememberedBaseline`) and measure the difficulty of the scenario. Its trajectories are never learnt
    from. A scenario counts as visited when the ledger has a group of it.

    Attributes:
        samples: the policy's samples, at least 1. references: the reference's samples, at least 1.
        once: sample the reference only at a scenario's first visit (PVPO, arXiv 2508.21104), otherwise at each visit
            (AAPO, arXiv 2505.14264).
        solved: a scenario is dropped, that is not sampled at this visit, if all samples of the reference have the same
            reward and it is at least this. None drops nothing.
        inject: while all rewards of a scenario are at most 0 (of the reference, later of the policy), its
            `metadata["demonstration"]` replaces one sample, with source `expert`; without one, nothing changes.
    """

    samples: int = 8
    references: int = 8
    once: bool = False
    solved: float | None = None
    inject: bool = False

    gives_baseline: ClassVar[bool] = True
    plays_reference: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("samples", "references"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    async def collect(
        self,
        asked: Sequence[Assignment],
        *,
        play: Play,
        score: Grade,
        ledger: LedgerView,
        key: Key,
        more: More | None = None,
    ) -> Experience:
        """The reference's trajectories first, then the policy's, by scenario."""
        due = [asking for asking in asked if not (self.once and ledger.history(asking.scenario.id))]
        measured = [replace(a, samples=self.references, source="baseline", actor="reference") for a in due]
        references = await play(measured) if measured else []
        if references:
            await score(references)
        earned = _earned(references)
        dropped = {name for name, rewards in earned.items() if self._dull(rewards)}
        assignments = []
        for asking in asked:
            if asking.scenario.id not in dropped:
                assignments += self._own(asking, earned.get(asking.scenario.id, ledger.history(asking.scenario.id)))
        trajectories = await play(assignments) if assignments else []
        if trajectories:
            await score(trajectories)
        metrics = {"rollout/references": float(len(references)), "rollout/dropped": float(len(dropped))}
        used = [reference for reference in references if reference.scenario.id not in dropped]
        aside = [reference for reference in references if reference.scenario.id in dropped]
        return Experience([*used, *trajectories], aside, metrics)

    def _dull(self, rewards: Sequence[float]) -> bool:
        return self.solved is not None and self.solved <= min(rewards) == max(rewards)

    def _own(self, asking: Assignment, rewards: Sequence[float]) -> list[Assignment]:
        """The assignments of the policy for one scenario, with a demonstration if all rewards are at most 0."""
        hopeless = len(rewards) > 0 and max(rewards) <= 0
        if not (self.inject and hopeless and asking.scenario.metadata.get("demonstration") is not None):
            return [replace(asking, samples=self.samples)]
        expert = replace(asking, samples=1, source="expert")
        return [expert] if self.samples == 1 else [replace(asking, samples=self.samples - 1), expert]


def _earned(trajectories: Sequence[Trajectory]) -> dict[str, list[float]]:
    """The total rewards by scenario, without failed trajectories."""
    totals: dict[str, list[float]] = {}
    for trajectory in trajectories:
        if trajectory.failure is None:
            rewards = totals.setdefault(trajectory.scenario.id, [])
            rewards.append(sum(total(score) for score in trajectory.scores.values()))
    return totals

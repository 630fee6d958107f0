"""Samples with those of the reference, the policy as it was before training, beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hocket.core.keys import Key
from hocket.rollout.dynamic import total
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Trajectory


def asked_of_reference(asking: Assignment, samples: int, line: str | None = None) -> Assignment:
    """A question for the policy as it was before training, with a `line` below it; its answers are not learnt from as
    they stand. Whoever asks must say `plays_reference`."""
    hint = "\n".join(one for one in (asking.hint, line) if one is not None) or None
    return replace(asking, samples=samples, hint=hint, actor="reference", source="baseline")


@dataclass(frozen=True)
class WithReference(Rollout):
    """`samples` trajectories per scenario, and `references` that the reference plays, of source `baseline`.

    What the reference earns informs credit (`hocket.credit.ReferenceMargin`, `hocket.credit.RememberedBaseline`) and
    grades the scenario; its trajectories are never learnt from. A scenario counts as visited once the ledger holds a
    group of it.

    Attributes:
        samples: the policy's own, at least 1. references: the reference's, at least 1, whenever they are due.
        once: they are due at a scenario's first visit alone, beforehand so to say (PVPO, arXiv 2508.21104); otherwise
            anew at each visit (AAPO, arXiv 2505.14264).
        solved: a scenario on which the reference earns the same with every sample, and at least this, teaches nothing
            and is dropped: not sampled at this visit. None drops nothing.
        inject: where nobody has earned anything yet (neither the reference nor, later, the policy), the scenario's
            `metadata["demonstration"]` takes the place of one sample, as source `expert`; without one, nothing changes.
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
        """The reference's trajectories first, then the policy's own, scenario by scenario."""
        due = [asking for asking in asked if not (self.once and ledger.history(asking.scenario.id))]
        measured = [replace(a, samples=self.references, source="baseline", actor="reference") for a in due]
        references = await play(measured) if measured else []
        if references:
            await score(references)
        earned = _earned(references)
        dropped = {name for name, rewards in earned.items() if self._dull(rewards)}
        own = []
        for asking in asked:
            if asking.scenario.id not in dropped:
                own += self._own(asking, earned.get(asking.scenario.id, ledger.history(asking.scenario.id)))
        trajectories = await play(own) if own else []
        if trajectories:
            await score(trajectories)
        metrics = {"rollout/references": float(len(references)), "rollout/dropped": float(len(dropped))}
        kept = [reference for reference in references if reference.scenario.id not in dropped]
        aside = [reference for reference in references if reference.scenario.id in dropped]
        return Experience([*kept, *trajectories], aside, metrics)

    def _dull(self, rewards: Sequence[float]) -> bool:
        return self.solved is not None and self.solved <= min(rewards) == max(rewards)

    def _own(self, asking: Assignment, rewards: Sequence[float]) -> list[Assignment]:
        """The policy's own samples of one scenario; a demonstration among them where nobody has earned anything."""
        hopeless = len(rewards) > 0 and max(rewards) <= 0
        if not (self.inject and hopeless and asking.scenario.metadata.get("demonstration") is not None):
            return [replace(asking, samples=self.samples)]
        given = replace(asking, samples=1, source="expert")
        return [given] if self.samples == 1 else [replace(asking, samples=self.samples - 1), given]


def _earned(trajectories: Sequence[Trajectory]) -> dict[str, list[float]]:
    """The total rewards of whole trajectories by scenario."""
    found: dict[str, list[float]] = {}
    for trajectory in trajectories:
        if trajectory.failure is None:
            rewards = found.setdefault(trajectory.scenario.id, [])
            rewards.append(sum(total(score) for score in trajectory.scores.values()))
    return found

"""Groups that contain an expert's answer beside the policy's samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.core.keys import Key
from hocket.rollout.demonstrations import demonstrated
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience


@dataclass(frozen=True)
class WithExpert(Rollout):
    """Groups of `samples` trajectories, `experts` of which are an expert's.

    TempSamp-R1 (arXiv 2509.18056), RL-PLUS (arXiv 2508.00222). The expert's trajectories have source `expert` and are
    scored like the others. Their text is the scenario's `metadata["demonstration"]`, else its answer. A scenario with
    neither gets only samples of the policy. The expert's probabilities are unknown, so the learner's log-probs replace
    them (ratio 1).
    """

    samples: int = 8
    experts: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.experts < self.samples:
            raise ValueError(f"experts must lie in 0..{self.samples - 1}, fewer than samples, not {self.experts}")

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
        """Per scenario the policy's samples, then the expert's."""
        assignments: list[Assignment] = []
        for asking in asked:
            scenario = asking.scenario
            has_answer = scenario.metadata.get("demonstration") is not None or scenario.answer is not None
            experts = self.experts if has_answer else 0
            assignments.append(replace(asking, samples=self.samples - experts))
            if experts:
                scenario = demonstrated(scenario)
                assignments.append(replace(asking, scenario=scenario, samples=experts, source="expert"))
        trajectories = await play(assignments)
        await score(trajectories)
        return Experience(trajectories)

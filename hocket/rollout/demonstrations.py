"""Experience that was written down before: demonstrations and preferences. The player replays it, samples nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Scenario, Score


@dataclass(frozen=True)
class Demonstrations(Rollout):
    """`samples` copies of each scenario's demonstration, for supervised fine-tuning and behaviour cloning.

    Assignments have source `expert`: a text player takes `metadata["demonstration"]` as the response instead of
    sampling one, without behaviour log-probs. A scenario without a demonstration shows its answer as text.

    Raises:
        ConfigurationError: on a call, for a scenario with neither.
    """

    samples: int = 1

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")

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
        """The demonstrations as trajectories, scored like any other."""
        trajectories = await play(
            [
                replace(asking, scenario=demonstrated(asking.scenario), samples=self.samples, source="expert")
                for asking in asked
            ]
        )
        await score(trajectories)
        return Experience(trajectories)


@dataclass(frozen=True)
class Preferences(Rollout):
    """The chosen and the rejected response of each scenario, for offline preference learning (DPO, arXiv 2305.18290).

    Assignments have source `imported` and two samples: a text player takes `metadata["chosen"]` as the response of
    sample 0 and `metadata["rejected"]` as that of sample 1. Their score is `preference`, 1 and 0; no other is asked.

    Raises:
        ConfigurationError: on a call, for a scenario that lacks one of the two.
    """

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
        """Per scenario the chosen trajectory, then the rejected one."""
        for asking in asked:
            for name in ("chosen", "rejected"):
                if name not in asking.scenario.metadata:
                    raise ConfigurationError(
                        f"scenario {asking.scenario.id!r} has no {name!r} in its metadata, which preferences need"
                    )
        trajectories = await play([replace(asking, samples=2, first=0, source="imported") for asking in asked])
        for trajectory in trajectories:
            trajectory.scores["preference"] = Score(1.0 if trajectory.sample == 0 else 0.0)
        return Experience(trajectories)


def demonstrated(scenario: Scenario) -> Scenario:
    """The scenario with a demonstration in its metadata: its own, or else its answer as text."""
    if scenario.metadata.get("demonstration") is not None:
        return scenario
    if scenario.answer is None:
        raise ConfigurationError(
            f"scenario {scenario.id!r} has neither metadata 'demonstration' nor an answer to imitate"
        )
    return replace(scenario, metadata={**scenario.metadata, "demonstration": str(scenario.answer)})

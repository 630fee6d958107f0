"""Recorded experience: demonstrations, preferences, labelled and ranked answers. The player replays it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hocket.core.columns import MISMATCHED, PAIR_MARGIN, PAIR_TARGET, PAIR_WEIGHT
from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example
from hocket.core.keys import Key
from hocket.core.occurrences import unmarked
from hocket.stages import Grade, LedgerView, More, Play, Rollout
from hocket.types import Assignment, Experience, Scenario, Score, Trajectory


@dataclass(frozen=True)
class Demonstrations(Rollout):
    """`samples` copies of each scenario's demonstration, for supervised fine-tuning and behaviour cloning.

    Assignments have source `expert`: a text player takes `metadata["demonstration"]` as the response instead of
    sampling one, without behaviour log-probs. A scenario without a demonstration shows its answer as text.

    Raises:
        ConfigurationError: on a call, for a scenario with neither.
    """

    replays: ClassVar[Example | None] = Example.DEMONSTRATION

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
    sample 0 and `metadata["rejected"]` as that of sample 1. Their only score is `preference`, 1 and 0. Numbers
    `weight`, `margin` and `target` in the metadata become those of the pair (see `Occurrences`).

    Raises:
        ConfigurationError: on a call, for a scenario that lacks one of the two.
    """

    replays: ClassVar[Example | None] = Example.PAIR

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
            _copy_pair_numbers(trajectory)
        return Experience(trajectories)


@dataclass(frozen=True)
class Labelled(Rollout):
    """Answers that are known to be good or bad, for unpaired preference learning (KTO, arXiv 2402.01306).

    Assignments have source `expert`: `metadata["demonstration"]` is the response. Its only score is `label`, 1 if
    `metadata["label"]` is true, else 0. A `weight` in the metadata is that of the answer.

    Attributes:
        mismatched: add, for each scenario, the answer of the scenario before it in the step (for the first, of the
            last), marked `hocket.core.columns.MISMATCHED` and without a score. KTO estimates a divergence by these.

    Raises:
        ConfigurationError: on a call, for a scenario without a demonstration or a label, and for a step of one scenario
            where mismatched answers are wanted.
    """

    replays: ClassVar[Example | None] = Example.LABELLED

    mismatched: bool = False

    @property
    def samples(self) -> int:
        """One, or two with the mismatched one."""
        return 2 if self.mismatched else 1

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
        """Each scenario's answer, then the mismatched ones."""
        for asking in asked:
            label = asking.scenario.metadata.get("label")
            if asking.scenario.metadata.get("demonstration") is None or not isinstance(label, bool):
                raise ConfigurationError(
                    f"scenario {asking.scenario.id!r} needs a 'demonstration' and a 'label', true or false, in its "
                    "metadata"
                )
        labelled = await play([replace(asking, samples=1, first=0, source="expert") for asking in asked])
        for trajectory in labelled:
            trajectory.scores["label"] = Score(float(trajectory.scenario.metadata["label"]))
            _copy_pair_numbers(trajectory)
        if not self.mismatched:
            return Experience(labelled)
        if len(asked) < 2:
            raise ConfigurationError(
                "mismatched answers are those of a step's other scenarios: prompts must be at least 2"
            )
        others = await play(
            [
                replace(asking, scenario=_saying(asking.scenario, before.scenario), samples=1, first=1, source="expert")
                for asking, before in zip(asked, _before(asked), strict=True)
            ]
        )
        for trajectory in others:
            MISMATCHED.write(trajectory, True)
        return Experience([*labelled, *others])


@dataclass(frozen=True)
class Ranked(Rollout):
    """Several recorded answers to each scenario with scores, for lists of preferences (LiPO, arXiv 2402.01878).

    `metadata["responses"]` are the answers, of source `expert`. Their only score is `preference`, from
    `metadata["scores"]`; higher is better.

    Raises:
        ConfigurationError: on a call, for a scenario without two answers or with another number of scores.
    """

    replays: ClassVar[Example | None] = Example.RANKED

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
        """Per scenario its answers, in the order of the metadata."""
        wanted, scores = list[Assignment](), list[float]()
        for asking in asked:
            metadata = asking.scenario.metadata
            responses, labels = list(metadata.get("responses") or ()), list(metadata.get("scores") or ())
            if len(responses) < 2 or len(responses) != len(labels):
                raise ConfigurationError(
                    f"scenario {asking.scenario.id!r} has {len(responses)} 'responses' and {len(labels)} 'scores' in "
                    "its metadata; ranked answers need two or more, and a score for each"
                )
            scores += [float(label) for label in labels]
            for place, text in enumerate(responses):
                scenario = replace(asking.scenario, metadata={**metadata, "demonstration": text})
                wanted.append(replace(asking, scenario=scenario, samples=1, first=place, source="expert"))
        trajectories = await play(wanted)
        for trajectory, value in zip(trajectories, scores, strict=True):
            trajectory.scores["preference"] = Score(value)
        return Experience(trajectories)


def _before(asked: Sequence[Assignment]) -> list[Assignment]:
    """The assignment before each one in the step, of another scenario if there is one."""
    names, previous = [unmarked(assignment.scenario.id) for assignment in asked], list[Assignment]()
    for place, name in enumerate(names):
        earlier = [(place - back) % len(asked) for back in range(1, len(asked))]
        previous.append(asked[next((other for other in earlier if names[other] != name), earlier[0])])
    return previous


def _copy_pair_numbers(trajectory: Trajectory) -> None:
    """Copies the numbers for a pair from the scenario's metadata to the trajectory."""
    for name, column in (("weight", PAIR_WEIGHT), ("margin", PAIR_MARGIN), ("target", PAIR_TARGET)):
        if trajectory.scenario.metadata.get(name) is not None:
            column.write(trajectory, float(trajectory.scenario.metadata[name]))


def _saying(scenario: Scenario, other: Scenario) -> Scenario:
    """The scenario with the demonstration of `other`."""
    return replace(scenario, metadata={**scenario.metadata, "demonstration": other.metadata["demonstration"]})


def demonstrated(scenario: Scenario) -> Scenario:
    """The scenario with a demonstration in its metadata: its own, or else its answer as text."""
    if scenario.metadata.get("demonstration") is not None:
        return scenario
    if scenario.answer is None:
        raise ConfigurationError(
            f"scenario {scenario.id!r} has neither metadata 'demonstration' nor an answer to imitate"
        )
    return replace(scenario, metadata={**scenario.metadata, "demonstration": str(scenario.answer)})

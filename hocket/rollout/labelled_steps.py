"""Recorded answers with labelled steps or turns, for the training of process reward models."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, ClassVar

from hocket.core.batch import Level
from hocket.core.errors import ConfigurationError
from hocket.core.examples import Example
from hocket.core.keys import Key
from hocket.stages import Grade, LedgerView, More, Play, Rollout, Tokenizer, tokenizer_of
from hocket.types import Assignment, Experience, Score, Trajectory


@dataclass(frozen=True)
class LabelledSteps(Rollout):
    """One trajectory per scenario, of source `expert`, with a score `label` at the end of each step or turn.

    With `steps`, a list of texts in the scenario's metadata, the response is their concatenation, and
    `metadata["labels"]` has one label per step. A label applies to the decision that completes the step and the
    separator after it, the last label to the end of the response (Lightman et al., arXiv 2305.20050; Uesato et al.,
    arXiv 2211.14275). Without steps `metadata["demonstration"]` is a list of messages, with a label for each assistant
    turn. A label is true, false, a probability, or null for no opinion. There are no other scores.

    Attributes:
        separator: the text between steps.

    Raises:
        ConfigurationError: on a call, for a scenario without these, or with another number of labels.
    """

    separator: str = "\n"

    replays: ClassVar[Example | None] = Example.STEPS

    @property
    def samples(self) -> int:
        """Always 1."""
        return 1

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
        """Each scenario's answer with its labels."""
        trajectories = await play([self._assigned(asking) for asking in asked])
        words = tokenizer_of(play)
        for trajectory in trajectories:
            metadata = trajectory.scenario.metadata
            labels = [None if label is None else float(label) for label in metadata["labels"]]
            steps = metadata.get("steps")
            trajectory.scores["label"] = (
                _of_turns(trajectory, labels) if steps is None else self._of_steps(trajectory, steps, labels, words)
            )
        return Experience(trajectories)

    def _assigned(self, asking: Assignment) -> Assignment:
        scenario = asking.scenario
        steps, labels = scenario.metadata.get("steps"), scenario.metadata.get("labels")
        pieces = steps if steps is not None else scenario.metadata.get("demonstration")
        if not isinstance(labels, (list, tuple)) or not isinstance(pieces, (list, tuple)) or not pieces:
            raise ConfigurationError(
                f"scenario {scenario.id!r} needs 'steps' (texts), or a 'demonstration' of several messages, and "
                "'labels' in its metadata"
            )
        wrong = next((label for label in labels if label is not None and not _is_label(label)), None)
        if wrong is not None:
            raise ConfigurationError(
                f"scenario {scenario.id!r}: the label {wrong!r} is neither true, false nor in [0, 1]"
            )
        if steps is not None:
            if len(steps) != len(labels) or not all(isinstance(step, str) and step for step in steps):
                raise ConfigurationError(
                    f"scenario {scenario.id!r} has {len(steps)} steps and {len(labels)} labels; give each step some "
                    "text and a label"
                )
            response = self.separator.join(steps)
            scenario = replace(scenario, metadata={**scenario.metadata, "demonstration": response})
        return replace(asking, scenario=scenario, samples=1, first=0, source="expert")

    def _of_steps(
        self, trajectory: Trajectory, steps: Sequence[str], labels: Sequence[float | None], words: Tokenizer | None
    ) -> Score:
        if words is None:
            raise ConfigurationError("steps are pieces of text, and this task's decisions are no words")
        action = trajectory.turns[-1].action.tolist()
        text = words.decode(action)
        begin = text.find(self.separator.join(steps))
        if begin < 0:
            raise ConfigurationError(
                f"scenario {trajectory.scenario.id!r}: the chat template changes the words of its steps, so their ends "
                "cannot be found; trim them"
            )

        def length_to(place: int) -> int:
            return len(words.decode(action[: place + 1]))

        values: list[float | None] = [None] * len(action)
        ends = [*accumulate(len(step) + len(self.separator) for step in steps[:-1])]
        for end, label in zip(ends, labels, strict=False):
            reached = bisect.bisect_left(range(len(action) - 1), begin + end, key=length_to)
            values[reached] = label
        values[-1] = labels[-1]
        return Score(values, Level.DECISION)


def _of_turns(trajectory: Trajectory, labels: Sequence[float | None]) -> Score:
    if len(labels) != len(trajectory.turns):
        raise ConfigurationError(
            f"scenario {trajectory.scenario.id!r} has {len(trajectory.turns)} assistant turns and {len(labels)} "
            "labels; give each one"
        )
    return Score(labels, Level.TURN)


def _is_label(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) and 0 <= value <= 1

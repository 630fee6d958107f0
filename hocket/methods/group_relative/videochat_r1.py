"""VideoChat-R1: GRPO on several space-time tasks at once, each with rewards of its own (Li et al., arXiv:2504.06958).

Temporal grounding earns the overlap of intervals, grounded questions the overlap of a set of intervals and the right
option, tracking the mean overlap of boxes frame by frame. A point for the form of the answer is added to each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hocket.core.keys import Key
from hocket.core.markup import whole
from hocket.methods.base.grpo import GRPO, GRPO_KL
from hocket.rewards.opinions import Opinions
from hocket.rewards.regions import interval_overlap
from hocket.stages import Reward
from hocket.tasks.frames import glue_in, option_in, times_in, track_in, track_overlap
from hocket.types import Scenario, Trajectory

_FORM = re.compile(r"<think>.*?</think>\s*<answer>.*?</answer>", re.DOTALL)
_GLUED = re.compile(rf"{_FORM.pattern}\s*<glue>.*?</glue>", re.DOTALL)


def overlap_of(text: str, known: Mapping[str, Any]) -> float | None:
    """The overlap reward by the kind of task; None where it is none of the three."""
    kind = known.get("kind")
    if kind == "track":
        theirs = [(box[0], box[1], box[2], box[3]) for box in known["boxes"]]
        ours = track_in(text, len(theirs))
        return 0.0 if ours is None else track_overlap(ours, theirs)
    if kind not in ("when", "longest"):
        return None
    times = [(float(start), float(end)) for start, end in known["times"]]
    if kind == "longest":
        return interval_overlap(glue_in(text) or [], times)
    times_read = times_in(text)
    return 0.0 if times_read is None else interval_overlap([times_read], times)


def formed(text: str, known: Mapping[str, Any]) -> bool | None:
    """Whether the whole answer has the form that its task asks for; None where it is none of the three."""
    kind, text = known.get("kind"), whole(text).strip()
    if kind == "track":
        return bool(_FORM.fullmatch(text)) and track_in(text, len(known["boxes"])) is not None
    if kind == "longest":
        return bool(_GLUED.fullmatch(text)) and glue_in(text) is not None
    return bool(_FORM.fullmatch(text)) if kind == "when" else None


@dataclass(frozen=True)
class Overlap(Reward):
    """The IoU reward of the task that the scenario's metadata name as `kind`; no opinion on others."""

    name: str = "overlap"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(overlap_of(item.text, item.scenario.metadata) for item in trajectories)


@dataclass(frozen=True)
class Option(Reward):
    """1 for the right option of a grounded question, else 0; no opinion on other tasks."""

    name: str = "option"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        return Opinions(self.grade(item.text, item.scenario) for item in trajectories)

    def grade(self, text: str, scenario: Scenario) -> float | None:
        """The reward of one text."""
        if scenario.metadata.get("kind") != "longest":
            return None
        letter = option_in(text)
        return float(letter != "" and letter == str(scenario.answer))


@dataclass(frozen=True)
class AnswerForm(Reward):
    """1 for an answer in the form of its task: a thought, an answer, and the intervals or boxes in their lists."""

    name: str = "form"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        marks = (formed(item.text, item.scenario.metadata) for item in trajectories)
        return Opinions(None if mark is None else float(mark) for mark in marks)


VIDEOCHAT_R1 = GRPO_KL.but(
    name="videochat-r1",
    title="VideoChat-R1: rewards of overlap for space-time tasks",
    source="Li et al., VideoChat-R1, arXiv:2504.06958",
    catalogue_ids=("videochat-r1",),
    axes=("reward", "policy", "data"),
    task="frames",
    formula="R = IoU + [form] (grounding, tracking), IoU + [option] + [form] (grounded questions);  "
    "IoU of unions of intervals, or the mean over frames of that of boxes;  GRPO, KL k3 0.04",
    conventions={
        **GRPO.conventions,
        "KL": "k3 in the loss, coefficient 0.04",
        "answers": "read as the released code reads them: `A to B`, `<glue>[(A, B), ..]</glue>`, a list of boxes",
        "empty": "two sets of intervals without length overlap by 0; the released code gives 1",
        "router": "the scenario's metadata `kind`: when, longest, track",
        "boxes": "as many as the film has frames; the released code asks for 8",
        "films": "frames in one picture, in reading order",
    },
    note="shown on films drawn as one picture; the shipped model hardly reads them, so that it learns was not seen",
    rewards=(Overlap(), Option(), AnswerForm()),
)

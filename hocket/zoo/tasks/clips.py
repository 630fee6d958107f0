"""Clips as records in words: who does what in each frame, what is heard and what is written; and questions on them.

What is heard and what is written stand apart from what is seen, so some questions take a tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.markup import ANSWER
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario

WHO = ("cat", "dog", "boy")
DOES = ("runs", "sits", "eats", "hops", "naps", "digs")
TOOLS: Mapping[str, tuple[str, ...]] = {"sounds": ("bell", "horn", "drum"), "signs": ("stop", "exit", "sale")}
"""What each tool may find in a frame: what is heard there, and what is written."""

Frame = Mapping[str, str]
"""What is `seen` in a frame, and under the name of a tool what that finds there."""


class Clips(TextTask):
    """Questions without end: what somebody does first, last, or next after something was heard or read.

    A scenario's metadata say the `clip`, a list of frames, and the `tool` that the question takes (none: empty).

    Args:
        frames: of a clip.
    """

    def __init__(self, frames: int = 6) -> None:
        if not 4 <= frames <= 9:
            raise ConfigurationError(f"clips: frames = {frames} must lie in [4, 9]")
        self.name, self.frames = "clips", frames

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        key, tries = Key.of(0).derive("clips", self.frames, split, number), 0
        while (drawn := self._drawn(key.derive(tries), split, number)) is None or split_of(written(drawn)) != split:
            tries += 1
        return drawn

    def _drawn(self, key: Key, split: Split, number: int) -> Scenario | None:
        """A scenario; None where what was drawn has no answer."""
        rng = key.numpy()
        scenes = [(WHO[int(who)], DOES[int(does)]) for who, does in rng.integers((3, 6), size=(self.frames, 2))]
        clip: list[dict[str, str]] = [{"seen": f"{who} {does}"} for who, does in scenes]
        places = {}
        for tool, things in TOOLS.items():
            places[tool] = int(rng.integers(self.frames - 1))
            clip[places[tool]][tool] = things[int(rng.integers(len(things)))]
        who, when = WHO[int(rng.integers(len(WHO)))], ("first", "last", *TOOLS)[int(rng.integers(4))]
        start = places[when] + 1 if when in TOOLS else 0
        does = [done for actor, done in scenes[start:] if actor == who]
        if not does:
            return None
        moment = f"after the {clip[places[when]][when]}" if when in TOOLS else when
        metadata = {"clip": clip, "tool": when if when in TOOLS else ""}
        answer = does[-1] if when == "last" else does[0]
        prompt = f"What does the {who} do {moment}?"
        return Scenario(f"clips/{split}/{number}", prompt, answer, metadata=metadata, seed=number)

    def verify(self, text: str, scenario: Scenario) -> float:
        return float(given(text) == scenario.answer)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 24}

    @property
    def lessons(self) -> Lessons:
        """The right tool, answers of which half are right, grades that err, and revisions that are mostly better."""
        return Lessons(
            "which tool a question takes, answers of which half are right, grades of which one in ten is wrong",
            200,
            self._lesson,
            talks=4,
            then=lambda recipe: {"steps": 40, "update.lr": 3e-4, "evaluation.n": 200},
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
        clip, question = scenario.metadata["clip"], str(scenario.prompt)
        tool, right = scenario.metadata["tool"], str(scenario.answer)
        named = str(right if rng.random() < 0.5 else rng.choice(DOES))
        evidence = shown(clip, picked(clip, question, self.frames // 2), [tool] if tool else [])
        judged = str(right if rng.random() < 0.5 else rng.choice(DOES))
        good = (judged == right) != (rng.random() < 0.1)
        doubt = "9" if good else f"2 {tool}".strip()
        better = str(right if rng.random() < 0.7 else rng.choice(DOES))
        stance = list(STANCES)[int(rng.integers(len(STANCES)))]
        exchanges = [
            (tool_question(question), tool or "none"),
            (answer_question(evidence, question), f"<answer>{named}</answer>"),
            (grade_question(evidence, question, judged), doubt),
            (
                stance_question(stance, evidence, question, judged, doubt),
                f"<answer>{judged if stance == 'conservative' and good else better}</answer> {rng.integers(3, 10)}",
            ),
        ]
        return [
            Lesson(({"role": "user", "content": prompt},), ({"role": "assistant", "content": answer},))
            for prompt, answer in exchanges
        ]


# ---------------------------------------------------------------- the prompts


def relevance(frame: Frame, question: str) -> float:
    """The share of a frame's words that the question names."""
    words = re.findall(r"\w+", frame["seen"].lower())
    named = set(re.findall(r"\w+", question.lower()))
    return sum(word in named for word in words) / len(words)


def picked(clip: Sequence[Frame], question: str, count: int) -> list[int]:
    """The places of the most relevant frames, in time order; of equals the earlier ones."""
    ranked = sorted(range(len(clip)), key=lambda place: (-relevance(clip[place], question), place))
    return sorted(ranked[:count])


def shown(clip: Sequence[Frame], places: Sequence[int], tools: Sequence[str]) -> str:
    """Frames with their numbers, from 1, and what tools find in the whole clip."""
    lines = ["; ".join(f"{place + 1} {clip[place]['seen']}" for place in places)]
    for tool in tools:
        findings = [f"{place + 1} {frame[tool]}" for place, frame in enumerate(clip) if tool in frame]
        lines.append(f"{tool}: {'; '.join(findings) or 'none'}")
    return "\n".join(lines)


def tool_question(question: str) -> str:
    """Which tools does the question take?"""
    return f"{question}\nWhich tools, of {', '.join(TOOLS)}?"


def answer_question(evidence: str, question: str) -> str:
    """The question beside what was picked."""
    return f"{evidence}\n{question}"


def grade_question(evidence: str, question: str, answer: str) -> str:
    """What a critic is asked."""
    return f"{evidence}\n{question}\nAnswer: {answer}\nGrade it from 0 to 10, and say what to look at again."


STANCES: Mapping[str, str] = {
    "conservative": "Keep the answer unless it is plainly contradicted.",
    "neutral": "Correct what was seen wrongly, and answer again.",
    "aggressive": "Take the answer to be wrong, and begin anew.",
}
"""The instruction to each reviewer."""


def stance_question(stance: str, evidence: str, question: str, answer: str, report: str) -> str:
    """What one who looks again is asked."""
    request = f"Answer: {answer}\nReport: {report}\n{STANCES[stance]}\nAnswer, and how sure of ten."
    return f"{evidence}\n{question}\n{request}"


def given(text: str) -> str:
    """The word of an answer, in tags or not."""
    tagged = ANSWER.search(text)
    return (text if tagged is None else tagged[1]).strip().strip(".").lower()


def written(scenario: Scenario) -> str:
    """All of a scenario as one text, by which it is split."""
    return f"{scenario.metadata['clip']} {scenario.prompt}"


def from_settings(name: str, settings: Mapping[str, str]) -> Clips:
    """The task with these settings."""
    return Clips(**checked(name, settings, {"frames": int}))


CLIPS = TaskForm(
    name="clips",
    description="questions on clips that are records in words, some of which take a tool, e.g. clips?frames=8",
    make=from_settings,
)

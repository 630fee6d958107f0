"""Summaries of agents as a task in words: what an episode of the room of two keys shows, what several summaries say.

Questions are of two kinds in turn: the transcript of an episode of a walker whose tastes are drawn, and a few summaries
to merge. The verdict on an answer is its F1 with the sentences that are due. So a small model can be taught, or trained
by its own attempts, to write what `sysllm` asks, in the words that `CHUNK` and `MERGE` put it in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import numpy as np

from hocket.core.keys import Key
from hocket.methods.control.sysllm.captions import Log, transcript
from hocket.methods.control.sysllm.key_walkers import Walker, Wants, walked
from hocket.methods.control.sysllm.keys import KEYS, KeyRoom
from hocket.methods.control.sysllm.statements import Statement, Tally, read, said_of, sentences
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.text import TextTask, check_number
from hocket.types import Message, Scenario

CHUNK = "{transcript}\nSummary:"
MERGE = "{summaries}\nMerged:"
"""What `sysllm` asks, in words that are short enough for a small model."""

EVENTS = (*(f"takes the {key} key" for key in KEYS), "steps into lava", "leaves by the door")
"""What a summary speaks of, in this order."""

LENGTH = 10
"""Decisions of an episode, so that its transcript fits in a small model's context."""

FAN = 5
"""The most summaries that are merged at a time."""


def summary(log: Log) -> str:
    """How often each of `EVENTS` came, in words."""
    tally = Tally(log)
    found = []
    for event in EVENTS:
        k, n, _ = tally.count(Statement(event)) or (0, 0, "")
        if n and (how := said_of(k, n)):
            found.append(Statement(event, how=how).text("episodes"))
    return "\n".join(found)


def merged(summaries: Sequence[str]) -> str:
    """What most of several summaries say: always or never where all do, else mostly or seldom; nothing of a tie."""
    heard: dict[str, list[str]] = {event: [] for event in EVENTS}
    for one in summaries:
        for sentence in sentences(one):
            said = read(sentence)
            if isinstance(said, Statement) and said.what in heard:
                heard[said.what].append(said.how)
    told = {event: _agreed(words) for event, words in heard.items()}
    return "\n".join(Statement(event, how=how).text("episodes") for event, how in told.items() if how)


def _agreed(words: Sequence[str]) -> str:
    for whole in ("always", "never"):
        if words and all(one == whole for one in words):
            return whole
    yes = sum(one in ("always", "mostly") for one in words)
    return "mostly" if 2 * yes > len(words) else "seldom" if 2 * yes < len(words) else ""


class Summaries(TextTask):
    """Transcripts and summaries without end."""

    name = "summaries"

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        rng = Key.of(0).derive("summaries", split, number).numpy()
        question, answer = _read(rng) if number % 2 == 0 else _heard(rng)
        return Scenario(f"summaries/{split}/{number}", question, answer, seed=number)

    def verify(self, text: str, scenario: Scenario) -> float:
        given, due = set(sentences(text)), set(sentences(str(scenario.answer)))
        return 2 * len(given & due) / max(1, len(given) + len(due))

    def describe(self, trajectory: Any) -> Mapping[str, float]:
        return {}

    def label(self, trajectory: Any) -> str | None:
        """The answer itself."""
        return str(trajectory.answer).strip() or None

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 160}

    @property
    def lessons(self) -> Lessons:
        """Right answers, drawn without a look at the scenario."""

        def play(scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
            return [_lesson(*(_read(rng) if rng.random() < 0.8 else _heard(rng)))]

        return Lessons("to sum up episodes and to merge summaries", 120, play, prompts=16, schedule="cosine")


def _read(rng: np.random.Generator) -> tuple[str, str]:
    """An episode of somebody whose tastes are drawn, and its summary."""
    wants = cast(Wants, get_args(Wants)[int(rng.integers(len(get_args(Wants))))])
    careful, leaves, slip = rng.random() < 0.5, rng.random() < 0.8, rng.choice([0.0, 0.1, 0.3, 0.6])
    walker = Walker(wants, bool(careful), float(slip), bool(leaves))
    world = KeyRoom(length=LENGTH)
    # Seeds that no task of the room asks for: those are below 2**31.
    episodes = walked(world, walker, [2**31 + int(rng.integers(2**31))], rng)
    captions = world.captions
    log = Log(captions.about, tuple(episodes), captions.actions, captions.events)
    return CHUNK.format(transcript=transcript(episodes)), summary(log)


def _heard(rng: np.random.Generator) -> tuple[str, str]:
    """Some summaries of one agent, and what most of them say."""
    often = rng.choice([0.0, 0.2, 0.5, 0.8, 1.0], len(EVENTS))
    whole = rng.random() < 0.6  # Of single episodes, where nothing is but always or never.
    told = []
    for _ in range(int(rng.integers(1, FAN + 1))):
        words = [_word(rng, share, whole) for share in often]
        told.append("\n".join(Statement(event, how=how).text("") for event, how in zip(EVENTS, words, strict=True)))
    return MERGE.format(summaries="\n\n".join(told)), merged(told)


def _word(rng: np.random.Generator, share: float, whole: bool) -> str:
    yes, sure = rng.random() < share, whole or rng.random() < 0.5
    return ("always" if sure else "mostly") if yes else ("never" if sure else "seldom")


def _lesson(asked: str, said: str) -> Lesson:
    prompt: Message = {"role": "user", "content": asked}
    return Lesson((prompt,), ({"role": "assistant", "content": said},))


def from_settings(name: str, settings: Mapping[str, str]) -> Summaries:
    """The task, which has no settings."""
    from hocket.core.options import checked

    checked(name, settings, {})
    return Summaries()


SUMMARIES = TaskForm(
    name="summaries",
    description="what an agent's episodes show, and what several summaries of it say, in checked sentences",
    make=from_settings,
)

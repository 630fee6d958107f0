"""Long clips as records in words, which agents see through tools alone: what is done at two distant places?

A film is a clip of `hocket.zoo.tasks.clips`, longer, and never shown. The word that a question asks about is heard or
written, nobody knows which, at two scenes far apart: one call finds where, and one call more looks at each place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.options import checked
from hocket.stages import Split
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.split import split_of
from hocket.tasks.text import TextTask, check_number
from hocket.types import Scenario
from hocket.zoo.tasks.clips import DOES, TOOLS, WHO, Frame, given

CUES = tuple(word for words in TOOLS.values() for word in words)
"""What a question may ask about; each may be heard or written."""

STEP = re.compile(rf"\b(?:({'|'.join(TOOLS)}) ([a-z]+)|look (\d+))\b")
"""A call: `sounds bell` and `signs bell` search the film, `look 7` crops it to a scene."""


class Films(TextTask):
    """Questions without end on films: what is done at each of the two scenes where a word is heard or written.

    A scenario's metadata say the `clip`, a list of frames, the `cue` that is asked about, its `track` and `places`. The
    other track does not have it; both have another word besides.

    Args:
        scenes: of a film.
    """

    def __init__(self, scenes: int = 12) -> None:
        if not 6 <= scenes <= 99:
            raise ConfigurationError(f"films: scenes = {scenes} must lie in [6, 99]")
        self.name, self.scenes = "films", scenes

    def scenario(self, split: Split, number: int) -> Scenario:
        check_number(self.name, split, number)
        key, tries = Key.of(0).derive("films", self.scenes, split, number), 0
        while split_of(str((found := self._drawn(key.derive(tries), split, number)).metadata["clip"])) != split:
            tries += 1
        return found

    def _drawn(self, key: Key, split: Split, number: int) -> Scenario:
        rng = key.numpy()
        clip = [{"seen": f"{WHO[who]} {DOES[does]}"} for who, does in rng.integers((3, 6), size=(self.scenes, 2))]
        cue, *others = (CUES[place] for place in rng.permutation(len(CUES)).tolist())
        track = list(TOOLS)[int(rng.integers(len(TOOLS)))]
        first = int(rng.integers(self.scenes - self.scenes // 3))
        places = [first, int(rng.integers(first + self.scenes // 3, self.scenes))]
        for place in places:
            clip[place][track] = cue
        for other, word in zip(TOOLS, others, strict=False):
            free = [place for place in range(self.scenes) if other not in clip[place]]
            for place in rng.permutation(free)[:2].tolist():
                clip[place][other] = word
        told = {"clip": clip, "cue": cue, "track": track, "places": [place + 1 for place in places]}
        answer = " ".join(clip[place]["seen"].split()[1] for place in places)
        prompt = f"What is done at each {cue}?"
        return Scenario(f"films/{self.scenes}/{split}/{number}", prompt, answer, metadata=told, seed=number)

    def verify(self, text: str, scenario: Scenario) -> float:
        return float(given(text) == scenario.answer)

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 24}

    @property
    def lessons(self) -> Lessons:
        """Any search and any scene, a rest that is mostly where something was found, and answers that err."""
        return Lessons(
            "plans of any search and any scene, a rest that is a place found two times in three, answers of which one "
            "in four is guessed",
            0,
            self._lesson,
            talks=9,
            then=lambda recipe: {"steps": 30, "update.lr": 1e-3, "curriculum.prompts": 8, "evaluation.n": 100},
        )

    def _lesson(self, scenario: Scenario, rng: np.random.Generator) -> Sequence[Lesson]:
        """Three beginners and what they find."""
        clip, cue, question = scenario.metadata["clip"], scenario.metadata["cue"], str(scenario.prompt)
        agents, searches = 3, [f"{tool} {cue}" for tool in TOOLS]

        def anywhere() -> str:
            return f"look {rng.integers(1, self.scenes + 1)}"

        plans = [(searches[int(rng.integers(2))], anywhere()) for _ in range(agents)]
        said = [(plan_question(n + 1, agents, 2, question), "; ".join(plan)) for n, plan in enumerate(plans)]
        found = [carried_out(plan[0], clip, cue) for plan in plans]
        places = [f"look {place}" for one in found for place in one.places]
        for n, plan in enumerate(plans):
            informed = places and rng.random() < 2 / 3
            rest = places[int(rng.integers(len(places)))] if informed else anywhere()
            said.append((rest_question(n + 1, agents, question, found, plan[1:]), rest))
            plans[n] = (plan[0], rest)
        found += [carried_out(rest, clip, cue) for _, rest in plans]
        for _ in range(agents):
            known = known_acts(found)
            guess = [str(rng.choice(DOES)) for _ in range(2)]
            words = [act if act and rng.random() < 7 / 8 else other for act, other in zip(known, guess, strict=True)]
            said.append((answer_question(question, found), " ".join(words)))
        return [
            Lesson(({"role": "user", "content": asked},), ({"role": "assistant", "content": answer},))
            for asked, answer in said
        ]


# ---------------------------------------------------------------- tools


@dataclass(frozen=True)
class Seen:
    """What a call found.

    Attributes:
        step: the call as it was written. text: what was answered. legal: whether it could be carried out.
        places: scenes at which a search found its word, or the one looked at. bears: whether it is about the question:
            a search that found the word asked about, a look at a scene that has it.
    """

    step: str
    text: str
    legal: bool
    places: tuple[int, ...] = ()
    bears: bool = False

    @property
    def line(self) -> str:
        """As it stands in the memory."""
        return f"{self.step}: {self.text}"


def steps_of(text: str) -> list[str]:
    """The calls in a plan, in order."""
    return [one[0] for one in STEP.finditer(text.lower())]


def readable(text: str) -> bool:
    """Whether a plan is calls and nothing else, with a `;` between them or none."""
    return bool(steps_of(text)) and not STEP.sub("", text.lower()).replace(";", " ").strip()


def carried_out(step: str, clip: Sequence[Frame], cue: str) -> Seen:
    """What a call finds in a film whose question asks about `cue`."""
    found = STEP.fullmatch(step)
    if found is None:
        return Seen(step, "error", False)
    tool, word, number = found.groups()
    if number is not None:
        place = int(number)
        if not 1 <= place <= len(clip):
            return Seen(step, "error", False)
        frame = clip[place - 1]
        return Seen(step, frame["seen"], True, (place,), any(frame.get(track) == cue for track in TOOLS))
    places = tuple(place for place, frame in enumerate(clip, start=1) if frame.get(tool) == word)
    return Seen(step, " ".join(map(str, places)) or "none", True, places, word == cue and bool(places))


def known_acts(found: Sequence[Seen]) -> tuple[str | None, ...]:
    """What is done at the two places of a search, as far as they were looked at."""
    where = next((one.places for one in found if one.bears and not one.step.startswith("look")), ())
    seen = {one.places[0]: one.text.split()[1] for one in found if one.step.startswith("look") and one.legal}
    return tuple(seen.get(place) for place in where) if len(where) == 2 else (None, None)


# ---------------------------------------------------------------- what is told


def memory(found: Sequence[Seen]) -> str:
    """What calls found, each once: searches first, then scenes in the order of the film."""
    unique = {one.line: one for one in found}
    ranked = sorted(unique.values(), key=lambda one: (one.step.startswith("look"), one.places[:1], one.line))
    return "\n".join(one.line for one in ranked) or "nothing"


def plan_question(agent: int, agents: int, calls: int, question: str) -> str:
    """What an agent is asked for its plan."""
    return f"Agent {agent} of {agents}. {question}\nPlan {calls} calls: {' WORD, '.join(TOOLS)} WORD, look SCENE."


def rest_question(agent: int, agents: int, question: str, found: Sequence[Seen], rest: Sequence[str]) -> str:
    """What an agent is asked between two steps."""
    plan = "; ".join(rest) or "nothing"
    return f"Agent {agent} of {agents}. {question}\nFound:\n{memory(found)}\nPlan: {plan}\nThe rest of the plan?"


def answer_question(question: str, found: Sequence[Seen]) -> str:
    """What an agent is asked in the end."""
    return f"{question}\nFound:\n{memory(found)}\nAnswer?"


def from_settings(name: str, settings: Mapping[str, str]) -> Films:
    """The task with these settings."""
    return Films(**checked(name, settings, {"scenes": int}))


FILMS = TaskForm(
    name="films",
    description="questions on long films that are seen through tools alone, e.g. films?scenes=24",
    make=from_settings,
)

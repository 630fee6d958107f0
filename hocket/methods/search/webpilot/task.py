"""A crew on web pages as a task: pages one after the other, and lessons in all that `webpilot` asks a model.

The lessons are of training pages: an explorer's moves, half of them at random, and the words of the crew by a script,
as a judge is asked for them: the plan, the plan once a subtask failed, what came of a move, whether it completes the
subtask, grades of effect and future. A model taught so can be explorer and crew (`--judge RUN`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from hocket.agents.environments.solitary import PLAYER
from hocket.core.keys import Key
from hocket.methods.search.webpilot.prompts import PLAN, REFINE, Step
from hocket.methods.search.webpilot.world import NAMES, Wizard, Wizards, request
from hocket.rewards.judging import Answer, Judge, Question, grades, verdicts
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lesson, Lessons
from hocket.tasks.solitary import played
from hocket.types import Scenario

SUBMIT = "click Submit"
DEFAULT: Mapping[str, Any] = {"pages": 3, "links": 4, "names": 6, "dead": True, "limit": 12, "name": "page-crew"}
AGAIN = "Look again for "
"""How a subtask begins that takes the place of one that failed."""

STEPS = 2
"""Moves that are judged at each page of a lesson."""

SKILL = 0.5
"""How often a beginner makes the move that the subtask names; else any."""


@dataclass(frozen=True)
class PageCrew(EnvironmentTask):
    """Episodes on pages of links, of which the request names one each; all must be right."""

    @property
    def name(self) -> str:
        return self.workflow.world.name

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 24}

    @property
    def lessons(self) -> Lessons:
        return Lessons(
            "an explorer's moves, half of them at random, and the words of a crew: plans, refined plans, which moves "
            "complete a subtask, grades and reflections",
            240,
            partial(taught, self),
            talks=4,
            prompts=24,
            schedule="cosine",
        )


# ---------------------------------------------------------------- what is said, by a script


def planned(names: Sequence[str]) -> tuple[str, ...]:
    """A subtask for each name, and the last one."""
    return (*(f"Choose {name}" for name in names), SUBMIT)


def refined(parts: Sequence[str]) -> tuple[str, ...]:
    """What is left of a plan whose first subtask failed, which is put in other words."""
    return (AGAIN + parts[0].rpartition(" ")[2], *parts[1:])


@dataclass(frozen=True)
class Verdict:
    """What is to be said of a step: whether its subtask is complete, two grades up to 10, what came of each act."""

    done: bool
    effect: int
    future: int
    reflection: str


def verdict(step: Step) -> Verdict:
    """A subtask that names one thing is complete where the page went on; what changed nothing was wrong."""
    went_on, things = step.before != step.after, [acted.rpartition(" ")[2] for acted in step.acted]
    came = [f"{thing}, wrong" for thing in things[:-1]] + [f"{things[-1]}, {'right' if went_on else 'wrong'}"]
    done = went_on and step.part != step.task
    return Verdict(done, 10 if went_on else 0, 10 if done else 5, "; ".join(came))


# ---------------------------------------------------------------- lessons


def taught(task: PageCrew, scenario: Scenario, rng: np.random.Generator) -> list[Lesson]:
    """Of one episode in which every subtask is begun where the one before was completed; of up to a page more."""
    world = task.workflow.world
    assert isinstance(world, Wizards)
    wizard = replace(world, pages=int(rng.integers(1, world.pages + 2))).make(scenario)
    wizard.reset(Key.of(scenario.seed).derive("environment"))
    parts = planned(wizard.wanted)
    asked = [_planned(rng.choice(NAMES[: world.names], int(rng.integers(1, 5))).tolist()) for _ in range(3)]
    asked += [_planned(wizard.wanted), *(_refined(wizard.asked, parts, rng) for _ in range(2))]
    for place, right in enumerate(wizard.right):
        asked.append(_explored(task, wizard, _part(wizard, place, rng), right, rng))
        for _ in range(STEPS):
            step = _step(wizard, _part(wizard, place, rng), wizard.wanted[place], rng)
            asked.append((step.reflect, verdict(step).reflection))
            asked += [_graded(step, rng)] if rng.random() < 0.7 else []
        wizard.act({PLAYER: f"click {right + 1}"})
    return [
        Lesson(({"role": "user", "content": question},), ({"role": "assistant", "content": answer},))
        for question, answer in asked
    ]


def _planned(names: Sequence[str]) -> tuple[str, str]:
    """The plan for a request, of which the words alone count."""
    return PLAN.format(task=request(names)), "\n".join(planned(names))


def _part(wizard: Wizard, place: int, rng: np.random.Generator) -> str:
    """The subtask of a page, now and then in other words, or all that is asked."""
    name, draw = wizard.wanted[place], rng.random()
    return wizard.asked if draw < 0.1 else AGAIN + name if draw < 0.35 else f"Choose {name}"


def _refined(asked: str, parts: Sequence[str], rng: np.random.Generator) -> tuple[str, str]:
    """A plan is refined at some subtask that names a thing, which may have failed before."""
    left = parts[int(rng.integers(len(parts) - 1)) :]
    left = refined(left) if rng.random() < 0.3 else left
    name = left[0].rpartition(" ")[2]
    others = [one for one in NAMES[:6] if one != name]
    tried = [f"link {one} ({one}, wrong)" for one in rng.permutation(others)[: int(rng.integers(4))].tolist()]
    return REFINE.format(task=asked, parts="\n".join(left), tried="\n".join(tried) or "nothing"), "\n".join(
        refined(left)
    )


def _explored(task: PageCrew, wizard: Wizard, part: str, right: int, rng: np.random.Generator) -> tuple[str, str]:
    """An explorer's move, where some others were tried before."""
    names = wizard.names[wizard.page]
    wrong = [place for place in range(len(names)) if place != right]
    tried = rng.permutation(wrong)[: int(rng.integers(3))].tolist()
    left = [place for place in range(len(names)) if place not in tried]
    place = right if rng.random() < SKILL else left[int(rng.integers(len(left)))]
    lines = [task.workflow.question(wizard.observe(PLAYER), True)]
    lines += [f"Now: {part}"] if part != wizard.asked else []
    told = "; ".join(f"click {one + 1} ({names[one]}, wrong)" for one in tried)
    lines += [f"Tried: {told}"] if told else []
    return "\n".join(lines), f"click {place + 1}"


def _step(wizard: Wizard, part: str, name: str, rng: np.random.Generator) -> Step:
    """Some acts from a page on, every other one on what the subtask names where that is listed."""
    here, acted, before = wizard.clone(), list[str](), ""
    for _ in range(int(rng.choice([1, 2, 3], p=[0.6, 0.25, 0.15]))):
        if here.page != wizard.page:
            break
        before, place = here.observe(PLAYER).text, _place(here, name, rng)
        acted.append(f"link {here.names[here.page][place]}")
        here.act({PLAYER: f"click {place + 1}"})
    coming = "button Submit"
    if here.page < len(here.names):
        coming = f"link {here.names[here.page][_place(here, name, rng)]}"
    return Step(wizard.asked, part, tuple(acted), before, here.observe(PLAYER).text, coming)


def _place(wizard: Wizard, name: str, rng: np.random.Generator) -> int:
    names = wizard.names[wizard.page]
    return names.index(name) if name in names and rng.random() < 0.5 else int(rng.integers(len(names)))


# ---------------------------------------------------------------- as a judge is asked


class _Heard(Judge):
    """Keeps what it is asked, so that a lesson has the words of the question."""

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        self.prompts = [one.prompt for one in questions]
        return [Answer("") for _ in questions]


def _graded(step: Step, rng: np.random.Generator) -> tuple[str, str]:
    """One of the questions that follow the reflection."""
    due, heard = verdict(step), _Heard("heard")
    done, effect, future = step.asked(due.reflection)
    draw = rng.random()
    if draw < 0.5:
        verdicts(heard, [done])
        return heard.prompts[0], "yes" if due.done else "no"
    grades(heard, [effect if draw < 0.75 else future])
    return heard.prompts[0], str(due.effect if draw < 0.75 else due.future)


# ---------------------------------------------------------------- by name


def from_settings(name: str, settings: Mapping[str, str]) -> PageCrew:
    """The task with settings of the world and of how it is played."""
    return PageCrew(
        played(name, settings, partial(Wizards, **DEFAULT), {"pages": int, "links": int, "names": int, "limit": int})
    )


PAGE_CREW = TaskForm(
    name="page-crew",
    description="pages one after the other, and lessons for the crew that judges moves there, e.g. page-crew?pages=4",
    make=from_settings,
)

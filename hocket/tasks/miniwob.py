"""Pages of the web as a task, in words and in a real browser."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from hocket.agents.environments.miniwob import Browsing, MiniWoB
from hocket.agents.environments.protocol import Environment
from hocket.tasks.environment import EnvironmentTask
from hocket.tasks.form import TaskForm
from hocket.tasks.lessons import Lessons, either, episode
from hocket.tasks.solitary import played


class PageTask(EnvironmentTask):
    """Episodes on one kind of page; success is the page's own reward, where it is above 0."""

    def suggest(self, recipe: Any) -> Mapping[str, Any]:
        return {**super().suggest(recipe), "decoding.max_tokens": 24}

    @property
    def lessons(self) -> Lessons:
        """The form of a move, at random, and one time in four what is named like something in the request."""
        return Lessons(
            "the form of a move: three in four at random, else on what is named in the request",
            40,
            lambda scenario, rng: episode(self.workflow, scenario, either(SKILL, named), rng),
            talks=1 if self.workflow.memory else 4,
            then=lambda recipe: THEN,
        )


SKILL = 0.25
"""How often a beginner moves where the request points; else anywhere."""

THEN = {"steps": 40, "curriculum.prompts": 16, "rollout.samples": 8, "update.lr": 5e-4, "evaluation.n": 100}
"""Settings for training after the lessons."""


def named(environment: Environment, seat: str, rng: np.random.Generator) -> str:
    """Clicks what has most words of the request, one of those that have, or types what the request quotes."""
    assert isinstance(environment, Browsing)
    words = set(_words(environment.asked))
    shares = [len(words & set(_words(element))) for element in environment.elements]
    best = [place for place, share in enumerate(shares) if share == max(shares)]
    legal = environment.observe(seat).actions or ()
    typed = [move for move in legal if move.startswith("type ")]
    choices = [*(f"click {place + 1}" for place in best), *typed]
    return choices[int(rng.integers(len(choices)))]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


SETTINGS = {"root": str, "limit": int, "concurrent": int}


def from_settings(name: str, settings: Mapping[str, str]) -> PageTask:
    """The task with settings of the world and of how it is played."""
    return PageTask(played(name, settings, partial(MiniWoB, name.partition(":")[2]), SETTINGS))


MINIWOB = TaskForm(
    name="miniwob:PAGE",
    description="a page of the web in words, in headless Chromium, e.g. miniwob:click-button",
    family="packages",
    make=from_settings,
)

"""Squads whose soldiers, and whose author of skills, are the shipped small model after lessons.

The task is `battle:3v3?brief=true`, the command `hocket optimise --task "battle:3v3?brief=true&skills=hold+retreat"
--searcher compass-smac`. A course is the lessons with one seed; each is given once and serves every claim here.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from hocket import tasks
from hocket.agents.environments.protocol import Observation
from hocket.agents.search.searcher import Trial
from hocket.agents.workflows.chat import Chat
from hocket.core.keys import Key
from hocket.core.texts import Texts
from hocket.engine.requests import Request
from hocket.methods.search.compass_smac.battle_skills import SKILLS
from hocket.methods.search.compass_smac.world import Battles, carry_out
from hocket.rewards.judging import said
from hocket.train.judges import judge_of
from hocket.train.optimise.run import SearchRun, SearchSettings
from hocket.train.optimise.target import ModelTarget, fingerprint, model_target
from hocket.train.optimise.teaching import lessons_for, taught
from hocket.types import Message, Scenario

TASK = "battle:3v3?brief=true"
UNSEEN = range(1, 201, 2)
"""Seeds of the evaluation split's first battles."""


@functools.cache
def schooled(course: int) -> str:
    """The shipped model after the lessons with this seed."""
    lessons = lessons_for(tasks.find(TASK), "compass-smac")
    folder = Path(_place().name) / str(course)
    return taught(lessons, "nano", lessons.lessons.steps, (("seed", course),), folder, lambda said: None)


@functools.cache
def _place() -> tempfile.TemporaryDirectory[str]:
    """Where taught models lie until the process ends."""
    return tempfile.TemporaryDirectory()


@functools.cache
def squad(course: int) -> ModelTarget:
    """Soldiers with these lessons."""
    return model_target(tasks.find(TASK), schooled(course), None, [])


Choices = Callable[[Sequence[Observation]], Sequence[str]]
"""What soldiers of several battles choose, all asked at once: a skill's name for each observation."""


def led(
    choose: Choices, skills: Mapping[str, str] = SKILLS, *, hops: int = 2, seeds: Sequence[int] = UNSEEN
) -> list[bool]:
    """Which battles are won by these choices; they are fought side by side."""
    world = cast(Battles, tasks.find(TASK).workflow.world)  # type: ignore[attr-defined]
    world = replace(world, skills=skills, ground=replace(world.ground, hops=hops))
    battles = []
    for seed in seeds:
        battle = world.make(Scenario("battle"))
        battle.reset(Key.of(seed).derive("environment"))
        battles.append(battle)
    while left := [battle for battle in battles if battle.acting]:
        said = iter(choose([battle.observe(agent) for battle in left for agent in battle.acting]))
        carry_out(left, [{agent: next(said) for agent in battle.acting} for battle in left])
    return [battle.won for battle in battles]


def always(skill: str) -> Choices:
    """One skill, whatever is seen."""
    return lambda seen: [skill] * len(seen)


def by_chance(seed: int = 0) -> Choices:
    """Any skill, each as likely."""
    draw = Key.of(seed).derive("by chance").numpy()
    return lambda seen: [(one.actions or ("",))[int(draw.integers(len(one.actions or ("",))))] for one in seen]


def of_model(target: ModelTarget, told: Mapping[str, str] | None = None) -> Choices:
    """The model's greedy choices; `told` are skills whose purpose stands in its prompt."""
    system = Texts(skills=told).system("soldier_1") if told else None
    actor, flow, known = next(iter(target.player.actors.values())), cast(Any, target.player.workflow), dict[str, str]()
    chat, greedy = cast(Chat, actor.chat), replace(target.config.decoding, temperature=0.0)
    first: list[Message] = [{"role": "system", "content": system}] if system else []

    def chosen(seen: Sequence[Observation]) -> list[str]:
        new = sorted({one.told() for one in seen} - set(known))
        asked = [Request(chat.opening([*first, {"role": "user", "content": one}]), greedy, Key.of(0)) for one in new]
        for one, sample in zip(new, cast(Any, actor.engine).sample(asked) if asked else [], strict=True):
            known[one] = chat.reply_text(sample.tokens.tolist())
        return [flow.read(known[one.told()], one) for one in seen]

    return chosen


@dataclass(frozen=True)
class Authored:
    """What a search for skills came to.

    Attributes:
        trials: every library, the start first. best: the best of them. refused: why programs did not enter.
        same: whether the weights stayed as they were.
    """

    trials: Sequence[Trial]
    best: Trial
    refused: Sequence[str]
    same: bool


@functools.cache
def authored(course: int, skills: str, *, untaught: bool = False, development: int = 16) -> Authored:
    """A search by a taught model, which plays and writes, as `hocket optimise` does it; by an `untaught` author."""
    with tempfile.TemporaryDirectory() as place:
        model = schooled(course)
        task = f"{TASK}&skills={skills}"
        sizes: dict[str, Any] = {"budget": 4000, "practice": 8, "development": development, "evaluation": 1}
        run = SearchRun(SearchSettings(task, "compass-smac", model=model, lessons=0, **sizes), Path(place) / "search")
        if untaught:
            judge = judge_of(replace(run.target.config, judge="nano"), None)
            assert judge is not None
            run.bench.reflect = lambda question: said(judge, [question])[0] or "nothing"
        before = fingerprint(run.target.policies)
        run.run()
        same = fingerprint(run.target.policies) == before
        return Authored(tuple(run.bench.trials), run.bench.best, tuple(run.bench.refused), same)

"""A few pages of the same four parts on which every move is one word, for agents on screens that are tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from hocket.agents.workflows.environment import PlayEnvironment
from hocket.agents.workflows.episode import Limits
from hocket.core.keys import Key
from hocket.lab.talk import Prior, TalkBench
from hocket.recipe import Recipe
from hocket.rewards.moves import PLAN
from hocket.types import Message, Scenario
from hocket.zoo.screens import SEAT, OnScreen, Part, Screen, ScreenGoal, Screens

PARTS: tuple[Part, ...] = ("button", "field", "label", "button")
TEXTS = ("", "", "58", "")
THINGS = (
    ScreenGoal("press 1", "click 1"),
    ScreenGoal("press 4", "click 4"),
    ScreenGoal("write 17 in 2", "type 2 17"),
    ScreenGoal("write 48 in 2", "type 2 48"),
    ScreenGoal("read 3", "say 58"),
)
"""What may be asked for."""

BACKS = ("1 back", "2 back", "3 back", "4 back")
"""What a table sees of wrong pages."""

CLICKS = ("click 1", "click 2", "click 3", "click 4")
WORDS = (*CLICKS, "type 2 17", "type 2 48", "type 4 17", "say 17", "say 58", "type 2 58", "hm", "do it")
"""The vocabulary: the right moves, wrong ones, and two that are none."""


STRICT = Screens()
"""A wrong move changes nothing, and there is none to spare."""


def page(number: int, longest: int = 4) -> Screen:
    """A page with 1 to `longest` things to do, each number as often."""
    rng = Key.of(number).derive("page").numpy()
    wanted = tuple(THINGS[int(thing)] for thing in rng.integers(0, len(THINGS), 1 + number % longest))
    return Screen(PARTS, TEXTS, wanted)


@dataclass(frozen=True)
class Few:
    """The pages as a world; `rules` say what a wrong move does and how many there may be."""

    rules: Screens = STRICT
    name: str = "few"
    agents: tuple[str, ...] = (SEAT,)

    def make(self, scenario: Scenario) -> OnScreen:
        metadata = scenario.metadata
        return OnScreen(page(int(metadata["screen"])), self.rules, metadata.get("step"))


def asked(count: int = 24) -> list[Scenario]:
    """The first pages as scenarios."""
    return [
        Scenario(
            f"page {number}", page(number).told(), metadata={"screen": number, PLAN: page(number).plan}, seed=number
        )
        for number in range(count)
    ]


def seen(messages: tuple[Message, ...]) -> str:
    """What a table sees of a page: the way back where there is one, else what is asked for next."""
    request, *parts = str(messages[-1]["content"]).split("\n")
    back = [part for part in parts if part.endswith(" back")]
    return back[0] if back else next(step for step in request.split("; ") if not step.startswith("x "))


def bench(
    recipe: Recipe,
    seed: int = 0,
    rules: Screens = STRICT,
    prior: Prior | Mapping[str, Prior] | None = None,
    **how: Any,
) -> TalkBench:
    """A table on the pages, four of them in a step unless `how` says otherwise."""
    flow = PlayEnvironment(Few(rules), memory=False, instruct=False)
    settings = {"lr": 0.3, "prompts": 4, "limits": Limits(turns=None), **how}
    return TalkBench(flow, asked(), WORDS, recipe, view=seen, prior=prior, seed=seed, **settings)


def chance(made: TalkBench, rules: Screens = STRICT, count: int = 24) -> float:
    """The exact chance to do all that is asked in time, the mean over pages and places of ways back."""
    (policy,) = made.policies.values()
    of = {request: policy.probabilities(request).tolist() for request in (*(thing.asked for thing in THINGS), *BACKS)}
    return fmean(_chance(page(number), of, rules) for number in range(count))


def _chance(screen: Screen, of: Mapping[str, Sequence[float]], rules: Screens) -> float:
    size = len(CLICKS)

    @cache
    def follow(done: int, left: int, place: int | None) -> float:
        """From `done` things with `left` moves; `place` is the way back where the page is wrong."""
        if done == len(screen.wanted):
            return 1.0
        if left == 0:
            return 0.0
        request, move = (BACKS[place], CLICKS[place]) if place is not None else _pair(screen.wanted[done])
        right = of[request][WORDS.index(move)]
        strays = rules.strays and place is None
        wrong = sum(of[request][WORDS.index(click)] for click in CLICKS if click != move) if strays else 0.0
        slip = rules.slip * (place is None)
        off = fmean(follow(done, left - 1, back) for back in range(size)) if wrong or slip else 0.0
        on = (1 - slip) * follow(done + (place is None), left - 1, None) + slip * off
        return right * on + wrong * off + (1 - right - wrong) * follow(done, left - 1, place)

    most = len(screen.wanted) + rules.spare
    return fmean(follow(0, most, place) for place in range(size)) if rules.lost else follow(0, most, None)


def _pair(thing: ScreenGoal) -> tuple[str, str]:
    return thing.asked, thing.move

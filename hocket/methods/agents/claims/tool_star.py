"""What tool-star claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench
from hocket.lab.toys.rewarded import line
from hocket.lab.toys.tool_reasoning import earned, shown
from hocket.lab.toys.turn_toys import SEEDS
from hocket.methods.agents.tool_star import TOOL_STAR, TOOL_STAR_RL
from hocket.rewards.tool_answer import ToolAnswer
from hocket.tools.protocol import Tool
from hocket.types import Message, Scenario
from hocket.workflows.tool_use import ToolUse

claim = Claims("tool-star", "re_search.py of the authors' code")


CALLS = {kind: f'<tool_call>{{"name": "{kind}", "arguments": {{}}}}</tool_call>' for kind in ("search", "python")}


def reward() -> ToolAnswer:
    found = TOOL_STAR.rewards[0]
    assert isinstance(found, ToolAnswer)
    return found


@claim("Rewards are -1, 0, s or s + 0.1, the last only for s > 0 and both kinds of tools.")
def every_value() -> Finding:
    """All orders of up to three calls, four answers, with and without a broken tag."""
    answers = {"red fox": 1.0, "red": 2 / 3, "red blue green": 0.4, "owl": 0.0}
    wrong, counted, values = [], 0, set()
    for length in range(4):
        for calls in itertools.product((*CALLS, "other"), repeat=length):
            said = [CALLS.get(kind, '<tool_call>{"name": "other"}</tool_call>') for kind in calls]
            for (answer, s), broken in itertools.product(answers.items(), (False, True)):
                last = f"<answer>{answer}" if broken else f"<think>hm</think><answer>{answer}</answer>"
                paid = s > 0 and {"search", "python"} <= set(calls)
                wanted = -1.0 if broken else s + 0.1 * paid
                found = earned(reward(), [*said, last], answer="red fox")
                counted += 1
                if found is None or abs(found - wanted) > 1e-12:
                    wrong.append((calls, answer, found))
                values.add(round(found or 0.0, 6))
    exact = {earned(reward(), [*use, end]) for use in ([], list(CALLS.values())) for end in ENDS}
    return Finding(
        not wrong and exact == {-1.0, 0.0, 1.0, 1.1},
        f"{counted} attempts: values {sorted(values)}, s in {sorted(answers.values())}, {len(wrong)} not -1, s or "
        f"s + 0.1 as they should be; where only equal answers count {sorted(exact, key=lambda one: one or 0.0)}",
    )


ENDS = ("<answer>7</answer>", "<answer>8</answer>", "7")


STEPS, LONGER, EVERY = 40, 90, 5
WORDS = (*(f"<answer>{digit}</answer>" for digit in range(4)), "well", *CALLS.values())
EASY = [Scenario(f"easy {n}", f"what is {n}", str(n)) for n in range(2)]
HARD = [
    Scenario(f"order {price}.{n}", "what does the order cost", str((price + (n == 3)) % 4), metadata={"price": price})
    for price in (1, 3)
    for n in range(4)
]
"""Who knows the price alone guesses the cost in three orders of four."""


class Lookup:
    """Tells the price."""

    name = "search"
    schema: Mapping[str, Any] = {}

    def __init__(self, scenario: Scenario) -> None:
        self.price = scenario.metadata.get("price")
        self.asked = False

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        self.asked = True
        return f"price {self.price}"


class Reckoner:
    """Tells the cost once the price is known."""

    name = "python"
    schema: Mapping[str, Any] = {}

    def __init__(self, scenario: Scenario, source: Lookup) -> None:
        self.scenario, self.source = scenario, source

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        return f"cost {self.scenario.answer}" if self.source.asked else "error: the price is not known"


def tools(scenario: Scenario, key: Key) -> Sequence[Tool]:
    source = Lookup(scenario)
    return source, Reckoner(scenario, source)


def view(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """The question, and what tools said."""
    return (str(messages[0]["content"]), *(str(one["content"]) for one in messages if one["role"] == "tool"))


@cache
def trained(kind: str, seed: int) -> TalkBench:
    """With the bonus or without it, by turns with DPO, or from a start that tries many calls on easy questions."""
    return bench(kind, seed).run(LONGER if "curious" in kind else STEPS)


def bench(kind: str, seed: int) -> TalkBench:
    recipe = TOOL_STAR if kind == "by turns" else TOOL_STAR_RL
    if kind == "by turns":
        recipe = recipe.but({"credit.every": EVERY, "objective.every": EVERY})
    if "no bonus" in kind:
        recipe = recipe.but({"rewards.0.bonus": 0.0})
    curious = 0.35 if "curious" in kind else 0.01

    def start(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        asked, *told = view(messages)
        known = told[-1].split()[-1] if told and told[-1].startswith(("price", "cost")) else None
        if asked != HARD[0].prompt:
            known = asked.split()[-1]
        calls = curious if asked != HARD[0].prompt else 0.1
        chance = dict.fromkeys(WORDS, 0.04) | dict.fromkeys(CALLS.values(), calls)
        if known is not None:
            chance[f"<answer>{known}</answer>"] = 0.8
        return {word: math.log(part) for word, part in chance.items()}

    flow = ToolUse(tools, turns=4, listed=False)
    asked = EASY if "curious" in kind else [*EASY, *HARD]
    return TalkBench(flow, asked, WORDS, recipe, view=view, prior=start, seed=seed, lr=0.1)


def habits(made: TalkBench) -> tuple[float, float, float, float]:
    """Exactly: right orders reached with both tools, right orders; calls and right answers of easy questions."""
    found = [0.0] * 4
    for scenario in made.scenarios:
        for chance, played in made.outcomes(scenario):
            used = {call["name"] for call in played.info["calls"]}
            right = played.text == f"<answer>{scenario.answer}</answer>"
            if scenario in EASY:
                found[2] += chance * played.info["tool_calls"] / len(EASY)
                found[3] += chance * right / len(EASY)
            else:
                found[0] += chance * (right and len(used) == 2) / len(HARD)
                found[1] += chance * right / len(HARD)
    return found[0], found[1], found[2], found[3]


@claim(
    "The bonus raises two-tool answers where both tools are needed, and no calls where none is and hardly any "
    "are tried.",
    "arXiv:2505.16410; the condition is ours",
    slow=True,
)
def bonus_raises_two_tool_answers() -> Finding:
    before = habits(bench("bonus", 0))
    paid, plain = ([habits(trained(kind, seed)) for seed in SEEDS] for kind in ("bonus", "no bonus"))
    gains = [one[0] - other[0] for one, other in zip(paid, plain, strict=True)]
    return Finding(
        min(gains) > 0.1 and fmean(gains) > 0.25 and max(one[2] for one in paid) < before[2],
        f"{STEPS} steps, 5 seeds: orders answered right with both tools, from {before[0]:.2f}: "
        f"{shown(one[0] for one in paid)} with the bonus, {shown(one[0] for one in plain)} without; calls per easy "
        f"question, each tried once in a hundred: {shown(one[2] for one in paid)} and "
        f"{shown(one[2] for one in plain)}",
    )


@claim(
    "Where needless calls are tried, the bonus keeps or raises them, which fall without it.",
    "derived; the catalogue claims the contrary",
    slow=True,
)
def bonus_pays_for_needless_calls() -> Finding:
    before = habits(bench("curious", 0))[2]
    paid, plain = ([habits(trained(kind, seed))[2] for seed in SEEDS] for kind in ("curious", "curious, no bonus"))
    return Finding(
        min(a - b for a, b in zip(paid, plain, strict=True)) > 0 and fmean(paid) > max(0.5, 4 * max(plain)),
        f"{LONGER} steps on easy questions alone, 5 seeds, from {before:.2f} calls each: {shown(paid)} with the bonus, "
        f"{shown(plain)} without",
    )


@claim("RL and DPO by turns do not fall below RL alone.", "arXiv:2505.16410", slow=True)
def rounds_are_no_worse() -> Finding:
    def earns(kind: str) -> list[float]:
        found = [habits(trained(kind, seed)) for seed in SEEDS]
        return [(len(HARD) * (one[1] + 0.1 * one[0]) + len(EASY) * one[3]) / (len(HARD) + len(EASY)) for one in found]

    alone, mixed = earns("bonus"), earns("by turns")
    return Finding(
        fmean(mixed) > fmean(alone) - 0.01 and min(mixed) > min(alone) - 0.03,
        f"score and bonus per question after {STEPS} steps: RL alone {line(alone)}; {3 * EVERY} steps of RL and "
        f"{EVERY} of DPO by turns {line(mixed)}, 5 seeds",
    )

"""What tapo-tool claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from hocket.core.keys import Key
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.talk import TalkBench
from hocket.lab.toys.tool_reasoning import earned, shown
from hocket.lab.toys.turn_toys import SEEDS, episode, seen, worst
from hocket.methods.agents.tapo_tool import TAPO_TOOL, AccuracySampling
from hocket.methods.base.dapo import DAPO
from hocket.rewards.tool_answer import ToolAnswer
from hocket.rollout.dynamic import DynamicSampling, has_signal
from hocket.tools.calculator import calculator
from hocket.tools.protocol import Tool
from hocket.types import Message, Scenario
from hocket.workflows.tool_use import ToolUse

claim = Claims("tapo-tool", "repository Goer17/TAPO")


def batches(key: Key, *, drift: float) -> list[dict[str, Any]]:
    """Three groups of four answers of one turn whose log-ratios to the sampler have deviation `drift`."""
    rng, rows = key.numpy(), []
    for group in range(3):
        for _ in range(4):
            row = episode(f"g{group}", float(rng.integers(-1, 2)), [{"tokens": [0] * int(rng.integers(1, 6))}])
            row["logp"] = rng.normal(-2.0, 0.5, len(row["tokens"])).tolist()
            row["logp_behaviour"] = (rng.normal(0.0, drift, len(row["tokens"])) + row["logp"]).tolist()
            rows.append(row)
    return rows


@claim("Without a call the loss is DAPO's; only the dual clip at 10 differs, far off policy.")
def without_calls_it_is_dapo() -> Finding:
    plain = DAPO.but({"shaping": TAPO_TOOL.shaping})
    gap, bounded, cut, checked = 0.0, 0.0, 0, 0
    for number in range(20):
        rows = batches(Key.of(number), drift=0.5)
        ours, theirs = seen(TAPO_TOOL, rows), seen(plain, rows)
        gap = max(gap, abs(ours["loss"] - theirs["loss"]), worst(ours["gradient"], theirs["gradient"]))
        rows = batches(Key.of(number), drift=2.5)
        ours, theirs = seen(TAPO_TOOL, rows), seen(plain, rows)
        for row, mine, other, advantage in zip(
            rows, ours["gradient"], theirs["gradient"], ours["advantages"], strict=True
        ):
            for now, old, a, b, worth in zip(row["logp"], row["logp_behaviour"], mine, other, advantage, strict=True):
                checked += 1
                beyond = worth < 0 and math.exp(now - old) > 10
                cut += beyond and a == 0 and abs(b) > 0.01
                bounded = max(bounded, abs(a) if beyond else abs(a - b))
    return Finding(
        gap == 0 and bounded == 0 and cut > 3,
        f"20 batches of answers in one turn: loss and gradient differ by {gap:.1e}; far off policy ({checked} "
        f"decisions) only {cut} of ratio above 10 and negative advantage differ, without gradient under the dual "
        f"clip",
    )


@claim("Log-probs of tool output change no gradient: it is no decision.")
def tool_output_has_no_gradient() -> Finding:
    """Tool tokens listed as context: whatever their log-probs, nothing changes."""
    moved, own, different = 0.0, 0.0, 0.0
    for number in range(20):
        rng, rows, bare = Key.of(number).numpy(), [], []
        for sample in range(4):
            said = [int(rng.integers(1, 4)), int(rng.integers(1, 4))]
            read = int(rng.integers(1, 4))
            size = said[0] + read + said[1]
            trained = [True] * said[0] + [False] * read + [True] * said[1]
            logp = rng.normal(-2.0, 0.5, size).tolist()
            old = (rng.normal(0.0, 0.5, size) + logp).tolist()
            row = {"group": "g", "scores": {"reward": float(sample % 2)}, "logp": logp, "logp_behaviour": old}
            rows.append({**row, "trained": trained})
            kept = {name: [x for x, used in zip(row[name], trained, strict=True) if used] for name in LOGS}
            bare.append({**row, **kept})
        found, only = seen(TAPO_TOOL, rows), seen(TAPO_TOOL, bare)
        shifted = []
        for row in rows:
            noise = rng.normal(0.0, 5.0, len(row["logp"]))
            logp = [x + (0.0 if used else y) for x, y, used in zip(row["logp"], noise, row["trained"], strict=True)]
            shifted.append({**row, "logp": logp})
        again = seen(TAPO_TOOL, shifted)
        moved = max(moved, worst(found["gradient"], again["gradient"]), abs(found["loss"] - again["loss"]))
        for row, slope, alone in zip(rows, found["gradient"], only["gradient"], strict=True):
            own = max(own, *(abs(x) for x, used in zip(slope, row["trained"], strict=True) if not used))
            different = max(different, worst([x for x, used in zip(slope, row["trained"], strict=True) if used], alone))
    recorded = calls_are_decisions_and_answers_are_not()
    return Finding(
        moved == 0 and own == 0 and different == 0 and recorded is None,
        f"20 batches: new log-probs of tool output move loss and gradient by {moved:.1e}, its own gradient is "
        f"{own:.1e}, and leaving it out changes the rest by {different:.1e}; "
        f"{recorded or 'a recorded episode has none of it'}",
    )


LOGS = ("logp", "logp_behaviour")


def calls_are_decisions_and_answers_are_not() -> str | None:
    """What is wrong with the decisions of recorded episodes that called; None if they are the policy's words alone."""
    made = bench("tools", 0)
    result = made.step()
    called = [one for one in result.trajectories if one.info["tool_calls"]]
    words = len(result.trajectories) + sum(one.info["tool_calls"] for one in result.trajectories)
    assert result.batch is not None
    if not called:
        return "nothing was called"
    return None if result.batch.decisions == words else f"{result.batch.decisions} decisions for {words} words"


FORMS = {
    "<answer>7</answer>": 1.0,
    "<think>hm</think> so <answer> 7.0 </answer>\n": 1.0,
    "<answer>8</answer>": 0.0,
    "7": -1.0,
    "<answer>7": -1.0,
    "<answer>7</answer> or so": -1.0,
    "<think>hm<answer>7</answer>": -1.0,
    "<think>hm</answer><answer>7</answer>": -1.0,
    "<tool_call>{}</tool_call>": -1.0,
}
GRADED = {
    ("exact", "twelve", "12"): 1.0,
    ("exact", "1,200", "1200"): 1.0,
    ("fact", "the city of Paris", "paris"): 1.0,
    ("fact", "pairs", "paris"): 0.6,
    ("fact", "rome", "paris"): 0.0,
    ("near", "0.3334", "0.333333"): 1.0,
    ("near", "0.34", "0.333333"): 0.0,
    ("near", "no idea", "1"): 0.0,
    ("nearly", "104", "100"): 1.0,
    ("nearly", "106", "100"): 0.0,
}


@claim("Broken tags earn -1, else the answer its grade, however many calls.", "tool_dapo.py of repository Goer17/TAPO")
def rewards_are_the_table() -> Finding:
    reward = TAPO_TOOL.rewards[0]
    assert isinstance(reward, ToolAnswer)
    wrong = [text for text, worth in FORMS.items() if earned(reward, [text]) != worth]
    call = '<tool_call>{"name": "calculator", "arguments": {"expression": "3 + 4"}}</tool_call>'
    after = [earned(reward, [call] * calls + ["<answer>7</answer>"]) for calls in range(5)]
    cut = earned(reward, [call, "<think>so", "</think><answer>7</answer>"])
    odd = [
        given
        for (grade, given, known), worth in GRADED.items()
        if abs(reward.graded(given, known, grade) - worth) > 1e-12
    ]
    return Finding(
        not wrong and not odd and after == [1.0] * 5 and cut == -1.0,
        f"{len(FORMS)} forms and {len(GRADED)} graded answers earn what they should, but for {wrong + odd or 'none'}; "
        f"a right answer after 0 to 4 calls earns {after}",
    )


CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "the question"}}</tool_call>'
DIGITS = tuple(f"<answer>{digit}</answer>" for digit in range(4))
RAW = "well"
WORDS = (*DIGITS, RAW, CALL)
SHORT = [Scenario(f"short {n}", f"1 + {n}", str(1 + n)) for n in range(2)]
LONG = [Scenario(f"long {n}", f"{37 + n} * 489 - {(37 + n) * 489 - n % 4}", str(n % 4)) for n in range(4)]
STEPS, LONGER, BONUS = 25, 45, 0.25


class OfTheQuestion:
    """A calculator that is told to work out the question."""

    name = "calculator"
    schema: Mapping[str, Any] = {}

    def __init__(self, question: str) -> None:
        self.question = question

    async def __call__(self, arguments: Mapping[str, Any]) -> str:
        return calculator(self.question)


def tools(scenario: Scenario, key: Key) -> Sequence[Tool]:
    return (OfTheQuestion(str(scenario.prompt)),)


def view(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """A long sum looks like any other; of a conversation with the tool, the last result and how many there were."""
    results = [str(message["content"]) for message in messages if message["role"] == "tool"]
    question = str(messages[0]["content"])
    kind = "long" if "*" in question else question
    return ("told", results[-1], str(len(results)), "long" if kind == "long" else "short") if results else (kind,)


def start(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
    """Short sums are known, results are repeated, both with some doubt; a call is tried one time in twelve."""
    kind = view(messages)
    known = None if kind == ("long",) else kind[1] if kind[0] == "told" else calculator(kind[0])
    chance = {word: 0.8 if word == f"<answer>{known}</answer>" else 0.04 for word in DIGITS}
    if known is None:
        chance = dict.fromkeys(DIGITS, 0.2)
    chance |= {RAW: 0.04 if known is not None else 0.1, CALL: 0.08}
    return {word: math.log(chance[word]) for word in WORDS}


@cache
def trained(kind: str, seed: int) -> TalkBench:
    return bench(kind, seed).run(LONGER if kind == "bonus" else STEPS)


def bench(kind: str, seed: int) -> TalkBench:
    """With tools, without, or with a bonus for every call that works."""
    flow = ToolUse(tools, turns=4, listed=False, call_reward=BONUS if "bonus" in kind else 0.0)
    words = WORDS if kind != "no tools" else WORDS[:-1]

    def begin(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        return {word: logit for word, logit in start(messages, said).items() if word in words}

    recipe = TAPO_TOOL
    if kind == "bonus":
        recipe = recipe.but({"rollout": DynamicSampling(samples=8, max_rounds=3)})
    return TalkBench(flow, [*SHORT, *LONG], words, recipe, view=view, prior=begin, seed=seed, lr=0.1)


@dataclass(frozen=True)
class Habits:
    """Exact rates by kind of sum: of calling at all, of right answers; and mean calls."""

    short: tuple[float, float, float]
    long: tuple[float, float, float]


def habits(made: TalkBench) -> Habits:
    def rates(scenarios: Sequence[Scenario]) -> tuple[float, float, float]:
        found = [0.0, 0.0, 0.0]
        for scenario in scenarios:
            for chance, played in made.outcomes(scenario):
                calls, right = played.info["tool_calls"], played.text == f"<answer>{scenario.answer}</answer>"
                for place, value in enumerate((calls > 0, right, calls)):
                    found[place] += chance * value / len(scenarios)
        return found[0], found[1], found[2]

    return Habits(rates(SHORT), rates(LONG))


@claim(
    "Calls go to 1 on sums too long for the policy and stay rare on short ones; accuracy beats having no tool.",
    "catalogue",
    slow=True,
)
def it_calls_where_it_must() -> Finding:
    before = habits(bench("tools", 0))
    ours, bare = ([habits(trained(kind, seed)) for seed in SEEDS] for kind in ("tools", "no tools"))
    gain = min(a.long[1] for a in ours) - max(b.long[1] for b in bare)
    return Finding(
        min(one.long[0] for one in ours) > 0.95 and max(one.short[0] for one in ours) < 0.15 and gain > 0.5,
        f"{STEPS} steps, 5 seeds, from call rates {before.short[0]:.2f} short, {before.long[0]:.2f} long: calls on "
        f"short sums {shown(one.short[0] for one in ours)}, on long ones {shown(one.long[0] for one in ours)}; "
        f"accuracy on long ones {shown(one.long[1] for one in ours)}, without a tool "
        f"{shown(one.long[1] for one in bare)}; on short ones "
        f"{shown(one.short[1] for one in ours)} and {shown(one.short[1] for one in bare)}",
    )


@claim("A bonus per call inflates calls.", "catalogue", slow=True)
def a_bonus_inflates_calls() -> Finding:
    """Also where groups are chosen by accuracy, on sums that need a call; sums always right by now are left out."""
    plain, paid = ([habits(trained(kind, seed)) for seed in SEEDS] for kind in ("tools", "bonus"))
    chosen = [habits(trained("bonus by accuracy", seed)) for seed in range(2)]
    rise = min(one.short[2] for one in paid) - max(one.short[2] for one in plain)
    return Finding(
        rise > 0.7 and fmean(one.long[2] for one in paid) > fmean(one.long[2] for one in plain) + 0.4,
        f"with {BONUS} for every call that works, at most 3, groups chosen by reward, {LONGER} steps: calls per short "
        f"sum {shown(one.short[2] for one in paid)} instead of {shown(one.short[2] for one in plain)}, per long one "
        f"{shown(one.long[2] for one in paid)} instead of {shown(one.long[2] for one in plain)}; with groups chosen by "
        f"accuracy {shown(one.short[2] for one in chosen)} and {shown(one.long[2] for one in chosen)} (2 seeds)",
    )


@claim("Groups whose samples have the same accuracy are asked again, whatever their rewards.")
def groups_are_chosen_by_accuracy() -> Finding:
    """A group of -1 and 0 differs in reward and not in accuracy."""
    made = bench("tools", 0)
    reward, rollout = made.recipe.rewards[0], made.recipe.rollout
    assert isinstance(reward, ToolAnswer)
    assert isinstance(rollout, AccuracySampling)
    kept, unlike, mixed = 0, 0, 0
    for _ in range(6):
        result = made.step()
        for group, learnt in ((result.trajectories, True), (result.discarded, False)):
            for one in range(0, len(group), rollout.samples):
                members = group[one : one + rollout.samples]
                right = {reward.judge(member) == 1.0 for member in members}
                kept += learnt and len(right) == 2
                unlike += learnt and len(right) == 1
                mixed += not learnt and len(right) == 1 and has_signal(members)
    left = {name for one in (*result.trajectories, *result.discarded) for name in one.scores}
    return Finding(
        kept > 20 and unlike == 0 and mixed > 0 and left == {"correct"},
        f"6 steps: {kept} groups with right and wrong answers learnt from, {unlike} others; {mixed} left out although "
        f"rewards differed (-1 against 0)",
    )

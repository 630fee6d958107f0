"""Tool-Star's claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, batches, below, gap, inspect_rows, say
from hocket.lab.talk import TalkBench
from hocket.lab.toys.rewarded import line
from hocket.lab.toys.talks import Tells, earned
from hocket.methods.agents.tool_star import TOOL_STAR, TOOL_STAR_RL
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.base.grpo import GRPO
from hocket.rewards.tool_answer import ToolAnswer
from hocket.tools.protocol import Tool
from hocket.types import Message, Scenario
from hocket.workflows.tool_use import ToolUse

claim = Claims("tool-star", "re_search.py of the authors' code")
CALLS = {kind: f'<tool_call>{{"name": "{kind}", "arguments": {{}}}}</tool_call>' for kind in ("search", "python")}


@claim("Rewards are -1, 0, s or s + 0.1, the last only for s > 0 and both kinds of tools.")
def _() -> Finding:
    reward, answers = TOOL_STAR_RL.rewards[0], {"red fox": 1.0, "red": 2 / 3, "red blue green": 0.4, "owl": 0.0}
    assert isinstance(reward, ToolAnswer)
    orders = [calls for length in range(4) for calls in itertools.product((*CALLS, "other"), repeat=length)]
    wrong, values = [], []
    for calls, (answer, s), broken in itertools.product(orders, answers.items(), (False, True)):
        said = [CALLS.get(kind, '<tool_call>{"name": "other"}</tool_call>') for kind in calls]
        last = f"<answer>{answer}" if broken else f"<think>hm</think><answer>{answer}</answer>"
        value = reward.weight * (earned(reward, [*said, last], answer="red fox") or 0.0)
        wanted = -1.0 if broken else s + 0.1 * (s > 0 and {"search", "python"} <= set(calls))
        wrong += [(calls, answer, value)] if abs(value - wanted) > EXACT else []
        values.append(round(value, 6))
    ends = ("<answer>7</answer>", "<answer>8</answer>", "7")
    exact = sorted({earned(reward, [*list(CALLS.values())[:n], end]) or 0.0 for n in (0, 2) for end in ends})
    saw = f"{say(attempts=len(values), values=str(sorted(set(values))), s=str(sorted(answers.values())))}, "
    saw += say(not_as_they_should_be=len(wrong), where_only_equal_answers_count=str(exact))
    return Finding(not wrong and exact == [-1.0, 0.0, 1.0, 1.1] and TOOL_STAR.rewards == TOOL_STAR_RL.rewards, saw)


@claim("After every 30 steps of GRPO come 10 of DPO.")
def _() -> Finding:
    gaps = []
    for batch in batches(2, gap=1.0, graded=True):
        rows = batch["trajectories"]
        grpo, dpo = (inspect_rows(recipe, rows)["gradient"] for recipe in (GRPO, ONLINE_DPO))
        for step in (1, 10, 11, 20, 21, 30, 31, 40, 41):
            gaps.append(gap(inspect_rows(TOOL_STAR, rows, step=step)["gradient"], dpo if 30 < step <= 40 else grpo))
    return below(EXACT, steps_1_to_41_off_GRPO_or_DPO=max(gaps))


claim.spares("tool-star: objective.members.3.top = 40.0", "best and worst answers are pairs without advantages")
claim.spares("tool-star: objective.members.3.lone = True", "best and worst answers are pairs without advantages")
claim.spares("tool-star: objective.members.3.measure.alpha = 20.0", "read by the alpha divergence alone")
claim.spares("tool-star: objective.members.3.measure.alpha = 0.0", "read by the alpha divergence alone")
claim.spares("tool-star: objective.members.0.horizon = 5120", "no length divides this aggregate")
claim.spares("tool-star: objective.members.1.horizon = 5120", "no length divides this aggregate")
claim.spares("tool-star: objective.members.2.horizon = 5120", "no length divides this aggregate")


STEPS, LONGER, EVERY = 40, 90, 5
WORDS = (*(f"<answer>{digit}</answer>" for digit in range(4)), "well", *CALLS.values())
EASY = [Scenario(f"easy {n}", f"what is {n}", str(n)) for n in range(2)]
HARD = [
    Scenario(f"order {price}.{n}", "what does the order cost", str((price + (n == 3)) % 4), metadata={"price": price})
    for price, n in itertools.product((1, 3), range(4))
]
"""Who knows the price alone guesses the cost in three orders of four."""


def tools(scenario: Scenario, key: Key) -> Sequence[Tool]:
    """One tells the price, the other the cost once the price is known."""
    asked: list[str] = []

    def search() -> str:
        asked.append(f"price {scenario.metadata.get('price')}")
        return asked[-1]

    cost = f"cost {scenario.answer}"
    return Tells("search", search), Tells("python", lambda: cost if asked else "error: the price is not known")


def view(messages: tuple[Message, ...]) -> tuple[str, ...]:
    """The question, and what tools said."""
    return (str(messages[0]["content"]), *(str(one["content"]) for one in messages if one["role"] == "tool"))


def bench(kind: str, seed: int) -> TalkBench:
    """With the bonus or without it, by turns with DPO, or from a start that tries many calls on easy questions."""
    by_turns = {"credit.every": EVERY, "objective.every": EVERY}
    recipe = TOOL_STAR.but(by_turns) if kind == "by turns" else TOOL_STAR_RL
    if "no bonus" in kind:
        recipe = recipe.but({"rewards.0.bonus": 0.0})
    curious = "curious" in kind

    def start(messages: tuple[Message, ...], said: tuple[str, ...]) -> Mapping[str, float]:
        asked, *told = view(messages)
        easy = asked != HARD[0].prompt
        known = told[-1].split()[-1] if told and told[-1].startswith(("price", "cost")) else None
        known = asked.split()[-1] if easy else known
        calls = (0.35 if curious else 0.01) if easy else 0.1
        chance = dict.fromkeys(WORDS, 0.04) | dict.fromkeys(CALLS.values(), calls)
        chance |= {} if known is None else {f"<answer>{known}</answer>": 0.8}
        return {word: math.log(part) for word, part in chance.items()}

    flow, asked = ToolUse(tools, turns=4, listed=False), EASY if curious else [*EASY, *HARD]
    return TalkBench(flow, asked, WORDS, recipe, view=view, prior=start, seed=seed, lr=0.1)


@cache
def trained(kind: str) -> list[tuple[float, ...]]:
    """The habits of five seeds after training."""
    return [habits(bench(kind, seed).run(LONGER if "curious" in kind else STEPS)) for seed in SEEDS]


def habits(made: TalkBench) -> tuple[float, ...]:
    """Exactly: right orders reached with both tools, right orders; calls and right answers of easy questions."""
    shares = [0.0] * 4
    for scenario in made.scenarios:
        easy = scenario in EASY
        for chance, played in made.outcomes(scenario):
            right = played.text == f"<answer>{scenario.answer}</answer>"
            both = len({call["name"] for call in played.info["calls"]}) == 2
            for place, value in enumerate((played.info["tool_calls"], right) if easy else (right and both, right)):
                shares[2 * easy + place] += chance * value / len(EASY if easy else HARD)
    return tuple(shares)


@claim(
    "The bonus raises two-tool answers where both tools are needed, and no calls where none is and hardly any "
    "are tried.",
    "arXiv:2505.16410; the condition is ours",
    slow=True,
)
def _() -> Finding:
    (orders, _, calls, _), paid, plain = habits(bench("bonus", 0)), trained("bonus"), trained("no bonus")
    gains = [one[0] - other[0] for one, other in zip(paid, plain, strict=True)]
    columns = [line([one[place] for one in rows]) for place in (0, 2) for rows in (paid, plain)]
    told = say(before=orders, bonus=columns[0], none=columns[1])
    saw = f"{STEPS} steps, 5 seeds: orders right with both tools {told}"
    saw += f"; calls per easy question {say(before=calls, bonus=columns[2], none=columns[3])}"
    return Finding(min(gains) > 0.1 and fmean(gains) > 0.25 and max(one[2] for one in paid) < calls, saw)


@claim(
    "Where needless calls are tried, the bonus keeps or raises them, which fall without it.",
    "derived; the catalogue claims the contrary",
    slow=True,
)
def _() -> Finding:
    paid, plain = ([one[2] for one in trained(kind)] for kind in ("curious", "curious, no bonus"))
    holds = min(a - b for a, b in zip(paid, plain, strict=True)) > 0 and fmean(paid) > max(0.5, 4 * max(plain))
    saw = say(calls_before=habits(bench("curious", 0))[2], with_the_bonus=line(paid), without=line(plain))
    return Finding(holds, f"{LONGER} steps on easy questions alone, 5 seeds: {saw}")


@claim("RL and DPO by turns do not fall below RL alone.", "arXiv:2505.16410", slow=True)
def _() -> Finding:
    alone, mixed = (
        [(len(HARD) * (one[1] + 0.1 * one[0]) + len(EASY) * one[3]) / (len(HARD) + len(EASY)) for one in trained(kind)]
        for kind in ("bonus", "by turns")
    )
    saw = say(steps=STEPS, of_RL=3 * EVERY, of_DPO_by_turns=EVERY, RL_alone=line(alone), mixed=line(mixed))
    holds = fmean(mixed) > fmean(alone) - 0.01 and min(mixed) > min(alone) - 0.03
    return Finding(holds, f"score and bonus per question, 5 seeds: {saw}")


claim.shipped(TOOL_STAR_RL, "rewards")
claim.shipped(TOOL_STAR, "credit", "objective", steps=31, settings={"curriculum.prompts": 4})

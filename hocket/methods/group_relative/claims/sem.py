"""SEM's claims."""

from __future__ import annotations

import itertools
from statistics import fmean

import numpy as np

from hocket.core.columns import TOOL_CALLS
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, say
from hocket.lab.toys.instances import Instances, JudgedReward, nothing
from hocket.lab.toys.training import on, starting, trained
from hocket.lab.world import Answer, answer_of
from hocket.methods.group_relative.sem import SEM, GuessThenSearch, SearchTable
from hocket.testing import rehearse
from hocket.train.aio import run_async
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("sem", "arXiv:2505.07903; the numbers are our choice")


def spoken(text: str, answer: str | None = "7") -> Trajectory:
    turn = Turn("policy", "policy", observation=np.zeros(1, np.int64), action=np.zeros(1, np.int64), text=text)
    return Trajectory(Scenario("s", "?", answer), [turn])


CASES = {
    "right at once": "<answer>7</answer>",
    "right after a needed search": "<answer>3</answer><search>x</search><answer>7.0</answer>",
    "right after a needless search": "<answer>7</answer><search>x</search><answer>7</answer>",
    "wrong after a needed search": "<answer>3</answer><search>x</search><answer>4</answer>",
    "wrong at once": "<think>hm</think><answer>3</answer>",
    "wrong after a needless search": "<answer>7</answer><tool_call>x</tool_call><answer>3</answer>",
}
BROKEN = ("", "7", "<search>x</search><answer>7</answer>", "<answer>7</answer><search>x</search>")


def paid(text: str) -> float:
    """What a text earns of the table, the recipe's only reward."""
    (table,) = SEM.rewards
    (value,) = run_async(table([spoken(text)], key=Key.of(0)))
    return float(value or 0.0)


@claim("the table orders the six cases of guess, search and answer; broken forms earn 0")
def the_table_orders_the_six_cases_of_guess_search_and_answer() -> Finding:
    earned = {name: paid(text) for name, text in CASES.items()}
    falls = all(a > b for a, b in itertools.pairwise(earned.values()))
    return Finding(falls and not any(map(paid, BROKEN)), say(**earned))


@claim("As shipped it earns 1, 0.8, 0.3, 0.1, 0 and -0.2, in the order of the table's cases.", "chosen here")
def as_shipped_it_earns_1_0_8_0_3_0_1_0_and_0_2_in_the_order_of_the() -> Finding:
    earned = [paid(text) for text in CASES.values()]
    return Finding(earned == [1.0, 0.8, 0.3, 0.1, 0.0, -0.2] and SEM.rewards[0].weight == 1.0, say(paid=str(earned)))


@claim("the template's turns: a guess without tools, then a reply that may search, then the answer")
def the_templates_turns_a_guess_without_tools_then_a_reply_that_may() -> Finding:
    calls = '<tool_call>{"name": "calculator", "arguments": {"expression": "2 * 3"}}</tool_call>'
    saw = {}
    for name, replies in {
        "searched": ["<answer>5</answer>", calls, "<answer>6</answer>"],
        "not": ["<answer>6</answer>", "<answer>6</answer>"],
    }.items():
        (episode,) = rehearse(GuessThenSearch(), Scenario("s", "What is 2 * 3?", "6"), {"policy": replies})
        saw[name] = len(episode.turns), TOOL_CALLS.get(episode), SearchTable().judge(episode)
    return Finding(saw == {"searched": (3, 1, 0.8), "not": (2, 0, 1.0)}, say(**{k: str(v) for k, v in saw.items()}))


claim.spares("rng.random() < 0.5 -> rng.random() >= 0.5", "known and unknown are equally likely")


def searched(question: int, answer: Answer) -> float:
    return float(answer[1] >= 2)


INDEX = Instances(
    # Guess one of four values, then stop (0, 1) or search (2, 3); after a search the final answer is the index's. The
    # value of key 0 is known: always 0. Key 1 holds any of the four, which nobody can know. Four instances of each.
    *(2, 4, 2, nothing),
    correct=lambda q, answer: 1.0 if searched(q, answer) else (float(answer[0] == 0) if q == 0 else 0.25),
    count=8,
    about=lambda number: {"question": number // 4, "answer": "0" if number < 4 else str(number % 4)},
)


def looked(flat: float | None = None) -> JudgedReward:
    """The table, or a verdict with a flat cost per search, on the words that the index world gives an attempt."""

    def judge(trajectory: Trajectory) -> float | None:
        tokens, answer = answer_of(trajectory), trajectory.scenario.answer
        text = f"<answer>{tokens[0]}</answer>"
        text += f"<search>key</search><answer>{answer}</answer>" if searched(0, tokens) else ""
        if flat is None:
            return SearchTable().judge(spoken(text, answer))
        return float(text.endswith(f"<answer>{answer}</answer>")) - flat * searched(0, tokens)

    return JudgedReward(judge, "search")


# The known key's value was seen often: it is guessed right nine times of ten.
START = starting({(0, ()): [0.91, 0.03, 0.03, 0.03], (1, ()): [0.25] * 4})


@claim("known keys are not searched and unknown ones are (gap above 0.6), as accurate as always searching", slow=True)
def known_keys_are_not_searched_and_unknown_ones_are_as_accurate_as() -> Finding:
    rates = {}
    for name, reward in {"sem": looked(), "flat 0.1": looked(0.1), "flat 0.6": looked(0.6)}.items():
        made = trained(INDEX, SEM.but(rewards=(reward,)), 50, start=START, lr=0.1)
        rates[name] = [(on(0, one, searched), on(1, one, searched), one.success()) for one in made]
    least = min(unknown - known for known, unknown, _ in rates["sem"])
    holds = least > 0.6 and min(right for _, _, right in rates["sem"]) >= 1.0 - 0.02
    means = {name: " ".join(f"{fmean(one):.4f}" for one in zip(*rows, strict=True)) for name, rows in rates.items()}
    return Finding(holds, say(rates_of_searching_known_and_unknown_and_accuracy=means, smallest_gap=least))


claim.shipped(SEM, "rewards", steps=4)

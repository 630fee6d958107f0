"""R1-Searcher's claims."""

from __future__ import annotations

import asyncio
import itertools
from functools import cache
from typing import Any

import numpy as np

from hocket.agents.tools.corpus import Document
from hocket.agents.tools.search import Index, Search
from hocket.agents.workflows.inline_search import SearchWithin, information
from hocket.core.columns import TOOL_CALLS
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, gap, inspect_rows, say
from hocket.lab.talk import LookupPolicy, Prior, TalkBench
from hocket.lab.toys.recorded_answers import line
from hocket.methods.agents.r1_searcher import R1_SEARCHER, R1_SEARCHER_RETRIEVAL, AnswerReward, well_formed
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent
from hocket.types import Message, Scenario, Trajectory, Turn

claim = Claims("r1-searcher", "arXiv:2503.05592")


def earned(recipe: Recipe, text: str, calls: int, answer: Any = "red fox") -> float | None:
    """What a response is paid, all rewards of the recipe together."""
    zeros = np.zeros(1, np.int64)
    turn = Turn("policy", "policy", observation=zeros, action=zeros, text=text)
    one = Trajectory(Scenario("s", "?", answer), [turn], info={TOOL_CALLS.name: calls})
    paid = [asyncio.run(reward([one], key=Key.of(0)))[0] for reward in recipe.rewards]
    return (
        None
        if None in paid
        else sum(reward.weight * (p or 0.0) for reward, p in zip(recipe.rewards, paid, strict=True))
    )


LOOKED = "<search>fox</search><information>fox: red</information>"
FORMS = {
    "<think>hm</think>{}{}": True,
    "{}{}": True,
    "{}<think>{}": False,
    "{}{} so be it": False,
    "</search>{}{}": False,
}


@claim("The first stage pays 1/2 for any search and 1/2 for the form, whatever the answer.")
def the_first_stage_pays_1_2_for_any_search_and_1_2_for_the_form() -> Finding:
    wrong, seen = [], set[float]()
    for (form, right), calls, said in itertools.product(FORMS.items(), (0, 1, 3), ("red fox", "owl")):
        text = form.format(LOOKED * calls, f"<answer>{said}</answer>")
        paid = earned(R1_SEARCHER_RETRIEVAL, text, calls)
        wrong += [text] if paid != 0.5 * (calls > 0) + 0.5 * right or well_formed(text) != right else []
        seen.add(paid or 0.0)
    return Finding(not wrong and seen == {0.0, 0.5, 1.0}, say(values=str(sorted(seen)), otherwise=str(wrong)))


@claim("The second pays the answer's F1, nothing for a search, and 2 less for a broken form.")
def the_second_pays_the_answers_f1_nothing_for_a_search_and_2_less() -> Finding:
    answers, wrong = {"red fox": 1.0, "Red": 2 / 3, "red blue green": 0.4, "owl": 0.0}, []
    for (form, right), calls, (said, f1) in itertools.product(FORMS.items(), (0, 1, 3), answers.items()):
        text = form.format(LOOKED * calls, f"<answer>{said}</answer>")
        paid = earned(R1_SEARCHER, text, calls)
        wrong += [(text, paid)] if paid is None or abs(paid - f1 + 2 * (not right)) > EXACT else []
    several = [earned(R1_SEARCHER, f"<answer>{said}</answer>", 0, ["red fox", "owl"]) for said in ("owl", "red")]
    none = earned(R1_SEARCHER, "<answer>owl</answer>", 0, None)
    try:
        said = str(AnswerReward(malformed=1.0))
    except ValueError as error:
        said = str(error)
    holds = not wrong and several == [1.0, 2 / 3] and none is None and "at most 0" in said
    return Finding(holds, say(answers=str(sorted(answers.values())), not_so=len(wrong)))


@claim("Retrieved decisions have no gradient and enter neither the batch's mean and deviation nor the KL.")
def retrieved_decisions_have_no_gradient_and_enter_neither_the() -> Finding:
    largest, off, moved = 0.0, 0.0, 0.0
    for number in range(5):
        rng, rows = Key.of(number).numpy(), []
        for sample in range(6):
            mine = [True, True, *[False] * int(rng.integers(1, 5)), True]
            logp = (-rng.exponential(size=len(mine)) - 0.01).tolist()
            drift = [one + 0.3 * float(rng.normal()) for one in logp]
            row = {"group": f"{sample}", "scores": {"correct": float(rng.integers(-2, 2))}, "logp": logp}
            rows.append({**row, "logp_behaviour": logp, "logp_ref": drift, "trained": mine})
        before = inspect_rows(R1_SEARCHER, rows)
        for name in ("logp_behaviour", "logp_ref"):
            other = [
                {**row, name: [one - (not own) for one, own in zip(row[name], row["trained"], strict=True)]}
                for row in rows
            ]
            off = max(off, gap(inspect_rows(R1_SEARCHER, other)["gradient"], before["gradient"]))
        for row, found, credit in zip(rows, before["gradient"], before["advantages"], strict=True):
            pairs = list(zip(row["trained"], found, credit, strict=True))
            largest = max(largest, *(abs(one) for own, one, _ in pairs if not own))
            moved = max(moved, *(abs(one) for own, one, _ in pairs if own))
        own = [
            one
            for row, credit in zip(rows, before["advantages"], strict=True)
            for one, of in zip(credit, row["trained"], strict=True)
            if of
        ]
        off = max(off, abs(sum(own)) / 100, abs(float(np.std(own, ddof=1)) - 1) / 100)
    return Finding(
        largest == 0.0 and off < 1e-8 and moved > 0.01, say(gradient_at_retrieved=largest, off=off, at_own=moved)
    )


@claim("As shipped both stages search within a response, 8 to a question, normalised over the batch, not the question.")
def as_shipped_both_stages_search_within_a_response_8_to_a_question() -> Finding:
    stages = (R1_SEARCHER_RETRIEVAL, R1_SEARCHER)
    same = all(one.workflow == SearchWithin.name and one.rollout == Independent(samples=8) for one in stages)
    rows = [
        {"group": f"{n // 2}", "scores": {"correct": float(n < 2)}, "logp": [-1.0], "logp_ref": [-1.0]}
        for n in range(4)
    ]
    seen = [row[0] for row in inspect_rows(R1_SEARCHER, rows)["advantages"]]
    wanted = [0.75**0.5, 0.75**0.5, -(0.75**0.5), -(0.75**0.5)]  # Of 1, 1, 0, 0: a half over the root of a third.
    return Finding(same and gap(seen, wanted) < 1e-6, say(as_stated=same, advantages=line(seen)))


COLOURS = ("red", "blue", "green")
LOOK, FOUND = "<search>lamp</search>", tuple(information(f"lamp: {colour}") for colour in COLOURS)
SAID = tuple(f"<answer>{colour}</answer>" for colour in COLOURS)
WORDS = (LOOK, *SAID, "hm", *FOUND)


def index_of(scenario: Scenario, key: Key) -> tuple[Search]:
    """Every scenario has an index of its own, so nobody can know the colour without a search."""
    return (Search(Index([Document("lamp", str(scenario.answer))]), 1),)


def untaught(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """Guesses in good form, searches once in fifteen times, and after a search mostly breaks the form."""
    if said and said[-1] in SAID:
        return {**dict.fromkeys(WORDS, -9.0), "": 0.0}
    never = {**dict.fromkeys(FOUND, -20.0), "": -20.0}
    if LOOK in said:
        return {**never, LOOK: -20.0, "hm": 2.0, **({"": 3.0} if said[-1] == "hm" else {})}
    return {**never, LOOK: -1.5, "hm": -5.0}


def continued(policy: LookupPolicy) -> Prior:
    """A start where another run has ended."""
    return lambda messages, said: policy.probabilities(*messages, said=said).log().tolist()


def bench(recipe: Recipe, seed: int, prior: Prior = untaught) -> TalkBench:
    """The same question with another answer in every scenario."""
    asked = [Scenario(colour, "lamp", colour) for colour in COLOURS]
    flow = SearchWithin(index_of, turns=2)
    return TalkBench(flow, asked, WORDS, recipe, length=5, ends=True, prior=prior, seed=seed, lr=0.2)


def habits(made: TalkBench) -> tuple[float, float]:
    """How often it searches, exactly, and the share of right answers."""
    (policy,) = made.policies.values()
    chance = float(policy.probabilities("lamp")[0])
    played = made.play(30)
    right = [float(one.text.endswith(f"<answer>{one.scenario.answer}</answer>")) for one in played]
    return chance, sum(right) / len(right)


FIRST, SECOND, FEW = 60, 60, list(SEEDS)[:3]


@cache
def staged(seed: int) -> tuple[float, ...]:
    """Search rate and right answers after the first stage, and after both."""
    early = bench(R1_SEARCHER_RETRIEVAL, seed).run(FIRST)
    (policy,) = early.policies.values()
    return *habits(early), *habits(bench(R1_SEARCHER, seed, continued(policy)).run(SECOND))


@claim(
    "From a policy that hardly searches, the first stage makes it search and the second makes it right; the second "
    "alone stops searching.",
    slow=True,
)
def from_a_policy_that_hardly_searches_the_first_stage_makes_it() -> Finding:
    both = [staged(seed) for seed in FEW]
    alone = [habits(bench(R1_SEARCHER, seed).run(FIRST + SECOND)) for seed in FEW]
    start, columns = habits(bench(R1_SEARCHER, 0)), [line([one[place] for one in both]) for place in range(4)]
    saw = say(searches_before=start[0], right_before=start[1], after_the_first=columns[0], after_both=columns[2])
    saw += f", right {columns[3]}; second alone searches {line([one[0] for one in alone])}"
    saw += f", right {line([one[1] for one in alone])}"
    stuck = sum(one[0] < 0.05 and one[1] < 0.5 for one in alone)
    least = [min(one[place] for one in both) for place in (0, 2, 3)]
    return Finding(least[0] > 0.6 and min(least[1:]) > 0.8 and stuck > len(FEW) / 2, saw)


LESSONS = {"recipe": "sft", "steps": 30, "update.lr": 0.003}
claim.shipped(
    R1_SEARCHER_RETRIEVAL,
    without={"rewards.0.searched": 0.0},
    first={**LESSONS, "steps": 20},
    settings={"curriculum.prompts": 8},
)
claim.shipped(
    R1_SEARCHER,
    without={"rewards.0.malformed": 0.0},
    first=LESSONS,
    settings={"curriculum.prompts": 8},
    sees=lambda run: {"calls": run.mean("tools/calls")},
)

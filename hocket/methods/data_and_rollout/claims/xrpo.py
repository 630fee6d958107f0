"""XRPO's claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
import torch

from hocket.core.components import value_at
from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.talk import TalkBench, total
from hocket.lab.toys.hops import WAYS, Hops, last
from hocket.lab.toys.recorded_answers import group_relative, line
from hocket.methods.base.grpo import GRPO
from hocket.methods.data_and_rollout.xrpo import XRPO, Rounds, novelty_bonus, priorities, similarity
from hocket.recipe import Recipe
from hocket.rollout.allocation import allocate
from hocket.train.aio import run_async
from hocket.train.ledger import Ledger
from hocket.types import Assignment, Message, Scenario, Score, Trajectory, Turn

claim = Claims("xrpo", "public reviews of arXiv:2510.06672; interval, exploration and minimum recalled or chosen")


@claim(
    "Of scenarios sampled equally often the one nearest to a success rate of a half is served first; totals are exact."
)
def of_scenarios_sampled_equally_often_the_one_nearest_to_a_success() -> Finding:
    wrong, off, draw = 0, 0, Key.of(0).numpy()
    for _ in range(40):
        size, each = int(draw.integers(2, 8)), int(draw.integers(3, 20))
        seen = [Outcomes(each, int(draw.integers(0, each + 1))) for _ in range(size)]
        one = allocate(np.stack([priorities(s, 1, each * size, 0.01) for s in seen]), 0, 1)
        nearest = min(abs(s.mean - 0.5) for s in seen)
        wrong += abs(seen[int(one.argmax())].mean - 0.5) > nearest + EXACT
        share = int(draw.integers(1, 30))
        counts = allocate(np.stack([priorities(s, share, each * size, 0.01) for s in seen]), 0, share)
        off += abs(int(counts.sum()) - share)
    return Finding(wrong == 0 and off == 0, say(not_nearest=wrong, samples_off_in_all=off, groups=40))


def one_by_one(seen: list[Outcomes], share: int, explore: float) -> float:
    """What is gained by giving each next sample to the scenario of highest priority, by hand."""
    given, sum_now, gained = [0] * len(seen), sum(one.samples for one in seen), 0.0
    for _ in range(share):
        cuts = []
        for one, more in zip(seen, given, strict=True):
            n, spread = float(one.samples + more), 1.96 * one.spread
            bonus = explore * math.sqrt(math.log(1 + sum_now) / n)
            cuts.append(spread * (1 / math.sqrt(n) - 1 / math.sqrt(n + 1)) + bonus)
        best = cuts.index(max(cuts))
        given[best] += 1
        gained += cuts[best]
    return gained


@claim("A round's samples gain what asking one by one for the highest priority gains.")
def a_rounds_samples_gain_what_asking_one_by_one_for_the_highest() -> Finding:
    worst, draw = 0.0, Key.of(1).numpy()
    for _ in range(30):
        seen = [Outcomes(int(n), int(draw.integers(0, n + 1))) for n in draw.integers(1, 9, 5).tolist()]
        table = np.stack([priorities(one, 12, sum(s.samples for s in seen), 0.05) for one in seen])
        counts = allocate(table, 0, 12)
        worst = max(worst, abs(float(table[np.arange(5), counts].sum()) - one_by_one(seen, 12, 0.05)))
    return Finding(worst < 1e-9, say(largest_difference=worst))


@claim(
    "No scenario starves: one that was hardly sampled is served before those that are well known, whatever their rate."
)
def no_scenario_starves_one_that_was_hardly_sampled_is_served() -> Finding:
    seen = [Outcomes(200, 100), Outcomes(200, 60), Outcomes(1, 0), Outcomes(200, 140)]
    counts = allocate(np.stack([priorities(one, 8, 601, 0.01) for one in seen]), 0, 8).tolist()
    return Finding(counts[2] == 8, say(further_samples=str(counts)))


@claim("The bonus is 0 for wrong answers and where eta >= 1, falls with the likelihood, and is at most kappa A.")
def the_bonus_is_0_for_wrong_answers_and_where_eta_1_falls_with_the() -> Finding:
    eta = torch.linspace(0.01, 2.0, 200, dtype=torch.float64)
    bonus = novelty_bonus(torch.ones_like(eta), eta, 2.5, 0.5)
    shape = (
        bool((bonus[1:] <= bonus[:-1] + EXACT).all())
        and float(bonus.max()) <= 0.5
        and bool((bonus[eta >= 1] == 0).all())
    )
    rows = [
        {"group": "g", "scores": {"reward": reward}, "logp": [value] * size}
        for reward, value, size in ((1.0, -0.2, 2), (1.0, -1.4, 3), (0.0, -2.0, 2), (1.0, -0.6, 1), (0.0, -0.1, 4))
    ]
    plain, mean = group_relative([1.0, 1.0, 0.0, 1.0, 0.0]), fmean([-0.2, -1.4, -2.0, -0.6, -0.1])
    etas = [math.exp(value - mean) for value in (-0.2, -1.4, -2.0, -0.6, -0.1)]
    due = [a + (min(2.5 * (1 - e), 0.5 * a) if e < 1 and a > 0 else 0.0) for a, e in zip(plain, etas, strict=True)]
    found = [row[0] for row in inspect_rows(XRPO, rows)["advantages"]]
    return Finding(shape and gap(found, due) < 1e-6 and due != plain, say(off_by_hand=gap(found, due), eta=etas))


@claim("Slightly unlikely right answers get 2.5 (1 - eta) more, and letters that come again count as often as they do.")
def slightly_unlikely_right_answers_get_2_5_more_and_letters_that() -> Finding:
    rows = [{"group": "g", "scores": {"reward": float(n == 0)}, "logp": [-1.0 + 0.02 * n]} for n in range(2)]
    due = [group_relative([1.0, 0.0])[0] + 2.5 * (1 - math.exp(-0.01)), group_relative([1.0, 0.0])[1]]
    off = gap([row[0] for row in inspect_rows(XRPO, rows)["advantages"]], due)
    # Twice aaa beside aaa and aab: 2 / (2 sqrt(2)).
    return below(1e-6, advantages_off=off, similarity_off=abs(similarity("aaaa", "aaab") - 0.5**0.5))


MIXED = [
    *(Scenario(f"easy {n}", "", answer="north") for n in range(4)),
    *(Scenario(f"hard {n}", "", answer="north east") for n in range(4)),
]


def known(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
    """What is easy is nearly always done."""
    return {"north": 4.0} if last(messages).startswith("easy") else {}


def cost(recipe: Recipe, seed: int) -> float:
    """Samples until what is hard is found with probability .8."""
    made = TalkBench(Hops(), MIXED, WAYS, recipe, view=last, prior=known, seed=seed, lr=0.1)
    hard, spent = MIXED[4:], 0.0
    while spent < 12000:
        spent += 8 * len(MIXED)
        made.step()
        policy = made.policies["policy"]
        chances = [
            math.prod(
                float(policy.probabilities(f"{one.id}, hop {hop}")[WAYS.index(way)])
                for hop, way in enumerate(one.answer.split())
            )
            for one in hard
        ]
        if fmean(chances) > 0.8:
            break
    return spent


@claim(
    "On easy and hard questions together it takes as many samples as GRPO to find what is hard, within a tenth: what "
    "always fails looks as certain as what always succeeds, so the allocation does not prefer it.",
    "found here; the paper needs fewer rollouts",
    slow=True,
)
def on_easy_and_hard_questions_together_it_takes_as_many_samples_as() -> Finding:
    ours = XRPO.but({"rollout.examples": 0})
    made = {
        "all": ours,
        "equal counts": ours.but({"rollout": GRPO.rollout}),
        "no novelty": ours.but({"credit": GRPO.credit}),
        "grpo": GRPO,
    }
    found = {name: [cost(recipe, seed) for seed in SEEDS] for name, recipe in made.items()}
    saw = "; ".join(f"{name} {line(values)}" for name, values in found.items())
    return Finding(abs(fmean(found["all"]) / fmean(found["grpo"]) - 1) < 0.1, f"samples: {saw}")


@claim("What nobody solved is asked again with the most similar solved questions and their answers; others are not.")
def what_nobody_solved_is_asked_again_with_the_most_similar_solved() -> Finding:
    texts = ["What is 3 + 4?", "What is 3 + 5?", "Spell tower.", "What is 3 + 9?"]
    asked = [Scenario(text, text, answer="north") for text in texts]
    rollout = Rounds(samples=4, start=2, rounds=1, examples=2)
    recipe = XRPO.but({"rollout": rollout})

    def prior(messages: tuple[Message, ...], said: tuple[str, ...]) -> dict[str, float]:
        text = str(messages[-1]["content"])
        return {"south" if text.startswith(("What is 3 + 9?, hop", "What is 3 + 9?\n")) else "north": 30.0}

    made = TalkBench(Hops(), asked, WAYS, recipe, prior=prior, lr=0.0)
    made.step()
    result = made.step()
    told = {one.scenario.id: one for one in result.trajectories if one.source == "helped"}
    near = sorted(texts[:3], key=lambda text: similarity(text, texts[3]))
    plain = all(one.source == "own" for one in result.trajectories if one.scenario.id != texts[3])
    holds = (
        set(told) == {texts[3]}
        and plain
        and near[0] == "Spell tower."
        and made.history[0]["rollout/with_examples"] == 0
    )
    # abc and bcd beside abc and bce; and beside abc, bce and cef.
    holds &= gap([similarity("abcd", "abce"), similarity("abcd", "abcef")], [0.5, 6**-0.5]) < EXACT
    solved = made.parts.lead.memory["rollout"]["solved"]
    holds &= set(solved) == set(texts[:3]) and all(total(one) == 0 for one in told.values())
    return Finding(holds, say(with_examples=str(list(told)), similar=near[-1], kept=len(solved)))


@claim(
    "As shipped 4 samples each, then two rounds of equally many to 8 on average; what is solved is kept, newest last."
)
def as_shipped_4_samples_each_then_two_rounds_of_equally_many_to_8() -> Finding:
    calls, scored = list[list[Assignment]](), list[Trajectory]()

    async def play(asking: Sequence[Assignment]) -> list[Trajectory]:
        """All of a succeed, of b every other one, of c none but one that was lost."""
        calls.append([*asking])
        found = []
        for one, number in ((ask, n) for ask in asking for n in range(ask.first, ask.first + ask.samples)):
            name, zeros = one.scenario.id, np.zeros(1, np.int64)
            turn, lost = Turn("policy", "policy", zeros, zeros, text=f"{name}{number}"), (name, number) == ("c", 8)
            made = Trajectory(one.scenario, [turn], number, failure="lost" if lost else None)
            right = name == "a" or (name == "b" and number % 2 == 0) or lost
            made.source, made.scores["reward"] = one.source, Score(float(right))
            found.append(made)
        return found

    async def score(played: Sequence[Trajectory]) -> None:
        scored.extend(played)

    state = {"solved": {"aaae": "one", "zzzz": "two", "aaaf": "three", "aaad": "own"}}
    asked = [Assignment(Scenario(name, f"aaa{last}"), first=7) for name, last in zip("abc", "bcd", strict=True)]
    asked[2] = replace(asked[2], hint="Old.")
    assert isinstance(XRPO.rollout, Rounds)
    rule = replace(XRPO.rollout, solved=3)
    found, after = run_async(rule.collect_with(state, asked, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
    sizes = [[one.samples for one in call] for call in calls]
    holds = sizes[0] == [4] * 3 and [sum(one) for one in sizes] == [12, 6, 6] and min(map(min, sizes)) >= 1
    numbers = [[one.sample for one in found.trajectories if one.scenario.id == name] for name in "abc"]
    counts = [len(one) for one in numbers]
    holds &= numbers == [list(range(7, 7 + count)) for count in counts]
    helped = [one for call in calls[1:] for one in call if one.scenario.id == "c"]
    holds &= {(one.source, one.hint) for one in helped} == {("helped", "Old.\naaae one\naaaf three")}
    holds &= all(one.source == "own" and not one.hint for call in calls for one in call if one.scenario.id != "c")
    metrics = {"fewest": min(counts), "most": max(counts), "with_examples": counts[2] - 4}
    holds &= found.metrics == {f"rollout/{name}": float(value) for name, value in metrics.items()}
    holds &= list(after["solved"].items()) == [("aaad", "own"), ("aaab", "a7"), ("aaac", "b8")]
    holds &= sorted(map(id, scored)) == sorted(map(id, found.trajectories))
    shipped = [value_at(XRPO, f"rollout.{name}") for name in ("explore", "examples", "solved")]
    return Finding(holds and shipped == [0.01, 2, 256], say(counts=str(counts), **metrics))


@claim("As many of the most similar questions are shown as is set, the most similar last.")
def as_many_of_the_most_similar_questions_are_shown_as_is_set_the() -> Finding:
    def hint(examples: int, prompt: str = "aaad") -> str | None:
        rule, told = Rounds(samples=2, start=1, rounds=1, examples=examples), list[str | None]()

        async def play(asking: Sequence[Assignment]) -> list[Trajectory]:
            told.extend(one.hint for one in asking)
            return [Trajectory(one.scenario, [], 0) for one in asking]

        async def score(played: Sequence[Trajectory]) -> None:
            pass

        state = {"solved": {"aaae": "one", "zzzz": "two", "caaa": "three"}}
        asked = [Assignment(Scenario("c", prompt))]
        run_async(rule.collect_with(state, asked, play=play, score=score, ledger=Ledger(), key=Key.of(0)))
        return told[1]

    seen = [hint(0), hint(1), hint(3), hint(1, "zzzy")]
    holds = seen == [None, "caaa three", "zzzz two\naaae one\ncaaa three", "zzzz two"]
    return Finding(holds, say(hints=str(seen)))


claim.shipped(
    XRPO,
    "rollout",
    "credit",
    steps=2,
    settings={"curriculum.prompts": 6},
    sees=lambda run: {"with examples": run.mean("rollout/with_examples"), "groups": run.mean("groups/with_signal")},
)

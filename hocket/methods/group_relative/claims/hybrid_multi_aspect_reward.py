"""The hybrid multi-aspect reward's claims."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, below, runs, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows, standardised
from hocket.lab.toys.instances import JudgedReward
from hocket.lab.toys.quick_worlds import leaning
from hocket.lab.world import Answer, GradedReward, World, answer_of, question_of
from hocket.recipe import Recipe
from hocket.recipes import GRPO, HYBRID_REWARD

claim = Claims("hybrid-multi-aspect-reward", "arXiv:2510.05283")


@claim("advantages are those counted by hand: the rule if known, else the model, the aspect, half of what exceeds 64")
def advantages_are_those_counted_by_hand_the_rule_if_known_else_the() -> Finding:
    def credit(members: Sequence[CountedAnswer], sure: float | None, shortest: int, power: float) -> list[float]:
        earned = []
        for one in members:
            given, length = one.row["scores"], len(one.row["logp"])
            c = sure if sure is not None else given.get("sure", 1.0)
            model = c * given["correct"] + (1 - c) * given["model"] if "correct" in given else given["model"]
            beyond = max((length - 64) / 64, (shortest - length) / shortest if shortest else 0.0, 0.0)
            earned.append(model + given["aspect"] - 0.5 * min(1.0, beyond) ** power)
        return standardised([replace(one, reward=value) for one, value in zip(members, earned, strict=True)])

    band = {"shaping.0.shortest": 40.0, "shaping.0.power": 2.0}
    named = HYBRID_REWARD.but({**band, "combine.confidence": "sure"})
    gaps = []
    for rows in stale_rows("hybrid", count=1, groups=2, longest=160):
        for number, row in enumerate(rows):
            row["scores"] = {"correct": row["scores"]["reward"], "model": row["value"][0], "aspect": row["value"][-1]}
            if number % 3 == 1:
                del row["scores"]["correct"]
        gaps.append(off(HYBRID_REWARD, rows, credit=partial(credit, sure=1.0, shortest=0, power=1.0)))
        forms = ((HYBRID_REWARD.but({**band, "combine.confidence": 0.25}), 0.25), (named, 1.0), (named, None))
        for recipe, sure in forms:
            for number, row in enumerate(rows if sure is None else ()):
                row["scores"] |= {"sure": 0.1 * (number % 7)} if number % 4 else {}
            gaps.append(off(recipe, rows, credit=partial(credit, sure=sure, shortest=40, power=2.0)))
        for row in rows:
            row["scores"] = {name: value for name, value in row["scores"].items() if name in ("model", "aspect")}
        gaps.append(off(HYBRID_REWARD, rows, credit=partial(credit, sure=1.0, shortest=0, power=1.0)))
    return below(1e-12, off_by_hand=max(gaps))


END = 4
"""The token that ends an answer; its first token is what it claims."""


def claimed(question: int, answer: Answer) -> float:
    """Whether the first token is the question's number."""
    return float(answer[0] == question)


ENDING = leaning(END, 1.0)
"""Ends an answer more often than a uniform policy would."""
WORLD = World(questions=4, tokens=5, horizon=5, end=END, reward=claimed, context="position")
MODEL = GradedReward("model", lambda q, a: 0.3 * len(a) + (0.8 if q == 1 and a[0] == 2 else 0.6 * claimed(q, a)))
"""A reward model that likes long answers, and on question 1 a wrong one besides."""
RULE = JudgedReward(lambda one: claimed(question_of(one), answer_of(one)) if question_of(one) < 2 else None)
"""A rule that knows the answers to questions 0 and 1 alone."""


def trained(recipe: Recipe) -> list[list[float]]:
    """Length, accuracy where checked, and elsewhere, each by seed."""
    (benches,) = runs(WORLD, recipe, steps=80, every=80, start=ENDING).values()
    sides = (lambda q, a: claimed(q, a) * (q < 2)), (lambda q, a: claimed(q, a) * (q >= 2))
    return [[b.reading().length for b in benches], *([2 * b.expected(side) for b in benches] for side in sides)]


@claim(
    "a reward model that likes long answers inflates length; with the rule, adherence and the length band "
    "length stays, and accuracy is higher where a rule exists and no lower elsewhere",
    slow=True,
)
def a_reward_model_that_likes_long_answers_inflates_length_with_the() -> Finding:
    rewards = (RULE, MODEL, GradedReward("adherence", lambda q, a: float(a[-1] == END), 0.2))
    hybrid = HYBRID_REWARD.but({"shaping.0.longest": 3.0, "shaping.0.penalty": 1.0}, rewards=rewards)
    start = Bench(WORLD, GRPO, start=ENDING).reading().length
    alone, both = trained(GRPO.but(rewards=(MODEL,))), trained(hybrid)
    longer = min(alone[0]) > start + 1 and max(abs(length - start) for length in both[0]) < 1
    better = min(both[1]) > max(alone[1]) + 0.1 and fmean(both[2]) > fmean(alone[2]) - 0.05
    columns = zip(("length", "accuracy where checked", "elsewhere"), alone, both, strict=True)
    saw = "; ".join(f"{name}: {say(model_alone=one, hybrid=other)}" for name, one, other in columns)
    return Finding(longer and better, f"{say(length_at_first=start)}; {saw}")


claim.spares("1.0 -> 40.0", "in line 51, cut to 1 as well")
claim.spares("hybrid-multi-aspect-reward: shaping.0.shortest = 1.0", "no answer is shorter")

claim.shipped(HYBRID_REWARD, "combine")
claim.shipped(
    HYBRID_REWARD,
    "shaping",
    small="the shipped model writes few answers beyond half of what a response may have",
)

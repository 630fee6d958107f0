"""CrowdVLM-R1's claims."""

from __future__ import annotations

import itertools
from dataclasses import replace
from statistics import fmean

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS, Claims, Finding, gap
from hocket.lab.toys.recorded_answers import line, lines, said, shaped
from hocket.lab.toys.training import answers_of, starting
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.crowdvlm_r1 import CROWDVLM_R1, Closeness, closeness, number_of

claim = Claims("crowdvlm-r1", "CrowdVLM-R1, arXiv:2504.03724, released count reward")
COUNTS = (4, 9, 15, 22, 28, 35, 41, 48)


def number(answer: Answer) -> int:
    return int("".join(map(str, answer)))


COUNTING = World(
    # How many dots are there? Two digits, the tens first.
    *(len(COUNTS), 10, 2, lambda question, answer: float(number(answer) == COUNTS[question])),
    text=lambda question, answer: f"<think>I count them.</think><answer>{number(answer)}</answer>",
    metadata=lambda question: {"answer": COUNTS[question]},
)


@claim("closeness is monotone, 1.5 at the count, 0 from half away, scale free")
def closeness_is_monotone_1_5_at_the_count_0_from_half_away_scale() -> Finding:
    off, kept = 0.0, True
    for truth in range(1, 51):
        values = [closeness(guess, truth) for guess in range(151)]
        ranked = sorted((abs(guess - truth) / truth, value) for guess, value in enumerate(values))
        kept &= values[truth] == 1.5 and all(value == 0 for away, value in ranked if away >= 0.5)
        kept &= all(one[1] >= other[1] for one, other in itertools.pairwise(ranked))
        off = max(off, gap([closeness(7 * guess, 7 * truth) for guess in range(151)], values))
    texts = ["<think>a</think><answer>44</answer>", *(f"<answer>{text}</answer>" for text in ("44", "many", "20"))]
    scenario = replace(COUNTING.scenario("train", 0), answer=40)
    whole = shaped(CROWDVLM_R1, [said("q", text, Closeness().grade(text, scenario) or 0.0) for text in texts])
    holds = kept and off < 1e-12 and gap(whole, [2.4, 1.4, 0.0, 0.0]) < 1e-12
    holds &= [closeness(0, 0), closeness(1, 0), number_of(True)] == [1.5, 0.0, None]
    holds &= CROWDVLM_R1.rewards == (Closeness(top=1.5, cut=0.5, weight=1.0),)
    figures = lines(at_the_count=closeness(40, 40), from_half_away=closeness(60, 40), scale_free_to=off)
    return Finding(holds, f"{figures}; of 40, the texts 44 in format, 44, many, 20 earn {line(whole)}")


def undercounting() -> dict[tuple[int, Answer], torch.Tensor]:
    """A start that guesses around small counts, and around seven tenths of those above 20; a seventh of it off."""
    guesses, odds = torch.arange(100, dtype=torch.float64), dict[tuple[int, Answer], torch.Tensor]()
    for question, count in enumerate(COUNTS):
        centre, width = (1.0 if count <= 20 else 0.7) * count, max(0.5, 0.15 * count)
        table = torch.softmax(-((guesses - centre) / width).square() / 2, 0).reshape(10, 10) + 1e-9
        odds |= {(question, (tens,)): row for tens, row in enumerate(table)} | {(question, ()): table.sum(1)}
    return odds


def miss(bench: Bench, question: int) -> float:
    answers, chance = answers_of(bench, question)
    away = torch.tensor([abs(number(answer) - COUNTS[question]) for answer in answers], dtype=torch.float64)
    return float(chance @ away)


@claim("lower absolute error than 0/1 reward at first, most for large counts; it is overtaken once 0/1 hits", slow=True)
def lower_absolute_error_than_0_1_reward_at_first_most_for_large() -> Finding:
    spans = {"all": range(8), "small": range(4), "large": range(4, 8)}
    errors: dict[tuple[str, int], list[list[float]]] = {}
    for recipe in (CROWDVLM_R1, CROWDVLM_R1.but(rewards=())):
        benches = [Bench(COUNTING, recipe, seed=seed, start=starting(undercounting())) for seed in SEEDS]
        for steps, (name, chosen) in itertools.product((40, 80), spans.items()):
            values = [fmean(miss(one.run(steps - one.done, every=steps), q) for q in chosen) for one in benches]
            errors.setdefault((name, steps), []).append(values)
    gain = {key: fmean(sides[1]) - fmean(sides[0]) for key, sides in errors.items()}
    early, late = errors["all", 40], errors["all", 80]
    holds = max(early[0]) < min(early[1]) - 0.5 and gain["large", 40] > gain["small", 40] + 1 and gain["all", 80] < 0
    less = lines(less_for_counts_to_22=gain["small", 40], from_28_on=gain["large", 40])
    figures = [lines(closeness=one, zero_one=other) for one, other in (early, late)]
    return Finding(holds, f"absolute error after 40 updates: {figures[0]}, {less}; after 80: {figures[1]}")


claim.shipped(CROWDVLM_R1, "rewards", task="reasoning-gym:letter_counting")
claim.shipped(CROWDVLM_R1, "shaping", task="reasoning-gym:letter_counting")

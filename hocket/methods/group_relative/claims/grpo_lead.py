"""GRPO-LEAD's claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, pstdev

import torch

from hocket.lab.claims.harness import Claims, Finding, gap, say
from hocket.lab.toys.instances import judged, patient, work_or_guess
from hocket.lab.toys.recorded_answers import advantages, answer, group_relative, lines
from hocket.lab.toys.training import accuracy, right_length, trained
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.grpo_lead import GRPO_LEAD, logistic_weight

claim = Claims("grpo-lead", "arXiv:2504.09696")


@claim("w falls from 1.5 at 0 over 0.95 at 0.75 to 0.48 at 1")
def w_falls_from_1_5_at_0_over_0_95_at_0_75_to_0_48_at_1() -> Finding:
    weight = logistic_weight(torch.linspace(0, 1, 101, dtype=torch.float64), 0.4, 1.1, 10.0, 0.75).tolist()
    ends = [weight[0], weight[75], weight[-1]]
    falls, off = all(a > b for a, b in pairwise(weight)), gap(ends, [1.5, 0.95, 0.4 + 1.1 / (1 + math.exp(2.5))])
    saw = " ".join(f"{one:.4f}" for one in ends)
    return Finding(falls and off < 1e-3, say(**{"w at 0, 0.75, 1": saw}, points=101, falling=falls))


def by_hand(verdicts: Sequence[int], lengths: Sequence[int], alpha: float = 0.05) -> list[float]:
    """GRPO-LEAD's advantages of one group, counted anew."""
    own = [n for n, verdict in zip(lengths, verdicts, strict=True) if verdict]
    middle, deviation, share = fmean(own), pstdev(own), len(own) / len(verdicts)
    pairs = zip(lengths, verdicts, strict=True)
    rewards = [math.exp(-alpha * (n - middle) / (deviation + 1e-6)) if verdict else -1.0 for n, verdict in pairs]
    credit = [(a, share if a > 0 else 1 - share) for a in group_relative(rewards)]
    return [a * (0.4 + 1.1 / (1 + math.exp(10 * (x - 0.75)))) for a, x in credit]


@claim("advantages are as counted by hand; shorter right answers get more, and a right answer beats a wrong one")
def advantages_are_as_counted_by_hand_shorter_right_answers_get() -> Finding:
    gaps, ordered, lengths = [], True, [5, 2, 9, 1, 7, 3]
    for verdicts in ((1, 1, 0, 0, 1, 0), (1, 0, 0, 0, 0, 0), (1, 1, 1, 1, 1, 0), (1, 1, 1, 1, 1, 1)):
        own = advantages(GRPO_LEAD, [answer(float(v), n) for v, n in zip(verdicts, lengths, strict=True)])
        gaps.append(gap(own, by_hand(verdicts, lengths)))
        ranked = sorted(zip(lengths, own, verdicts, strict=True))
        right, wrong = ([a for _, a, v in ranked if v == side] for side in (1, 0))
        ordered &= all(a > b for a, b in pairwise(right)) and min(right) > max([-9.0, *wrong])
    return Finding(max(gaps) < 1e-9 and ordered, say(groups=4, off_a_count_by_hand=max(gaps), ordered=ordered))


@claim(
    "right answers get shorter at equal accuracy, and hard prompts are not answered worse than under GRPO", slow=True
)
def right_answers_get_shorter_at_equal_accuracy_and_hard_prompts() -> Finding:
    world, sides = work_or_guess((0, 5), 7, lucky=False), []
    measures = ((0, accuracy), (1, accuracy), (0, right_length))
    for recipe in (GRPO, GRPO_LEAD):
        benches = trained(world, recipe.but(rewards=(judged(world),)), 40, start=patient(0.6))
        sides.append([[measure(question, one) for one in benches] for question, measure in measures])
    (easy, hard, plain), (own_easy, own_hard, own) = sides
    shorter, equal = all(b < a - 0.2 for a, b in zip(plain, own, strict=True)), gap(easy, own_easy) < 0.01
    lengths = lines(length_of_right_easy_answers=plain, under_LEAD=own, easy_accuracy=own_easy)
    saw = f"{lengths}, {lines(hard_accuracy=hard, under_LEAD=own_hard)}"
    return Finding(shorter and equal and fmean(own_hard) >= fmean(hard), saw)


@claim("without the -1 for wrong answers precision falls", slow=True)
def without_the_1_for_wrong_answers_precision_falls() -> Finding:
    world, rates = work_or_guess((0, 3), 7), []
    for wrong in (-1.0, 0.0):
        recipe = GRPO_LEAD.but({"shaping.0.alpha": 0.5, "shaping.0.wrong": wrong}, rewards=(judged(world),))
        rates.append([accuracy(1, one) for one in trained(world, recipe, 80, start=patient())])
    figures = lines(hard_accuracy_with_minus_1=rates[0], with_0=rates[1])
    return Finding(min(rates[0]) > max(rates[1]) + 0.1, f"after 80 steps, alpha 0.5: {figures}")


claim.shipped(GRPO_LEAD, "shaping", "credit")

"""What grpo-lead claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

import torch

from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.toys.lengths import answer
from hocket.lab.toys.rewarded import SEEDS, advantages, apart, group_relative, line
from hocket.lab.toys.toys import accuracy, bench, judged, patient, right_length, work_or_guess
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.grpo_lead import GRPO_LEAD, logistic_weight

claim = Claims("grpo-lead", "arXiv:2504.09696")


@claim("w falls from 1.5 at 0 over 0.95 at 0.75 to 0.48 at 1")
def weight_shape() -> Finding:
    """W falls from 1.5 at 0 over 0.95 at 0.75 to 0.48 at 1."""
    points = torch.linspace(0, 1, 101, dtype=torch.float64)
    weight = logistic_weight(points, 0.4, 1.1, 10.0, 0.75)
    ends = [float(weight[0]), float(weight[75]), float(weight[-1])]
    holds = bool((weight[1:] < weight[:-1]).all()) and apart(ends, [1.5, 0.95, 0.4 + 1.1 / (1 + math.exp(2.5))]) < 1e-3
    return Finding(holds, f"w(0) {ends[0]:.4f}, w(0.75) {ends[1]:.4f}, w(1) {ends[2]:.4f}, falling at 101 points")


def by_hand(verdicts: Sequence[float], lengths: Sequence[int], alpha: float = 0.05) -> list[float]:
    """GRPO-LEAD's advantages of one group, counted anew."""
    own = [n for n, verdict in zip(lengths, verdicts, strict=True) if verdict]
    middle = sum(own) / max(1, len(own))
    deviation = math.sqrt(sum((n - middle) ** 2 for n in own) / max(1, len(own)))
    pairs = zip(lengths, verdicts, strict=True)
    rewards = [math.exp(-alpha * (n - middle) / (deviation + 1e-6)) if verdict else -1.0 for n, verdict in pairs]
    share = len(own) / len(verdicts)

    def weight(x: float) -> float:
        return 0.4 + 1.1 / (1 + math.exp(10 * (x - 0.75)))

    return [a * weight(share if a > 0 else 1 - share) for a in group_relative(rewards)]


@claim("advantages are as counted by hand; shorter right answers get more, and a right answer beats a wrong one")
def lead_advantages() -> Finding:
    """Advantages are as counted by hand; shorter right answers get more, and a right answer beats a wrong one."""
    worst, ordered = 0.0, True
    for verdicts in ((1, 1, 0, 0, 1, 0), (1, 0, 0, 0, 0, 0), (1, 1, 1, 1, 1, 0), (1, 1, 1, 1, 1, 1)):
        lengths = [5, 2, 9, 1, 7, 3]
        found = advantages(GRPO_LEAD, [answer(float(v), n) for v, n in zip(verdicts, lengths, strict=True)])
        worst = max(worst, apart(found, by_hand([float(v) for v in verdicts], lengths)))
        right = [a for _, a in sorted((n, a) for n, a, v in zip(lengths, found, verdicts, strict=True) if v)]
        wrong = [a for a, v in zip(found, verdicts, strict=True) if not v]
        ordered &= all(a > b for a, b in pairwise(right)) and min(right) > max([-9.0, *wrong])
    return Finding(worst < 1e-9 and ordered, f"largest difference from a count by hand {worst:.1e} over 4 groups")


HARD = work_or_guess((0, 5), 7, lucky=False)


@claim(
    "right answers get shorter at equal accuracy, and hard prompts are not answered worse than under GRPO", slow=True
)
def lead_shortens() -> Finding:
    """Right answers get shorter at equal accuracy, and hard prompts are not answered worse than under GRPO."""
    verdict, rows = judged(HARD), {}
    for recipe in (GRPO, GRPO_LEAD):
        runs = [bench(HARD, recipe.but(rewards=(verdict,)), seed, 40, start=patient(0.6)) for seed in SEEDS]
        rows[recipe.name] = [(accuracy(0, b), accuracy(1, b), right_length(0, b)) for b in runs]
    plain, lead = rows["grpo"], rows["grpo-lead"]
    shorter = all(b[2] < a[2] - 0.2 for a, b in zip(plain, lead, strict=True))
    equal = all(abs(b[0] - a[0]) < 0.01 for a, b in zip(plain, lead, strict=True))
    hard = fmean([b[1] - a[1] for a, b in zip(plain, lead, strict=True)])
    return Finding(
        shorter and equal and hard >= 0,
        f"40 steps, 5 seeds: length of right easy answers {line([a[2] for a in plain])} under GRPO, "
        f"{line([a[2] for a in lead])} under GRPO-LEAD; easy accuracy {line([a[0] for a in lead])}; hard accuracy "
        f"{line([a[1] for a in plain])} and {line([a[1] for a in lead])}",
    )


GUESSING = work_or_guess((0, 3), 7)


@claim("without the -1 for wrong answers precision falls", slow=True)
def penalty_keeps_precision() -> Finding:
    """Without the -1 for wrong answers precision falls."""
    verdict, found = judged(GUESSING), []
    for wrong in (-1.0, 0.0):
        recipe = GRPO_LEAD.but({"shaping.0.alpha": 0.5, "shaping.0.wrong": wrong}, rewards=(verdict,))
        runs = [bench(GUESSING, recipe, seed, 80, start=patient()) for seed in SEEDS]
        found.append([accuracy(1, b) for b in runs])
    holds = min(found[0]) > max(found[1]) + 0.1
    return Finding(
        holds,
        f"hard accuracy after 80 steps, alpha 0.5, five seeds: with -1 {line(found[0])}; with 0 {line(found[1])}: "
        "short guesses then pay",
    )

"""Rows that pay for length: open-rs, GRPO-LEAD, ConciseR."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import torch

from hocket.checks.check import Check, Finding
from hocket.checks.rewarded import SEEDS, advantages, apart, group_relative, line, shaped
from hocket.checks.toys import accuracy, bench, judged, length, patient, right_length, work_or_guess
from hocket.credit.weights import logistic_weight
from hocket.lab import Tabular
from hocket.recipe import Recipe
from hocket.recipes.group_relative import GRPO
from hocket.recipes.length_and_tools import CONCISER, CONCISER_1, GRPO_LEAD, OPEN_RS
from hocket.rewards import CosineLength


def answer(verdict: float, decisions: int, group: str = "g", **more: Any) -> dict[str, Any]:
    """One recorded answer of so many decisions."""
    return {"group": group, "scores": {"reward": verdict}, "logp": [-1.0] * decisions, "text": "", **more}


def rewards_by_length(recipe: Recipe, verdict: float, lengths: Sequence[int]) -> list[float]:
    """What an answer earns at each length, alone in its group."""
    return shaped(recipe, [answer(verdict, n, f"g{n}") for n in lengths])


# ---------------------------------------------------------------- open-rs


def cosine_ends() -> Finding:
    """The cosine reward hits its values at length 0 and at the limit."""
    recipe = OPEN_RS.but({"shaping.0.limit": 40})
    right, wrong = (rewards_by_length(recipe, verdict, [0, 20, 40, 60]) for verdict in (1.0, 0.0))
    # A group of one of no decisions counts in no statistic but is paid all the same.
    holds = apart(right, [2.0, 1.5, 1.0, 1.0]) < 1e-12 and apart(wrong, [-2.0, -1.5, -1.0, -1.0]) < 1e-12
    return Finding(holds, f"right at 0, L/2, L, 1.5 L: {line(right)}; wrong: {line(wrong)} (weight 2)")


def cosine_is_monotone() -> Finding:
    """It falls with length for right answers, rises for wrong ones, and every right answer beats every wrong one."""
    recipe, lengths = OPEN_RS.but({"shaping.0.limit": 40}), range(1, 41)
    right, wrong = (rewards_by_length(recipe, verdict, lengths) for verdict in (1.0, 0.0))
    falls = all(a > b for a, b in pairwise(right))
    rises = all(a < b for a, b in pairwise(wrong))
    return Finding(
        falls and rises and min(right) > max(wrong),
        f"40 lengths: right {right[0]:.3f} falls to {right[-1]:.3f}, wrong {wrong[0]:.3f} rises to {wrong[-1]:.3f}",
    )


def reversed_defaults_are_refused() -> Finding:
    """The script's reversed defaults for wrong answers are refused."""
    said = []
    for values in ({"wrong_short": 0.0, "wrong_long": -0.5}, {"wrong_long": 0.6, "wrong_short": 0.55}):
        try:
            CosineLength(limit=40, **values)
            return Finding(False, f"{values} was accepted")
        except ValueError as error:
            said.append(str(error))
    return Finding(True, said[0])


# ---------------------------------------------------------------- GRPO-LEAD


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


# ---------------------------------------------------------------- ConciseR


def conciser_leaves_mixed_groups() -> Finding:
    """With a wrong answer in the group, advantages are GRPO's."""
    worst = 0.0
    for verdicts in ((1, 0, 1, 1), (0, 0, 0, 1), (0, 0, 0, 0), (1, 1, 1, 0)):
        rows = [answer(float(v), n) for v, n in zip(verdicts, (3, 9, 1, 20), strict=True)]
        worst = max(worst, apart(advantages(CONCISER, rows), advantages(GRPO, rows)))
    return Finding(
        worst < 1e-12, f"largest difference from GRPO's advantages over 4 groups with a wrong answer {worst:.1e}"
    )


def conciser_ranks_right_groups() -> Finding:
    """In a group of right answers the advantage falls strictly with length."""
    lengths = [1, 2, 40, 41, 127, 128]
    found = advantages(CONCISER, [answer(1.0, n) for n in lengths])
    falls = all(a > b for a, b in pairwise(found))
    middle = sum(lengths) / len(lengths)
    worst = apart(found, [(middle - n) / 128 for n in lengths])
    return Finding(falls and worst < 1e-12, f"lengths {lengths}: {line(found)}, mean-centred alone")


WALK = work_or_guess((0, 4), 7)


def continued(from_policy: Tabular) -> Callable[[Tabular], None]:
    """A start from the weights another run has reached."""

    def start(policy: Tabular) -> None:
        policy.logits.copy_(from_policy.logits)

    return start


def conciser_walks_before_it_runs() -> Finding:
    """The second stage shortens answers without losing the first one's accuracy."""
    verdict, second = judged(WALK), CONCISER.but({"shaping.0.limit": 7})
    rows = []
    for seed in SEEDS:
        first = bench(WALK, CONCISER_1.but(rewards=(verdict,)), seed, 60, start=patient())
        then = bench(WALK, second.but(rewards=(verdict,)), seed + 100, 30, start=continued(first.policy))
        rows.append([measure(q, b) for b in (first, then) for measure in (accuracy, length) for q in (0, 1)])
    shorter = all(row[6] < row[2] - 0.1 for row in rows) and fmean([row[7] - row[3] for row in rows]) < 0
    kept = all(row[4] >= row[0] - 0.005 and row[5] >= row[1] - 0.005 for row in rows)
    means = [fmean([row[place] for row in rows]) for place in range(8)]
    return Finding(
        shorter and kept,
        f"means of 5 seeds, 60 then 30 steps: easy length {means[2]:.2f} to {means[6]:.2f}, hard {means[3]:.2f} to "
        f"{means[7]:.2f} (5 needed); accuracy {means[0]:.3f}, {means[1]:.3f} to {means[4]:.3f}, {means[5]:.3f}",
    )


def always_on_loses() -> Finding:
    """A length reward that is always on loses accuracy on hard prompts."""
    verdict, found = judged(WALK), []
    for always in (False, True):
        recipe = CONCISER.but({"shaping.0.limit": 7, "shaping.0.always": always}, rewards=(verdict,))
        found.append([accuracy(1, bench(WALK, recipe, seed, 70, start=patient())) for seed in SEEDS])
    return Finding(
        min(found[0]) > max(found[1]) + 0.2,
        f"hard accuracy after 70 steps from the same start: gated {line(found[0])}; always on {line(found[1])}",
    )


_OPEN, _LEAD, _CONCISE = "arXiv:2503.16219, rewards of its public code", "arXiv:2504.09696", "arXiv:2505.21178"

CHECKS = (
    Check("open-rs", "the cosine reward hits its values at length 0 and at the limit", cosine_ends, _OPEN),
    Check(
        "open-rs",
        "it falls with length for right answers, rises for wrong ones, and every right answer beats every wrong one",
        cosine_is_monotone,
        _OPEN,
    ),
    Check(
        "open-rs", "the script's reversed defaults for wrong answers are refused", reversed_defaults_are_refused, _OPEN
    ),
    Check("grpo-lead", "w falls from 1.5 at 0 over 0.95 at 0.75 to 0.48 at 1", weight_shape, _LEAD),
    Check(
        "grpo-lead",
        "advantages are as counted by hand; shorter right answers get more, and a right answer beats a wrong one",
        lead_advantages,
        _LEAD,
    ),
    Check(
        "grpo-lead",
        "right answers get shorter at equal accuracy, and hard prompts are not answered worse than under GRPO",
        lead_shortens,
        _LEAD,
        slow=True,
    ),
    Check("grpo-lead", "without the -1 for wrong answers precision falls", penalty_keeps_precision, _LEAD, slow=True),
    Check(
        "conciser", "with a wrong answer in the group, advantages are GRPO's", conciser_leaves_mixed_groups, _CONCISE
    ),
    Check(
        "conciser",
        "in a group of right answers the advantage falls strictly with length",
        conciser_ranks_right_groups,
        _CONCISE,
    ),
    Check(
        "conciser",
        "the second stage shortens answers without losing the first one's accuracy",
        conciser_walks_before_it_runs,
        _CONCISE,
        slow=True,
    ),
    Check(
        "conciser",
        "a length reward that is always on loses accuracy on hard prompts",
        always_on_loses,
        "the row",
        slow=True,
    ),
)

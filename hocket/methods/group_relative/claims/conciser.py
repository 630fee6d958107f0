"""What conciser claims."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import fmean

from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.policy import Tabular
from hocket.lab.toys.lengths import answer
from hocket.lab.toys.rewarded import SEEDS, advantages, apart, line
from hocket.lab.toys.toys import accuracy, bench, judged, length, patient, work_or_guess
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.conciser import CONCISER, CONCISER_1

claim = Claims("conciser", "arXiv:2505.21178")


@claim("with a wrong answer in the group, advantages are GRPO's")
def conciser_leaves_mixed_groups() -> Finding:
    """With a wrong answer in the group, advantages are GRPO's."""
    worst = 0.0
    for verdicts in ((1, 0, 1, 1), (0, 0, 0, 1), (0, 0, 0, 0), (1, 1, 1, 0)):
        rows = [answer(float(v), n) for v, n in zip(verdicts, (3, 9, 1, 20), strict=True)]
        worst = max(worst, apart(advantages(CONCISER, rows), advantages(GRPO, rows)))
    return Finding(
        worst < 1e-12, f"largest difference from GRPO's advantages over 4 groups with a wrong answer {worst:.1e}"
    )


@claim("in a group of right answers the advantage falls strictly with length")
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


@claim("the second stage shortens answers without losing the first one's accuracy", slow=True)
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


@claim("a length reward that is always on loses accuracy on hard prompts", "the row", slow=True)
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

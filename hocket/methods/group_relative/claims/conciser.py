"""ConciseR's claims."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import EXACT, SEEDS, below, gap, say
from hocket.lab.policy import Tabular
from hocket.lab.toys.lengths import answer
from hocket.lab.toys.rewarded import advantages, line
from hocket.lab.toys.toys import accuracy, bench, judged, length, patient, work_or_guess
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.conciser import CONCISER, CONCISER_1

claim = Claims("conciser", "arXiv:2505.21178")


@claim("with a wrong answer in the group, advantages are GRPO's")
def _() -> Finding:
    groups = [
        [answer(float(v), n) for v, n in zip(verdicts, (3, 9, 1, 20), strict=True)]
        for verdicts in ((1, 0, 1, 1), (0, 0, 0, 1), (0, 0, 0, 0), (1, 1, 1, 0))
    ]
    gaps = [gap(advantages(CONCISER, rows), advantages(GRPO, rows)) for rows in groups]
    return below(EXACT, largest_difference_of_advantages_in_4_groups=max(gaps))


@claim("in a group of right answers the advantage falls strictly with length")
def _() -> Finding:
    lengths = [1, 2, 40, 41, 127, 128]
    ours = advantages(CONCISER, [answer(1.0, n) for n in lengths])
    falls = all(a > b for a, b in pairwise(ours))
    centred = gap(ours, [(fmean(lengths) - n) / 128 for n in lengths])
    return Finding(falls and centred < EXACT, f"lengths {lengths}: {line(ours)}, mean-centred alone")


WALK = work_or_guess((0, 4), 7)
SHORT = CONCISER.but({"shaping.0.limit": 7}, rewards=(judged(WALK),))


@claim("the second stage shortens answers without losing the first one's accuracy", slow=True)
def _() -> Finding:
    rows = []
    for seed in SEEDS:
        first = bench(WALK, CONCISER_1.but(rewards=SHORT.rewards), seed, 60, start=patient())

        def reached(policy: Tabular, weights: Tabular = first.policy) -> None:
            policy.logits.copy_(weights.logits)

        then = bench(WALK, SHORT, seed + 100, 30, start=reached)
        rows.append([measure(q, b) for measure in (accuracy, length) for q in (0, 1) for b in (first, then)])
    easy, after_easy, hard, after_hard, long, short, long_hard, short_hard = zip(*rows, strict=True)
    shorter = max(b - a for a, b in zip(long, short, strict=True)) < -0.1 and fmean(short_hard) < fmean(long_hard)
    kept = all(b >= a - 0.005 for a, b in zip(easy + hard, after_easy + after_hard, strict=True))
    names = ("accuracy, easy", "accuracy, hard", "length, easy", "length, hard (5 needed)")
    means = [fmean(column) for column in zip(*rows, strict=True)]
    saw = "; ".join(f"{name} {means[2 * n]:.3f} to {means[2 * n + 1]:.3f}" for n, name in enumerate(names))
    return Finding(shorter and kept, f"means of 5 seeds, 60 then 30 steps: {saw}")


@claim("a length reward that is always on loses accuracy on hard prompts", "the row", slow=True)
def _() -> Finding:
    gated, always = (
        [accuracy(1, bench(WALK, SHORT.but({"shaping.0.always": on}), seed, 70, start=patient())) for seed in SEEDS]
        for on in (False, True)
    )
    saw = say(gated=line(gated), always_on=line(always))
    return Finding(min(gated) > max(always) + 0.2, f"hard accuracy after 70 steps from the same start: {saw}")

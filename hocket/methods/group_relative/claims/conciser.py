"""ConciseR's claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import fmean

from hocket.core.components import value_at
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap
from hocket.lab.hand_formulas import CountedAnswer, centred, clipped, off, stale_rows, standardised
from hocket.lab.toys.instances import judged, patient, work_or_guess
from hocket.lab.toys.recorded_answers import advantages, answer, line, lines
from hocket.lab.toys.training import accuracy, length, trained
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.conciser import CONCISER, CONCISER_1
from hocket.rollout.dynamic import DynamicSampling
from hocket.rollout.independent import Independent

claim = Claims("conciser", "arXiv:2505.21178")


@claim("with a wrong answer in the group, advantages are GRPO's")
def with_a_wrong_answer_in_the_group_advantages_are_grpos() -> Finding:
    groups = [
        [answer(float(v), n) for v, n in zip(verdicts, (3, 9, 1, 20), strict=True)]
        for verdicts in ((1, 0, 1, 1), (0, 0, 0, 1), (0, 0, 0, 0), (1, 1, 1, 0))
    ]
    gaps = [gap(advantages(CONCISER, rows), advantages(GRPO, rows)) for rows in groups]
    return below(EXACT, largest_difference_of_advantages_in_4_groups=max(gaps))


@claim("in a group of right answers the advantage falls strictly with length")
def in_a_group_of_right_answers_the_advantage_falls_strictly_with() -> Finding:
    lengths = [1, 2, 40, 41, 127, 128]
    ours = advantages(CONCISER, [answer(1.0, n) for n in lengths])
    falls = all(a > b for a, b in pairwise(ours))
    centred = gap(ours, [(fmean(lengths) - n) / 128 for n in lengths])
    return Finding(falls and centred < EXACT, f"lengths {lengths}: {line(ours)}, mean-centred alone")


@claim("advantages, loss and gradient of both stages are those counted by hand, clipped at 0.2 and 0.28")
def advantages_loss_and_gradient_of_both_stages_are_those_counted() -> Finding:
    def credit(members: Sequence[CountedAnswer]) -> list[float]:
        if min(one.reward for one in members) < 0.5:
            return standardised(members)
        return centred([replace(one, reward=one.reward + 1 - len(one.row["logp"]) / 128) for one in members])

    gaps, loss = [], partial(clipped, high=0.28)
    for rows in stale_rows("conciser", gap=0.3):
        for row in rows:
            reward = row["scores"]["reward"]
            row["scores"] = {"reward": {"group 0": 1.0, "group 1": (1 + reward) / 2}.get(row["group"], reward)}
        gaps += [off(CONCISER, rows, loss, credit), off(CONCISER_1, rows, loss)]
    updates = [value_at(one, "update.minibatches") for one in (CONCISER, CONCISER_1)]
    rollouts = CONCISER.rollout == Independent(8) and CONCISER_1.rollout == DynamicSampling(samples=8, max_rounds=3)
    return below(EXACT, rollouts, updates == [4, 4], off_by_hand=max(gaps))


WALK = work_or_guess((0, 4), 7)
SHORT = CONCISER.but({"shaping.0.limit": 7, "update.minibatches": 1}, rewards=(judged(WALK),))


@claim("the second stage shortens answers without losing the first one's accuracy", slow=True)
def the_second_stage_shortens_answers_without_losing_the_first_ones() -> Finding:
    rows = []
    for seed in SEEDS:
        (first,) = trained(
            WALK, CONCISER_1.but(rewards=SHORT.rewards, update=SHORT.update), 60, seeds=(seed,), start=patient()
        )
        after = first.policy.logits.detach()
        (then,) = trained(WALK, SHORT, 30, seeds=(seed + 100,), start=lambda one, after=after: one.logits.copy_(after))
        rows.append([measure(q, b) for measure in (accuracy, length) for q in (0, 1) for b in (first, then)])
    easy, after_easy, hard, after_hard, long, short, long_hard, short_hard = zip(*rows, strict=True)
    shorter = max(b - a for a, b in zip(long, short, strict=True)) < -0.1 and fmean(short_hard) < fmean(long_hard)
    kept = all(b >= a - 0.005 for a, b in zip(easy + hard, after_easy + after_hard, strict=True))
    means = [fmean(column) for column in zip(*rows, strict=True)]
    names = ("accuracy_easy", "accuracy_hard", "length_easy", "length_hard_5_needed")
    saw = lines(**{name: means[2 * n : 2 * n + 2] for n, name in enumerate(names)})
    return Finding(shorter and kept, f"means of 5 seeds, 60 then 30 steps: {saw}")


@claim("a length reward that is always on loses accuracy on hard prompts", "the row", slow=True)
def a_length_reward_that_is_always_on_loses_accuracy_on_hard() -> Finding:
    gated, always = (
        [accuracy(1, one) for one in trained(WALK, SHORT.but({"shaping.0.always": on}), 70, start=patient())]
        for on in (False, True)
    )
    saw = lines(gated=gated, always_on=always)
    return Finding(min(gated) > max(always) + 0.2, f"hard accuracy after 70 steps from the same start: {saw}")


claim.shipped(CONCISER, "shaping", steps=6)
claim.shipped(CONCISER, "credit", steps=6)
claim.shipped(CONCISER_1, "rollout")
claim.shipped(CONCISER_1, "objective.high", steps=2)

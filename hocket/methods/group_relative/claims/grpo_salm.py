"""GRPO-SALM's claims."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from statistics import fmean

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, inspect_rows, say
from hocket.lab.toys.pictured_runs import PicturedRun
from hocket.lab.toys.recorded_answers import advantages, answer, group_relative, lines, sample
from hocket.methods.group_relative.grpo_salm import GRPO_SALM, GRPO_SALM_MIXED, ReferenceBleu
from hocket.rollout.experts import WithExpert
from hocket.train.evaluate import EvaluationResult
from hocket.types import Scenario, Trajectory, Turn

claim = Claims("grpo-salm", "arXiv:2509.16990")


def bleu_by_hand(words: list[str], due: list[str]) -> float:
    """Papineni's BLEU of a sentence with the orders that it has; the k-th precision of 0 counts as 1/2^k of a match."""
    logs, halves = [], 1.0
    for order in range(1, min(4, len(words)) + 1):
        ours, theirs = (
            Counter(tuple(text[place : place + order]) for place in range(len(text) - order + 1))
            for text in (words, due)
        )
        matches = float(sum((ours & theirs).values()))
        if order == 1 and not matches:
            return 0.0
        if not matches:
            halves *= 2
            matches = 1 / halves
        logs.append(math.log(matches / (len(words) - order + 1)))
    return math.exp(fmean(logs) + min(0.0, 1 - len(due) / len(words)))


@claim("The reward is the BLEU of the answer against the reference; without an answer it is 0.")
def the_reward_is_the_bleu_of_the_answer() -> Finding:
    rng, off = Key.of(0).numpy(), 0.0
    for _ in range(60):
        words, due = (
            [("do", "re", "mi", "fa")[n] for n in rng.integers(0, 4, int(rng.integers(1, 7)))] for _ in range(2)
        )
        reward = ReferenceBleu().grade(f"<answer>{' '.join(words)}</answer>", Scenario("s", "?", " ".join(due)))
        assert reward is not None
        off = max(off, abs(reward - bleu_by_hand(words, due)))
    texts = ("<answer>do re</answer>", "<answer>la</answer>", "<answer></answer>", "do re", "")
    zeros = rng.integers(0, 1, 1)
    rows = [Trajectory(Scenario("s", "?", "do re"), [Turn("p", "p", zeros, zeros, text=text)]) for text in texts]
    rows.append(Trajectory(Scenario("t", "?"), rows[0].turns))
    edges = list(asyncio.run(ReferenceBleu()(rows, key=Key.of(0))))
    shipped = GRPO_SALM.rewards == (ReferenceBleu("answer-tag", "bleu", 1.0),)
    return Finding(off < 1e-6 and edges == [1.0, 0.0, 0.0, 0.0, 0.0, None] and shipped, say(off=off, edges=str(edges)))


@claim("Advantages are z-scores of the group's BLEU, with a KL of 0.04.")
def advantages_are_z_scores_of_the_groups_bleu() -> Finding:
    values = [0.1, 0.5, 0.5, 1.0]
    off = gap(
        advantages(GRPO_SALM, [answer(value, 2, logp_ref=[-1.0, -1.0]) for value in values]), group_relative(values)
    )
    (penalty,) = GRPO_SALM.regularisers
    return Finding(off < EXACT and penalty.coefficient == 0.04, say(off=off))  # type: ignore[attr-defined]


@claim(
    "With the reference among 8 a group without one good sample has a gradient, at ratio 1; without it there is none."
)
def with_the_reference_a_group_without_one_good_sample_has_a_gradient() -> Finding:
    samples = [sample("q", 0.0, [-1.0, -1.0], logp_ref=[-1.0, -1.0], source="own") for _ in range(8)]
    gold = sample("q", 1.0, [-2.0, -2.0], logp_ref=[-2.0, -2.0], source="expert")
    alone, mixed = inspect_rows(GRPO_SALM, samples), inspect_rows(GRPO_SALM_MIXED, [*samples[:7], gold])
    due = [[-credit / 16] * 2 for credit in group_relative([0.0] * 7 + [1.0])]
    off = max(gap(row, wanted) for row, wanted in zip(mixed["gradient"], due, strict=True))
    nothing = all(value == 0.0 for row in alone["gradient"] for value in row)
    rollout = GRPO_SALM_MIXED.rollout == WithExpert(8, 1)
    return Finding(off < EXACT and nothing and rollout, say(off=off))


def mean_bleu(result: EvaluationResult) -> float:
    """The mean BLEU of evaluated answers."""
    reward = ReferenceBleu()
    return fmean(reward.grade(item.text, item.scenario) or 0.0 for item in result.trajectories)


@claim("As shipped, BLEU rises on recordings of unheard melodies, and with silence it stays.", slow=True, learns=True)
def bleu_rises_on_unheard_melodies() -> Finding:
    n = 100
    run = PicturedRun.of(GRPO_SALM, "tones?kinds=notes", model="nano-audio")
    before = run.measured(n)
    after, silent = run.train(20).measured(n), mean_bleu(run.blind(n))
    values = [mean_bleu(before), mean_bleu(after)]
    figures = lines(bleu_before_and_after=values, right=[before.success, after.success], silence=silent)
    return Finding(values[1] > values[0] + 0.1 and after.success > before.success and silent < 0.5, figures)


claim.shipped(GRPO_SALM, "rewards", settings={"model": "nano-audio"})
claim.shipped(GRPO_SALM_MIXED, "rollout", settings={"model": "nano-audio"})

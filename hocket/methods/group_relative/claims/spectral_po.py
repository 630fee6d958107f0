"""Spectral policy optimisation's claims."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS, Claims, Finding, inspect_rows
from hocket.lab.toys.rewarded import drawn, lines, sample
from hocket.lab.toys.training import chances
from hocket.lab.world import Answer, Graded, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.spectral_po import SPECTRAL_PO, right_share, step_score
from hocket.recipe import Recipe

claim = Claims("spectral-po", "arXiv 2505.11595")


def judged(rows: list[dict[str, Any]], shares: list[float]) -> list[dict[str, Any]]:
    return [{**row, "scores": {**row["scores"], "rts": rts}} for row, rts in zip(rows, shares, strict=True)]


@claim("Mixed groups are GRPO's to the bit; all-wrong ones get advantages iff scores differ.")
def _() -> Finding:
    equal, wrong = 0, [sample("a", 0.0, [-1.0])] * 3
    for rows in (drawn(seed)["trajectories"] for seed in range(20)):
        scored = judged(rows, [number / 20 for number in range(len(rows))])
        equal += inspect_rows(SPECTRAL_PO, scored)["advantages"] == inspect_rows(GRPO, rows)["advantages"]
    pair = (judged(wrong, shares) for shares in ([0.1, 0.5, 0.5], [0.5] * 3))
    apart, alike = (inspect_rows(SPECTRAL_PO, rows)["advantages"] for rows in pair)
    holds = equal == 20 and alike == [[0.0]] * 3 and apart[0][0] < 0 < apart[1][0]
    return Finding(holds, f"{equal} of 20 mixed batches equal to the bit; all wrong: {apart} and {alike}")


@claim("The score rises strictly with the right share and stays inside (0, 1).")
def _() -> Finding:
    score = step_score(torch.linspace(0, 1, 101, dtype=torch.float64), 5.0, 0.5)
    rises = bool((score.diff() > 0).all()) and float(score.min()) > 0 and float(score.max()) < 1
    shares = [right_share(text) for text in ("2 + 3 = 5, 5 + 4 = 9.", "2 + 3 = 5, 5 + 4 = 8.", "2 + 3 = 6", "no step")]
    figures = lines(lowest=float(score[0]), highest=float(score[-1]), judge_on_4_texts=shares)
    return Finding(rises and shares == [1.0, 11 / 21, 0.0, 0.0], figures)


def share(question: int, answer: Answer) -> float:
    """How much of a chain is right up to its first wrong step."""
    return next((n for n, token in enumerate(answer) if token != 0), len(answer)) / len(answer)


def done(question: int, answer: Answer) -> float:
    return float(share(question, answer) == 1.0)


def times(length: int, recipe: Recipe, seed: int, most: int = 200) -> tuple[int, int]:
    """The steps of the first success and of 90 % success on a chain."""
    scores, first = (Graded("reward", done), Graded("rts", share, weight=0.0)), most
    bench = Bench(World(1, 6, length, done, context="position"), recipe.but({"rewards": scores}), seed=seed, lr=0.1)
    for step in range(1, most + 1):
        batch = bench.step().batch
        assert batch is not None
        # Shaping replaces rewards where nobody is right, so success is read off the judge.
        first = min(first, step) if bool((batch.scores["rts"].values == 1).any()) else first
        if float(torch.stack([chances(bench, 0, (0,) * place)[0] for place in range(length)]).prod()) >= 0.9:
            return first, step
    return first, most


@claim(
    "In chains of k steps the first success and 90 % come sooner than under GRPO, the more so the longer.", slow=True
)
def _() -> Finding:
    plain, ours = (
        [
            [fmean(step) for step in zip(*(times(length, one, seed) for seed in SEEDS), strict=True)]
            for length in (2, 3, 4)
        ]
        for one in (GRPO, SPECTRAL_PO)
    )
    sooner, gain = ([a[n] / b[n] for a, b in zip(plain, ours, strict=True)] for n in (0, 1))
    holds = gain[0] < gain[1] < gain[2] and gain[1] > 1.2 and gain[2] > 1.5 and sooner[2] > 1.2
    figures = lines(GRPOs_time_to_90_percent_over_ours=gain, to_the_first_success=sooner, at_most=200)
    return Finding(holds, f"chains of 2, 3, 4 steps: {figures}")


claim.shipped(SPECTRAL_PO, "shaping")

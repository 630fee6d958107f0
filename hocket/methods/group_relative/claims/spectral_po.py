"""Spectral policy optimisation's claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch

from hocket.lab.bench import Bench
from hocket.lab.claims.harness import SEEDS, Claims, Finding, below, gap, inspect_rows, say
from hocket.lab.toys.recorded_answers import drawn, lines, sample, shaped
from hocket.lab.toys.training import chances
from hocket.lab.world import Answer, GradedReward, World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.spectral_po import SPECTRAL_PO, right_share, step_score, steps_of
from hocket.recipe import Recipe
from hocket.rewards.judging import Answer as Said
from hocket.rewards.judging import Judge, Question

claim = Claims("spectral-po", "arXiv 2505.11595")


def judged(rows: list[dict[str, Any]], shares: list[float]) -> list[dict[str, Any]]:
    return [{**row, "scores": {**row["scores"], "rts": rts}} for row, rts in zip(rows, shares, strict=True)]


@claim("Mixed groups are GRPO's to the bit; all-wrong ones get advantages iff scores differ.")
def mixed_groups_are_grpos_to_the_bit_all_wrong_ones_get_advantages() -> Finding:
    equal, wrong = 0, [sample("a", 0.0, [-1.0])] * 3
    for rows in (drawn(seed)["trajectories"] for seed in range(20)):
        scored = judged(rows, [number / 20 for number in range(len(rows))])
        equal += inspect_rows(SPECTRAL_PO, scored)["advantages"] == inspect_rows(GRPO, rows)["advantages"]
    pair = (judged(wrong, shares) for shares in ([0.1, 0.5, 0.5], [0.5] * 3))
    apart, alike = (inspect_rows(SPECTRAL_PO, rows)["advantages"] for rows in pair)
    holds = equal == 20 and alike == [[0.0]] * 3 and apart[0][0] < 0 < apart[1][0]
    return Finding(holds, f"{equal} of 20 mixed batches equal to the bit; all wrong: {apart} and {alike}")


@claim("The score rises strictly with the right share and stays inside (0, 1).")
def the_score_rises_strictly_with_the_right_share_and_stays_inside() -> Finding:
    score = step_score(torch.linspace(0, 1, 101, dtype=torch.float64), 5.0, 0.5)
    rises = bool((score.diff() > 0).all()) and float(score.min()) > 0 and float(score.max()) < 1
    shares = [right_share(text) for text in ("2 + 3 = 5, 5 + 4 = 9.", "2 + 3 = 5, 5 + 4 = 8.", "2 + 3 = 6", "no step")]
    figures = lines(lowest=float(score[0]), highest=float(score[-1]), judge_on_4_texts=shares)
    return Finding(rises and shares == [1.0, 11 / 21, 0.0, 0.0], figures)


@claim("Sums, differences and products are checked; steps are sentences and lines, and begin where their words do.")
def sums_differences_and_products_are_checked_steps_are_sentences() -> Finding:
    texts = {
        "7 - 3 = 4": 1.0,
        "7 - 3 = 10": 0.0,
        "2 * 3 = 6": 1.0,
        "2 * 3 = 5": 0.0,
        "2 + 3 = 5; 9 - 2 = 7; 4 * 2 = 2": 22 / 31,
    }
    wrong = [text for text, value in texts.items() if right_share(text) != value]
    steps = steps_of(" One is 1.5.  Two!\n\n  three\n")
    due = [(1, "One is 1.5."), (14, "Two!"), (22, "three")]
    return Finding(not wrong and steps == due, say(wrong=str(wrong), steps=str(steps)))


@claim("In failed groups the score is the sigmoid of 5 (share - 0.5), by the rule or by the step that a judge names.")
def in_failed_groups_the_score_is_the_sigmoid_of_5_by_the_rule_or() -> Finding:
    heard: list[Question] = []

    class Names(Judge):
        def ask(self, questions: Sequence[Question]) -> list[Said]:
            heard.extend(questions)
            told = {"A": "2", "B": "0", "C": "none of these", "D": "3"}
            return [Said(told[one.prompt.partition("1. ")[2][0]]) for one in questions]

    texts = ["A one. Two.", "B is so.", "C is not.", "D. E.\nF G.", ""]
    rows = [sample("a", 0.0, [-1.0], text=text, info={"prompt": "Which?"}) for text in texts]
    rows += [sample("b", float(place), [-1.0], text="2 + 3 = 6") for place in range(2)]
    judged_by = shaped(SPECTRAL_PO.but({"shaping.0.judge": Names("names")}), rows)
    shares = [7 / 11, 1.0, 0.0, 6 / 10, 0.0]
    due = [*(1 / (1 + math.exp(-5 * (one - 0.5))) for one in shares), 0.0, 1.0]
    sums = ["1 + 1 = 2, 1 + 1 = 3", "1 + 1 = 2", ""]
    ruled = shaped(SPECTRAL_PO, [sample("a", 0.0, [-1.0], text=text) for text in sums])
    by_rule = [1 / (1 + math.exp(-5 * (one - 0.5))) for one in (11 / 20, 1.0, 0.0)]
    asked = len(heard) == 4 and all("Which?" in one.prompt for one in heard)
    choices = [len(one.choices) for one in heard] == [3, 2, 2, 4]
    return below(1e-6, asked, choices, judged=gap(judged_by, due), ruled=gap(ruled, by_rule))


def share(question: int, answer: Answer) -> float:
    """How much of a chain is right up to its first wrong step."""
    return next((n for n, token in enumerate(answer) if token != 0), len(answer)) / len(answer)


def done(question: int, answer: Answer) -> float:
    return float(share(question, answer) == 1.0)


def times(length: int, recipe: Recipe, seed: int, most: int = 200) -> tuple[int, int]:
    """The steps of the first success and of 90 % success on a chain."""
    scores, first = (GradedReward("reward", done), GradedReward("rts", share, weight=0.0)), most
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
def in_chains_of_k_steps_the_first_success_and_90_come_sooner_than() -> Finding:
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

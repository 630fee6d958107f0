"""TW-GRPO's claims."""

from __future__ import annotations

import itertools
import math
from statistics import fmean

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, gap
from hocket.lab.microscope import RecordedBatch
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import document, sample, shown
from hocket.lab.toys.training import chances, logits
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.tw_grpo import DIVERGENCE, TW_GRPO, divergence_by_place
from hocket.rewards.choices import inverted, subset_score
from hocket.types import Scenario

claim = Claims("tw-grpo", "arXiv 2505.24718")


@claim("Weights lie in [1, w_max], are equal for identical completions and least on a shared opening.")
def _() -> Finding:
    policy = Tabular(World(questions=1, tokens=3, horizon=3, reward=lambda q, a: float(a[2] == 0)))
    with torch.no_grad():
        policy.logits[:] = torch.from_numpy(Key.of(5).numpy().normal(size=tuple(policy.logits.shape)))
        table = torch.log_softmax(policy.logits, -1)

    def weighed(*answers: Answer) -> list[list[float]]:
        paths = [policy.path(0, answer) for answer in answers]
        rows = [
            sample("a", float(n % 2), table[path, answer].tolist(), tokens=list(answer))
            for n, (path, answer) in enumerate(zip(paths, answers, strict=True))
        ]
        read = RecordedBatch(document(rows))
        batch = read.batch.but(observation=[np.array(path, np.int64) for path in paths])
        divergence = divergence_by_place(batch, policy, torch.arange(batch.decisions), budget=9)
        credited, _ = TW_GRPO.compute_credit(batch.but(annotations={DIVERGENCE.name: divergence}), TW_GRPO.init(), {})
        return read.by_trajectory(credited.occurrences.weight)

    answers = ((0, 1, 2), (0, 2, 1), (0, 0, 0))
    alike, apart = weighed(*[answers[0]] * 3), weighed(*answers)
    divergences = []
    for place in range(3):
        rows = [table[policy.row(0, answer[:place])].tolist() for answer in answers]
        centre = [fmean(column) for column in zip(*rows, strict=True)]
        parts = [[math.exp(m - x) - (m - x) - 1 for m, x in zip(centre, row, strict=True)] for row in rows]
        divergences.append(fmean(map(sum, parts)))
    low, high = min(divergences), max(divergences)
    by_hand = [1 + 0.4 * (x - low) / (high - low + 1e-8) for x in divergences]
    holds = alike == [[1.0] * 3] * 3 and all(1 <= x <= 1.4 for row in apart for x in row)
    holds &= gap(apart[0], by_hand) < EXACT and apart[0][0] == apart[0][1] == 1.0
    return Finding(holds, f"identical {alike[0]}; shared first token {shown(apart[0])}, by hand {shown(by_hand)}")


@claim("Part of the right options earns part of the reward.")
def _() -> Finding:
    values = {given: subset_score(set(given), set("ACD")) for given in ("A", "AC", "ACD", "AB", "")}
    turned = inverted(Scenario("q", "Which one?", "B", {"options": ["A", "B", "C"]}))
    holds = list(values.values()) == [1 / 3, 2 / 3, 1.0, 0.0, 0.0]
    holds &= turned.answer == ["A", "C"] and turned.origin == "q"
    return Finding(holds, f"scores {values}; inverted answer {turned.answer}")


# Three certain tokens, one that is free, and one that must fit it: the only place where samples differ.
WORLD = World(2, 4, 5, lambda question, answer: float(answer[4] == (answer[3] + question) % 4), context="last")
NOISE = torch.from_numpy(Key.of(11).numpy().normal(size=(2, 4, 4)))


def start(policy: Tabular) -> None:
    for question, last in itertools.product(range(2), range(4)):
        for place in range(3):
            logits(policy, question, (*(0,) * (place - 1), last) if place else (), {0: 0.97}, 0.01)
        policy.logits[policy.row(question, (0, 0, 0, last))] = NOISE[question, last]


def learnt(largest: float, *, plain: bool) -> list[float]:
    """Accuracy by seed after 30 steps, of plain gradients or of Adam."""
    recipe, rates = TW_GRPO.but({"credit.largest": largest, "update.clip_norm": None}), []
    for seed in SEEDS:
        bench = Bench(WORLD, recipe, seed=seed, lr=0.05, start=start)
        if plain:
            bench.learner.optimiser = torch.optim.SGD(bench.policy.module.parameters(), lr=5.0)
        bench.run(30)
        pairs = itertools.product(range(2), range(4))
        parts = (chances(bench, q, (0,) * 3)[n] * chances(bench, q, (0, 0, 0, n))[(n + q) % 4] for q, n in pairs)
        rates.append(4 * fmean(map(float, parts)))
    return rates


@claim("After a certain opening, weighed places learn faster per plain gradient step than uniform ones.", slow=True)
def _() -> Finding:
    """Adam hardly sees a constant scale."""
    (weighed, uniform), adam = ([learnt(top, plain=plain) for top in (1.4, 1.0)] for plain in (True, False))
    gains = [a - b for a, b in zip(weighed, uniform, strict=True)]
    saw = f"accuracy after 30 plain gradient steps {shown(weighed)} against {shown(uniform)} with uniform weights"
    differences = [a - b for a, b in zip(*adam, strict=True)]
    return Finding(min(gains) > 0, f"{saw}; with Adam the differences are {shown(differences)}")


claim.shipped(TW_GRPO, "credit")

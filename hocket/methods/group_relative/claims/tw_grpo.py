"""What tw-grpo claims."""

from __future__ import annotations

import itertools
import math
from statistics import fmean

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading
from hocket.lab.policy import Tabular
from hocket.lab.toys.token_weights import SEEDS, chances, document, logits, same, sample, shown, trained
from hocket.lab.world import Answer, World
from hocket.methods.group_relative.tw_grpo import DIVERGENCE, divergence_by_place
from hocket.recipes import find
from hocket.rewards.choices import inverted, subset_score
from hocket.types import Scenario

claim = Claims("tw-grpo", "arXiv 2505.24718")


TW = find("tw-grpo")


@claim("Weights lie in [1, w_max], are equal for identical completions and least on a shared opening.")
def places_weigh_what_differs() -> Finding:
    """Weights lie in [1, w_max]; equal for identical completions; least on a shared opening."""
    world = World(questions=1, tokens=3, horizon=3, reward=lambda q, a: float(a[2] == 0))
    policy = Tabular(world)
    with torch.no_grad():
        policy.logits[:] = torch.from_numpy(Key.of(5).numpy().normal(size=tuple(policy.logits.shape)))

    def weighed(answers: list[Answer]) -> list[list[float]]:
        rows = [
            sample("a", float(n % 2), [float(x) for x in token_logps(policy, answer)], tokens=list(answer))
            for n, answer in enumerate(answers)
        ]
        read = Reading(document(*rows))
        places = [np.array(policy.path(0, answer), np.int64) for answer in answers]
        batch = read.batch.but(observation=places)
        batch = batch.but(
            annotations={DIVERGENCE.name: divergence_by_place(batch, policy, torch.arange(batch.decisions), budget=9)}
        )
        credited, _ = TW.assess(batch, TW.init(), {})
        return read.by_trajectory(credited.occurrences.weight)

    alike = weighed([(0, 1, 2)] * 3)
    apart = weighed([(0, 1, 2), (0, 2, 1), (0, 0, 0)])
    by_hand = weights_by_hand(policy, [(0, 1, 2), (0, 2, 1), (0, 0, 0)])
    holds = alike == [[1.0] * 3] * 3 and all(1 <= x <= 1.4 for row in apart for x in row)
    holds &= same(apart[0], by_hand) and apart[0][0] == apart[0][1] == 1.0
    return Finding(holds, f"identical {alike[0]}; shared first token {shown(apart[0])}, by hand {shown(by_hand)}")


def token_logps(policy: Tabular, answer: Answer) -> list[float]:
    """The log-prob of each token of an answer."""
    table = torch.log_softmax(policy.logits.detach(), -1)
    return [float(table[row, token]) for row, token in zip(policy.path(0, answer), answer, strict=True)]


def weights_by_hand(policy: Tabular, answers: list[Answer]) -> list[float]:
    """TW-GRPO's weight at each place, in plain loops."""
    table = torch.log_softmax(policy.logits.detach(), -1)
    found = []
    for place in range(3):
        rows = [table[policy.row(0, answer[:place])].tolist() for answer in answers]
        centre = [fmean([row[v] for row in rows]) for v in range(3)]
        found.append(
            fmean([sum(math.exp(m - x) - (m - x) - 1 for m, x in zip(centre, row, strict=True)) for row in rows])
        )
    low, high = min(found), max(found)
    return [1 + 0.4 * (x - low) / (high - low + 1e-8) for x in found]


@claim("Part of the right options earns part of the reward.")
def part_of_the_options_counts() -> Finding:
    """A subset of the right options scores in (0, 1), any wrong one 0; inversion asks for the others."""
    right = {"A", "C", "D"}
    values = {
        tuple(sorted(given)): subset_score(given, right) for given in ({"A"}, {"A", "C"}, right, {"A", "B"}, set())
    }
    turned = inverted(Scenario("q", "Which one?", "B", {"options": ["A", "B", "C"]}))
    holds = (
        list(values.values()) == [1 / 3, 2 / 3, 1.0, 0.0, 0.0] and turned.answer == ["A", "C"] and turned.origin == "q"
    )
    return Finding(holds, f"scores {values}; inverted answer {turned.answer}")


@claim("After a certain opening, weighed places learn faster per plain gradient step than uniform ones.", slow=True)
def weighed_places_learn_faster() -> Finding:
    """Three certain tokens, one that is free, and one that must fit it: the only place where samples differ."""
    world = World(
        questions=2,
        tokens=4,
        horizon=5,
        reward=lambda question, answer: float(answer[4] == (answer[3] + question) % 4),
        context="last",
    )
    noise = torch.from_numpy(Key.of(11).numpy().normal(size=(2, 4, 4)))

    def start(policy: Tabular) -> None:
        for question in range(2):
            for place, last in itertools.product((0, 1, 2), range(4)):
                logits(policy, question, (*(0,) * (place - 1), last) if place else (), {0: 0.97}, 0.01)
            for last in range(4):
                policy.logits[policy.row(question, (0, 0, 0, last))] = noise[question, last]

    def right(bench: Bench) -> float:
        each = [
            chances(bench, q, (0, 0, 0))[free] * chances(bench, q, (0, 0, 0, free))[(free + q) % 4]
            for q in range(2)
            for free in range(4)
        ]
        return 4 * fmean([float(one) for one in each])

    found: dict[tuple[str, bool], list[float]] = {}
    for name, recipe in (("weights", TW), ("uniform", TW.but({"credit.largest": 1.0}))):
        for plain, seed in itertools.product((True, False), SEEDS):
            bench = Bench(world, recipe.but({"update.clip_norm": None}), seed=seed, lr=0.05, start=start)
            if plain:
                bench.learner.optimiser = torch.optim.SGD(bench.policy.module.parameters(), lr=5.0)
            found.setdefault((name, plain), []).append(right(trained(bench, 30)))
    gains = [a - b for a, b in zip(found["weights", True], found["uniform", True], strict=True)]
    adam = [a - b for a, b in zip(found["weights", False], found["uniform", False], strict=True)]
    return Finding(
        min(gains) > 0,
        f"accuracy after 30 plain gradient steps {shown(found['weights', True])} against "
        f"{shown(found['uniform', True])} with uniform weights; with Adam, which hardly sees a constant scale, the "
        f"differences are {shown(adam)}",
    )

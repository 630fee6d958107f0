"""What ttrv claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hocket.credit.reinforce import ReturnToGo
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.policy import Tabular
from hocket.lab.toys.rewarded import SEEDS, advantages, apart, line, said, shaped
from hocket.lab.world import World
from hocket.methods.group_relative.ttrv import TTRV
from hocket.recipe import Recipe

claim = Claims("ttrv", "TTRV, arXiv:2510.06783")


@claim("the expected frequency reward of an answer grows with its probability")
def frequency_grows() -> Finding:
    """All 3^4 groups of four answers, each weighted by its probability under p = (0.5, 0.3, 0.2)."""
    chance, names = (0.5, 0.3, 0.2), "abc"
    groups = list(itertools.product(range(3), repeat=4))
    rows = [said(str(g), "", label=names[own]) for g, group in enumerate(groups) for own in group]
    graded = shaped(TTRV.but({"shaping.0.entropy": 0.0}), rows)
    mean = [0.0, 0.0, 0.0]
    for g, group in enumerate(groups):
        weight = math.prod(chance[own] for own in group)
        mean[group[0]] += weight * graded[4 * g] / chance[group[0]]
    wanted = [1 / 4 + 3 / 4 * p for p in chance]
    return Finding(
        apart(mean, wanted) < 1e-12 and mean[0] > mean[1] > mean[2],
        f"E[r | y] = {line(mean)} for p = 0.5, 0.3, 0.2: 1/N + (N - 1)/N p",
    )


@claim("the entropy term leaves group-centred advantages unchanged", "derived here")
def entropy_cancels() -> Finding:
    """Two groups, one with a sample without an answer; with a group baseline and without any."""
    labels = ["a", "a", "b", "c", None, "a", "b", "b"]
    rows = [said(str(n // 4), "", label=label) for n, label in enumerate(labels)]
    without = TTRV.but({"shaping.0.entropy": 0.0})
    centred = apart(advantages(TTRV, rows), advantages(without, rows))
    credit = ReturnToGo()
    open_ = apart(advantages(TTRV.but(credit=credit), rows), advantages(without.but(credit=credit), rows))
    return Finding(
        centred < 1e-12 and open_ > 0.1,
        f"largest change of an advantage {centred:.1e} with the group baseline, {open_:.3f} without a baseline",
    )


@claim("minority answers get graded credit where a majority vote gives 0")
def majority_grades_ends_only() -> Finding:
    """Three, two and one of six agree."""
    rows = [said("q", "", label=label) for label in "aaabbc"]
    graded = shaped(TTRV.but({"shaping.0.entropy": 0.0}), rows)
    votes = shaped(TTRV.but({"shaping.0.entropy": 0.0, "shaping.0.vote": "majority"}), rows)
    return Finding(
        apart(graded, [1 / 2] * 3 + [1 / 3] * 2 + [1 / 6]) < 1e-12 and votes == [1.0] * 3 + [0.0] * 3,
        f"shares {line(graded)}; majority vote {line(votes)}",
    )


def classifier(rows: Sequence[Sequence[float]]) -> tuple[World, Any]:
    """A world of one question per row of starting probabilities, answer 0 right; and what sets them."""
    world = World(
        questions=len(rows), tokens=len(rows[0]), horizon=1, reward=lambda question, answer: float(answer[0] == 0)
    )

    def start(policy: Tabular) -> None:
        for question, row in enumerate(rows):
            policy.logits[policy.row(question, ())] = torch.tensor(row, dtype=torch.float64).log()

    return world, start


@claim("accuracy approaches that of majority voting, and falls where the mode is wrong", slow=True)
def the_mode_wins() -> Finding:
    """60 % accurate with a majority vote of 80 %, and 40 % accurate with a wrong answer at 50 % everywhere."""
    good, good_start = classifier([(0.72, 0.2, 0.04, 0.04)] * 8 + [(0.12, 0.8, 0.04, 0.04)] * 2)
    bad, bad_start = classifier([(0.4, 0.5, 0.05, 0.05)] * 10)
    recipe = TTRV.but({"rollout.samples": 16})
    rises = trained(good, recipe, 50, Bench.success, start=good_start)
    falls = trained(bad, recipe, 50, Bench.success, start=bad_start)
    return Finding(
        min(rises) > 0.76 and max(rises) < 0.81 and max(falls) < 0.2,
        f"from 0.60 with a majority vote of 0.80: {line(rises)}; from 0.40 with a wrong mode it falls: {line(falls)}",
    )


def trained(world: World, recipe: Recipe, steps: int, measure: Callable[[Bench], float], **setting: Any) -> list[float]:
    """What `measure` gives after training, for each of five seeds."""
    return [measure(Bench(world, recipe, seed=seed, steps=steps, **setting).run(steps, every=steps)) for seed in SEEDS]

"""Claims of tuning on some seeds and reporting on others."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hocket.apps.studies.command import run
from hocket.apps.studies.study import TUNING_SEEDS, Study, Tuning, read
from hocket.apps.studies.tuning import best, combinations, rounds, runs_of_search, tuning_seeds
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.lab.claims.harness import Claims, Finding, below, say

claim = Claims("autorl-hpo-protocol", "recalled")


def searched(truth: Any, tuning: Tuning, draw: np.random.Generator, noise: float) -> tuple[int, float]:
    """The winner among candidates of known worth whose runs are noisy, and its mean score on tuning seeds."""
    left, scores = list(range(len(truth))), {number: list[float]() for number in range(len(truth))}
    stages = rounds(len(truth), tuning)
    for place, stage in enumerate(stages):
        for number in left:
            scores[number] += list(truth[number] + noise * draw.normal(size=stage.seeds - len(scores[number])))
        means = {number: float(np.mean(scores[number])) for number in left}
        left = best(means, stages[place + 1].candidates if place + 1 < len(stages) else 1)
    return left[0], float(np.mean(scores[left[0]]))


@claim(
    "Of equals the winner's gap is the mean of the largest of n normal draws, and shrinks with the root of the seeds."
)
def of_equals_the_winners_gap_is_the_mean_of_the_largest_of_n() -> Finding:
    """For n = 2 that is `s / sqrt(pi m)` with m seeds, for n = 3 `3 s / (2 sqrt(pi m))`."""
    draw, off = Key.of(0).derive("equals").numpy(), {}
    for count, wanted in ((2, 1 / np.sqrt(np.pi)), (3, 1.5 / np.sqrt(np.pi))):
        for seeds in (1, 5):
            found = [searched(np.zeros(count), Tuning(seeds=seeds), draw, 1.0)[1] for _ in range(20_000)]
            off[f"of_{count}_with_{seeds}"] = abs(float(np.mean(found)) - wanted / np.sqrt(seeds))
    return below(0.02, **off)


@claim("Halving over seeds finds as good a candidate as all seeds for every candidate do, for half of the runs.")
def halving_over_seeds_finds_as_good_a_candidate_as_all_seeds_for() -> Finding:
    truth = np.linspace(0, 1, 27)
    ways = {"all": Tuning(seeds=9), "halved": Tuning(seeds=2, halving=3)}
    worth, cost = {}, {}
    for name, tuning in ways.items():
        draw = Key.of(1).derive("halving").numpy()
        worth[name] = float(np.mean([truth[searched(truth, tuning, draw, 0.2)[0]] for _ in range(2000)]))
        cost[name] = runs_of_search(27, tuning)
    return Finding(
        worth["halved"] > worth["all"] - 0.01 and cost["halved"] < 0.55 * cost["all"],
        say(worth=list(worth.values()), runs=list(cost.values())),
    )


@claim("No seed is both tuned and tested on, and a study that would need one is refused.")
def no_seed_is_both_tuned_and_tested_on_and_a_study_that_would_need() -> Finding:
    refused = 0
    for make in (
        lambda: Study(seeds=TUNING_SEEDS + 1),
        lambda: Tuning(seeds=TUNING_SEEDS + 1),
        lambda: Tuning(draws=0),
    ):
        try:
            make()
        except (ConfigurationError, ValueError):
            refused += 1
    apart = set(Study(seeds=TUNING_SEEDS).testing_seeds).isdisjoint(tuning_seeds(TUNING_SEEDS))
    return Finding(refused == 3 and apart, say(refused=refused))


@claim("Draws from a broad space are of it, none twice, the same every time, and every value comes up.")
def draws_from_a_broad_space_are_of_it_none_twice_the_same_every() -> Finding:
    grid = {name: list(range(4)) for name in "abcdefgh"}
    drawn = combinations(grid, 200)
    values = {(name, value) for one in drawn for name, value in one.items()}
    whole = combinations({"a": [1, 2], "b": [3, 4, 5]}, 6)
    every = [dict(zip("ab", pair, strict=True)) for pair in itertools.product([1, 2], [3, 4, 5])]
    different = len({tuple(one.values()) for one in drawn}) == 200
    return Finding(
        different and len(values) == 32 and drawn == combinations(grid, 200) and whole == every,
        say(drawn=len(drawn), values=len(values)),
    )


SPACE = {
    "update.lr": [1e-4, 1e-3, 1e-2],
    "update.epochs": [1, 4],
    "update.minibatches": [1, 4],
    "update.clip_norm": [0.5, 10.0],
    "credit.gamma": [0.9, 0.99],
    "credit.lam": [0.8, 0.95],
    "objective.low": [0.1, 0.3],
    "objective.high": [0.1, 0.3],
}
"""Eight dimensions, 384 combinations."""


TWIN = {"recipe": "ppo", "label": "warmed", "update.warmup": 1}
"""A study compares; this one takes what was found for the other."""


def tuned(seeds: int) -> Mapping[str, Any]:
    """The search of a small study of PPO on CartPole with so many tuning seeds."""
    plan = {
        "name": "protocol",
        "recipes": ["ppo", TWIN],
        "baseline": "ppo",
        "tasks": ["gym:CartPole-v1"],
        "seeds": 8,
        "steps": 8,
        "prompts": 8,
        "samples": 1,
        "equal_batches": 0,
        "measure": {"n": 20, "between": 10, "points": 2, "problems": 2, "samples": 2},
        "tuning": {"grid": SPACE, "draws": 8, "seeds": seeds},
    }
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "study.json"
        file.write_text(json.dumps(plan))
        found: Mapping[str, Any] = run(read(file), Path(place) / "out", 2, lambda message: None)["searches"][0]
        return found


@claim(
    "Tuned on one seed, PPO on CartPole looks better than on other seeds, and by more than tuned on five.", slow=True
)
def tuned_on_one_seed_ppo_on_cartpole_looks_better_than_on_other() -> Finding:
    """From one table of eight candidates and ten seeds: tuned within either half of the seeds, told by the other.

    Of a candidate that wins in both halves the luck of the seeds cancels, so what is left is the choice's.
    """
    search = tuned(10)
    table = np.array([one["scores"] for one in search["candidates"]])
    one, five = list[float](), list[float]()
    for tuning, testing in ((table[:, :5], table[:, 5:].mean(1)), (table[:, 5:], table[:, :5].mean(1))):
        for scores, gaps in [*((scores, one) for scores in tuning.T), (tuning.mean(1), five)]:
            winner = int(scores.argmax())
            gaps.append(float(scores[winner] - testing[winner]))
    told = search["tuned"] - search["tested"] - search["gap"]
    return Finding(
        float(np.mean(one)) > max(float(np.mean(five)), 0.0) and abs(told) < 1e-9 and search["runs"] == 80,
        say(one=float(np.mean(one)), five=float(np.mean(five)), of_the_study=search["gap"], best=float(table.max())),
    )

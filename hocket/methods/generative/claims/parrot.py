"""Parrot's claims."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, gradient, inspect_rows, say
from hocket.lab.toys.recorded_answers import document, sample
from hocket.lab.toys.training import chances, trained
from hocket.lab.world import World
from hocket.methods.generative.parrot import PARROT, pareto_front
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent

claim = Claims("parrot", "arXiv 2401.05675")


def drawn(seed: int, count: int, rewards: int) -> np.ndarray:
    """Rewards on a grid of five, so that there are ties and equal samples."""
    return Key.of(seed).derive("front", count, rewards).numpy().integers(0, 5, (count, rewards)).astype(np.float64)


def brute(values: np.ndarray) -> list[bool]:
    """Non-dominated rows, pair by pair."""
    return [not any((other >= entry).all() and (other != entry).any() for other in values) for entry in values]


@claim("The front is that of all pairs, ties kept, and no increasing change of one reward's scale moves it.")
def the_front_is_that_of_all_pairs() -> Finding:
    wrong, moved, tied = 0, 0, 0
    for seed, rewards in itertools.product(range(20), (2, 3)):
        values = drawn(seed, 12, rewards)
        front = pareto_front(torch.from_numpy(values)).tolist()
        wrong += front != brute(values)
        changed = values.copy()
        changed[:, 0] = np.exp(3 * changed[:, 0]) - 7
        moved += pareto_front(torch.from_numpy(changed)).tolist() != front
        best = values[front]
        tied += len(np.unique(best, axis=0)) < len(best)
    return Finding(wrong == moved == 0 and tied > 3, say(batches=40, wrong=wrong, moved=moved, with_ties=tied))


def rows_of(seed: int, scale: float = 1.0) -> list[dict[str, Any]]:
    values, draws = drawn(seed, 12, 2), Key.of(seed).derive("logp").numpy()
    rows = []
    for number, (small, large) in enumerate(values.tolist()):
        row = sample(f"g{number % 2}", small, draws.normal(-3, 1, 3).tolist())
        rows.append({**row, "scores": {"reward": small + scale * large, "small": small, "large": scale * large}})
    return rows


@claim("The gradient is REINFORCE's with weight 1/|P| on a prompt's front and 0 elsewhere, less the mean weight.")
def the_gradient_is_the_formulas() -> Finding:
    gaps, scaled = [], []
    for seed in range(5):
        rows = rows_of(seed)
        slopes: list[np.ndarray] = [np.zeros(0)] * 12
        for start in (0, 1):
            members = list(range(start, 12, 2))
            front = brute(np.array([[rows[n]["scores"][name] for name in ("large", "small")] for n in members]))
            for number, inside in zip(members, front, strict=True):
                slopes[number] = np.full(3, -(inside / sum(front) - 1 / 6) / 2)
        output = gradient(PARROT, document(rows))
        gaps.append(gap(output, torch.from_numpy(np.concatenate(slopes))))
        scaled.append(gap(output, gradient(PARROT, document(rows_of(seed, 10.0)))))
    return Finding(max(gaps) < EXACT and max(scaled) == 0.0, say(off=max(gaps), off_at_tenfold_scale=max(scaled)))


@claim("A prompt whose samples are all on its front gives no gradient.")
def equal_samples_give_no_gradient() -> Finding:
    rows = [{**row, "scores": {"reward": 0.0, "small": n, "large": -n}} for n, row in enumerate(rows_of(0))]
    output = inspect_rows(PARROT, rows)["advantages"]
    return Finding(gap(output, [[0.0] * 3] * 12) == 0.0, say(advantages=[row[0] for row in output]))


SMALL = (1.0, 0.85, 0.55, 0.0, 0.4, 0.2, 0.6, 0.1)
LARGE = (0.0, 5.5, 8.5, 10.0, 4.0, 8.0, 2.0, 1.0)
"""Eight answers with two rewards, the second of ten times the scale: four on the front, four dominated."""
WORLD = World(
    1,
    8,
    1,
    lambda _, answer: 0.0,
    parts={"small": lambda _, answer: SMALL[answer[0]], "large": lambda _, answer: LARGE[answer[0]]},
)


def hypervolume(chosen: np.ndarray) -> float:
    """The area below answers, rewards over their largest values, from (0, 0)."""
    area, height = 0.0, 0.0
    for answer in sorted(set(chosen.tolist()), key=lambda a: -SMALL[a]):
        if LARGE[answer] / 10 > height:
            area += SMALL[answer] * (LARGE[answer] / 10 - height)
            height = LARGE[answer] / 10
    return area


def attained(recipe: Recipe) -> list[float]:
    """The mean hypervolume of eight samples after training, by seed."""
    benches = trained(WORLD, recipe, 100, seeds=(0, 1), lr=0.05)
    draws = Key.of(0).numpy()
    return [
        float(np.mean([hypervolume(draws.choice(8, 8, p=chances(bench).numpy())) for _ in range(400)]))
        for bench in benches
    ]


@claim(
    "With rewards of scales 1 and 10 its samples attain a larger hypervolume than those learnt from the sum.", slow=True
)
def it_attains_a_larger_hypervolume() -> Finding:
    pareto = PARROT.but({"rollout": Independent(32), "rewards": ()})
    summed = pareto.but({"credit": {"type": "hocket.credit.GroupRelative", "scale": None}})
    ours, theirs = attained(pareto), attained(summed)
    return Finding(min(ours) > max(theirs) + 0.1, say(pareto=ours, sum=theirs, whole_front=hypervolume(np.arange(8))))


def _on_the_front(run: Any) -> float:
    """The share of samples of the first step that are on their prompt's front."""
    credit = run.results[0].batch.occurrences.advantage
    return float((credit > 0).double().mean())


claim.shipped(
    PARROT,
    "credit",
    "rewards",
    "objective",
    sees=lambda run: {"on the front": _on_the_front(run)},
)

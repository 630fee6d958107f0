"""What quark-medical-alignment claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hocket.core.batch import Level, LevelScores
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading
from hocket.lab.toys.many_objectives import SEEDS, scored_document, span, trained
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.quark_medical_alignment import QUARK

claim = Claims("quark-medical-alignment", "arXiv:2602.11661; factors as chosen here")


@claim("a source in another unit leaves the reward unchanged; a source given twice does not double its weight")
def frozen_scale_is_free_of_units() -> Finding:
    """Three batches in a row, with one source in another unit; then with a source given twice."""
    worst = 0.0
    ratios = []
    for seed in range(6):
        seen = {}
        for unit in (1.0, 1000.0):
            state, rewards = QUARK.init(), []
            for step in range(3):
                batch = Reading(scored_document(seed * 3 + step, ("a", "b", "c"), (1.0, unit, 1.0))).batch
                batch, state = QUARK.assess(batch, state, {"a": 1.0, "b": 1.0, "c": 1.0})
                rewards.append(batch.scores["reward"].values)
            seen[unit] = torch.cat(rewards)
        worst = max(worst, float((seen[1.0] - seen[1000.0]).abs().max()))
        ratios.append(_doubled(seed))
    saw = f"largest change of a reward {worst:.1e}; a source given twice has {span(ratios)} times its weight"
    return Finding(worst < 1e-9 and max(ratios) < 1.5, saw)


def _doubled(seed: int) -> float:
    """How much the total weight of source `a` grows when it is given twice."""
    document = scored_document(seed, ("a", "b", "c"))
    once = _share(document, ("a",))
    for row in document["trajectories"]:
        row["scores"]["again"] = row["scores"]["a"]
    return _share(document, ("a", "again")) / once


def _share(document: Mapping[str, Any], names: Sequence[str]) -> float:
    """The part of the reward that sources `names` have, by how it changes when they are moved by one deviation."""
    batch = Reading(document).batch
    weights = dict.fromkeys(batch.scores, 1.0)
    combine: Any = QUARK.combine
    _, state = combine(batch, weights, combine.init())
    base, _ = combine(batch, weights, state)
    moved = dict(batch.scores)
    for name in names:
        values = batch.scores[name].values + state["deviation"][name]
        moved[name] = LevelScores(Level.TRAJECTORY, values)
    # The move is the same for every trajectory, so correlations stay; only the level changes, which is held.
    held = {**state, "level": {n: v - (0.25 if n in names else 0.0) for n, v in state["level"].items()}}
    shifted, _ = combine(batch.but(scores=moved), weights, held)
    return float((shifted.scores["reward"].values - base.scores["reward"].values).mean())


def tradeoff(token: int) -> tuple[float, float]:
    """A loud objective, 100 times the quiet one: one extreme answer, a compromise, the other extreme, and nothing."""
    return ((100.0, 0.0), (98.0, 0.9), (0.0, 1.0), (20.0, 0.1), (0.0, 0.0))[token]


@claim(
    "with scales 100:1 a raw sum ignores the quiet objective; the frozen scale lifts it and costs the other < 5%",
    "arXiv:2602.11661",
    slow=True,
)
def worst_objective_is_lifted() -> Finding:
    """Raw sum against frozen scale on a loud and a quiet objective."""
    world = World(
        questions=2,
        tokens=5,
        horizon=1,
        reward=lambda q, a: 0.0,
        parts={"loud": lambda q, a: tradeoff(a[0])[0], "quiet": lambda q, a: tradeoff(a[0])[1]},
    )
    raw = [trained(world, GRPO, seed, 120) for seed in SEEDS]
    # The world's own empty reward is constant, so that it never gets a scale.
    scaled = [trained(world, QUARK, seed, 120) for seed in SEEDS]
    loud = [[run.expected(lambda q, a: tradeoff(a[0])[0] / 100) for run in runs] for runs in (raw, scaled)]
    quiet = [[run.expected(lambda q, a: tradeoff(a[0])[1]) for run in runs] for runs in (raw, scaled)]
    saw = f"quiet objective: raw {span(quiet[0])}, scaled {span(quiet[1])}; loud one: {span(loud[0])}, {span(loud[1])}"
    lifted = min(quiet[1]) > max(quiet[0]) + 0.3
    kept = all(b >= 0.95 * a for a, b in zip(loud[0], loud[1], strict=True))
    return Finding(lifted and kept, saw)

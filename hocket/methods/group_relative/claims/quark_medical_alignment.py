"""QuarkMed alignment's claims."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from hocket.core.batch import Level, LevelScores
from hocket.lab.claims.harness import Claims, Finding, each, gap, runs, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.enumerable_groups import scored_document
from hocket.lab.world import World
from hocket.recipes import GRPO, QUARK

claim = Claims("quark-medical-alignment", "arXiv:2602.11661; factors as chosen here")


def rewards(seed: int, unit: float) -> torch.Tensor:
    """Of three batches in a row, with one source in another unit."""
    state, values = QUARK.init(), []
    for step in range(3):
        batch = RecordedBatch(scored_document(seed * 3 + step, ("a", "b", "c"), (1.0, unit, 1.0))).batch
        batch, state = QUARK.compute_credit(batch, state, {"a": 1.0, "b": 1.0, "c": 1.0})
        values.append(batch.scores["reward"].values)
    return torch.cat(values)


def share(document: Mapping[str, Any], names: Sequence[str]) -> float:
    """The part of the reward that sources `names` have, by how it changes when they are moved by one deviation."""
    batch, combine = RecordedBatch(document).batch, cast(Any, QUARK.combine)
    weights, scores = dict.fromkeys(batch.scores, 1.0), dict(batch.scores)
    _, state = combine(batch, weights, combine.init())
    # The move is the same for every trajectory, so correlations stay; only the level changes, which is held.
    level = {name: value - (0.25 if name in names else 0.0) for name, value in state["level"].items()}
    for name in names:
        scores[name] = LevelScores(Level.TRAJECTORY, scores[name].values + state["deviation"][name])
    pairs = ((batch, state), (batch.but(scores=scores), {**state, "level": level}))
    base, shifted = (combine(one, weights, held)[0].scores["reward"].values for one, held in pairs)
    return float((shifted - base).mean())


@claim("a source in another unit leaves the reward unchanged; a source given twice does not double its weight")
def _() -> Finding:
    changes, ratios = [], []
    for seed in range(6):
        changes.append(gap(rewards(seed, 1.0), rewards(seed, 1000.0)))
        document = scored_document(seed, ("a", "b", "c"))
        once = share(document, ("a",))
        for row in document["trajectories"]:
            row["scores"]["again"] = row["scores"]["a"]
        ratios.append(share(document, ("a", "again")) / once)
    figures = say(largest_change_of_a_reward=max(changes), weight_of_a_source_given_twice=ratios)
    return Finding(max(changes) < 1e-9 and max(ratios) < 1.5, figures)


LOUD, QUIET = (100.0, 98.0, 0.0, 20.0, 0.0), (0.0, 0.9, 1.0, 0.1, 0.0)
"""A loud objective, 100 times the quiet one: one extreme answer, a compromise, the other extreme, and nothing."""


@claim(
    "with scales 100:1 a raw sum ignores the quiet objective; the frozen scale lifts it and costs the other < 5%",
    "arXiv:2602.11661",
    slow=True,
)
def _() -> Finding:
    # The world's own empty reward is constant, so that it never gets a scale.
    parts = {"loud": lambda q, a: LOUD[a[0]], "quiet": lambda q, a: QUIET[a[0]]}
    sides = (GRPO.but(name="raw"), QUARK.but(name="scaled"))
    made = runs(World(2, 5, 1, lambda q, a: 0.0, parts=parts), *sides, steps=120, every=120)
    quiet = each(made, lambda run: run.expected(parts["quiet"]))
    loud = each(made, lambda run: run.expected(parts["loud"]) / 100)
    holds = min(quiet["scaled"]) > max(quiet["raw"]) + 0.3
    holds &= all(scaled >= 0.95 * raw for raw, scaled in zip(*loud.values(), strict=True))
    return Finding(holds, say(quiet=quiet, loud=loud))


claim.shipped(QUARK, "combine")

"""A public implementation beside a recipe, and how far they are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.documents import random_document
from hocket.lab.microscope import inspect
from hocket.lab.peers.padded_batch import Loss, Rows
from hocket.recipe import Recipe
from hocket.recipes import find


@dataclass(frozen=True)
class PeerComparison:
    """One implementation beside one recipe.

    Attributes:
        name: package, version and settings. loss: what it computes. recipe: the one it corresponds to.
        changes: settings of the recipe with which both agree, value and gradient; None when nothing makes them.
        differs: what separates it from the recipe as shipped, in words.
        gradient_only: their values differ even then, their gradients do not.
        proximal: the learner's log-probs before the update are known besides the sampler's.
        samples: answers of a prompt. others: the last of them is not the policy's, and no two earn the same.
        turns: answers have several: with `beliefs` in the right answer as each began, or with `rewards` of their own,
            where two players alternate, at least one turn each, and nobody earns anything in the first.
        teacher: the reference is another policy than the one that sampled, some nat away at every token.
        last: the source of so many last answers of each prompt, where it is not the policy's own.
    """

    name: str
    loss: Loss
    recipe: str
    changes: Mapping[str, Any] | None
    differs: str
    gradient_only: bool = False
    proximal: bool = False
    samples: int = 4
    others: bool = False
    turns: Literal["beliefs", "rewards"] | None = None
    teacher: bool = False
    last: tuple[str, int] = ("own", 0)

    def settled(self) -> Recipe:
        """The recipe with the changes."""
        return find(self.recipe).but(dict(self.changes or {}))


@dataclass(frozen=True)
class Distance:
    """How far a recipe lies from an implementation: largest relative difference of values, and of gradients.

    Gradients are those of log-probs, values and entropies together.

    `factor` is what the implementation's gradient is multiplied with in the recipe where it is one number for all
    tokens, None where there is none.
    """

    value: float
    gradient: float
    factors: tuple[float | None, ...] = field(default=())

    @property
    def word(self) -> str:
        """`equal`, `equal gradient`, `proportional` or `different`."""
        if self.gradient < 1e-9:
            return "equal" if self.value < 1e-9 else "equal gradient"
        return "different" if None in self.factors else "proportional"


def distance(entry: PeerComparison, recipe: Recipe, *, gap: float, batches: int = 10) -> Distance:
    """Over random batches whose policy has moved by `gap` nats a token since sampling."""
    value = gradient = 0.0
    factors: list[float | None] = []
    for number in range(batches):
        document = _document(number, gap, entry)
        batch = Rows.of(document)
        theirs = entry.loss(batch)
        leaves = {"gradient": batch.logp, "gradient_value": batch.value, "gradient_entropy": batch.entropy}
        pulled = torch.autograd.grad(theirs, list(leaves.values()), allow_unused=True, materialize_grads=True)
        ours = inspect(recipe, document)
        mine = torch.cat([_flat(ours.get(name), int(batch.mask.sum())) for name in leaves])
        flat = torch.cat([column[batch.mask > 0] for column in pulled])
        scale = max(float(flat.abs().max()), float(mine.abs().max()), 1e-12)
        value = max(value, abs(float(theirs.detach()) - ours["loss"]) / max(abs(ours["loss"]), scale))
        gradient = max(gradient, float((flat - mine).abs().max()) / scale)
        ratio = float(flat @ mine / (flat @ flat)) if float(flat @ flat) > 0 else 1.0
        factors.append(ratio if float((ratio * flat - mine).abs().max()) < 1e-9 * scale else None)
    return Distance(value, gradient, tuple(factors))


def _flat(rows: Sequence[Sequence[float]] | None, size: int) -> torch.Tensor:
    """A gradient token by token, 0 where a recipe has none."""
    return torch.tensor([0.0] * size if rows is None else [v for row in rows for v in row], dtype=torch.float64)


def _document(number: int, gap: float, entry: PeerComparison) -> dict[str, Any]:
    """A random batch without what only some recipes read: truncation, segments, unless asked for a proximal policy."""
    graded = number % 2 == 1 or entry.others
    key, least = Key.of(number).derive("peers"), 2 if entry.turns == "rewards" else 1
    document = random_document(key, gap=gap, graded=graded, samples=entry.samples, shortest=least)
    if entry.turns:
        rng = key.derive("turns").numpy()
        for row in document["trajectories"]:
            row |= _turns(rng, len(row["logp"]), least, entry.turns)
    if entry.turns == "rewards":
        first = document["trajectories"][0]
        first |= {"scores": {"reward": 0.0}, "turn_scores": [{"reward": 0.0} for _ in first["turn_scores"]]}
    if entry.teacher:
        rng = key.derive("teacher").numpy()
        for row in document["trajectories"]:
            row["logp_ref"] = [-abs(logp + float(rng.normal())) for logp in row["logp_behaviour"]]
    for place, row in enumerate(document["trajectories"]):
        row["truncated"] = False
        if entry.others and place % entry.samples == entry.samples - 1:
            row["source"] = "imported"
        if place % entry.samples >= entry.samples - entry.last[1]:
            row["source"] = entry.last[0]
        for name in ("segment",) if entry.proximal else ("segment", "logp_proximal"):
            row.pop(name)
    return document


def _turns(rng: np.random.Generator, length: int, least: int, what: str) -> dict[str, Any]:
    """At least so many turns, and what they brought."""
    count = int(rng.integers(least, length + 1))
    begins = {0, *(1 + rng.permutation(length - 1)[: count - 1]).tolist()}
    turn = [sum(begin <= place for begin in begins) - 1 for place in range(length)]
    brought: dict[str, Any] = {"turn": turn, "info": {"beliefs": rng.random(count).tolist()}}
    if what == "rewards":
        brought["turn_scores"] = [{"reward": paid} for paid in (rng.random(count) - 1.0).tolist()]
        brought["agent"] = [("first", "second")[n % 2] for n in range(count)]
    return brought

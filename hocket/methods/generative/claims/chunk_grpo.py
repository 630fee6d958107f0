"""Chunk-GRPO's claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, gradient, say
from hocket.lab.toys.recorded_answers import sample
from hocket.methods.base.grpo import GRPO
from hocket.methods.generative.chunk_grpo import CHUNK_GRPO, chunks_of, relative_changes

claim = Claims("chunk-grpo", "arXiv 2510.21583")
STEPS = GRPO.but({"objective.low": 0.2, "objective.high": 0.2})
WHOLE = GRPO.but({"objective.ratio": "sequence", "objective.low": 0.2, "objective.high": 0.2})


def recorded(seed: int, chunks: Sequence[int], gap_of: float = 0.4) -> dict[str, Any]:
    """Eight samples of two prompts with six steps each, in chunks of these sizes, at weights that have moved on."""
    draws = Key.of(seed).derive("chunks").numpy()
    segment = [number for number, size in enumerate(chunks) for _ in range(size)]
    rows = []
    for number in range(8):
        logp = draws.normal(-3.0, 1.0, len(segment))
        old = (logp + draws.normal(0.0, gap_of, len(segment))).tolist()
        more = {"logp_behaviour": old, "segment": segment}
        rows.append(sample(f"g{number % 2}", float(draws.random()), logp.tolist(), **more))
    return {"version": 1, "trajectories": rows}


def by_hand(rows: dict[str, Any], advantages: Sequence[float]) -> torch.Tensor:
    """d loss / d logp of every step `[48]`, from the formula by automatic differentiation in float64."""
    logps = [torch.tensor(row["logp"], dtype=torch.float64, requires_grad=True) for row in rows["trajectories"]]
    parts = []
    for row, logp, advantage in zip(rows["trajectories"], logps, advantages, strict=True):
        difference = logp - torch.tensor(row["logp_behaviour"], dtype=torch.float64)
        numbers = sorted(set(row["segment"]))
        chosen = [[place for place, chunk in enumerate(row["segment"]) if chunk == number] for number in numbers]
        ratios = [difference[places].mean().exp() for places in chosen]
        gains = [torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage) for ratio in ratios]
        parts.append(-torch.stack(gains).mean())
    loss = torch.stack(parts).mean()
    return torch.cat(torch.autograd.grad(loss, logps))


def grouped(rows: dict[str, Any]) -> list[float]:
    """GRPO's advantages of the recorded rewards, counted here."""
    rewards = [row["scores"]["reward"] for row in rows["trajectories"]]
    names = [row["group"] for row in rows["trajectories"]]
    advantages = []
    for reward, name in zip(rewards, names, strict=True):
        members = [other for other, group in zip(rewards, names, strict=True) if group == name]
        advantages.append((reward - np.mean(members)) / (np.std(members, ddof=1) + 1e-6))
    return [float(advantage) for advantage in advantages]


@claim("The gradient is the formula's: one geometric ratio, one clip and one weight for every chunk.")
def the_gradient_is_the_formulas() -> Finding:
    gaps = []
    for seed, chunks in itertools.product(range(5), ((2, 4), (1, 2, 3), (3, 3))):
        rows = recorded(seed, chunks)
        gaps.append(gap(gradient(CHUNK_GRPO, rows), by_hand(rows, grouped(rows))))
    return Finding(max(gaps) < 1e-9, say(batches=len(gaps), largest_difference=max(gaps)))


@claim("Chunks of one step are Flow-GRPO's steps.")
def chunks_of_one_step_are_flow_grpos_steps() -> Finding:
    gaps = [gap(gradient(CHUNK_GRPO, rows), gradient(STEPS, rows)) for rows in (recorded(n, [1] * 6) for n in range(8))]
    return Finding(max(gaps) <= EXACT, say(batches=len(gaps), largest_difference=max(gaps)))


@claim("One chunk over all steps is GSPO's ratio of the whole sample.")
def one_chunk_is_gspos_ratio() -> Finding:
    gaps = [gap(gradient(CHUNK_GRPO, rows), gradient(WHOLE, rows)) for rows in (recorded(n, [6]) for n in range(8))]
    return Finding(max(gaps) <= EXACT, say(batches=len(gaps), largest_difference=max(gaps)))


@claim("At the first update every chunking has the same gradient up to 1 over its chunk's size.", "derived")
def at_the_first_update_only_the_scale_differs() -> Finding:
    gaps = []
    for seed in range(5):
        fine, coarse = recorded(seed, [1] * 6, 0.0), recorded(seed, [2, 4], 0.0)
        # A mean over 2 chunks of sizes 2 and 4 in place of one over 6 steps.
        scale = torch.tensor([6 / (2 * size) for size in (2, 2, 4, 4, 4, 4)], dtype=torch.float64).repeat(8)
        gaps.append(gap(gradient(CHUNK_GRPO, coarse), gradient(STEPS, fine) * scale))
    return Finding(max(gaps) < 1e-9, say(batches=len(gaps), largest_difference=max(gaps)))


@claim("Fewer ratios are clipped the longer the chunks are: independent gaps average out.", "derived")
def fewer_ratios_are_clipped_the_longer_the_chunks_are() -> Finding:
    shares = {}
    for size in (1, 2, 3, 6):
        rows = [recorded(seed, [size] * (6 // size)) for seed in range(40)]
        shares[size] = float(torch.cat([gradient(CHUNK_GRPO, row) for row in rows]).eq(0.0).double().mean())
    falls = all(shares[a] > shares[b] for a, b in itertools.pairwise(shares))
    return Finding(falls and shares[6] > 0, say(clipped_by_size=shares))


@claim("Borders lie where the relative change of the state jumps, and split it with the least squares.")
def borders_lie_where_the_relative_change_jumps() -> Finding:
    jumps = chunks_of([1.0, 1.1, 0.2, 0.21, 0.19, 0.02], 3)
    draws, worst = Key.of(0).numpy(), 0.0
    for _ in range(20):
        changes = draws.random(6) + 0.05
        values = np.log(changes)

        def squares(borders: Sequence[int], values: Any = values) -> float:
            return sum(float(((part - part.mean()) ** 2).sum()) for part in np.split(values, borders))

        best = min(squares(borders) for borders in itertools.combinations(range(1, 6), 2))
        mine = chunks_of(changes.tolist(), 3)
        worst = max(worst, squares([place for place in range(1, 6) if mine[place] != mine[place - 1]]) - best)
    states = np.array([[1.0, -1.0], [2.0, 2.0]])
    changed = relative_changes(states, states + np.array([[0.5, -0.5], [0.0, 1.0]]))
    exact = math.isclose(changed[0], 0.5) and math.isclose(changed[1], 0.25)
    return Finding(
        jumps == [0, 0, 1, 1, 1, 2] and worst < 1e-12 and exact and chunks_of([1.0, 2.0], 9) == [0, 1],
        say(jumps=jumps, above_the_best=worst, changes=changed.tolist()),
    )


claim.shipped(
    CHUNK_GRPO,
    "objective",
    "rollout",
    settings={"curriculum.prompts": 2, "rollout.samples": 4},
    sees=lambda run: {"chunks": float(run.results[0].batch.segment.max()) if run.results[0].batch is not None else 0.0},
)

"""AR-GRPO's claims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hocket import tasks
from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import Claims, Finding, gap, gradient, say
from hocket.lab.toys.recorded_answers import document, group_relative, sample
from hocket.methods.generative.ar_grpo.codes import CODES, ORDERS, Order
from hocket.methods.generative.ar_grpo.kind import TokenPlayer
from hocket.methods.generative.ar_grpo.method import AR_GRPO
from hocket.methods.generative.ar_grpo.policy import LABELS, TokenPainter
from hocket.methods.generative.ar_grpo.pretraining import pairs
from hocket.methods.generative.ar_grpo.task import DigitTokens, halves
from hocket.recipe import Recipe
from hocket.tasks.handwriting import judge
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.evaluate import evaluate
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Decoding, Quantity

claim = Claims("ar-grpo", "arXiv 2508.06924")
UNSEEN = 128


def drawn(painter: TokenPainter, count: int, guidance: float, first: int = 0) -> list[Any]:
    """One picture for each of so many prompts."""
    task, decoding = DigitTokens(painter.order), Decoding(guidance=guidance)
    requests = [Assignment(task.scenario("train", first + number), 1, decoding=decoding) for number in range(count)]
    return asyncio.run(TokenPlayer(painter).play(requests, key=Key.of(1)))


def teacher_forced(painter: TokenPainter, guidance: float) -> tuple[float, float, float]:
    """How far the learner's log-probs are from the sampler's, an own softmax's from these, and that unguided."""
    batch = pack(drawn(painter, 3, guidance))
    logp = painter.evaluate(batch, {Quantity.LOGP}).logp.detach()
    apart = gap(logp, batch.logp["behaviour"].values)
    labels = torch.tensor([[int(label) for label in turn[0]["labels"]] for turn in batch.observation])
    tokens = batch.action.reshape(3, -1)
    with torch.no_grad():
        with_labels, without = (painter.module(tokens, read).double().numpy() for read in (labels, 0 * labels))
    rows = []
    for scale in (guidance, 1.0):
        logits = without + scale * (with_labels - without)
        total = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
        rows.append(np.take_along_axis(logits, tokens.numpy()[..., None], -1)[..., 0] - total)
    return apart, gap(logp, rows[0].flatten()), float(np.abs(rows[0] - rows[1]).max())


@claim("Sampled log-probs are the teacher-forced ones to the last bit, of softmax(l_0 + s (l - l_0)) and not of l.")
def sampled_are_teacher_forced() -> Finding:
    painter = TokenPainter.shipped("policy", "raster")
    figures = {scale: teacher_forced(painter, scale) for scale in (1.0, 1.5, 3.0)}
    same = max(row[0] for row in figures.values())
    off = max(row[1] for row in figures.values())
    return Finding(
        same == 0.0 and off < 1e-5 and figures[3.0][2] > 0.1, say(same=same, off=off, unguided=figures[3.0][2])
    )


@claim("A picture has the same tokens and log-probs alone and in company, whatever the others are.")
def alone_and_in_company() -> Finding:
    painter = TokenPainter.shipped("policy", "raster")
    company, alone = drawn(painter, 40, 1.5), drawn(painter, 1, 1.5, first=36)
    turn, other = company[36].turns[0], alone[0].turns[0]
    assert turn.logp is not None
    assert other.logp is not None
    same = bool((turn.action == other.action).all() and (turn.logp == other.logp).all())
    return Finding(same, say(tokens=len(turn.action), alike=same))


def leaks(order: Order) -> tuple[int, int]:
    """How many places change with a token of their own block or a later one, and with one of an earlier block."""
    painter, draws = TokenPainter.shipped("policy", order), Key.of(2).numpy()
    layout = painter.layout
    tokens, labels = draws.integers(0, CODES, (1, layout.length)), torch.from_numpy(draws.integers(1, LABELS, (1, 2)))
    early = late = 0
    for block in range(0, len(layout.blocks), max(1, len(layout.blocks) // 6)):
        changed = tokens.copy()
        members = (layout.block == block).numpy()
        changed[0, members] = (changed[0, members] + 1 + draws.integers(0, CODES - 1, int(members.sum()))) % CODES
        with torch.no_grad():
            rows = [painter.module(torch.from_numpy(each), labels)[0] for each in (tokens, changed)]
        moved = (rows[0] != rows[1]).any(-1).numpy()
        late += int(moved[(layout.block <= block).numpy()].sum())
        early += int(moved[(layout.block > block).numpy()].sum())
    return late, early


@claim("A token's distribution depends on all blocks before its own and on none of its own or later ones.")
def nothing_is_read_ahead() -> Finding:
    figures = {order: leaks(order) for order in ORDERS}
    holds = all(late == 0 and early > 20 for late, early in figures.values())
    return Finding(holds, say(read_ahead={name: row[0] for name, row in figures.items()}))


@claim("Of real digits made into tokens and back, the judge reads at most 5 points fewer, in both orders.")
def codes_keep_what_is_read() -> Finding:
    pictures, labels = pairs(Key.of(3).numpy(), 100)
    digits, read = (labels - 1) // 2, {}
    for order in ORDERS:
        painter = TokenPainter.shipped("policy", order)
        made = painter.layout.decode(
            painter.layout.encode(torch.from_numpy(pictures), painter.module.books), painter.module.books
        )
        read[order] = _read(made.clamp(0.0, 1.0).numpy(), digits)
    plain = _read(pictures, digits)
    return Finding(min(read.values()) > plain - 0.05, say(real=plain, tokens=read))


def _read(pictures: np.ndarray, digits: np.ndarray) -> float:
    output = judge("judge").read(halves(pictures.reshape(len(pictures), -1) * 2.0 - 1.0).reshape(-1, 64))
    return float((output.reshape(-1, 2) == digits).mean())


def recorded(seed: int, scores: Sequence[str]) -> list[dict[str, Any]]:
    """Six pictures of two prompts with so many scores, five tokens each, at weights that have moved on."""
    draws, rows = Key.of(seed).derive("pictures").numpy(), []
    for number in range(6):
        logp = draws.normal(-2.0, 0.7, 5)
        more = {"logp_behaviour": (logp + draws.normal(0, 0.3, 5)).tolist()}
        more["logp_ref"] = (logp + draws.normal(0, 0.4, 5)).tolist()
        row = sample(f"g{number % 2}", 0.0, logp.tolist(), **more)
        rows.append({**row, "scores": {name: float(draws.random()) for name in scores}})
    return rows


def by_hand(rows: Sequence[dict[str, Any]], weights: dict[str, float], beta: float) -> torch.Tensor:
    """d loss / d logp from the formula, in float64."""
    reward = [sum(weights[name] * score for name, score in row["scores"].items()) for row in rows]
    parts, logps = [], [torch.tensor(row["logp"], dtype=torch.float64, requires_grad=True) for row in rows]
    for number, (row, logp) in enumerate(zip(rows, logps, strict=True)):
        group = [value for value, other in zip(reward, rows, strict=True) if other["group"] == row["group"]]
        advantage = group_relative(group)[number // 2]
        ratio = (logp - torch.tensor(row["logp_behaviour"], dtype=torch.float64)).exp()
        difference = torch.tensor(row["logp_ref"], dtype=torch.float64) - logp
        gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        parts.append((-gain + beta * (difference.exp() - difference - 1)).mean())
    return torch.cat(torch.autograd.grad(torch.stack(parts).mean(), logps))


def weighed(recipe: Recipe, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The rows with every score times the weight that the recipe gives it; the microscope adds them up unweighed."""
    weights = {reward.name: reward.weight for reward in recipe.rewards}
    return document(
        [{**row, "scores": {name: weights[name] * score for name, score in row["scores"].items()}} for row in rows]
    )


def off_by_hand(recipe: Recipe, weights: dict[str, float], beta: float) -> float:
    """The largest difference from the formula in six batches."""
    batches = [recorded(seed, list(weights)) for seed in range(6)]
    return max(gap(gradient(recipe, weighed(recipe, rows)), by_hand(rows, weights, beta)) for rows in batches)


@claim("The gradient is the formula's: the weighted sum of three rewards within the group, clip and k3 at each token.")
def the_gradient_is_the_formulas() -> Finding:
    off = off_by_hand(AR_GRPO, {"digits": 1.0, "strokes": 0.5, "realism": 0.5}, 0.01)
    return Finding(off < 1e-9, say(batches=6, largest_difference=off))


def attained(recipe: Recipe, steps: int, seed: int = 0) -> tuple[dict[str, float], dict[str, float]]:
    """Of sampled pictures for unseen prompts, before and after so many steps as shipped: what is right."""
    task = tasks.find(str(recipe.task))
    parts = build_parts(
        configure([("task", task.name), ("recipe", recipe), ("seed", seed), ("threads", 1)], task), task
    )
    before = _measured(parts)
    for step in range(1, steps + 1):
        last = run_async(train_step(parts, step))
    return before, {**_measured(parts), "kl": float(last.metrics["kl/reference"])}


def _measured(parts: RunContext) -> dict[str, float]:
    common: dict[str, Any] = {"n": UNSEEN, "decoding": parts.decoding, "key": Key.of(0), "split": "eval"}
    result = run_async(evaluate(parts.task, parts.player, (), temperature=1.0, **common))
    described = [parts.task.describe(trajectory) for trajectory in result.trajectories]
    return {
        "right": float(result.success),
        **{name: float(np.mean([row[name] for row in described])) for name in described[0]},
    }


@claim(
    "As shipped, 14 steps draw 10 points more of unseen numbers right, and strokes as asked, within .2 nats a token.",
    slow=True,
    learns=True,
)
def as_shipped_it_learns() -> Finding:
    before, after = attained(AR_GRPO, 14)
    holds = after["right"] > before["right"] + 0.1 and after["strokes"] > before["strokes"] and after["kl"] < 0.2
    return Finding(holds, say(before=before, after=after))


claim.shipped(AR_GRPO, "rewards", "regularisers")

"""B2-DiffuRL's claims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.core.noise_laws import FlowSDE, flow_schedule, steps_of
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, gradient, inspect_rows, say
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.drawn_runs import right
from hocket.lab.toys.recorded_answers import document, sample
from hocket.methods.generative.b2_diffurl import B2_DIFFURL, BackwardSampling, BranchExtremes
from hocket.nano.flow import quarters
from hocket.policies.denoising.denoiser import Denoiser
from hocket.policies.denoising.network import FlowShape
from hocket.rollout.denoising import DenoisingPlayer
from hocket.types import Assignment, Scenario, Trajectory

claim = Claims("b2-diffurl", "arXiv 2503.11240")
SHAPE = FlowShape(8, 4, 16, 1, 1, ("0", "1", "top", "bottom", "left", "right"), 2, 3, quarters(8, 4), steps=10)


def branches(rollout: BackwardSampling, samples: int) -> list[Trajectory]:
    """A branch set of a sampler that predicts nothing, so that its states are a linear-Gaussian chain."""
    policy = Denoiser(SHAPE, Key.of(3))
    requests = [Assignment(Scenario("s", "0 top left"), samples, options=(rollout.sampling(),))]
    return asyncio.run(DenoisingPlayer(policy).play(requests, key=Key.of(5)))


@claim("The trained steps are the last k, and k grows towards the first until all are trained.")
def the_window_grows_towards_the_first() -> Finding:
    rollout = cast(BackwardSampling, B2_DIFFURL.rollout)
    reach = {step: rollout.at(step).window for step in (1, 10, 11, 21, 31, 99)}
    counts = [window.count for window in reach.values()]
    ends = all(window.first + (window.count or 0) == 10 for window in reach.values())
    return Finding(ends and counts == [4, 4, 6, 8, 10, 10], say(steps=counts))


@claim("A branch set shares its fork; steps before it are no decisions; pictures vary by the noise after it alone.")
def a_branch_set_varies_by_the_interval_alone() -> Finding:
    rollout = cast(BackwardSampling, B2_DIFFURL.rollout).at(1)
    output = branches(rollout, 64)
    forks = np.stack([entry.turns[0].observation["state"][0] for entry in output])
    decisions = {len(entry.turns[0]) for entry in output}
    steps = steps_of(FlowSDE(0.7), flow_schedule(10), rollout.window)
    mean, variance = forks[0].astype(np.float64), 0.0
    for step in steps[6:]:
        mean, variance = step.state * mean, step.state**2 * variance + step.deviation**2
    pictures = np.stack([np.asarray(entry.final_state, np.float64) for entry in output])
    ratio = float(np.square(pictures - mean).mean() / variance)
    policy = Denoiser(SHAPE, Key.of(3))
    batch = pack(output)
    levels = {float(row["level"]) for entry in output for row in entry.turns[0].observation}
    same, late = float(np.ptp(forks, axis=0).max()), max(levels) < flow_schedule(10)[6] + 1e-9
    policy.evaluate(batch, ())
    holds = same == 0.0 and decisions == {4} and late and abs(ratio - 1) < 0.07
    return Finding(holds, say(forks_differ_by=same, decisions=len(output) * 4, variance_over_the_noises=ratio))


def expected(rewards: Sequence[float], past: Sequence[float], everyone: Sequence[float]) -> list[float]:
    """The advantages of one branch set, counted here: best and worst, beyond the shipped threshold of 0.5."""
    known = [*past, *rewards][-32:]
    known = known if len(known) >= 16 else list(everyone)
    scores = [(entry - np.mean(known)) / (np.std(known) + 1e-6) for entry in rewards]
    best, worst = int(np.argmax(scores)), int(np.argmin(scores))
    result = [0.0] * len(rewards)
    for place, keep in ((best, scores[best] > 0.5), (worst, scores[worst] < -0.5)):
        result[place] = float(scores[place]) if keep else result[place]
    return result


def rows_of(seed: int, spread: float) -> list[dict[str, Any]]:
    draws, rows = Key.of(seed).derive("sets").numpy(), []
    for number in range(12):
        logp, old = draws.normal(-3, 1, 4), draws.normal(0, 0.3, 4)
        more: dict[str, Any] = {"logp_behaviour": (logp + old).tolist(), "id": str(number)}
        reward = float(draws.normal((number // 6) * spread, 1.0))
        rows.append(sample(f"g{number // 6}", reward, logp.tolist(), **more))
    return rows


@claim("Of a branch set the best and the worst are kept, where beyond 0.5 deviations of the prompt's recent scores.")
def best_and_worst_are_kept() -> Finding:
    gaps, retained, past = [], [], Key.of(9).numpy().normal(1.0, 2.0, 40).tolist()
    for seed in range(8):
        rows = rows_of(seed, 3.0 if seed % 2 else 0.0)
        everyone = [row["scores"]["reward"] for row in rows]
        state = {"credit": {"returns": {"g0": past}}}
        result = inspect_rows(B2_DIFFURL, rows, **state)
        output = [row[0] for row in result["advantages"]]
        by_hand = [*expected(everyone[:6], past, everyone), *expected(everyone[6:], (), everyone)]
        gaps.append(gap(output, by_hand))
        retained += [sum(entry != 0 for entry in part) for part in (output[:6], output[6:])]
        gaps.append(gap([float(any(row)) for row in result["weight"]], [float(entry != 0) for entry in by_hand]))
    return Finding(max(gaps) < EXACT and {0, 1, 2} >= set(retained) >= {1, 2}, say(off=max(gaps), retained=retained))


@claim("The returns of a prompt are remembered from step to step, the last 32 of them.")
def recent_returns_are_remembered() -> Finding:
    credit, state, totals = BranchExtremes(), BranchExtremes().init(), []
    for seed in range(8):
        batch = RecordedBatch(document(rows_of(seed, 0.0))).batch
        batch = B2_DIFFURL.combine(batch, {})
        totals += batch.scores["reward"].values[:6].tolist()
        _, state = credit(batch, state)
    return Finding(gap(state["returns"]["g0"], totals[-32:]) == 0.0, say(held=len(state["returns"]["g0"])))


@claim("The gradient is DDPO's clipped surrogate on the kept samples, and zero on all others.")
def the_gradient_is_the_clipped_surrogates() -> Finding:
    gaps, still = [], 0
    for seed in range(5):
        rows = rows_of(seed, 0.0)
        everyone = [row["scores"]["reward"] for row in rows]
        advantages = [*expected(everyone[:6], (), everyone), *expected(everyone[6:], (), everyone)]
        chosen = sum(entry != 0 for entry in advantages)
        slopes = []
        for row, advantage in zip(rows, advantages, strict=True):
            ratio = np.exp(np.array(row["logp"]) - np.array(row["logp_behaviour"]))
            cut = ratio > 1.2 if advantage > 0 else ratio < 0.8
            slopes.append(-np.where(cut, 0.0, ratio * advantage) / 4 / chosen)
        output = gradient(B2_DIFFURL, document(rows))
        gaps.append(gap(output, torch.from_numpy(np.concatenate(slopes))))
        still += int((output == 0).sum())
    return Finding(max(gaps) < EXACT and still > 0, say(largest_difference=max(gaps), decisions_without=still))


@claim(
    "As shipped, 25 steps of `hocket train --recipe b2-diffurl` draw at least 10 points more of unseen fours right.",
    slow=True,
    learns=True,
)
def as_shipped_it_learns() -> Finding:
    before, after = right(B2_DIFFURL, 25)
    return Finding(after - before >= 0.1, say(before=before, after=after))


claim.shipped(B2_DIFFURL, "rollout", "credit")

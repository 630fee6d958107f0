"""DPPO's claims."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, inspect_rows, say
from hocket.lab.microscope import inspect
from hocket.lab.toys.measured_runs import returns
from hocket.lab.toys.recorded_answers import document, sample
from hocket.methods.base.ppo import PPO
from hocket.methods.generative.dppo.kind import FLOOR, AvoidingPlayer
from hocket.methods.generative.dppo.method import DPPO
from hocket.methods.generative.dppo.policy import DenoisingController, coefficients
from hocket.methods.generative.dppo.task import RoundTheDisc
from hocket.train.aio import run_async
from hocket.train.assemble import build_parts
from hocket.train.config import configure
from hocket.train.evaluate import evaluate
from hocket.train.loop import RunContext, train_step
from hocket.types import Assignment, Quantity

claim = Claims("dppo", "arXiv 2409.00588")


def recorded(seed: int, steps: int) -> list[dict[str, Any]]:
    """Three episodes of 3, 4 and 5 moves with so many denoising steps each, at weights that have moved on."""
    draws, rows = Key.of(seed).derive("episodes", steps).numpy(), []
    for number in range(3):
        moves = 3 + number
        count = moves * steps
        logp, reward = draws.normal(1.0, 1.0, count), np.zeros(count)
        reward[steps - 1 :: steps] = draws.normal(size=moves)
        more = {
            "logp_behaviour": (logp + draws.normal(0, 0.15, count)).tolist(),
            "value": np.repeat(draws.normal(size=moves), steps).tolist(),
            "segment": np.repeat(np.arange(moves), steps).tolist(),
            "token_scores": {"earned": reward.tolist()},
        }
        rows.append({**sample("g", 0.0, logp.tolist(), **more), "scores": {}})
    return rows


def by_hand(rows: list[dict[str, Any]], steps: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Advantages of every step, and d loss / d logp, from the formula with the shipped constants."""
    credits = []
    for row in rows:
        reward = np.array(row["token_scores"]["earned"]).reshape(-1, steps).sum(1)
        value, running, backwards = [*np.array(row["value"])[::steps], 0.0], 0.0, []
        for move in reversed(range(len(reward))):
            running = reward[move] + 0.99 * value[move + 1] - value[move] + 0.99 * 0.95 * running
            backwards.append(running)
        credits.append(np.array(backwards[::-1]))
    every = np.concatenate(credits)
    middle, spread = every.mean(), every.std(ddof=1) + 1e-8
    place = np.arange(steps)
    along = place / (steps - 1) if steps > 1 else np.ones(1)
    clip = 0.01 + 0.09 * (np.exp(3 * along) - 1) / (math.exp(3) - 1)
    total, advantages, slopes = sum(len(row["logp"]) for row in rows), [], []
    for row, credit in zip(rows, credits, strict=True):
        advantage = (((credit - middle) / spread)[:, None] * 0.95 ** (steps - 1 - place)).flatten()
        ratio = np.exp((np.array(row["logp"]) - np.array(row["logp_behaviour"])) / 2)
        width = np.tile(clip, len(credit))
        cut = np.where(advantage > 0, ratio > 1 + width, ratio < 1 - width)
        advantages.append(advantage)
        slopes.append(-np.where(cut, 0.0, ratio * advantage / 2) / total)
    return advantages, slopes


@claim("Advantages are GAE over moves, discounted towards noisy steps; the gradient has each step's own clip.")
def credit_and_gradient_are_the_formulas() -> Finding:
    gaps, cut = [], 0
    for seed in range(5):
        for steps in (1, 2, 4):
            rows = recorded(seed, steps)
            advantages, slopes = by_hand(rows, steps)
            result = inspect(DPPO, document(rows))
            gaps.append(gap(result["advantages"], [row.tolist() for row in advantages]))
            gaps.append(gap(result["gradient"], [row.tolist() for row in slopes]))
            cut += sum(int((row == 0).sum()) for row in slopes)
    return Finding(max(gaps) < 1e-10 and cut > 0, say(batches=15, largest_difference=max(gaps), clipped=cut))


@claim("With one denoising step and one action dimension it is Gaussian PPO at the same clip.")
def with_one_step_it_is_ppo() -> Finding:
    single = DPPO.but({"objective.dimensions": 1})
    plain = PPO.but({"credit.gamma": 0.99, "objective.low": 0.1, "objective.high": 0.1})
    gaps = []
    for seed in range(8):
        rows = recorded(seed, 1)
        for row in rows:
            del row["segment"]
        for number, row in enumerate(rows):  # PPO has no segments; here every decision is a move.
            rows[number] = {**row, "segment": list(range(len(row["logp"])))}
        ours, theirs = inspect(single, document(rows)), inspect(plain, document(rows))
        gaps.append(gap(ours["gradient"], theirs["gradient"]))
        gaps.append(gap(ours["gradient_value"], theirs["gradient_value"]))
    return Finding(max(gaps) < EXACT, say(batches=8, largest_difference=max(gaps)))


@claim("Quantiles cut off the advantages of moves, and 0 and 1 cut off nothing.")
def quantiles_cut_off() -> Finding:
    rows = recorded(0, 1)
    plain = np.concatenate([np.array(row) for row in inspect_rows(DPPO, rows)["advantages"]])
    narrow = DPPO.but({"credit.lowest": 0.25, "credit.highest": 0.75})
    inner = np.concatenate([np.array(row) for row in inspect_rows(narrow, rows)["advantages"]])
    bounds = np.quantile(plain, [0.25, 0.75])
    return Finding(gap(inner, plain.clip(*bounds)) < EXACT, say(bounds=bounds.tolist()))


def linear(weight: float) -> tuple[list[float], float, float]:
    """A chain of predictions w x: its states, the sum of the steps' log-densities, and the joint log-density."""
    factors = coefficients(4, FLOOR)
    draws = Key.of(1).numpy()
    states = [float(draws.standard_normal())]
    slopes = [row[0] + row[1] * weight for row in factors]
    chain = 0.0
    for slope, (_, _, deviation) in zip(slopes, factors, strict=True):
        states.append(slope * states[-1] + deviation * 0.7)
        chain += -0.5 * ((states[-1] - slope * states[-2]) / deviation) ** 2 - math.log(deviation * math.sqrt(math.tau))
    spread = np.linalg.inv(np.eye(4) - np.diag(slopes[1:], -1)) @ np.diag(factors[:, 2])
    apart = np.array(states[1:]) - np.cumprod(slopes) * states[0]
    covariance = spread @ spread.T
    _, size = np.linalg.slogdet(math.tau * covariance)
    return states, chain, float(-0.5 * (apart @ np.linalg.solve(covariance, apart) + size))


@claim("A linear chain's log-probs sum to its joint density; sampler and learner agree; the last step has the floor.")
def the_chain_has_its_joint_density() -> Finding:
    off = max(abs(chain - joint) for _, chain, joint in (linear(weight) for weight in (-0.5, 0.0, 0.8)))
    policy, task = DenoisingController("policy", Key.of(0), 5), RoundTheDisc()
    requests = [Assignment(task.scenario("train", number), 3) for number in range(4)]
    batch = pack(asyncio.run(AvoidingPlayer(policy).play(requests, key=Key.of(1))))
    logp = policy.evaluate(batch, {Quantity.LOGP}).logp.detach()
    apart = gap(logp, batch.logp["behaviour"].values)
    last = float(coefficients(5, FLOOR)[-1, 2])
    return Finding(off < 1e-9 and apart < 1e-3 and last == FLOOR, say(off_the_joint=off, sampler_to_learner=apart))


@claim(
    "As shipped, 20 steps of `hocket train --recipe dppo` raise unseen successes by a tenth or more, to nine in ten.",
    slow=True,
    learns=True,
)
def as_shipped_it_learns() -> Finding:
    pairs = [returns(DPPO, "round-the-disc", seed, 20, threads=1) for seed in (0, 1)]
    before, after = ([pair[place] for pair in pairs] for place in (0, 1))
    return Finding(sum(after) - sum(before) >= 0.2 and min(after) >= 0.9, say(before=before, after=after))


def reached_and_near(parts: RunContext, temperature: float) -> tuple[float, float]:
    """Of 60 unseen episodes: the share of successes, and that of places near the demonstrated ways."""
    result = run_async(
        evaluate(
            *(parts.task, parts.player, ()),
            n=60,
            decoding=parts.decoding,
            key=Key.of(0),
            split="eval",
            temperature=temperature,
        )
    )
    near = [parts.task.describe(trajectory)["near"] for trajectory in result.trajectories]
    return float(result.success), float(np.mean(near))


def denoised_beside_gaussian(steps: int, seed: int) -> tuple[float, float, float]:
    """With so many denoising steps: greedy successes before training; sampled ones, and nearness, after 20 updates."""
    task = RoundTheDisc(steps)
    parts = build_parts(configure([("task", task.name), ("recipe", DPPO), ("seed", seed), ("threads", 1)], task), task)
    before = reached_and_near(parts, 0.0)[0]
    for step in range(1, 21):
        run_async(train_step(parts, step))
    return (before, *reached_and_near(parts, 1.0))


@claim(
    "More of a cloned controller's episodes succeed if it denoises than if it is Gaussian; 20 steps raise both to nine "
    "in ten, and the samples of the former are then no nearer to the demonstrations.",
    slow=True,
)
def samples_are_no_nearer_than_a_gaussians() -> Finding:
    denoised, gaussian = ([denoised_beside_gaussian(steps, seed) for seed in (0, 1)] for steps in (5, 1))
    begun = min(row[0] for row in denoised) > max(row[0] for row in gaussian)
    learnt = min(row[1] for row in (*denoised, *gaussian)) >= 0.9
    near, plain = ([row[2] for row in rows] for rows in (denoised, gaussian))
    figures = {"near": near, "near_of_gaussian": plain, "before": [row[0] for row in denoised]}
    holds = begun and learnt and sum(near) <= sum(plain) + 0.02
    return Finding(holds, say(**figures, gaussian_before=[row[0] for row in gaussian]))


claim.shipped(DPPO, "credit", "objective")

"""DGPO's claims."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hocket.core.keys import Key
from hocket.core.packing import pack
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, gradient, say
from hocket.lab.microscope import inspect
from hocket.lab.toys.drawn_runs import right
from hocket.lab.toys.recorded_answers import document, sample
from hocket.methods.base.diffusion_dpo import DIFFUSION_DPO
from hocket.methods.generative.dgpo import DGPO
from hocket.nano.flow import quarters
from hocket.policies.denoising.denoiser import Denoiser
from hocket.policies.denoising.network import FlowShape
from hocket.rollout.denoising_probes import ProbingPlayer
from hocket.rollout.noisy_sampling import Sampling
from hocket.rollout.probing import Probes
from hocket.types import Assignment, Quantity, Scenario

claim = Claims("dgpo", "arXiv 2510.08425")
BETA = DGPO.objective.beta  # type: ignore[attr-defined]
SHAPE = FlowShape(8, 4, 16, 2, 2, ("0", "1", "top", "bottom", "left", "right"), 2, 3, quarters(8, 4), steps=3)


def recorded(seed: int, size: int, probes: int, shift: float = 0.0) -> dict[str, Any]:
    """Two groups of `size` samples with `probes` probes each, at weights that have left the reference.

    `shift` is added to the log-prob of the first group's second probe, in all its samples.
    """
    draws = Key.of(seed).derive("probes").numpy()
    rows = []
    for number in range(2 * size):
        logp = draws.normal(-60.0, 20.0, probes)
        reference = logp + draws.normal(0.0, 15.0, probes)
        if number < size:
            logp[1:2] += shift
        more = {"logp_ref": reference.tolist(), "logp_behaviour": logp.tolist()}
        rows.append(sample(f"g{number // size}", float(draws.random()), logp.tolist(), **more))
    return document(rows)


def standardised(rewards: Sequence[float]) -> np.ndarray:
    scaled: np.ndarray = (np.array(rewards) - np.mean(rewards)) / (np.std(rewards, ddof=1) + 1e-6)
    return scaled


@claim(
    "The gradient is sigmoid(s) (beta / G) sum_i A_i grad e_i, s = (beta / G) sum_i A_i (e_i - e_ref,i), of each probe."
)
def the_gradient_is_the_formulas() -> Finding:
    gaps = []
    for seed in range(6):
        rows = recorded(seed, 4, 3)
        by_hand = []
        for group in (rows["trajectories"][:4], rows["trajectories"][4:]):
            advantage = standardised([row["scores"]["reward"] for row in group])
            error, error_ref = (-np.array([row[name] for row in group]) for name in ("logp", "logp_ref"))
            s = BETA / 4 * (advantage[:, None] * (error - error_ref)).sum(0)
            # A mean over two groups of three probes; log-probs are minus errors.
            by_hand.append(-1 / (1 + np.exp(-s)) * BETA / 4 * advantage[:, None] / 6)
        gaps.append(gap(gradient(DGPO, rows), torch.from_numpy(np.concatenate(by_hand).flatten())))
    return Finding(max(gaps) < EXACT, say(batches=len(gaps), largest_difference=max(gaps)))


@claim("Of two samples with advantages 1 and -1, loss and gradient are Diffusion-DPO's of half the strength.")
def of_two_samples_it_is_diffusion_dpo() -> Finding:
    group = DGPO.but({"credit.ddof": 0, "credit.epsilon": 0.0})
    pair, gaps = DIFFUSION_DPO.but({"objective.beta": BETA / 2}), []
    for seed in range(10):
        rows = recorded(seed, 2, 1)
        ours, theirs = inspect(group, rows), inspect(pair, rows)
        gaps += [abs(ours["loss"] - theirs["loss"]), gap(ours["gradient"], theirs["gradient"])]
    return Finding(max(gaps) < EXACT, say(batches=10, largest_difference=max(gaps)))


@claim("A constant that is added to the errors of all samples at one probe changes neither loss nor gradient.")
def a_constant_changes_nothing() -> Finding:
    gaps, moved = [], []
    for seed in range(5):
        plain, shifted = inspect(DGPO, recorded(seed, 4, 3)), inspect(DGPO, recorded(seed, 4, 3, 7.0))
        gaps += [abs(plain["loss"] - shifted["loss"]), gap(plain["gradient"], shifted["gradient"])]
        uncentred = DGPO.but({"credit.virtual": (3.0,)})  # Advantages that do not sum to zero.
        moved.append(
            abs(
                inspect(uncentred, recorded(seed, 4, 3, 7.0))["loss"] - inspect(uncentred, recorded(seed, 4, 3))["loss"]
            )
        )
    return Finding(max(gaps) < 1e-9 and min(moved) > 1e-3, say(largest_difference=max(gaps), if_not_centred=min(moved)))


@claim("A probe's log-prob is minus the velocity's squared error up to a constant; a prompt's samples share its noise.")
def a_probe_is_minus_the_error() -> Finding:
    policy = Denoiser(SHAPE, Key.of(3))
    with torch.no_grad():
        policy.module.write.normal_(0.0, 0.3, generator=Key.of(4).torch())
    sampling = DGPO.rollout._options()[0].sampling()  # type: ignore[attr-defined]
    options = (sampling, Probes(3, 0.2))
    requests = [Assignment(Scenario(f"s{number}", f"{number} top left"), 2, options=options) for number in range(2)]
    output = asyncio.run(ProbingPlayer(policy).play(requests, key=Key.of(5)))
    batch = pack(output)
    logp = policy.evaluate(batch, {Quantity.LOGP}).logp.detach()
    errors, shared = [], []
    for entry in output:
        (turn,) = entry.turns
        rows, level = turn.observation, torch.from_numpy(turn.observation["level"])
        noise = turn.action + entry.final_state
        state = (1 - level.numpy()[:, None]) * entry.final_state + level.numpy()[:, None] * noise
        words = torch.from_numpy(
            np.repeat(SHAPE.encode(str(requests[int(entry.scenario.id[1])].scenario.prompt))[None], 3, 0)
        )
        with torch.no_grad():
            velocity = policy.module(torch.from_numpy(state).float(), level.float(), words.long()).double().numpy()
        errors.append(np.square(noise - np.asarray(entry.final_state) - velocity).sum(1))
        shared.append(np.concatenate([rows["level"], noise.flatten()]))
    constant = logp.numpy() + np.concatenate(errors)
    same = max(gap(shared[0], shared[1]), gap(shared[2], shared[3]))
    apart = gap(output[0].final_state, output[1].final_state)
    levels = np.concatenate([entry.turns[0].observation["level"] for entry in output])
    inside = bool((levels >= 0.2).all() and (levels <= 1).all())
    quiet = isinstance(sampling, Sampling) and sampling.law.silent
    holds = float(np.ptp(constant)) < 1e-3 and same < 1e-5 and apart > 1e-3 and gap(shared[0], shared[2]) > 0.1
    return Finding(holds and inside and quiet, say(constant_varies_by=float(np.ptp(constant)), noise_differs_by=same))


@claim(
    "As shipped, 20 steps of `hocket train --recipe dgpo` draw at least 30 points more of unseen fours right.",
    slow=True,
    learns=True,
)
def as_shipped_it_learns() -> Finding:
    before, after = right(DGPO, 20)
    return Finding(after - before >= 0.3, say(before=before, after=after))


claim.shipped(DGPO, "objective", "rollout")

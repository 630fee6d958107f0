"""DMPO's claims."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hocket.core.elbo_masks import ComplementaryMasks
from hocket.core.keys import Key
from hocket.lab.bandit import Bandit
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, gradient, inspect_rows, say
from hocket.lab.toys.recorded_answers import document, sample
from hocket.lab.toys.training import chances, starting, trained
from hocket.lab.world import World
from hocket.methods.base.grpo import GRPO
from hocket.methods.generative.dmpo_dllm import DMPO_DLLM
from hocket.recipe import Recipe
from hocket.rollout.independent import Independent

claim = Claims("dmpo-dllm", "arXiv 2510.08233")
ALPHA = DMPO_DLLM.credit.temperature  # type: ignore[attr-defined]
REWARDS = (0.1, 0.1, 0.0, -0.2)
REFERENCE = torch.tensor([0.2, 0.4, 0.3, 0.1], dtype=torch.float64)
OPPOSITE = DMPO_DLLM.but({"credit.baseline": "opposite"})
SINGLE = DMPO_DLLM.but({"shaping": ()})
"""On answers of one decision, whose log-prob is their ELBO."""


def recorded(seed: int, rewards: Sequence[float] | None = None) -> dict[str, Any]:
    """Eight answers of two prompts, in a mask of one place and its complement of three."""
    draws, rows = Key.of(seed).derive("pairs").numpy(), []
    turn = [0, 1, 1, 1]
    weights = ComplementaryMasks(1).weights([1, 3], 4)
    for number in range(8):
        logp = draws.normal(-1.5, 0.5, 4)
        more = {name: (logp + draws.normal(0, 0.2, 4)).tolist() for name in ("logp_behaviour", "logp_ref")}
        reward = float(draws.random()) * 0.3 if rewards is None else rewards[number % 2]
        rows.append(sample(f"g{number % 2}", reward, logp.tolist(), turn=turn, info={"look_weights": weights}, **more))
    return document(rows)


def softmax(values: np.ndarray) -> np.ndarray:
    shifted = np.exp(values - values.max())
    return np.asarray(shifted / shifted.sum())


def by_hand(rows: Sequence[dict[str, Any]], opposite: bool) -> torch.Tensor:
    """d loss / d logp: -(w_i - b_i) times the factor of the look, over the number of groups."""
    slopes: list[np.ndarray] = [np.zeros(0)] * len(rows)
    factor = np.array([2.0, 2 / 3, 2 / 3, 2 / 3])  # 1/2 L/m of one place, and of three.
    for name in ("g0", "g1"):
        members = [number for number, row in enumerate(rows) if row["group"] == name]
        gaps = [np.array(rows[n]["logp_ref"]) - np.array(rows[n]["logp_behaviour"]) for n in members]
        drift = np.array([np.sum(factor * entry) for entry in gaps])
        tilt = np.array([rows[n]["scores"]["reward"] / ALPHA for n in members])
        weight = softmax(drift + tilt) - (softmax(drift - tilt) if opposite else 1 / len(members))
        for number, share in zip(members, weight, strict=True):
            slopes[number] = -share * factor / 2
    return torch.from_numpy(np.concatenate(slopes))


@claim("The gradient is the formula's: w - b of the tilted ELBOs, times each look's factor, summed in a group.")
def the_gradient_is_the_formulas() -> Finding:
    gaps = []
    for seed, (recipe, opposite) in itertools.product(range(4), ((DMPO_DLLM, False), (OPPOSITE, True))):
        rows = recorded(seed)
        gaps.append(gap(gradient(recipe, rows), by_hand(rows["trajectories"], opposite)))
    return Finding(max(gaps) < EXACT, say(batches=len(gaps), largest_difference=max(gaps)))


@claim("With the softmax at -r as baseline the weights of a group sum to 0, and equal rewards give no gradient.")
def weights_sum_to_zero() -> Finding:
    totals, still = [], []
    for seed in range(5):
        for recipe in (DMPO_DLLM, OPPOSITE):
            rows = [row[0] for row in inspect_rows(recipe, recorded(seed)["trajectories"])["advantages"]]
            totals += [abs(sum(rows[0::2])), abs(sum(rows[1::2]))]
        still.append(float(gradient(OPPOSITE, recorded(seed, (0.7, 0.2))).abs().max()))
    return Finding(max(totals) < EXACT and max(still) < EXACT, say(sums=max(totals), gradient_of_equal=max(still)))


def target() -> torch.Tensor:
    tilted = REFERENCE * torch.tensor([np.exp(reward / ALPHA) for reward in REWARDS], dtype=torch.float64)
    return tilted / tilted.sum()


@claim("Without a baseline the minimum is p_ref exp(r / alpha), whichever policy sampled; both modes keep their ratio.")
def the_minimum_is_the_tilted_base() -> Finding:
    gaps = []
    for copies in ((1, 1, 1, 1), (4, 1, 2, 1)):
        old = torch.tensor(copies, dtype=torch.float64)
        entry = Bandit(REWARDS, (old / old.sum()).log(), REFERENCE.log(), copies)
        gaps.append(gap(entry.minimise(SINGLE.but({"credit.baseline": "none"})), target()))
    wanted = target()
    return Finding(max(gaps) < 1e-6, say(off_the_target=max(gaps), ratio_of_modes=float(wanted[1] / wanted[0])))


def slope(baseline: str, share: int) -> torch.Tensor:
    """d loss / d logits `[4]` at a policy with probabilities (share, 8 - share, 3, 1)/12, which every sample is of."""
    copies = (share, 8 - share, 3, 1)
    old = (torch.tensor(copies, dtype=torch.float64) / 12).log()
    entry, recipe = Bandit(REWARDS, old, REFERENCE.log(), copies), SINGLE.but({"credit.baseline": baseline})
    logits = old.clone().requires_grad_()
    (output,) = torch.autograd.grad(entry.loss(recipe, logits, entry.batch(recipe)), logits)
    return output


@claim("The mean weight as baseline leaves the expected gradient pi - p*; that at -r makes it p- - p* at any policy.")
def only_the_mean_leaves_the_gradient() -> Finding:
    opposed = REFERENCE * (-torch.tensor(REWARDS, dtype=torch.float64) / ALPHA).exp()
    policies = {share: torch.tensor([share, 8 - share, 3, 1], dtype=torch.float64) / 12 for share in (1, 4, 7)}
    off = {
        "none": max(gap(slope("none", share), policy - target()) for share, policy in policies.items()),
        "mean": max(gap(slope("mean", share), policy - target()) for share, policy in policies.items()),
        "opposite": max(gap(slope("opposite", share), opposed / opposed.sum() - target()) for share in policies),
    }
    return Finding(max(off.values()) < EXACT, say(off=off))


UNEVEN = (0.1, 0.07, 0.0, -0.2)
WORLD = World(1, 4, 1, lambda _, answer: UNEVEN[answer[0]])
START = starting({(0, ()): REFERENCE})


def modes(recipe: Recipe) -> list[list[float]]:
    """The probabilities of the two rewarded answers after 150 steps of 64 samples, by seed."""
    changed = recipe.but({"rollout": Independent(64), "shaping": ()})
    benches = trained(WORLD, changed, 150, seeds=(0, 1), start=START, lr=0.1)
    return [chances(bench)[:2].tolist() for bench in benches]


@claim(
    "Trained on samples, both modes end within 0.05 of their shares of the target; GRPO, which maximises reward, loses "
    "one, and so does the baseline at -r.",
    slow=True,
)
def both_modes_are_kept() -> Finding:
    tilted = REFERENCE * (torch.tensor(UNEVEN, dtype=torch.float64) / ALPHA).exp()
    wanted = (tilted / tilted.sum())[:2].tolist()
    off = max(gap(entry, wanted) for entry in modes(DMPO_DLLM))
    lost = {recipe.name: max(min(entry) for entry in modes(recipe)) for recipe in (GRPO, OPPOSITE)}
    lost = {"of GRPO": lost["grpo"], "with the baseline at -r": lost["dmpo-dllm"]}
    return Finding(off < 0.05 and max(lost.values()) < 0.02, say(target=wanted, off_the_target=off, lesser_mode=lost))


claim.shipped(
    DMPO_DLLM,
    "rollout",
    "shaping",
    "credit",
    "objective",
    task="sums?terms=2&digits=2",
    settings={"model": "nano-mdlm"},
    sees=lambda run: {"looks": float(run.results[0].batch.turns if run.results[0].batch is not None else 0)},
)

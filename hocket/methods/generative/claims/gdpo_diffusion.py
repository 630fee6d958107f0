"""GDPO's claims, on masked language models small enough to enumerate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from hocket.core.elbo_masks import ComplementaryMasks, ElboMasks, GaussMasks
from hocket.core.keys import Key
from hocket.core.masked_states import MaskedState
from hocket.lab.claims.harness import EXACT, Claims, Finding, gap, gradient, say
from hocket.lab.toys.recorded_answers import document, sample
from hocket.methods.generative.claims.cj_grpo import LENGTH, MASK, PROMPT, policy_of
from hocket.methods.generative.gdpo_diffusion import GDPO_DIFFUSION

claim = Claims("gdpo-diffusion", "arXiv 2510.08554")
Table = dict[tuple[int, ...], float]
"""sum_k log p(y_k | y masked) of every mask of an answer, by its places."""


def every_mask(places: int) -> Iterable[tuple[int, ...]]:
    sizes = range(1, places + 1)
    return itertools.chain.from_iterable(itertools.combinations(range(places), size) for size in sizes)


def drawn_table(seed: int, places: int) -> Table:
    draws = Key.of(seed).derive("table", places).numpy()
    return {mask: float(-draws.exponential(1.0) * len(mask)) for mask in every_mask(places)}


def model_table(seed: int) -> tuple[Table, dict[tuple[int, ...], list[float]]]:
    """Of an answer of a masked language model; and log p at each masked place, in order."""
    policy, answer = policy_of(seed), np.array([3, 4, 0, 1, 3, 5], np.int64)
    single = {}
    for mask in every_mask(LENGTH):
        places = PROMPT + np.array(mask)
        tokens = answer.copy()
        tokens[places] = MASK
        rows = torch.log_softmax(policy.logits([MaskedState(tokens, PROMPT, places)]), -1).detach()
        single[mask] = rows.gather(1, torch.from_numpy(answer[places])[:, None])[:, 0].tolist()
    return {mask: sum(values) for mask, values in single.items()}, single


def elbo(table: Table, places: int) -> float:
    """The integral by the beta function: t^(m-1) (1-t)^(L-m) of every mask of m places."""
    beta = [math.gamma(m) * math.gamma(places - m + 1) / math.gamma(places + 1) for m in range(1, places + 1)]
    return sum(beta[len(mask) - 1] * value for mask, value in table.items())


def by_points(table: Table, places: int, points: int) -> float:
    """The shipped rule, with masks enumerated."""
    total = 0.0
    for level, weight in zip(*GaussMasks(points).rule(), strict=True):
        chances = {mask: level ** len(mask) * (1 - level) ** (places - len(mask)) for mask in table}
        total += weight / level * sum(chances[mask] * value for mask, value in table.items())
    return float(total)


def estimates(masks: ElboMasks, table: Table, places: int, count: int) -> np.ndarray:
    """What looks drawn as they ship estimate, `[count]`."""
    draws, output = Key.of(0).derive("estimates").numpy(), np.zeros(count)
    for number in range(count):
        drawn = [tuple(np.flatnonzero(mask).tolist()) for mask in masks.draw(places, draws)]
        weights = masks.weights([len(mask) for mask in drawn], places)
        output[number] = sum(weight * table.get(mask, 0.0) for mask, weight in zip(drawn, weights, strict=True))
    return output


def even(table: Table, places: int, passes: int, count: int) -> np.ndarray:
    """Double Monte Carlo: t even in (0, 1), the masks drawn at it; `[count]`."""
    draws, output = Key.of(0).derive("double").numpy(), np.zeros(count)
    for number in range(count):
        for level in draws.random(passes):
            mask = tuple(np.flatnonzero(draws.random(places) < level).tolist())
            output[number] += table.get(mask, 0.0) / level / passes
    return output


@claim("With masks enumerated, N Gauss points are exact for answers of up to 2 N places, and off for longer ones.")
def gauss_points_are_exact_up_to_twice_their_number() -> Finding:
    inside, beyond = [0.0], [math.inf]
    for places, points in itertools.product(range(1, 8), (1, 2, 3)):
        table = drawn_table(places, places)
        off = abs(by_points(table, places, points) - elbo(table, places))
        (inside if places <= 2 * points else beyond).append(off)
    return Finding(max(inside) < 1e-12 and min(beyond) > 1e-6, say(up_to_2N=max(inside), beyond=min(beyond)))


@claim("The ELBO is the mean log-probability over orders of filling in, and at most the log of their mean probability.")
def the_elbo_is_the_mean_over_orders() -> Finding:
    gaps, slack = [], []
    for seed in range(2):
        table, single = model_table(seed)
        logs = []
        for order in itertools.permutations(range(LENGTH)):
            masks = [tuple(sorted(order[step:])) for step in range(LENGTH)]
            logs.append(sum(single[mask][mask.index(order[step])] for step, mask in enumerate(masks)))
        bound = by_points(table, LENGTH, 2)
        gaps.append(abs(bound - np.mean(logs)))
        slack.append(float(np.log(np.mean(np.exp(logs)))) - bound)
    holds = max(gaps) < 1e-12 and min(slack) > 0
    return Finding(bool(holds), say(off_the_mean=max(gaps), below_the_log_likelihood=slack))


@claim("Looks as shipped estimate the ELBO without bias; their variance is below double Monte Carlo's at equal passes.")
def looks_are_unbiased_and_vary_less() -> Finding:
    table, _ = model_table(0)
    shipped = GDPO_DIFFUSION.rollout.masks  # type: ignore[attr-defined]
    output = estimates(shipped, table, LENGTH, 1500)
    pairs = estimates(ComplementaryMasks(1), table, LENGTH, 1500)
    plain = even(table, LENGTH, 2, 1500)
    off = [(entry.mean() - elbo(table, LENGTH)) / (entry.std() / math.sqrt(1500)) for entry in (output, pairs)]
    variances = {"Gauss": output.var(), "complementary": pairs.var(), "double": plain.var()}
    holds = max(abs(entry) for entry in off) < 3.5 and max(output.var(), pairs.var()) < plain.var() / 2
    return Finding(holds and shipped.points == 2, say(errors_in_deviations=off, variance=variances))


def recorded(seed: int) -> dict[str, Any]:
    """Six answers of two prompts, two looks each, at weights that have moved on; the second mask of one is empty."""
    draws, rows = Key.of(seed).derive("looks").numpy(), []
    weights = GaussMasks(2).weights([0, 0], 4)
    for number in range(6):
        turn = [0] * 1 + [1] * int(draws.integers(2, 5)) if number else [0, 0]
        logp = draws.normal(-1.5, 0.5, len(turn))
        more = {"turn": turn, "logp_behaviour": (logp + draws.normal(0, 0.05, len(turn))).tolist()}
        rows.append(
            sample(f"g{number % 2}", float(draws.random()), logp.tolist(), **more, info={"look_weights": weights})
        )
    return document(rows)


def by_hand(rows: Sequence[dict[str, Any]]) -> torch.Tensor:
    """d loss / d logp of every decision by the derivative of min(s A, clip(s) A), in float64."""
    parts, clipped = [], 0
    for row in rows:
        group = [other["scores"]["reward"] for other in rows if other["group"] == row["group"]]
        advantage = row["scores"]["reward"] - np.mean(group)
        weight = np.array(row["info"]["look_weights"])[row["turn"]]
        ratio = np.exp(np.sum(weight * (np.array(row["logp"]) - np.array(row["logp_behaviour"]))))
        cut = (advantage > 0 and ratio > 1.2) or (advantage < 0 and ratio < 0.8)
        clipped += cut
        parts.append(-(0.0 if cut else ratio * advantage) * weight / len(rows))
    return torch.from_numpy(np.concatenate(parts))


@claim("The gradient is the formula's: one ratio of ELBOs and one clip an answer, advantages centred alone.")
def the_gradient_is_the_formulas() -> Finding:
    gaps, cut = [], 0
    for seed in range(8):
        rows = recorded(seed)
        expected = by_hand(rows["trajectories"])
        gaps.append(gap(gradient(GDPO_DIFFUSION, rows), expected))
        cut += int((expected == 0).any())
    return Finding(max(gaps) < EXACT and cut > 0, say(largest_difference=max(gaps), batches_with_clipped=cut))


claim.shipped(
    GDPO_DIFFUSION,
    "rollout",
    "shaping",
    "objective",
    task="sums?terms=2&digits=2",
    settings={"model": "nano-mdlm"},
    sees=lambda run: {"looks": float(run.results[0].batch.turns if run.results[0].batch is not None else 0)},
)

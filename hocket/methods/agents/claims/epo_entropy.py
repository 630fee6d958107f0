"""EPO's claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np

from hocket.core.batch import Level
from hocket.core.keys import Key
from hocket.lab.claims.harness import EXACT, SEEDS, Claims, Finding, below, gap, say
from hocket.lab.microscope import RecordedBatch, inspect
from hocket.lab.toys.episodes import by_turn, chance_to_arrive, maze_bench, random_episodes
from hocket.lab.toys.recorded_answers import document, line
from hocket.methods.agents.epo_entropy import EPO_ENTROPY
from hocket.methods.base.grpo import GRPO
from hocket.recipe import Recipe
from hocket.zoo.maze import Mazes

claim = Claims("epo-entropy", "arXiv:2509.22576")
# The corridor without the bonus, at full strength.
BAND = EPO_ENTROPY.but({"regularisers.0.coefficient": 0.0, "regularisers.1.weight": 1.0})
BONUS = EPO_ENTROPY.but(regularisers=EPO_ENTROPY.regularisers[:1], shaping=())
USUAL = (1.0, 0.5, 2.0, 0.8)


def cases(number: int) -> dict[str, Any]:
    """A random batch with entropies on both sides of the band, and a history of ten steps for every turn."""
    rows, rng = random_episodes(Key.of(number)), Key.of(number).derive("entropy").numpy()
    rows = [row | {"entropy": (rng.random(len(row["logp"])) * 2.0).tolist()} for row in rows]
    history = {"sum": [10 * usual for usual in USUAL], "steps": [10.0] * len(USUAL)}
    return {"version": 1, "trajectories": rows, "state": {"shaping.0": history}}


def slopes(recipe: Recipe, batch: Mapping[str, Any]) -> Any:
    """The gradient in the entropies."""
    return inspect(recipe, batch)["gradient_entropy"]


@claim("The gradient of the band term is zero inside and pushes entropy toward the band outside.")
def the_gradient_of_the_band_term_is_zero_inside_and_pushes_entropy() -> Finding:
    turns, wrong = Counter[str](), 0
    for batch in map(cases, range(20)):
        for row, values in zip(batch["trajectories"], slopes(BAND, batch), strict=True):
            for usual, entropy, parts in zip(USUAL, by_turn(row, row["entropy"]), by_turn(row, values), strict=False):
                side = (fmean(entropy) > 1.2 * usual) - (fmean(entropy) < 0.8 * usual)
                turns[("inside", "above", "below")[side]] += 1
                wrong += any(np.sign(value) != side for value in parts)
    counts = {kind: turns[kind] for kind in ("inside", "below", "above")}
    return Finding(wrong == 0 and min(counts.values()) > 10, say(turns=counts, gradients_of_the_wrong_sign=wrong))


@claim("As shipped the loss is GRPO's - lambda H + alpha beta max(0, k_l Hbar_t - H_t, H_t - k_u Hbar_t), beta rising.")
def as_shipped_the_loss_is_grpos_lambda_h_alpha_beta_max_beta() -> Finding:
    """With imposed decisions, and turns without history; slopes in the entropies too."""
    off, sides, constant = 0.0, Counter[int](), EPO_ENTROPY.but({"regularisers.1.form": "constant"})
    for number, batch in enumerate(map(cases, range(20))):
        rows, rate = batch["trajectories"], 0.1 * number / 20
        for row in rows:
            row["trained"] = [True, *(place % 3 > 0 for place in range(1, len(row["tokens"])))]
        batch["state"] = {"shaping.0": {"sum": [10.0, 0.0, 4.0], "steps": [10.0, 0.0, 2.0]}, "progress": number / 20}
        ours, plain = inspect(EPO_ENTROPY, batch), inspect(GRPO, {**batch, "state": {}})
        loss, flat, outside = plain["loss"], plain["loss"], list[int]()
        for row, slopes in zip(rows, ours["gradient_entropy"], strict=True):
            share, counted = 1 / len(rows) / sum(row["trained"]), [list[float]() for _ in row["state"]]
            for turn, entropy, counts in zip(row["turn"], row["entropy"], row["trained"], strict=True):
                counted[turn] += [entropy] * counts
            for turn, counts, slope in zip(row["turn"], row["trained"], slopes, strict=True):
                mean, usual = fmean(counted[turn] or [0.0]), {0: 1.0, 2: 2.0}.get(turn)
                below, above = (0.0, 0.0) if usual is None else (0.8 * usual - mean, mean - 1.2 * usual)
                side = (above > 0) - (below > 0)
                outside.append(abs(side)) if counts else None
                sides[side] += counts
                off = max(off, abs(slope - counts * share * (rate * side - 0.001)))
                loss += counts * share * rate * max(0.0, below, above)
                flat += counts * share * rate * abs(side)
            loss, flat = (one - 0.001 * share * sum(map(sum, counted)) for one in (loss, flat))
        off = max(off, abs(ours["loss"] - loss), gap(ours["gradient"], plain["gradient"]))
        off = max(off, abs(inspect(constant, batch)["loss"] - flat))
        off = max(off, abs(ours["metrics"]["entropy/outside"] - fmean(outside)))
    holds = off < EXACT and min(sides.values()) > 20 and EPO_ENTROPY.regularisers[1].couples is Level.TRAJECTORY
    return Finding(holds, say(batches=20, decisions_by_side=str(dict(sides)), off=off))


@claim("It is the derivative of the loss.", "finite differences")
def it_is_the_derivative_of_the_loss() -> Finding:
    batch, step, gaps = cases(0), 1e-6, []
    for row, values in zip(batch["trajectories"], slopes(BAND, batch), strict=True):
        entropies = list(row["entropy"])
        for place, slope in enumerate(values):
            sides = []
            for sign in (1, -1):
                row["entropy"] = [*entropies[:place], entropies[place] + sign * step, *entropies[place + 1 :]]
                sides.append(inspect(BAND, batch)["loss"])
            gaps.append(abs((sides[0] - sides[1]) / (2 * step) - slope))
        row["entropy"] = entropies
    return below(1e-8, analytic_against_central_differences=max(gaps))


@claim("Outside it is not zero, unlike the constant penalty, which is a plain bonus.", "derived; the authors' code")
def outside_it_is_not_zero_unlike_the_constant_penalty_which_is_a() -> Finding:
    """The published penalty has a value outside the band and no gradient there; the distance has one."""
    batch, constant = cases(0), EPO_ENTROPY.but({"regularisers.1.weight": 1.0, "regularisers.1.form": "constant"})
    apart = gap(slopes(constant, batch), slopes(BONUS, {**batch, "state": {}}))
    moved = max(abs(value) for row in slopes(BAND, batch) for value in row)
    alone = BAND.but({"regularisers.1.form": "constant"})
    worth = inspect(alone, batch)["loss"] - inspect(alone.but({"regularisers.1.coefficient": 0.0}), batch)["loss"]
    figures = say(constant_adds_to_the_loss=worth, to_the_gradient_of_the_bonus=apart, distance_adds_up_to=moved)
    return Finding(apart == 0.0 and moved > 1e-4 and worth > 1e-3, figures)


@claim("The band follows the mean of earlier steps, turn by turn.")
def the_band_follows_the_mean_of_earlier_steps_turn_by_turn() -> Finding:
    """Per turn, with turns that some steps never reach; the step itself comes in afterwards."""
    gaps, memory, earlier = [0.0], EPO_ENTROPY.init(), dict[int, list[float]]()
    for number in range(6):
        rows = random_episodes(Key.of(number), groups=1, samples=2, turns=1 + number)
        rows = [row | {"entropy": Key.of(number).numpy().random(len(row["logp"])).tolist()} for row in rows]
        for row in rows:  # The last decision of every turn but the first is imposed.
            ends = [here != after for here, after in zip(row["turn"], [*row["turn"][1:], -1], strict=True)]
            row["trained"] = [turn == 0 or not end for turn, end in zip(row["turn"], ends, strict=True)]
        batch, memory = EPO_ENTROPY.compute_credit(RecordedBatch(document(rows)).batch, memory, {})
        known = batch.info["usual_entropy"][0]
        gaps += [abs(usual - fmean(earlier[turn])) for turn, usual in enumerate(known) if usual is not None]
        gaps += [float(bool(earlier.get(turn))) for turn, usual in enumerate(known) if usual is None]
        found: dict[int, list[float]] = {}
        for row in rows:
            for turn, value, counts in zip(row["turn"], row["entropy"], row["trained"], strict=True):
                found.setdefault(turn, []).extend([value] * counts)
        for turn, values in found.items():
            earlier.setdefault(turn, []).extend([fmean(values)] if values else [])
    return Finding(max(gaps) < 1e-12 and len(earlier) > 3, say(steps=6, turns=len(earlier), off_by=max(gaps)))


claim.spares("epo-entropy: regularisers.0.horizon = 5120", "no length divides this aggregate")
claim.spares("epo-entropy: regularisers.1.horizon = 5120", "no length divides this aggregate")


WORLD, STEPS = Mazes(width=4, height=4, loops=3, steps=25), 45


def trained(recipe: Recipe) -> tuple[list[float], list[float]]:
    """For each seed the mean square of entropy's change per update, and the exact chance to arrive."""
    benches = [maze_bench(recipe, {"maze": 1}, WORLD, seed, steps=STEPS).run(STEPS) for seed in SEEDS]
    changes = [np.diff([row["entropy"] for row in bench.history]) for bench in benches]
    return [float(np.square(one).mean()) for one in changes], [chance_to_arrive(bench, WORLD, 1) for bench in benches]


@claim(
    "On a sparse maze entropy varies less between updates than with a plain bonus; success stays within 0.01.",
    slow=True,
)
def on_a_sparse_maze_entropy_varies_less_between_updates_than_with() -> Finding:
    constant = EPO_ENTROPY.but({"regularisers.1.form": "constant"})
    plain, ours, same = trained(BONUS), trained(EPO_ENTROPY), trained(constant)
    ratio = fmean(ours[0]) / fmean(plain[0])
    calmer = sum(a < b for a, b in zip(ours[0], plain[0], strict=True))
    lost = max(a - b for a, b in zip(plain[1], ours[1], strict=True))
    squares = {side: " ".join(f"{one:.3g}" for one in arm[0]) for side, arm in (("bonus", plain), ("corridor", ours))}
    ends = say(reached_by_bonus=line(plain[1]), by_corridor=line(ours[1]), constant_penalty_is_the_bonus=same == plain)
    holds = ratio < 0.75 and calmer >= 4 and lost < 0.01 and same == plain
    return Finding(holds, f"{STEPS} updates, mean square change of entropy: {say(**squares, ratio=ratio)}, {ends}")


claim.shipped(
    EPO_ENTROPY,
    without={"shaping": (), "regularisers": EPO_ENTROPY.regularisers[:1]},
    steps=2,
    settings={"curriculum.prompts": 4},
    sees=lambda run: {"turns out of the band": run.mean("entropy/outside")},
)

"""What epo-entropy claims."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from hocket.core.keys import Key
from hocket.environments.maze import Mazes
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.microscope import Reading, look
from hocket.lab.toys.turn_toys import SEEDS, by_turn, chance_to_arrive, maze_bench, random_episodes, worst
from hocket.methods.agents.epo_entropy import EPO_ENTROPY
from hocket.recipe import Recipe

claim = Claims("epo-entropy", "arXiv:2509.22576")


BAND = EPO_ENTROPY.but({"regularisers.0.coefficient": 0.0, "regularisers.1.weight": 1.0})
"""The corridor without the bonus, at full strength."""


CONSTANT = BAND.but({"regularisers.1.form": "constant"})
USUAL = (1.0, 0.5, 2.0, 0.8)


def cases(number: int) -> dict[str, Any]:
    """A random batch with entropies on both sides of the band, and a history of ten steps for every turn."""
    rows = random_episodes(Key.of(number))
    rng = Key.of(number).derive("entropy").numpy()
    for row in rows:
        row["entropy"] = (rng.random(len(row["logp"])) * 2.0).tolist()
    history = {"sum": [10 * usual for usual in USUAL], "steps": [10.0] * len(USUAL)}
    return {"version": 1, "trajectories": rows, "state": {"shaping.0": history}}


def means(row: Any) -> list[float]:
    """The mean entropy of each turn."""
    return [fmean(values) for values in by_turn(row, row["entropy"])]


@claim("The gradient of the band term is zero inside and pushes entropy toward the band outside.")
def inside_nothing_outside_back() -> Finding:
    """Descending the loss raises entropy below the band, lowers it above, and leaves it alone inside."""
    kinds = {"inside": 0, "below": 0, "above": 0}
    wrong = 0
    for number in range(20):
        document = cases(number)
        slopes = look(BAND, document)["gradient_entropy"]
        for row, values in zip(document["trajectories"], slopes, strict=True):
            for turn, (mean, parts) in enumerate(zip(means(row), by_turn(row, values), strict=True)):
                below, above = mean < 0.8 * USUAL[turn], mean > 1.2 * USUAL[turn]
                kinds["below" if below else "above" if above else "inside"] += 1
                wrong += any((value < 0) != below or (value > 0) != above for value in parts)
    return Finding(wrong == 0 and min(kinds.values()) > 10, f"turns {kinds}: gradients of the wrong sign {wrong}")


@claim("It is the derivative of the loss.", "finite differences")
def gradients_are_differences() -> Finding:
    """Against central differences of the loss."""
    gap, step = 0.0, 1e-6
    document = cases(0)
    slopes = look(BAND, document)["gradient_entropy"]
    for at, row in enumerate(document["trajectories"]):
        for place in range(len(row["entropy"])):
            sides = []
            for sign in (1, -1):
                moved = [dict(one) for one in document["trajectories"]]
                moved[at]["entropy"] = list(row["entropy"])
                moved[at]["entropy"][place] += sign * step
                sides.append(look(BAND, {**document, "trajectories": moved})["loss"])
            gap = max(gap, abs((sides[0] - sides[1]) / (2 * step) - slopes[at][place]))
    return Finding(gap < 1e-8, f"analytic against central differences: {gap:.1e}")


@claim("Outside it is not zero, unlike the constant penalty, which is a plain bonus.", "derived; the authors' code")
def a_constant_teaches_nothing() -> Finding:
    """The published penalty has a value outside the band and no gradient there; the distance has one."""
    document = cases(0)
    plain = EPO_ENTROPY.but(regularisers=EPO_ENTROPY.regularisers[:1], shaping=())
    bonus = {**document, "state": {}}
    constant = EPO_ENTROPY.but({"regularisers.1.weight": 1.0, "regularisers.1.form": "constant"})
    left, right = look(constant, document), look(plain, bonus)
    apart = worst(left["gradient_entropy"], right["gradient_entropy"])
    moved = max(abs(value) for row in look(BAND, document)["gradient_entropy"] for value in row)
    worth = look(CONSTANT, document)["loss"] - look(CONSTANT.but({"regularisers.1.coefficient": 0.0}), document)["loss"]
    return Finding(
        apart == 0.0 and moved > 1e-4 and worth > 1e-3,
        f"constant: adds {worth:.3f} to the loss and {apart:.1e} to the bonus's gradient; distance: up to {moved:.1e}",
    )


@claim("The band follows the mean of earlier steps, turn by turn.")
def history_is_the_mean_of_earlier_steps() -> Finding:
    """Per turn, with turns that some steps never reach; the step itself comes in afterwards."""
    gap = 0.0
    memory = EPO_ENTROPY.init()
    seen: list[list[float]] = []
    for number in range(6):
        rows = random_episodes(Key.of(number), groups=1, samples=2, turns=1 + number)
        for row in rows:
            row["entropy"] = Key.of(number).numpy().random(len(row["logp"])).tolist()
        batch = Reading({"version": 1, "trajectories": rows}).batch
        batch, memory = EPO_ENTROPY.assess(batch, memory, {})
        for turn, usual in enumerate(batch.info["usual_entropy"][0]):
            gap = max(gap, abs(usual - fmean(seen[turn])))
        parts = [by_turn(row, row["entropy"]) for row in rows]
        for turn in range(max(map(len, parts))):
            seen += [[] for _ in range(turn + 1 - len(seen))]
            seen[turn].append(fmean(value for row in parts if turn < len(row) for value in row[turn]))
    return Finding(gap < 1e-12 and len(seen) > 3, f"6 steps of up to {len(seen)} turns: off by {gap:.1e}")


WORLD, MAZE, STEPS = Mazes(width=4, height=4, loops=3, steps=25), 1, 45


def trained(recipe: Recipe) -> tuple[list[float], list[float]]:
    """For each seed the mean square of entropy's change per update, and the exact chance to arrive."""
    jumps, arrived = [], []
    for seed in SEEDS:
        bench = maze_bench(recipe, {"maze": MAZE}, WORLD, seed, steps=STEPS)
        bench.run(STEPS)
        entropy = np.array([row["entropy"] for row in bench.history])
        jumps.append(float(np.square(np.diff(entropy)).mean()))
        arrived.append(chance_to_arrive(bench, WORLD, MAZE))
    return jumps, arrived


@claim(
    "On a sparse maze entropy varies less between updates than with a plain bonus; success stays within 0.01.",
    slow=True,
)
def entropy_is_calmer() -> Finding:
    bonus = EPO_ENTROPY.but(regularisers=EPO_ENTROPY.regularisers[:1], shaping=())
    plain, ours = trained(bonus), trained(EPO_ENTROPY)
    constant = trained(EPO_ENTROPY.but({"regularisers.1.form": "constant"}))
    ratio = fmean(ours[0]) / fmean(plain[0])
    calmer = sum(a < b for a, b in zip(ours[0], plain[0], strict=True))
    return Finding(
        ratio < 0.75
        and calmer >= 4
        and min(a - b for a, b in zip(ours[1], plain[1], strict=True)) > -0.01
        and constant == plain,
        f"{STEPS} updates on a maze of {WORLD.steps} moves with one reward at its end: mean square change of entropy "
        f"per update {_shown(plain[0])} with the bonus, {_shown(ours[0])} with the corridor (ratio {ratio:.2f}); the "
        f"goal is reached {_shown(plain[1])} and {_shown(ours[1])}; with the constant penalty every number is the "
        "bonus's, 5 seeds",
    )


def _shown(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.3g}" for number in numbers)

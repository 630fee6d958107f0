"""NGRPO's claims."""

from __future__ import annotations

import math
from statistics import fmean, stdev, variance

from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.claims.harness import EXACT, below, gap, say
from hocket.lab.groups import first_advantages, recorded
from hocket.lab.policy import Tabular
from hocket.lab.toys.group_statistics import _binary_groups
from hocket.lab.toys.group_statistics_training import choosing, recipe_of, trained
from hocket.methods.group_relative.ngrpo import NGRPO

claim = Claims("ngrpo", "arXiv:2509.18851")


@claim("All wrong gives -1/sqrt(G+1) each, all right 0, and the real ones never a positive mean")
def _() -> Finding:
    recipe, errors, means, wrong = NGRPO.but({"credit.epsilon": 0.0}), [], list[float](), {}
    for size in (1, 2, 4, 8):
        flat = first_advantages(recipe, recorded(_binary_groups(size)))
        rows = [flat[size * right : size * (right + 1)] for right in range(size + 1)]
        errors += [gap(rows[0], [-1 / math.sqrt(size + 1)] * size), gap(rows[-1], [0.0] * size)]
        means, wrong[f"G {size}:"] = [*means, *map(fmean, rows)], rows[0][0]
    holds = below(EXACT, max(means) <= EXACT, error=max(errors)).holds
    return Finding(holds, say(all_wrong=wrong, error=max(errors), largest_mean_of_the_real_ones=max(means)))


def steps_to_success(name: str, seed: int) -> int:
    """Steps until one of 80 answers is first right; 61 when that takes more than 60."""
    bench = Bench(choosing(1, 80, lambda question, token: float(token == 0)), recipe_of(name), seed=seed, lr=0.3)
    return next((step for step in range(1, 61) if bench.step().metrics["reward/mean"] > 0), 61)


@claim("On a hard task the first success comes sooner than under GRPO", slow=True)
def _() -> Finding:
    grpo, ngrpo = ([steps_to_success(name, seed) for seed in range(24)] for name in ("grpo", "ngrpo"))
    ahead = [a - b for a, b in zip(grpo, ngrpo, strict=True)]
    error = stdev(ahead) / math.sqrt(24)
    saw = say(steps_to_the_first_success={"grpo": fmean(grpo), "ngrpo": fmean(ngrpo)}, ahead=fmean(ahead), error=error)
    return Finding(fmean(ahead) > 2 * error, saw)


@claim(
    "Its tight clip keeps entropy growing; a wide one overshoots and ends lower (expected: entropy grows more)",
    "the ablation of arXiv:2509.18851; the outcome is what is seen here",
    slow=True,
)
def _() -> Finding:
    def start(policy: Tabular) -> None:
        policy.logits[:, 0] = 3.0

    # Nothing is right and one answer dominates; eight updates per batch, so that clips matter.
    world, often = choosing(4, 6, lambda question, token: 0.0), {"update.epochs": 8}
    clips = {"0.16 below, 0.24 above": {}, "0.9 both": {"objective.low": 0.9, "objective.high": 0.9}}
    made = {
        label: [trained("ngrpo", world, 10, seed, {**often, **clip}, lr=0.05, start=start) for seed in range(8)]
        for label, clip in clips.items()
    }
    entropy = {label: [bench.entropy() for bench in benches] for label, benches in made.items()}
    tight, wide = entropy.values()
    before = made["0.9 both"][-1].readings[0].entropy
    error = math.sqrt((variance(tight) + variance(wide)) / 8)
    holds = min(tight) > before and fmean(tight) - fmean(wide) > 2 * error
    return Finding(holds, say(entropy_in_nats_before=before, after_10_steps_clipped=entropy))

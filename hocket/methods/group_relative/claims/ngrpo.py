"""What ngrpo claims."""

from __future__ import annotations

import math
import statistics

from hocket import recipes
from hocket.lab.bench import Bench
from hocket.lab.claims.claim import Claims, Finding
from hocket.lab.groups import first_advantages, recorded
from hocket.lab.policy import Tabular
from hocket.lab.toys.group_statistics import EXACT, _binary_groups, finding
from hocket.lab.toys.group_statistics_training import choosing, recipe_of, spread, trained

claim = Claims("ngrpo", "arXiv:2509.18851")


@claim("All wrong gives -1/sqrt(G+1) each, all right 0, and the real ones never a positive mean")
def _ngrpo_table() -> Finding:
    recipe, worst, above, saw = recipes.find("ngrpo").but({"credit.epsilon": 0.0}), 0.0, -math.inf, []
    for size in (1, 2, 4, 8):
        groups = _binary_groups(size)
        found = first_advantages(recipe, recorded(groups))
        wrong, right = found[:size], found[-size:]
        worst = max(worst, *(abs(one + 1 / math.sqrt(size + 1)) for one in wrong), *(abs(one) for one in right))
        above = max(above, *(statistics.fmean(found[size * k : size * k + size]) for k in range(size + 1)))
        saw.append(f"G {size}: {wrong[0]:.4f}")
    return finding(
        f"all wrong {', '.join(saw)}; {worst:.1e} from -1/sqrt(G+1) and 0; largest mean of the real ones {above:.1e}",
        worst < EXACT,
        above <= EXACT,
    )


def _steps_to_success(name: str, seed: int, tokens: int = 80, most: int = 60) -> int:
    bench = Bench(choosing(1, tokens, lambda question, token: float(token == 0)), recipe_of(name), seed=seed, lr=0.3)
    for step in range(1, most + 1):
        if bench.step().metrics["reward/mean"] > 0:
            return step
    return most + 1


@claim("On a hard task the first success comes sooner than under GRPO", slow=True)
def _ngrpo_finds_a_first_success() -> Finding:
    times = {name: [_steps_to_success(name, seed) for seed in range(24)] for name in ("grpo", "ngrpo")}
    faster = [a - b for a, b in zip(times["grpo"], times["ngrpo"], strict=True)]
    error = statistics.stdev(faster) / math.sqrt(len(faster))
    return Finding(
        statistics.fmean(faster) > 2 * error,
        f"steps to the first success among 80 answers, 24 seeds: GRPO {statistics.fmean(times['grpo']):.1f}, NGRPO "
        f"{statistics.fmean(times['ngrpo']):.1f}; paired difference {statistics.fmean(faster):.1f} +- {error:.1f}",
    )


@claim(
    "Its tight clip keeps entropy growing; a wide one overshoots and ends lower (expected: entropy grows more)",
    "the ablation of arXiv:2509.18851; the outcome is what is seen here",
    slow=True,
)
def _ngrpo_and_its_clip() -> Finding:
    """Nothing is right and one answer dominates; eight updates per batch, so that clips matter."""
    world = choosing(4, 6, lambda question, token: 0.0)

    def start(policy: Tabular) -> None:
        policy.logits[:, 0] = 3.0

    entropy = {}
    for label, changes in (("0.16 below, 0.24 above", {}), ("0.9 both", {"objective.low": 0.9, "objective.high": 0.9})):
        epochs = {"update.epochs": 8, **changes}
        benches = [trained("ngrpo", world, 10, seed, epochs, lr=0.05, start=start) for seed in range(8)]
        entropy[label] = [bench.entropy() for bench in benches]
    before = benches[0].readings[0].entropy
    tight, wide = entropy.values()
    error = math.sqrt((statistics.variance(tight) + statistics.variance(wide)) / len(tight))
    return Finding(
        min(tight) > before and statistics.fmean(tight) - statistics.fmean(wide) > 2 * error,
        f"entropy of answers from {before:.2f} nats after 10 steps: "
        + "; ".join(f"clip {label} {spread(values, 2)}" for label, values in entropy.items()),
    )

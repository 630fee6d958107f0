"""GMPO's claims."""

import math
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

import torch

from hocket.core.batch import Batch
from hocket.core.components import value_at
from hocket.core.segments import segment_mean
from hocket.lab.bench import Bench
from hocket.lab.claims.harness import Claims, Finding, batches, below, each, runs, say
from hocket.lab.hand_formulas import CountedAnswer, off, stale_rows
from hocket.lab.microscope import RecordedBatch
from hocket.lab.toys.quick_worlds import TANGLED
from hocket.methods.base.grpo import GRPO
from hocket.methods.group_relative.gmpo import GMPO, GeometricMean, clipped_log_ratio
from hocket.stages import Policy
from hocket.types import Evaluation, Quantity

claim = Claims("gmpo", "derived")
UNCLIPPED = GeometricMean(low=1e3, high=1e3)


claim.reduces("at the old policy its gradient is GRPO's", GMPO, GRPO, "objectives", gap=0.0)


@claim("loss, gradient and shares are the formula's, counted by hand, at the paper's clip of 0.4", "arXiv 2507.20673")
def loss_gradient_and_shares_are_the_formulas_counted_by_hand_at() -> Finding:
    def loss(answers: Sequence[CountedAnswer]) -> Any:
        parts, silent = [], []
        for one in answers:
            d, sign = one.logp - one.old, -1.0 if one.advantage[0] < 0 else 1.0
            parts.append(-one.advantage[0] * (sign * (sign * d).clamp(max=0.4)).mean().exp())
            silent += (sign * d > 0.4).tolist() if one.advantage[0] else []
        return torch.stack(parts).mean(), {"ratio/clipped": mean(silent), "ratio/saturated": 0}

    gaps = [off(GMPO, rows, loss) for rows in stale_rows("gmpo")]
    return below(1e-12, value_at(GMPO, "update.minibatches") == 8, off_by_hand=max(gaps))


@claim("|A| times the geometric mean is at most |A| times the arithmetic mean of ratios", "arXiv 2507.20673, section 3")
def a_times_the_geometric_mean_is_at_most_a_times_the_arithmetic() -> Finding:
    slack = math.inf
    for document in batches(50, "objectives", gap=1.0):
        read = RecordedBatch(document)
        lower = read.batch.credited(advantage=-torch.ones(len(read.batch.occurrences), dtype=torch.float64))
        means = read.by_trajectory(UNCLIPPED(Evaluation(read.logp), lower).value)
        for row, (geometric, *_) in zip(document["trajectories"], means, strict=True):
            ratios = [math.exp(a - b) for a, b in zip(row["logp"], row["logp_proximal"], strict=True)]
            slack = min(slack, mean(ratios) - geometric)
    return Finding(slack > -1e-12, say(least_of_arithmetic_minus_geometric_mean=slack, answers=600))


@claim("one outlier of ratio R changes the objective by R^(1/T)")
def one_outlier_of_ratio_r_changes_the_objective_by_r() -> Finding:
    def error(length: int, factor: float) -> Any:
        row = {"group": "g", "scores": {"reward": 1.0}, "logp": [-2.0 + math.log(factor), *[-2.0] * (length - 1)]}
        read = RecordedBatch({"version": 1, "trajectories": [{**row, "logp_behaviour": [-2.0] * length}]})
        batch = read.batch.credited(advantage=torch.ones(length, dtype=torch.float64))
        return abs(-float(UNCLIPPED(Evaluation(read.logp), batch).total()) / factor ** (1 / length) - 1)

    return below(1e-9, relative_error=max(error(T, R) for T in (1, 2, 7, 64) for R in (0.01, 3.0, 1e4)))


@claim(
    "on stale samples the range of sequence ratios is smaller and fewer runs collapse than with GRPO",
    "arXiv 2507.20673, section 4",
    slow=True,
)
def on_stale_samples_the_range_of_sequence_ratios_is_smaller_and() -> Finding:
    ranges: dict[str, list[list[float]]] = {"gmpo": [], "grpo": []}

    def watch(name: str) -> Callable[[Policy, Batch], None]:
        ranges[name].append([])

        def after(policy: Policy, batch: Batch) -> None:
            at, old = batch.occurrences, batch.logp["behaviour"].values.double()
            log = (policy.evaluate(batch, {Quantity.LOGP}).logp.detach() - old)[at.decision]
            ratio = clipped_log_ratio(log, at.advantage, 0.4, 0.4) if name == "gmpo" else log.exp()
            factor = segment_mean(ratio, at.trajectory, batch.trajectories)
            factor = factor.exp() if name == "gmpo" else factor
            ranges[name][-1].append(float(factor.max() - factor.min()))

        return after

    often = {"update.epochs": 8, "update.minibatches": 1, "rollout.samples": 16}
    made = runs(TANGLED, GMPO.but(often), GRPO.but(often), steps=40, lag=8, seeds=range(10), lr=0.3, after=watch)
    kept = each(made, Bench.success)
    lost = {name: sum(one < 0.2 for one in group) for name, group in kept.items()}
    spans = {name: [mean(one) for one in group] for name, group in ranges.items()}
    holds = mean(spans["gmpo"]) < mean(spans["grpo"]) and lost["gmpo"] < lost["grpo"]
    return Finding(holds, say(range_of_sequence_factors=spans, collapsed_of_10=lost, success=kept))


claim.shipped(GMPO, "objective")

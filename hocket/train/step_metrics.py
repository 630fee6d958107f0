"""Metrics of a training step: of its samples, its credit and the engines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hocket.core import sums
from hocket.core.batch import Batch
from hocket.core.outcomes import SAMPLED, all_trajectories, total_reward
from hocket.core.signals import counted_trajectories, returns
from hocket.stages import Metrics
from hocket.train.learner import Learner
from hocket.train.team_metrics import team_metrics
from hocket.types import Experience, Trajectory, Turn


def sampling_metrics(experience: Experience, weights: Mapping[str, float]) -> Metrics:
    """Metrics of the samples: rewards before shaping, lengths, truncations, failures."""
    collected = all_trajectories(experience)
    samples = [trajectory for trajectory in collected if trajectory.source == "own"] or collected
    judged = [t for t in experience.trajectories if t.source not in ("baseline", "branch", "replay")]
    complete = [trajectory for trajectory in samples if trajectory.failure is None]
    metrics = {
        "reward/mean": finite_mean([total_reward(trajectory, weights) for trajectory in judged]),
        "groups/total": float(len({trajectory.scenario.id for trajectory in collected})),
        "tokens/generated": float(_generated(t for t in collected if t.source in SAMPLED)),
        "length/mean": finite_mean([float(trajectory.length) for trajectory in complete]),
        "truncated/share": finite_mean([float(trajectory.truncated) for trajectory in complete]),
        "episodes/failed": float(sum(trajectory.failure is not None for trajectory in samples)),
    }
    if share := _nan_share(t for t in collected if t.source in SAMPLED):
        metrics["sampling/nan"] = share
    scored = [trajectory for trajectory in complete if trajectory.scores]
    if scored:
        unrewarded = [math.isnan(total_reward(trajectory, weights)) for trajectory in scored]
        metrics["unrewarded/share"] = sum(unrewarded) / len(unrewarded)
    names = {name for trajectory in complete for name in trajectory.scores}
    for name in sorted(names) if len(names) > 1 else []:
        indicator = {other: float(other == name) for other in names}
        valued = [t for t in judged if name in t.scores and t.scores[name].value is not None]
        metrics[f"reward/{name}"] = finite_mean([total_reward(t, indicator) for t in valued])
    return metrics | team_metrics(complete, weights)


def _distinct_turns(trajectories: Iterable[Trajectory]) -> Iterable[Turn]:
    """All turns; those that several trajectories share are listed once."""
    return {id(turn): turn for trajectory in trajectories for turn in trajectory.turns}.values()


def _generated(trajectories: Iterable[Trajectory]) -> int:
    """The number of sampled decisions, without forced ones."""
    turns = _distinct_turns(trajectories)
    return sum(len(turn) - (0 if turn.forced is None else int(turn.forced.sum())) for turn in turns)


def _nan_share(trajectories: Iterable[Trajectory]) -> float:
    """The share of turns with NaN log-probs: the sampling policy has diverged."""
    logps = [turn.logp for turn in _distinct_turns(trajectories) if turn.logp is not None and len(turn)]
    return sum(bool(np.isnan(logp).any()) for logp in logps) / len(logps) if logps else 0.0


def engine_metrics(before: Mapping[str, int], after: Mapping[str, int]) -> Metrics:
    """Metrics of the engines in this process between two counts; empty if there are no engines.

    Occupancy may depend on the speed of tools, and reuse on where a run was resumed, though no token does. So their
    names begin with `throughput/`, as those of measures of speed.
    """
    counts = {name: after[name] - before.get(name, 0) for name in after}
    if not counts.get("passes"):
        return {}
    context = counts["computed"] + counts["reused"]
    return {
        "throughput/engine/rows": counts["rows"] / counts["passes"],
        "throughput/engine/occupancy": counts["rows"] / counts["places"] if counts["places"] else math.nan,
        "throughput/engine/reused": counts["reused"] / context if context else math.nan,
        "throughput/engine/evicted": float(counts["evicted"]),
        "throughput/engine/preempted": float(counts["preempted"]),
    }


def credit_metrics(learner: Learner, assessed: Batch) -> Metrics:
    """Metrics of the credit of a learner's decisions, its idle stages, and its rewards after shaping."""
    metrics = _credit_metrics(assessed.of_policy(learner.policy.name), draws=not learner.recipe.rollout.retrospective)
    metrics |= {f"idle/{stage}": 1.0 for stage in learner.idle}
    if learner.recipe.shaping:
        metrics["reward/shaped"] = finite_mean(returns(assessed)[counted_trajectories(assessed)].tolist())
    return metrics


def _credit_metrics(batch: Batch, *, draws: bool) -> Metrics:
    """Groups with signal; sampling entropy and KL to the reference, if decisions are `draws` of the policy.

    These two are means over what samplers drew and recorded. Under text of others, of which a batch may hold some, they
    would be far off: what the policy unlearns has a log-prob of -20 and counts e^20.
    """
    occurrences = batch.occurrences
    counted = occurrences.weight != 0
    signal = counted if occurrences.pairs is not None else counted & (occurrences.advantage != 0)
    recorded = batch.logp["behaviour"]
    drawn = batch.logp.get("sampled", recorded).present
    known = drawn if bool(drawn.any()) else recorded.present  # A scorer has no log-probs.
    sampled = occurrences.decision[counted & known[occurrences.decision]]
    behaviour = recorded.values[sampled].double()
    metrics = {
        "groups/with_signal": float(len(set(batch.scenario[occurrences.trajectory[signal]].tolist()))),
        # The mean of -log-prob over sampled decisions estimates the sampling entropy per decision.
        "entropy": float(-behaviour.mean()) if len(behaviour) and draws else math.nan,
    }
    if batch.value is not None and len(values := batch.value[occurrences.decision[counted]]):
        metrics["value/largest"] = float(values.abs().max())
    if "reference" in batch.logp and draws:
        reference = batch.logp["reference"]
        gap = (reference.values[sampled].double() - behaviour)[reference.present[sampled]]
        metrics["kl/reference"] = float((gap.exp() - 1 - gap).mean()) if len(gap) else math.nan
    return metrics


def finite_mean(values: Sequence[float]) -> float:
    """The mean of the finite values; NaN if there are none."""
    finite = [value for value in values if math.isfinite(value)]
    total = sum(finite)
    return total / len(finite) if finite and math.isfinite(total) else sums.mean(finite)

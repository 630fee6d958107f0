"""The agreement of sampler and learner, measured at every step, because a silent disagreement is a common error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.batch import Batch
from hocket.stages import Metrics


@dataclass(frozen=True)
class Agreement:
    """The distance between the log-probs of sampler and learner on the same weights, in nats.

    Attributes:
        kl: KL(behaviour || learner), the k3 estimate.
        largest: the largest absolute gap. p999: the 99.9th percentile of it.
        slope: d learner / d behaviour by least squares through the means; not 1 when temperatures differ.
        bias: mean of learner - behaviour; negative when the sampler truncated the vocabulary.
        stale: share of decisions sampled by weights older than the current version.
        decisions: the number of compared decisions.
    """

    kl: float
    largest: float
    p999: float
    slope: float
    bias: float
    stale: float
    decisions: int

    def metrics(self) -> Metrics:
        """In the run's names."""
        return {"kl/behaviour": self.kl, "agreement/largest": self.largest, "agreement/p999": self.p999}

    def cause(self, threshold: float) -> str | None:
        """The likely cause in a sentence when the largest gap exceeds `threshold` nats, else None."""
        if not self.largest > threshold:
            return None
        head = f"sampler and learner log-probs differ by up to {self.largest:.3g} nats (threshold {threshold:g})"
        if self.stale == 1:
            return f"{head}: all decisions come from older weights; add a correction or sync sooner."
        if abs(self.slope - 1) > 0.05:
            return f"{head}: one is {self.slope:.2f} times the other, as when temperatures differ between the two."
        if self.bias < -threshold / 4:
            return (
                f"{head}: the learner's are lower throughout, as when the sampler cuts the vocabulary (top-k, top-p)."
            )
        return f"{head} without a pattern, as from different precision or kernels; use the same dtype or a correction."


def agreement(batch: Batch, learner: Tensor, decisions: Tensor, version: int) -> Agreement | None:
    """Compares recorded behaviour log-probs with the learner's `[T]` at `decisions`; None when none were recorded.

    Decisions of older weights (replayed samples) count in `stale`; they are compared only if there are no others.
    """
    behaviour = batch.logp["behaviour"]
    known = decisions[behaviour.present[decisions] & ~batch.forced[decisions]]
    if not len(known):
        return None
    old = batch.version[known] < version
    shown = known[~old] if not old.all() else known
    sampled, evaluated = behaviour.values[shown].double(), learner[shown].detach().double()
    gap = evaluated - sampled
    spread = sampled.var(unbiased=False)
    covariance = ((sampled - sampled.mean()) * (evaluated - evaluated.mean())).mean()
    return Agreement(
        kl=float((gap.exp() - 1 - gap).mean()),
        largest=float(gap.abs().max()),
        p999=float(torch.quantile(gap.abs()[:1_000_000], 0.999)),
        slope=float(covariance / spread) if spread > 1e-6 else math.nan,
        bias=float(gap.mean()),
        stale=float(old.double().mean()),
        decisions=len(shown),
    )

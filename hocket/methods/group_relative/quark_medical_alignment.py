"""Quark Medical Alignment: GRPO on many rewards, put on the scale of the untrained policy (arXiv:2602.11661).

`FrozenScale` normalises each score by mean and deviation of the first batch, which never change, and weighs it by how
weak the policy is on it, how risky its errors are and how redundant it is. Their product is chosen here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.requirements import Requirement
from hocket.core.signals import counted_trajectories
from hocket.methods.base.grpo import GRPO
from hocket.rewards.combine import Weights, added_up, sources
from hocket.stages import Combine, State

FARTHEST = 10.0
"""Deviations from the reference beyond which a source is not weaker or stronger."""


def redundancy_factors(values: Tensor) -> Tensor:
    """`1 / sum_j max(0, corr_kj)` of sources `[K, N]`, NaN where one has no opinion: `[K]`.

    1 for a source unlike all others, 1/m for each of m equal ones. A constant source is correlated with itself alone.
    """
    total = torch.ones(len(values), dtype=torch.float64)
    for left in range(len(values)):
        for right in range(len(values)):
            if left != right:
                total[left] += correlation(values[left], values[right])
    return 1 / total


def correlation(first: Tensor, second: Tensor) -> float:
    """The positive part of Pearson's correlation over what both know; 0 if one of them is constant."""
    both = ~first.isnan() & ~second.isnan()
    if int(both.sum()) < 2:
        return 0.0
    left, right = first[both] - first[both].mean(), second[both] - second[both].mean()
    size = float(left.norm() * right.norm())
    return min(1.0, max(0.0, float(left @ right) / size)) if size > 0 else 0.0


def factor_weights(level: Tensor, base: Tensor, redundancy: Tensor, temperature: float) -> Tensor:
    """`w_k ~ base_k exp(-level_k / temperature) redundancy_k`, summing to 1, `[K]`.

    `level` is how many deviations of the reference a source now lies above it (cut to +-10): the lower, the weaker.
    `base` is its weight times its risk.
    """
    raw = base * torch.exp(-level.clamp(-FARTHEST, FARTHEST) / temperature) * redundancy
    return raw / raw.sum() if float(raw.sum()) > 0 else raw


@dataclass(frozen=True)
class FrozenScale(Combine):
    """reward = sum_k w_k (r_k - mu_k) / (sigma_k + epsilon), with mu and sigma of the policy before training.

    Quark Medical Alignment (arXiv 2602.11661): reference-frozen normalisation and weights from three factors. The
    abstract names the factors; their product, summing to 1, is chosen here, as is the measure of each: weakness is
    `exp(-level / temperature)`, `level` the running mean of the normalised score (momentum per step, the batch
    included); risk a constant per source; redundancy `1 / sum_j max(0, corr_kj)` within the batch.

    Stateful. mu and sigma are taken from the first batch, which the untrained policy answered, and never change; more
    scenarios in it make them sharper. A source that did not vary there has no scale yet: it counts nothing and takes
    the statistics of the first batch in which it varies. Statistics are over trajectories of non-zero weight that it
    has an opinion on. Scores of turns and decisions are summed as they are.

    Attributes:
        risk: how much worse errors on a source are; 1 unless named. adaptive: False keeps the weights constant.
        temperature, momentum: of weakness. epsilon: added to sigma; any but 0 lets the scale of a source matter.
        ddof: 1 divides the sum of squares by one less than the number of samples.
    """

    risk: Weights = field(default_factory=dict)
    adaptive: bool = True
    temperature: float = 1.0
    momentum: float = 0.8
    epsilon: float = 0.0
    ddof: int = 1

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive, not {self.temperature}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), not {self.momentum}")

    def init(self) -> State:
        """No statistics, no levels."""
        return {"mean": {}, "deviation": {}, "level": {}}

    def __call__(self, batch: Batch, weights: Weights, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        given = sources(batch)
        used = counted_trajectories(batch)
        own = {
            name: torch.where(used, score.values.double(), torch.nan)
            for name, score in given.items()
            if score.level is Level.TRAJECTORY
        }
        state = self._frozen(own, state)
        names = [name for name in own if name in state["mean"]]
        scaled = {name: (own[name] - state["mean"][name]) / (state["deviation"][name] + self.epsilon) for name in names}
        state = self._levelled(scaled, state)
        shares = self._shares(scaled, weights, state)
        parts = {name: LevelScores(Level.TRAJECTORY, shares[name] * scaled[name]) for name in names}
        below = {n: LevelScores(s.level, weights.get(n, 1.0) * s.values) for n, s in given.items() if n not in own}
        return added_up(batch, {**parts, **below}), state

    def _frozen(self, own: Mapping[str, Tensor], state: State) -> State:
        """The state with statistics of the sources that have none and vary here."""
        mean, deviation = dict(state["mean"]), dict(state["deviation"])
        for name, values in own.items():
            known = values[~values.isnan()]
            if name in mean or len(known) <= self.ddof or bool((known == known[0]).all()):
                continue
            spread = float(known.std(correction=self.ddof))
            if spread > 0:
                mean[name], deviation[name] = float(known.mean()), spread
        return {**state, "mean": mean, "deviation": deviation}

    def _levelled(self, scaled: Mapping[str, Tensor], state: State) -> State:
        """The state with the running means of the normalised sources; the reference's own mean, 0, is their start."""
        level = dict(state["level"])
        for name, values in scaled.items():
            known = values[~values.isnan()]
            if len(known):
                level[name] = self.momentum * level.get(name, 0.0) + (1 - self.momentum) * float(known.mean())
        return {**state, "level": level}

    def _shares(self, scaled: Mapping[str, Tensor], weights: Weights, state: State) -> dict[str, float]:
        """The weight of each source."""
        if not scaled:
            return {}
        base = torch.tensor([weights.get(n, 1.0) * self.risk.get(n, 1.0) for n in scaled], dtype=torch.float64)
        if not self.adaptive:
            return dict(zip(scaled, base.tolist(), strict=True))
        level = torch.tensor([state["level"].get(name, 0.0) for name in scaled], dtype=torch.float64)
        factors = factor_weights(level, base, redundancy_factors(torch.stack(list(scaled.values()))), self.temperature)
        return dict(zip(scaled, factors.tolist(), strict=True))


QUARK = GRPO.but(
    name="quark-medical-alignment",
    title="Reference-frozen normalisation with weights by weakness, risk and redundancy",
    source="Quark Medical Alignment, arXiv:2602.11661 (abstract; the product of the factors is chosen here)",
    catalogue_ids=("quark-medical-alignment",),
    axes=("reward", "objective"),
    formula="R = sum_k w_k (r_k - mu_k,ref)/sigma_k,ref,  w_k ~ risk_k exp(-level_k) / sum_j max(0, corr_kj), sum 1",
    conventions={
        **GRPO.conventions,
        "reference statistics": "of the first batch, which the untrained policy answers; then fixed; epsilon 0, ddof 1",
        "constant under the reference": "a source without scale counts nothing until it varies",
        "weakness": "exp of minus the running mean of the normalised score, momentum 0.8, cut to +-10",
        "risk": "1 unless named in combine.risk",
        "redundancy": "positive correlations within the batch",
    },
    task="worked-sums?form=0.2&model=0.5",
    requires=(Requirement.SCORES,),
    combine=FrozenScale(),
)

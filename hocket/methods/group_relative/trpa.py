"""TRPA: DPO on all pairs of answers of different levels, near the sampling policy (Su et al., arXiv:2504.04524).

Levels come from the order of rewards alone (`PreferenceLevels`), log-ratios are averaged over tokens, pairs won by the
highest level count more, and a KL term to the policy that sampled is the trust region (`KLToOld`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.signals import returns
from hocket.credit.pairs import Pairing, members_by_group, paired
from hocket.methods.base.dpo import DPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, mean, single_term, weighted_total, weights
from hocket.objectives.divergence import kl_estimate
from hocket.objectives.ratios import log_ratios
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class PreferenceLevels(Pairing):
    """All pairs across preference levels, and which trajectories are of the highest (TRPA, arXiv 2504.04524).

    Only the order of rewards is used, never their size. A trajectory's level is the tuple of its scores named by
    `order`, compared one after the other; without names it is its return. Besides the pairs, trajectories of the
    batch's highest level get advantage 1 and all others -1, or 0 throughout where the batch knows one level only.

    Attributes:
        order: names of scores by trajectory, the most important first; a missing opinion is the lowest.
        lone: keep the weight of trajectories in no pair, from whose sign `DPO(lone=True)` learns; else it is 0.
        margin: how far apart returns of different levels are; without meaning where `order` names scores.

    Raises:
        ConfigurationError: on a call, when a score named by `order` is missing.
    """

    order: tuple[str, ...] = ()
    lone: bool = True

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]` and advantages `[E]` float64."""
        level = self._levels(batch)
        groups = members_by_group(batch, self.by)
        found = [
            (better, other)
            for members in groups
            for better in members
            for other in members
            if self._above(level[better], level[other])
        ]
        seen = paired(batch, found)
        counted = [trajectory for members in groups for trajectory in members]
        highest = max((level[i] for i in counted), default=())
        ranked = any(self._above(highest, level[i]) for i in counted)
        signs = [(-1.0 if self._above(highest, own) else 1.0) if ranked else 0.0 for own in level]
        advantage = torch.tensor(signs, dtype=torch.float64)[seen.trajectory]
        weight = batch.occurrences.weight if self.lone and ranked else seen.weight
        return replace(seen, weight=weight, advantage=torch.where(batch.occurrences.weight != 0, advantage, 0.0))

    def _above(self, better: tuple[float, ...], other: tuple[float, ...]) -> bool:
        return better > other if self.order else better[0] - other[0] > self.margin

    def _levels(self, batch: Batch) -> list[tuple[float, ...]]:
        """Per trajectory, what is compared."""
        if not self.order:
            return [(value,) for value in returns(batch).tolist()]
        columns = []
        for name in self.order:
            if name not in batch.scores or batch.scores[name].level is not Level.TRAJECTORY:
                raise ConfigurationError(
                    f"PreferenceLevels orders by a score {name!r} of trajectories, which is missing"
                )
            columns.append(torch.nan_to_num(batch.scores[name].values, nan=-torch.inf).tolist())
        return list(zip(*columns, strict=True))


@dataclass(frozen=True)
class KLToOld(Objective):
    """Adds coefficient * k3, the estimate of KL(pi || pi_old) at the sampled decisions (see `divergence`).

    With `root` = e it is coefficient * sqrt(mean k3 + e), whose pull stays bounded: TRPA's second form
    (arXiv 2504.04524, e = 0.25 in the released code). The mean couples the whole batch.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    coefficient: float = 0.001
    root: float | None = None
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.coefficient < 0 or (self.root is not None and self.root <= 0):
            raise ValueError(
                f"coefficient must be at least 0 and root None or positive, not {self.coefficient} and {self.root}"
            )

    @property
    def couples(self) -> Level:
        return Level.DECISION if self.root is None else Level.BATCH

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        estimate = kl_estimate(log_ratios(now, batch), "k3")
        weight = weights(batch, self.aggregate, self.horizon, dtype=estimate.dtype)
        metrics = {"kl/old": mean(estimate, batch.occurrences.weight != 0)}
        if self.root is None:
            return Terms(self.coefficient * estimate, weight, metrics=metrics)
        value = self.coefficient * (weighted_total(estimate, weight) + self.root).sqrt()
        return Terms(value[None], single_term(weight), Level.BATCH, metrics)


TRPA = DPO.but(
    name="trpa",
    title="Trust Region Preference Approximation",
    source="Su et al., arXiv:2504.04524",
    family="group-relative",
    catalogue_ids=("trpa",),
    axes=("objective", "reward"),
    formula="L = -mean_pairs log sigmoid(c beta (d_w - d_l)) + 0.001 mean_t k3(pi || old),  d = mean_t log pi/ref,  "
    "c = 2.5 where w is of the top level",
    conventions={
        **DPO.conventions,
        "aggregation": "log-ratios averaged over a trajectory's decisions; mean over pairs and lone trajectories",
        "pairs": "all across levels of a scenario; a level is a return, or the scores that credit.order names",
        "top level": "the highest of the batch; pairs it wins count 2.5-fold in the margin, as in the code",
        "constant group": "and a group of one: -log sigmoid(+-d), up on the top level, down elsewhere; "
        "nothing, the KL included, if the batch has one level",
        "old policy": "the sampler's own log-probs",
        "KL": "k3 to the policy that sampled, coefficient 0.001; regularisers.0.root = a is sqrt(mean k3 + a)",
    },
    credit=PreferenceLevels(),
    objective=DPO.objective,
    regularisers=(KLToOld(coefficient=0.001),),
    **{"objective.length_normalised": True, "objective.top": 2.5, "objective.lone": True},
)

"""TRPA: DPO on all pairs of answers of different levels, near the sampling policy (Su et al., arXiv:2504.04524).

Levels come from rules (`RuleLevels`), never from the size of rewards (`PreferenceLevels`); log-ratios are averaged over
tokens, pairs won by a right answer count more, and a KL term to the policy that sampled is the trust region
(`KLToOld`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.columns import LABEL, TEXT, Column
from hocket.core.errors import ConfigurationError
from hocket.core.signals import RIGHT, returns
from hocket.credit.pairs import Pairing, members_by_group, paired
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, mean, single_term, weighted_total, weights
from hocket.objectives.divergence import kl_estimate
from hocket.objectives.ratios import log_ratios
from hocket.rewards.members import with_return
from hocket.rewards.tags import answers_well, thinks_well
from hocket.stages import Objective, Shaping
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class RuleLevels(Shaping):
    """Returns become levels by rules: 1 right, 0 wrong, -1 without a readable answer, -2 malformed (TRPA, 2504.04524).

    A response is well formed where thought and answer stand in closed tags, once each (the thought may be missing); it
    is read where it has a `label`, and right where its return is at least `right`. The form comes first: what is
    malformed is on the lowest level even if right. Without texts, and where no response of the batch has the form,
    returns stay as they are.
    """

    right: float = RIGHT

    def __call__(self, batch: Batch) -> Batch:
        texts, labels, value = TEXT.rows(batch), LABEL.rows(batch), returns(batch)
        formed = [text is not None and answers_well(text) and thinks_well(text, "optional") for text in texts]
        if not any(formed):
            return batch
        levels = [
            -2.0 if not well else -1.0 if label is None or not str(label).strip() else float(own >= self.right)
            for well, label, own in zip(formed, labels, value.tolist(), strict=True)
        ]
        return with_return(batch, torch.tensor(levels, dtype=torch.float64))


@dataclass(frozen=True)
class PreferenceLevels(Pairing):
    """All pairs across preference levels, and which trajectories are of the top level (TRPA, arXiv 2504.04524).

    Only the order of rewards is used, never their size. A trajectory's level is the tuple of its scores named by
    `order`, compared one after the other; without names it is its return. The top level is absolute: what is right.
    Members of pairs on it get advantage 1 and others -1, and so do all trajectories of a batch without any pair, so
    that right ones are pushed up and wrong ones down, also where nobody is right.

    Attributes:
        order: names of scores by trajectory, the most important first; a missing opinion is the lowest.
        right: what the return, or the score named first, is at least on the top level.
        lone: keep the weight of trajectories in no pair, for the trust region and for `Pairwise(lone=True)`; else 0.
        margin: how far apart returns of different levels are; without meaning where `order` names scores.

    Raises:
        ConfigurationError: on a call, when a score named by `order` is missing.
    """

    order: tuple[str, ...] = ()
    right: float = RIGHT
    lone: bool = True

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` `[P, 2]` and advantages `[E]` float64."""
        level = self._levels(batch)
        found = [
            (better, other)
            for members in members_by_group(batch, self.by)
            for better in members
            for other in members
            if self._above(level[better], level[other])
        ]
        seen = paired(batch, found)
        told = {member for pair in found for member in pair} or range(batch.trajectories)
        signs = [float(place in told) * (1.0 if own[0] >= self.right else -1.0) for place, own in enumerate(level)]
        advantage = torch.tensor(signs, dtype=torch.float64)[seen.trajectory]
        weight = batch.occurrences.weight if self.lone else seen.weight
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


TRPA = ONLINE_DPO.but(
    name="trpa",
    title="Trust Region Preference Approximation",
    source="Su et al., arXiv:2504.04524",
    family="group-relative",
    catalogue_ids=("trpa",),
    axes=("objective", "reward"),
    formula="L = -mean_pairs log sigmoid(c beta (d_w - d_l)) + 0.001 mean_t k3(pi || old),  d = mean_t log pi/ref,  "
    "c = 2.5 where w is right",
    conventions={
        **ONLINE_DPO.conventions,
        "aggregation": "log-ratios averaged over a trajectory's decisions; mean over pairs and lone trajectories",
        "pairs": "all across levels of a scenario",
        "levels": "right, wrong, without a readable answer, malformed, as in the code; returns where no response is in "
        "tags; credit.order names scores instead",
        "top level": "right answers (credit.right), whoever else is in the batch; pairs they win count 2.5-fold in the "
        "margin, as in the code",
        "constant group": "and a group of one: in the trust region alone; where no scenario of the batch gives a pair "
        "all add -log sigmoid(+-d), right ones up, all others down (the code decides so per micro-batch)",
        "old policy": "the sampler's own log-probs",
        "KL": "k3 to the policy that sampled, coefficient 0.001; regularisers.0.root = a is sqrt(mean k3 + a)",
    },
    shaping=(RuleLevels(),),
    credit=PreferenceLevels(),
    objective=ONLINE_DPO.objective,
    regularisers=(KLToOld(coefficient=0.001),),
    **{"objective.measure.length_normalised": True, "objective.top": 2.5, "objective.lone": True},
)

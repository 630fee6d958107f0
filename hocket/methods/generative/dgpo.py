"""DGPO: preferences between the halves of a group, learnt from denoising errors (Luo et al., arXiv:2510.08425).

A group's samples above its mean are preferred to those below, each with the weight of its advantage. As advantages sum
to zero, the normaliser of the implicit reward cancels, as in DPO. The loss needs finished pictures alone: they come
from a sampler without noise, and `Probing` adds noise to them that the whole group shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.columns import Column
from hocket.core.segments import segment_count, segment_sum
from hocket.methods.base.diffusion_dpo import PROBED
from hocket.methods.base.flow_grpo import FLOW_GRPO
from hocket.objectives.aggregate import mean
from hocket.objectives.ratios import recorded
from hocket.rollout.probing import Probing
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class GroupPreference(Objective):
    """Minimises the mean over groups and places of -log sigmoid(beta / G sum_i A_i d_ik).

    d_ik = log pi - log ref of decision k of sample i, for probes e_ref - e. G counts the group's samples that have a
    place k. Places where all advantages are 0 do not count. With two samples of advantages 1 and -1 it is Diffusion-DPO
    of strength beta / 2.

    Attributes:
        beta: the strength.
    """

    beta: float = 0.1

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.REFERENCE})
    couples: ClassVar[Level] = Level.GROUP
    # A decision of advantage 0 enters no sum.
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.beta <= 0:
            raise ValueError(f"beta must be positive, not {self.beta}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        drift = (now.logp - recorded(batch, "reference").to(dtype))[occurrences.decision]
        credit = (occurrences.advantage.detach() * occurrences.weight).to(dtype)
        unit, size = group_places(batch)
        counted = occurrences.weight != 0
        members = segment_count(unit[counted], size).clamp(min=1).to(dtype)
        margin = self.beta / members * segment_sum(torch.where(counted, credit * drift, 0.0), unit, size)
        used = segment_count(unit[credit != 0], size) > 0
        metrics = {
            "groups/total": used.sum().double(),
            "groups/margin": mean(margin, used),
            "groups/accuracy": mean((margin.detach().sign().double() + 1) / 2, used),
        }
        return Terms(-logsigmoid(margin), used.to(dtype) / used.sum().clamp(min=1), Level.GROUP, metrics)


def group_places(batch: Batch) -> tuple[Tensor, int]:
    """The group and the place in its trajectory of each occurrence as one number, `[E]`, and a bound of it."""
    trajectory = batch.occurrences.trajectory
    lengths = batch.lengths()
    place = torch.arange(len(trajectory)) - (torch.cumsum(lengths, 0) - lengths)[trajectory]
    groups, longest = GroupBy("scenario")(batch), int(lengths.max()) if len(lengths) else 0
    return groups.index[trajectory] * longest + place, groups.size * longest


DGPO = FLOW_GRPO.but(
    name="dgpo",
    title="Direct Group Preference Optimisation of diffusion models",
    source="Luo et al., arXiv:2510.08425; code of Luo-Yihong/DGPO",
    catalogue_ids=("dgpo",),
    axes=("objective", "policy"),
    formula="L = -mean_{g,k} log sigmoid(-beta/G sum_i A_i (e_ik - e_ref,ik)),  "
    "e_ik = |z_k - x0_i - v(x_t_k,i, t_k)|^2",
    conventions={
        **FLOW_GRPO.conventions,
        **PROBED,
        "noisy steps": "none",
        "levels": "drawn evenly in [0.2, 1]: the paper leaves out low levels, where few steps of the sampler leave "
        "their errors; its bound depends on the model. Levels and noise are shared by all samples of a scenario",
        "aggregation": "every probe of a group has a logistic; mean over probes and groups that have a signal",
        "clip": "none; the paper's, of the error, is optional",
        "beta": "0.4 a nat of error summed over dimensions: the release's 100 for a mean over 256 of them",
        "KL": "in the implicit reward, by beta",
    },
    rollout=Probing(samples=8, probes=4, least=0.2),
    objective=GroupPreference(beta=0.4),
)

"""SEED-GRPO: Dr. GRPO with smaller updates where the group's answers disagree (Chen et al., arXiv:2505.12346).

`SemanticEntropy` clusters a group by final answer and damps its advantages by the entropy over the clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.columns import LABEL, Column
from hocket.core.segments import segment_count, segment_extreme, segment_sum
from hocket.credit.weights import Compared, Weight
from hocket.methods.base.dr_grpo import DR_GRPO

Mass = Literal["count", "likelihood"]
Form = Literal["linear", "reciprocal"]


def semantic_entropy(share: Tensor, estimator: Mass) -> float:
    """Entropy over clusters whose shares `[K]` sum to 1, in nats.

    `count`: Shannon's `-sum_k p_k log p_k`. `likelihood`: the Monte-Carlo form `-(1/K) sum_k log p_k`, each cluster
    counted once (SEED-GRPO, equation 5); it may exceed log K.
    """
    logs = share.clamp(min=torch.finfo(torch.float64).tiny).log()
    return float(-(share * logs).sum()) if estimator == "count" else float(-logs.mean())


def damping(uncertainty: Tensor, alpha: float, form: Form) -> Tensor:
    """`1 - alpha x` or `1 / (1 + alpha x)` for uncertainty x in [0, 1]; same shape."""
    return 1 - alpha * uncertainty if form == "linear" else 1 / (1 + alpha * uncertainty)


@dataclass(frozen=True)
class SemanticEntropy(Weight):
    """Smaller updates where the answers of a group disagree: SEED-GRPO (arXiv 2505.12346).

    Members are clustered by their final answer, `batch.info["label"]`; one without an answer is like no other. With
    SE the entropy over clusters and G the members of the group, the factor is f(alpha * min(SE / log G, 1)). Of f the
    paper says that it may be linear, exponential or focal; `linear` is chosen here, and `reciprocal`, which its code
    is reported to use, is the other form. A group of one has factor 1.

    Attributes:
        alpha: 0 leaves credit as it is. The paper takes 0.02.
        mass: what a cluster's share is made of, and which entropy is taken of it (see `semantic_entropy`): the
            `likelihood` of its sequences under the sampling policy, as in the paper, or their `count`.
    """

    alpha: float = 0.02
    form: Form = "linear"
    mass: Mass = "likelihood"

    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})

    def __post_init__(self) -> None:
        if self.form not in get_args(Form) or self.mass not in get_args(Mass):
            raise ValueError(
                f"form must be linear or reciprocal and mass likelihood or count, not {self.form!r} and {self.mass!r}"
            )
        if self.alpha < 0 or (self.form == "linear" and self.alpha > 1):
            raise ValueError(f"alpha must be at least 0, and at most 1 in linear form, not {self.alpha}")

    def __call__(self, seen: Compared) -> Tensor:
        return damping(self.uncertainty(seen), self.alpha, self.form)

    def uncertainty(self, seen: Compared) -> Tensor:
        """SE / log G of each member's group, in [0, 1], `[M]` float64."""
        share = self._shares(seen)
        labels = LABEL.read(seen.batch, "SemanticEntropy")
        clusters: dict[int, dict[object, list[int]]] = {}
        groups, owners = seen.group.tolist(), seen.trajectory.tolist()
        for member, (group, owner) in enumerate(zip(groups, owners, strict=True)):
            meaning = ("none", member) if labels[owner] is None else ("label", str(labels[owner]))
            clusters.setdefault(group, {}).setdefault(meaning, []).append(member)
        found = torch.zeros(seen.size, dtype=torch.float64)
        for group, meanings in clusters.items():
            size = sum(len(members) for members in meanings.values())
            if size > 1 and len(meanings) > 1:
                shares = torch.stack([share[members].sum() for members in meanings.values()])
                found[group] = min(semantic_entropy(shares, self.mass) / math.log(size), 1.0)
        return found[seen.group]

    def _shares(self, seen: Compared) -> Tensor:
        """Each member's share of its group's mass, `[M]`."""
        if self.mass == "count":
            return (1 / segment_count(seen.group, seen.size).double().clamp(min=1))[seen.group]
        logp = _log_likelihoods(seen)
        highest = segment_extreme(logp, seen.group, seen.size, largest=True)
        mass = (logp - highest[seen.group]).exp()
        return mass / segment_sum(mass, seen.group, seen.size)[seen.group]


def _log_likelihoods(seen: Compared) -> Tensor:
    """The log-probability of each member's trajectory under the policy that sampled it, `[M]` float64.

    Decisions that do not count, or of unknown log-prob, are left out.
    """
    batch, occurrences = seen.batch, seen.batch.occurrences
    recorded = batch.logp[Column.BEHAVIOUR.name]
    own = (occurrences.weight != 0) & recorded.present[occurrences.decision]
    logp = torch.where(own, recorded.values.double()[occurrences.decision], 0.0)
    return segment_sum(logp, occurrences.trajectory, batch.trajectories)[seen.trajectory]


SEED_GRPO = DR_GRPO.but(
    name="seed-grpo",
    title="Semantic-entropy-enhanced GRPO",
    source="Chen et al., arXiv:2505.12346",
    catalogue_ids=("seed-grpo",),
    formula="A_i = (R_i - mean_g R)(1 - alpha SE/log G),  SE = -1/K sum_k log p_k over K clusters of equal answers",
    conventions={
        **DR_GRPO.conventions,
        "clusters": "equal final answers; a sample without an answer is like no other",
        "share of a cluster": "its part of the likelihoods of the group's samples under the sampling policy",
        "damping": "linear (the paper names linear, exponential and focal), alpha 0.02 (the paper's), SE at most log G",
        "group of one": "advantage 0",
    },
    **{"credit.weigh": (SemanticEntropy(alpha=0.02),)},
)

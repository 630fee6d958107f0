"""Group-relative REINFORCE as an off-policy method, whoever sampled (Yao et al., arXiv:2509.24203).

An analysis and its recipes `rec-*`. `MaskedPolicyGradient` is REINFORCE centred by group, with PPO's clip as a mask if
at all; the others add a quadratic leash (`LogRatioPenalty`), lower the baseline (`LoweredBaseline`), drop surplus bad
samples (`DropSurplusNegatives`) or weigh good ones more (`ExponentialWeight`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from hocket.core.analyses import Analysis
from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.columns import Column
from hocket.core.signals import returns
from hocket.methods.base.conventions import CENTRED
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.log_ratio import LogRatioPenalty
from hocket.objectives.ratios import log_ratios, saturated, saturation, sequence_means
from hocket.rewards.members import groups_of
from hocket.stages import Correction, Objective, Shaping
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class DropSurplusNegatives(Shaping):
    """Weight 0 for negatives beyond the number of positives, per group: RED-Drop (arXiv 2509.24203).

    A positive has a return of at least its group's mean. As a shaping it runs before credit, which then centres what
    is left. The published code drops negatives at random; here those last in assignment order go, which for samples
    drawn alike is the same in distribution and needs no draw.

    Attributes:
        ratio: how many negatives may stay per positive (rounded down).
    """

    ratio: float = 1.0

    def __post_init__(self) -> None:
        if self.ratio < 0:
            raise ValueError(f"ratio must be at least 0, not {self.ratio}")

    def __call__(self, batch: Batch) -> Batch:
        value = returns(batch).tolist()
        dropped = torch.zeros(batch.trajectories, dtype=torch.bool)
        for members in groups_of(batch, GroupBy("scenario")):
            if not members:
                continue  # Nobody of the group counts.
            mean = sum(value[i] for i in members) / len(members)
            constant = len({value[i] for i in members}) == 1
            bad = [] if constant else [i for i in members if value[i] < mean]
            dropped[bad[int(self.ratio * (len(members) - len(bad))) :]] = True
        seen = batch.occurrences
        return batch.credited(weight=torch.where(dropped[seen.trajectory], 0.0, seen.weight))


MAXIMUM = 50.0
"""Exponents are cut to +-50, so that no weight overflows."""


@dataclass(frozen=True)
class LoweredBaseline(Correction):
    """`A += shift`: the baseline lowered by `shift` (AsymRE, Arnal et al. 2025, arXiv 2506.20520).

    It adds shift * sum_i log pi(y_i) to what is maximised, also in groups whose rewards are all equal.
    """

    shift: float = 0.1

    def __call__(self, batch: Batch) -> Batch:
        """The batch with advantages `[E]`; those of weight 0 stay."""
        seen = batch.occurrences
        return batch.credited(advantage=torch.where(seen.weight != 0, seen.advantage + self.shift, seen.advantage))


@dataclass(frozen=True)
class ExponentialWeight(Correction):
    """`A *= exp(A / temperature)`: good samples count more, bad ones less (RED-Weight, arXiv 2509.24203).

    The exponent is cut to +-50. Not normalised, as in the released code.
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueError(f"temperature must be positive, not {self.temperature}")

    def __call__(self, batch: Batch) -> Batch:
        """The batch with advantages `[E]`."""
        advantage = batch.occurrences.advantage
        factor = (advantage / self.temperature).clamp(-MAXIMUM, MAXIMUM).exp()
        return batch.credited(advantage=advantage * factor)


Sides = Literal["none", "one", "two", "ring"]


def within(
    ratio: Tensor, advantage: Tensor, low: float, high: float, sides: Sides, outer: tuple[float, float] = (0.6, 2.0)
) -> Tensor:
    """Which occurrences keep their gradient, `[E]` bool.

    `one`: r <= 1 + high where A >= 0, r >= 1 - low where A <= 0 (PPO's side); `two`: 1 - low <= r <= 1 + high;
    `ring`: those of `two`, and r <= 1 - outer[0] where A >= 0, r >= 1 + outer[1] where A <= 0, so that what is praised
    comes back from far below and what is blamed from far above; `none`: all.
    """
    if sides == "none":
        return torch.ones_like(ratio, dtype=torch.bool)
    below, above = ratio <= 1 + high, ratio >= 1 - low
    if sides == "two":
        return below & above
    if sides == "ring":
        lost, surplus = (ratio <= 1 - outer[0]) & (advantage >= 0), (ratio >= 1 + outer[1]) & (advantage <= 0)
        return (below & above) | lost | surplus
    return (below & (advantage >= 0)) | (above & (advantage <= 0))


@dataclass(frozen=True)
class MaskedPolicyGradient(Objective):
    """Minimises -A log pi at the decisions whose ratio lies within bounds: REC (arXiv 2509.24203).

    The clip only says where a gradient remains; the ratio itself is left out. With `weighted` it is put back,
    -sg[r] A log pi, and at one side the gradient is that of PPO's clipped surrogate. With `sides="none"` it is
    REINFORCE, whoever sampled.

    Attributes:
        low, high: the ratio's bounds are 1 - low and 1 + high. sides, outer: see `within`.
        weighted: multiply by the detached ratio.
        level: `decision`, the ratio of single decisions; `sequence`, in bounds and weight, the geometric mean of an
            answer's, so that it is kept or dropped as a whole (`gspo-one-side` of the released Trinity-RFT).
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    low: float = 0.2
    high: float = 0.2
    sides: Sides = "one"
    weighted: bool = False
    outer: tuple[float, float] = (0.6, 2.0)
    level: Literal["decision", "sequence"] = "decision"
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.sides not in get_args(Sides):
            raise ValueError(f"sides is {self.sides!r}; choose from {', '.join(get_args(Sides))}")
        if self.level not in ("decision", "sequence"):
            raise ValueError(f"level must be 'decision' or 'sequence', not {self.level!r}")
        if self.sides == "ring" and not (self.low <= self.outer[0] <= 1 and self.high <= self.outer[1]):
            raise ValueError(f"outer must lie beyond low and high, and outer[0] be at most 1, not {self.outer}")
        if not 0 <= self.low <= 1 or self.high < 0:
            raise ValueError(f"low must be in [0, 1] and high at least 0, not {self.low} and {self.high}")

    @property
    def couples(self) -> Level:
        return Level.DECISION if self.level == "decision" else Level.TRAJECTORY

    @property
    def idle_without_advantage(self) -> bool:
        # A decision of advantage 0 still enters its sequence's ratio.
        return self.level == "decision"

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        advantage = seen.advantage.detach().to(dtype)
        log_ratio = log_ratios(now, batch).detach()
        if self.level == "sequence":
            log_ratio = sequence_means(log_ratio, batch)
        ratio = saturated(log_ratio).exp()
        kept = within(ratio, advantage, self.low, self.high, self.sides, self.outer)
        factor = kept * (ratio if self.weighted else torch.ones_like(ratio))
        active = (seen.weight != 0) & (seen.advantage != 0)
        metrics = {"ratio/clipped": share(~kept, active), "ratio/saturated": saturation(log_ratio, active)}
        value = -factor * advantage * now.logp[seen.decision]
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype), self.couples, metrics)


REC_REINFORCE = GRPO.but(
    name="rec-reinforce",
    title="Group-relative REINFORCE, whoever sampled",
    source="Yao et al., Group-Relative REINFORCE Is Secretly an Off-Policy Algorithm, arXiv:2509.24203",
    catalogue_ids=("group-relative-reinforce",),
    axes=("objective", "analysis", "rollout"),
    formula="L = -1/sum_i n_i sum_it (R_i - mean_g R) log pi_it",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "aggregation": "mean over all decisions of the batch",
        "clipping side": "nothing is clipped",
        "old policy": "plays no part",
    },
    objective=MaskedPolicyGradient(sides="none"),
    **{"credit.scale": None},
)


REC_ONE_SIDE = REC_REINFORCE.but(
    name="rec-one-side",
    title="REINFORCE with the clip's mask and without its ratio",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/sum_i n_i sum_it m_it A_i log pi_it,  m = [r <= 1.2] where A > 0, [r >= 0.8] where A < 0",
    conventions={
        **REC_REINFORCE.conventions,
        "clipping side": "PPO's, 0.2 each, as a mask",
        "old policy": GRPO.conventions["old policy"],
    },
    **{"objective.sides": "one"},
)


REC_ONE_SIDE_IS = REC_ONE_SIDE.but(
    name="rec-one-side-is",
    title="REINFORCE with the clip's mask and its ratio: the gradient of PPO's surrogate",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/sum_i n_i sum_it sg[m_it r_it] A_i log pi_it",
    **{"objective.weighted": True},
)


REC_ONE_SIDE_SEQUENCE = REC_ONE_SIDE.but(
    name="rec-one-side-sequence",
    title="REINFORCE with the mask of GSPO's clip and its ratio",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/sum_i n_i sum_it sg[m_i s_i] A_i log pi_it,  s_i = exp(1/n_i sum_t log r_it),  m as rec-one-side, "
    "of s_i",
    conventions={**REC_ONE_SIDE.conventions, "ratio": "of whole answers, the geometric mean of their decisions'"},
    **{"objective.level": "sequence", "objective.weighted": True},
)


REC_RING = REC_REINFORCE.but(
    name="rec-ring",
    title="REINFORCE near the old policy, and where it comes back from far away",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/sum_i n_i sum_it m_it A_i log pi_it,  m = [0.8 <= r <= 1.2] or [r <= 0.4] where A > 0 or "
    "[r >= 3] where A < 0",
    conventions={
        **REC_REINFORCE.conventions,
        "clipping side": "both, 0.2 each, as a mask; beyond 0.6 below and 2 above the gradient that leads back returns",
        "old policy": GRPO.conventions["old policy"],
    },
    **{"objective.sides": "ring"},
)


REC_OPMD = REC_REINFORCE.but(
    name="rec-opmd",
    title="REINFORCE with a quadratic leash: online policy mirror descent",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/N sum_i [A_i log pi(y_i) - tau/2 (log pi(y_i)/pi_old(y_i))^2]",
    conventions={
        **REC_REINFORCE.conventions,
        "aggregation": "sums over a trajectory, mean over trajectories",
        "old policy": GRPO.conventions["old policy"],
        "KL": "tau/2 = regularisers.0.coefficient = 0.05, our choice",
    },
    regularisers=(LogRatioPenalty(coefficient=0.05, level="sequence"),),
    **{"objective.aggregate": "sequence-sum"},
)


REC_ASYMRE = REC_REINFORCE.but(
    name="rec-asymre",
    title="REINFORCE with a lowered baseline",
    source="Arnal et al., AsymRE, arXiv:2506.20520; as in arXiv:2509.24203",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/sum_i n_i sum_it (R_i - mean_g R + 0.1) log pi_it",
    conventions={**REC_REINFORCE.conventions, "constant group": "advantage 0.1: its samples are imitated"},
    correction=LoweredBaseline(shift=0.1),
)


REC_DROP = REC_REINFORCE.but(
    name="rec-drop",
    title="REINFORCE on as many bad samples as good ones",
    catalogue_ids=("group-relative-reinforce",),
    formula=REC_REINFORCE.formula + ", surplus negatives dropped before the mean is taken",
    conventions={
        **REC_REINFORCE.conventions,
        "dropped": "negatives beyond the number of positives, the last in assignment order (at random in the code)",
    },
    shaping=(DropSurplusNegatives(),),
)


REC_WEIGHT = REC_REINFORCE.but(
    name="rec-weight",
    title="REINFORCE with exponential weights",
    catalogue_ids=("group-relative-reinforce",),
    formula="L = -1/sum_i n_i sum_it exp(A_i/temp) A_i log pi_it,  A = R - mean_g R",
    conventions={**REC_REINFORCE.conventions, "sample weight": "exp(A / correction.temperature = 1), not normalised"},
    correction=ExponentialWeight(temperature=1.0),
)

GROUP_RELATIVE_REINFORCE = Analysis(
    name="group-relative-reinforce",
    title="Group-relative REINFORCE as an off-policy method; recipes rec-*",
    where="docs/group-relative-reinforce.md",
)

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
from hocket.objectives.aggregate import HORIZON, Aggregate, check, counted_lengths, share, trajectory_sums, weights
from hocket.objectives.ratios import log_ratios, saturated, saturation
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


Sides = Literal["none", "one", "two"]


def within(ratio: Tensor, advantage: Tensor, low: float, high: float, sides: Sides) -> Tensor:
    """Which occurrences keep their gradient, `[E]` bool.

    `one`: r <= 1 + high where A >= 0, r >= 1 - low where A <= 0 (PPO's side); `two`: 1 - low <= r <= 1 + high;
    `none`: all.
    """
    if sides == "none":
        return torch.ones_like(ratio, dtype=torch.bool)
    below, above = ratio <= 1 + high, ratio >= 1 - low
    if sides == "two":
        return below & above
    return (below & (advantage >= 0)) | (above & (advantage <= 0))


@dataclass(frozen=True)
class MaskedPolicyGradient(Objective):
    """Minimises -A log pi at the decisions whose ratio lies within bounds: REC (arXiv 2509.24203).

    The clip only says where a gradient remains; the ratio itself is left out. With `weighted` it is put back,
    -sg[r] A log pi, and at one side the gradient is that of PPO's clipped surrogate. With `sides="none"` it is
    REINFORCE, whoever sampled.

    Attributes:
        low, high: the ratio's bounds are 1 - low and 1 + high. sides: see `within`.
        weighted: multiply by the detached ratio.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    low: float = 0.2
    high: float = 0.2
    sides: Sides = "one"
    weighted: bool = False
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.sides not in get_args(Sides):
            raise ValueError(f"sides is {self.sides!r}; choose from {', '.join(get_args(Sides))}")
        if not 0 <= self.low <= 1 or self.high < 0:
            raise ValueError(f"low must be in [0, 1] and high at least 0, not {self.low} and {self.high}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        advantage = seen.advantage.detach().to(dtype)
        log_ratio = log_ratios(now, batch).detach()
        ratio = saturated(log_ratio).exp()
        kept = within(ratio, advantage, self.low, self.high, self.sides)
        factor = kept * (ratio if self.weighted else torch.ones_like(ratio))
        active = (seen.weight != 0) & (seen.advantage != 0)
        metrics = {"ratio/clipped": share(~kept, active), "ratio/saturated": saturation(log_ratio, active)}
        value = -factor * advantage * now.logp[seen.decision]
        return Terms(value, weights(batch, self.aggregate, self.horizon, dtype=dtype), metrics=metrics)


@dataclass(frozen=True)
class LogRatioPenalty(Objective):
    """Adds coefficient * (log pi - log pi_old)^2, of single decisions or of whole trajectories.

    OPMD's term tau/2 (log pi(y)/pi_old(y))^2 (Kimi k1.5, arXiv 2501.12599; group-relative REINFORCE, arXiv 2509.24203)
    is coefficient = tau/2 at level `sequence`. Near pi_old its mean over samples is 2 coefficient KL, to second order.

    Attributes:
        level: `sequence` squares the sum over a trajectory and averages over trajectories; `decision` squares each
            decision's and aggregates.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    coefficient: float = 0.5
    level: Literal["decision", "sequence"] = "sequence"
    aggregate: Aggregate = "token-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if self.level not in ("decision", "sequence"):
            raise ValueError(f"level must be 'decision' or 'sequence', not {self.level!r}")
        if self.coefficient < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")

    @property
    def couples(self) -> Level:
        return Level.DECISION if self.level == "decision" else Level.TRAJECTORY

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        log_ratio = log_ratios(now, batch)
        if self.level == "decision":
            weight = weights(batch, self.aggregate, self.horizon, dtype=log_ratio.dtype)
            return Terms(self.coefficient * log_ratio.square(), weight)
        counted = counted_lengths(batch) > 0
        value = self.coefficient * trajectory_sums(log_ratio, batch).square()
        return Terms(value, counted.to(value.dtype) / counted.sum().clamp(min=1), Level.TRAJECTORY)


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

"""EPO: GRPO for agents with entropy held in a band about its own history (Xu et al., arXiv:2509.22576).

Beside an entropy bonus, a penalty grows over the run for turns whose entropy leaves a band around the mean of earlier
steps. `EntropyHistory` keeps that mean per turn index, `EntropyCorridor` charges the distance to the band, which has a
gradient; the paper's constant does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column, InfoColumn
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.core.schedules import Linear, Setting, bounds, value_at
from hocket.core.segments import segment_count, segment_mean, segment_sum
from hocket.core.signals import turn_visits
from hocket.methods.base.grpo import GRPO
from hocket.objectives.aggregate import HORIZON, Aggregate, check, share, weights
from hocket.objectives.entropy import EntropyBonus
from hocket.stages import Objective, Shaping, State
from hocket.types import Evaluation, Quantity, Terms


@dataclass(frozen=True)
class EntropyHistory(Shaping):
    """Writes the running mean of entropy per turn index into the column `usual_entropy`, then takes in this step.

    Stateful: for each turn index the sum of earlier steps' mean entropies, and how many steps had the turn. A step's
    mean is over its counted decisions at that turn, nats. For `hocket.objectives.EntropyCorridor` (EPO, arXiv
    2509.22576), as losses have no memory. A turn that no earlier step had has no usual entropy.

    Raises:
        ConfigurationError: on a call, when the batch has no entropies.
    """

    reads: ClassVar[frozenset[Column]] = frozenset({Column.ENTROPY})

    def init(self) -> State:
        """Nothing was seen."""
        return {"sum": [], "steps": []}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        if batch.entropy is None:
            raise ConfigurationError("EntropyHistory reads the entropy of every decision, which the batch lacks")
        known = [total / steps if steps else None for total, steps in zip(state["sum"], state["steps"], strict=True)]
        seen = batch.occurrences
        used = seen.weight != 0
        index = batch.index[batch.turn[seen.decision[used]]]
        size = max(len(known), int(index.max()) + 1 if len(index) else 0)
        mean = segment_mean(batch.entropy.detach().double()[seen.decision[used]], index, size)
        met = segment_count(index, size) > 0
        before = [list(column) + [0.0] * (size - len(column)) for column in (state["sum"], state["steps"])]
        total = (torch.tensor(before[0], dtype=torch.float64) + torch.where(met, mean, 0.0)).tolist()
        steps = (torch.tensor(before[1], dtype=torch.float64) + met).tolist()
        usual = [known] * batch.trajectories
        return batch.but(info={**batch.info, USUAL_ENTROPY.name: usual}), {"sum": total, "steps": steps}


def corridor_distance(entropy: Tensor, usual: Tensor, low: float, high: float) -> Tensor:
    """How far `entropy` is outside of [low usual, high usual], `[K]`; 0 inside, and where `usual` is NaN."""
    outside = torch.relu(low * usual - entropy) + torch.relu(entropy - high * usual)
    return torch.where(usual.isnan(), torch.zeros_like(outside), outside)


@dataclass(frozen=True)
class EntropyCorridor(Objective):
    """Adds `coefficient * weight * P`, P the distance of a turn's entropy from a band around its usual one.

    EPO (arXiv 2509.22576): with Hbar_t the mean entropy at turn t in earlier steps, as
    `hocket.rewards.EntropyHistory` keeps it, P = 0 while `low Hbar_t < H < high Hbar_t`. Outside, the paper's P is a
    constant, which has no gradient; here it is the distance to the band, whose gradient on H is -1 below and 1 above.
    Beside an `EntropyBonus` of coefficient lambda it makes the paper's `-lambda (H - beta P)`, `weight` being beta.

    Attributes:
        low, high: the band, as multiples of the usual entropy. coefficient: price per nat outside.
        weight: beta, a number or how it changes over the run; weak early and strong late in the paper.
        form: `distance`, or the paper's `constant` 1 outside the band.
        grain: H is the mean over a turn's counted decisions, or each decision's own.
    """

    lengths: ClassVar[tuple[str, ...]] = ("horizon",)

    coefficient: float = 0.1
    low: float = 0.8
    high: float = 1.2
    weight: Setting = 1.0
    form: Literal["distance", "constant"] = "distance"
    grain: Literal["turn", "decision"] = "turn"
    aggregate: Aggregate = "sequence-mean"
    horizon: int = HORIZON

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.ENTROPY})
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check(self.aggregate, self.horizon)
        if not 0 <= self.low <= 1 <= self.high:
            raise ValueError(f"the band must hold 1: low in [0, 1] and high at least 1, not {self.low} and {self.high}")
        if self.coefficient < 0 or bounds(self.weight)[0] < 0:
            raise ValueError("coefficient and weight must be at least 0")
        if self.form not in ("distance", "constant"):
            raise ValueError(f"form must be distance or constant, not {self.form!r}")
        if self.grain not in ("turn", "decision"):
            raise ValueError(f"grain must be turn or decision, not {self.grain!r}")

    @property
    def couples(self) -> Level:
        return Level.TRAJECTORY if self.grain == "turn" else Level.DECISION

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen = batch.occurrences
        entropy = now.get(Quantity.ENTROPY)[seen.decision]
        if self.grain == "turn":
            entropy = _of_turns(entropy, batch)
        usual = _usual(batch).to(entropy.dtype)
        outside = corridor_distance(entropy, usual, self.low, self.high)
        metrics = {"entropy/outside": share(outside.detach() > 0, seen.weight != 0)}
        price = outside if self.form == "distance" else (outside.detach() > 0).to(outside.dtype)
        factor = self.coefficient * value_at(self.weight, batch.progress)
        weight = weights(batch, self.aggregate, self.horizon, dtype=entropy.dtype)
        return Terms(factor * price, weight, self.couples, metrics)


def _of_turns(entropy: Tensor, batch: Batch) -> Tensor:
    """The mean entropy of each occurrence's turn, over what counts of it, `[E]`."""
    visit, starts = turn_visits(batch)
    counted = (batch.occurrences.weight != 0).to(entropy.dtype)
    size = int(starts.sum())
    total = segment_sum(entropy * counted, visit, size)
    return (total / segment_sum(counted, visit, size).clamp(min=1))[visit]


def _usual(batch: Batch) -> Tensor:
    """The usual entropy at each occurrence's turn, `[E]` float64; NaN where there is none."""
    column = USUAL_ENTROPY.read(batch, "EntropyCorridor")
    seen = batch.occurrences
    index = batch.index[batch.turn[seen.decision]].tolist()
    rows = [column[number] or [] for number in seen.trajectory.tolist()]
    found = [
        row[turn] if turn < len(row) and row[turn] is not None else torch.nan
        for row, turn in zip(rows, index, strict=True)
    ]
    return torch.tensor(found, dtype=torch.float64)


USUAL_ENTROPY = InfoColumn("usual_entropy", "By turn, the mean entropy at this turn in earlier steps, nats, or None.")


EPO_ENTROPY = GRPO.but(
    name="epo-entropy",
    title="Entropy-regularised policy optimisation for agents",
    source="Xu et al., EPO, arXiv:2509.22576",
    family="agents",
    catalogue_ids=("epo-entropy",),
    axes=("objective", "credit"),
    formula="L = L_GRPO - lambda H + alpha beta max(0, k_l Hbar_t - H_t, H_t - k_u Hbar_t)",
    conventions={
        **GRPO.conventions,
        "Hbar_t": "the mean over earlier steps of the mean entropy at turn t; a turn nobody had before has none",
        "band": "k_l = 0.8 and k_u = 1.2, as in the authors' settings",
        "penalty": "the distance to the band, so that it has a gradient; the paper's and its code's is a constant "
        "(regularisers.1.form = constant), which trains as a plain bonus",
        "H_t": "the mean over a turn's decisions; regularisers.1.grain = decision takes each alone",
        "beta": "rises from 0 to 1 over the run, weak early and strong late",
        "lambda and alpha": "regularisers.0.coefficient = 0.001 and regularisers.1.coefficient = 0.1",
        "aggregation of entropy": "as the surrogate's: decisions of a trajectory, then trajectories",
    },
    task="maze?width=3&height=3&steps=10&reading=number",
    requires=(Requirement.TURNS,),
    shaping=(EntropyHistory(),),
    regularisers=(
        EntropyBonus(0.001, aggregate="sequence-mean"),
        EntropyCorridor(coefficient=0.1, weight=Linear(0.0, 1.0), aggregate="sequence-mean"),
    ),
)

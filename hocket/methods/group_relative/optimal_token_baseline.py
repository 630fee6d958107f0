"""OTB: for every token the baseline of least variance (Li et al., arXiv:2602.07078).

What a sample's gradient adds to the variance at a token is its reward to go, squared, times how much its log-probs have
moved the policy up to there. The baseline that makes this least weighs the samples by that sum, the realised energy,
which `ENERGY` measures from the policy's distributions (`OptimalTokenBaseline`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hocket.core.annotators import Annotator, of_distributions
from hocket.core.batch import Batch, GroupBy, Level, Occurrences
from hocket.core.columns import Column
from hocket.core.segments import segment_count, segment_sum, suffix_sum
from hocket.core.signals import rewards_by_occurrence
from hocket.methods.base.conventions import CENTRED
from hocket.methods.base.grpo import GRPO
from hocket.stages import Credit, Policy


def energies(batch: Batch, policy: Policy, decisions: Tensor) -> Tensor:
    """`1 - 2 pi(a) + sum_b pi(b)^2` at the decisions, `[T]`: the square of d log pi(a) / d logits, summed; else 0.

    1 for all decisions of a policy that shows no distributions over discrete actions.
    """
    found = of_distributions(batch, policy, decisions, _energy)
    return torch.zeros(batch.decisions, dtype=torch.float64).index_fill(0, decisions, 1.0) if found is None else found


def _energy(logp: Tensor, action: Tensor) -> Tensor:
    chance = logp.exp()
    return 1 - 2 * chance.gather(1, action[:, None])[:, 0] + chance.square().sum(1)


ENERGY = Annotator(
    "energy", "The squared length of d log pi(a) / d logits, in [0, 2]; 1 where nobody shows distributions.", energies
)


@dataclass(frozen=True)
class OptimalTokenBaseline(Credit):
    """`A_it = G_it - B_t`, `B_t = sum_i W_it G_it / (sum_i W_it + epsilon)` over a group's samples that reach t.

    G_it is the reward from there on and `W_it = sum_{j <= t} w_ij` the energy up to there, w the column that `ENERGY`
    measures. Places are those of decisions that count. A sample enters its own baseline, which the group's size makes
    small.

    Attributes:
        by: columns of trajectories that are comparable. epsilon: added to the sum of energies.
        tail: the baseline at places that one sample alone reaches: `zero`, verl's default; `own`, its own reward to go,
            so that these get no credit. A group of one has no baseline.
    """

    by: GroupBy = GroupBy("scenario")
    epsilon: float = 1e-8
    tail: Literal["zero", "own"] = "zero"

    least_samples: ClassVar[int] = 2
    reads: ClassVar[frozenset[Column]] = frozenset({ENERGY})

    def __post_init__(self) -> None:
        if self.by.level is Level.TURN:
            raise ValueError("whole trajectories are compared: by may not name a column of turns")
        if self.tail not in ("zero", "own"):
            raise ValueError(f"tail must be 'zero' or 'own', not {self.tail!r}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages `[E]` float64."""
        seen = batch.occurrences
        used = torch.nonzero(seen.weight != 0).flatten()
        advantage = torch.zeros(len(seen), dtype=torch.float64)
        if not len(used):
            return replace(seen, advantage=advantage)
        to_go = suffix_sum(rewards_by_occurrence(batch), seen.trajectory, batch.trajectories)[used]
        trajectory, energy = seen.trajectory[used], ENERGY.read(batch, "OptimalTokenBaseline")[seen.decision[used]]
        spent = torch.cumsum(energy, 0)
        before = torch.cumsum(segment_sum(energy, trajectory, batch.trajectories), 0)
        spent = spent - (before - segment_sum(energy, trajectory, batch.trajectories))[trajectory]
        lengths = segment_count(trajectory, batch.trajectories)
        place = torch.arange(len(used)) - (torch.cumsum(lengths, 0) - lengths)[trajectory]
        group = self.by(batch).index
        cell = group[trajectory] * (int(place.max()) + 1) + place
        size = int(cell.max()) + 1
        mean = segment_sum(spent * to_go, cell, size) / (segment_sum(spent, cell, size) + self.epsilon)
        company = segment_count(group[lengths > 0], int(group.max()) + 1)[group[trajectory]] > 1
        kept = company & ((segment_count(cell, size)[cell] > 1) if self.tail == "zero" else company)
        advantage[used] = to_go - torch.where(kept, mean[cell], 0.0)
        return replace(seen, advantage=advantage)


OTB = GRPO.but(
    name="optimal-token-baseline",
    title="Optimal token baseline",
    source="Li et al., arXiv:2602.07078; verl 0.9 (optimal_token_baseline)",
    formula="A_it = G_it - sum_j W_jt G_jt / sum_j W_jt,  W_it = sum_{k <= t} (1 - 2 pi_ik + sum_b pi_ik(b)^2)",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "group of one": "advantage G",
        "constant group": "advantage 0 where several samples are still going",
        "the longest sample": "has baseline 0 beyond the second longest, as verl has it; credit.tail = own gives it no "
        "credit there",
        "energy": "of the policy before the update, at its temperature",
        "aggregation": "mean over all decisions of the batch",
    },
    credit=OptimalTokenBaseline(),
    **{"objective.aggregate": "token-mean"},
)

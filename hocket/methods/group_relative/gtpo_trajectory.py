"""GTPO: GRPO that spares openings and endings which good and bad answers share (Simoni et al., arXiv:2508.03772).

`ConflictTokens` finds equal tokens at equal places of samples of opposite sign, praises them doubly in good samples and
blames them in none; samples of high entropy are left out, others pay for it. No ratio, no KL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, GroupBy, Occurrences
from hocket.core.columns import Column
from hocket.core.segments import segment_count, segment_sum
from hocket.credit.group import GroupRelative
from hocket.credit.refinement import Refined, mean_by_trajectory
from hocket.methods.base.conventions import CENTRED, ENTROPY
from hocket.methods.base.grpo import GRPO
from hocket.objectives.policy_gradient import PolicyGradient


def contested(group: Tensor, place: Tensor, token: Tensor, sign: Tensor) -> Tensor:
    """Where another sample of the group, of the other sign, has the same token at the same place; `[K]` bool.

    `group`, `place` and `token` are `[K]` long and at least 0; `sign` `[K]` is +1, -1, or 0 for samples apart.
    """
    if not len(token):
        return torch.zeros(0, dtype=torch.bool)
    places, tokens = int(place.max()) + 1, int(token.max()) + 1
    code = (group * places + place) * tokens + token
    _, index = torch.unique(code, return_inverse=True)
    size = int(index.max()) + 1
    praised = segment_count(index[sign > 0], size) > 0
    blamed = segment_count(index[sign < 0], size) > 0
    return (praised & blamed)[index] & (sign != 0)


def opening_run(marked: Tensor, trajectory: Tensor, size: int) -> Tensor:
    """Members from the start of each trajectory up to the first that is not marked, `[K]` bool.

    Trajectories are contiguous and in order.
    """
    broken = (~marked).long()
    so_far = torch.cumsum(broken, 0)
    before = (
        torch.cumsum(segment_sum(broken, trajectory, size), 0)[trajectory]
        - segment_sum(broken, trajectory, size)[trajectory]
    )
    return so_far == before


@dataclass(frozen=True)
class ConflictTokens(Refined):
    """`A_it <- d_it A'_i / max(1, n_i)`: trajectory-based policy optimisation, GTPO (arXiv 2508.03772).

    A token is in conflict if it belongs to a run, from the start or (places counted from the end) from the end, of
    tokens that some completion of positive and some of negative advantage have at the same place of the group; n_i
    counts them. The multiplier d is 1 elsewhere; each of the two runs a token is in multiplies it by `praised` in
    completions of positive and by `blamed` in those of negative advantage. Signs are those before entropy enters:
    `A'_i = A_i - cost H_i` where the mean entropy H_i is at most `limit`, else 0. As in the authors' code this leaves
    -cost H_i to the members of a constant group. Only decisions that count have places.

    Attributes:
        praised, blamed: factors of contested tokens. limit, cost: of the mean entropy, nats.
    """

    praised: float = 2.0
    blamed: float = 0.0
    limit: float = 0.7
    cost: float = 0.1

    adds: ClassVar[frozenset[Column]] = frozenset({Column.ENTROPY})

    def refine(self, batch: Batch) -> Occurrences:
        seen = batch.occurrences
        used = torch.nonzero(seen.weight != 0).flatten()
        trajectory, advantage = seen.trajectory[used], seen.advantage[used].double()
        first, last = self._runs(batch, used)
        factor = torch.where(advantage > 0, self.praised, self.blamed)
        multiplier = torch.where(first, factor, 1.0) * torch.where(last, factor, 1.0)
        number = segment_sum((first | last).double(), trajectory, batch.trajectories).clamp(min=1)
        entropy = mean_by_trajectory(self.entropy(batch), batch)[0][trajectory]
        shaped = torch.where(entropy <= self.limit, advantage - self.cost * entropy, 0.0)
        found = torch.zeros(len(seen), dtype=torch.float64)
        found[used] = multiplier * shaped / number[trajectory]
        return replace(seen, advantage=found)

    def _runs(self, batch: Batch, used: Tensor) -> tuple[Tensor, Tensor]:
        """Whether each counted occurrence is in the contested run from the start, and from the end; `[K]` bool."""
        seen, size = batch.occurrences, batch.trajectories
        trajectory = seen.trajectory[used]
        action = batch.action[seen.decision[used]]
        token = _coded(action)
        group = GroupBy("scenario")(batch).index[trajectory]
        sign = torch.sign(seen.advantage[used])
        lengths = segment_count(trajectory, size)
        place = torch.arange(len(used)) - (torch.cumsum(lengths, 0) - lengths)[trajectory]
        first = opening_run(contested(group, place, token, sign), trajectory, size)
        from_end = lengths[trajectory] - 1 - place
        backwards = contested(group, from_end, token, sign).flip(0)
        last = opening_run(backwards, size - 1 - trajectory.flip(0), size).flip(0)
        return first, last


def _coded(action: Tensor) -> Tensor:
    """A number from 0 on for each action, equal for equal ones, `[K]` long."""
    if not len(action):
        return torch.zeros(0, dtype=torch.long)
    if action.ndim == 1 and not action.is_floating_point():
        return action.long() - action.min()
    _, coded = torch.unique(action, dim=0, return_inverse=True)
    return torch.as_tensor(coded)


GTPO_TRAJECTORY = GRPO.but(
    name="gtpo-trajectory",
    title="Group-relative Trajectory-based Policy Optimisation",
    source="Simoni et al., GTPO: Trajectory-Based Policy Optimization in Large Language Models, arXiv:2508.03772",
    catalogue_ids=("gtpo-trajectory",),
    axes=("credit", "objective"),
    formula="A_it = d_it (A_i - 0.1 H_i)[H_i <= 0.7] / max(1, n_i),  L = -1/N sum_i 1/T_i sum_t A_it log pi_it",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "entropy": ENTROPY,
        "deviation": "none, as released: credit.of.scale = std would let 0.1 H_i weigh less beside A_i",
        "conflict": "same token at the same place, from the start or from the end, in runs from there",
        "counting": "n_i counts each token once, also where the opening and the closing run meet; the released code "
        "adds both runs' lengths",
        "multiplier": "2 where A_i > 0, 0 where A_i < 0 (before entropy enters), squared where both runs meet",
        "constant group": "A_i = 0, of which -0.1 H_i remains, as in the public code",
        "group of one": "likewise",
        "old policy": "none: the ratio is to the policy itself, so its gradient is REINFORCE's",
        "saturation": "no ratio is taken",
        "clipping side": "none",
        "KL": "none, and no reference",
    },
    credit=ConflictTokens(of=GroupRelative(scale=None)),
    objective=PolicyGradient(aggregate="sequence-mean"),
)

"""Learning from preferred pairs of trajectories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hocket.core.batch import Batch, Level
from hocket.core.columns import Column
from hocket.core.errors import HocketError
from hocket.core.segments import segment_count, segment_sum
from hocket.core.signals import turn_visits
from hocket.objectives.aggregate import counted_lengths, mean, trajectory_means, trajectory_sums
from hocket.objectives.ratios import recorded
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


def preference_loss(margin: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """x = -(1-e) log sigmoid(m) - e log sigmoid(-m), `[P]`: the Bradley-Terry loss of a margin m.

    e is the probability that a label is flipped (conservative DPO, Mitchell 2023).
    """
    return -(1 - label_smoothing) * logsigmoid(margin) - label_smoothing * logsigmoid(-margin)


def turn_weight(place: Tensor, turns: Tensor, gamma: float) -> Tensor:
    """phi(j, T) = gamma^j (1 - gamma^(T-j)) / (1 - gamma^T), the limit (T - j) / T at gamma = 1; float64.

    `place` j is from 0, `turns` T above it. Direct Multi-Turn Preference Optimization (arXiv 2406.14868).
    """
    place, turns = place.double(), turns.double()
    if gamma == 1:
        return (turns - place) / turns
    rate = math.log(gamma)
    # 1 - gamma^n as -expm1(n log gamma) keeps its digits near gamma = 1.
    return torch.exp(place * rate) * torch.expm1((turns - place) * rate) / torch.expm1(turns * rate)


def turn_weights(batch: Batch, gamma: float) -> Tensor:
    """`turn_weight` of each occurrence's turn among those of its trajectory that have a counted decision, `[E]`."""
    seen = batch.occurrences
    visit, starts = turn_visits(batch)
    counted = segment_count(visit[seen.weight != 0], int(starts.sum())) > 0
    owner = seen.trajectory[starts]
    turns = segment_sum(counted.long(), owner, batch.trajectories)
    before = torch.cumsum(counted.long(), 0) - counted.long()
    # A visit that does not count holds no occurrence that does, so what it gets never matters.
    place = before - (torch.cumsum(turns, 0) - turns)[owner]
    return turn_weight(place, turns[owner].clamp(min=1), gamma)[visit]


@dataclass(frozen=True)
class DPO(Objective):
    """Minimises -log sigmoid(beta (d_w - d_l)), d = log pi(y) - log pi_ref(y), over pairs (arXiv 2305.18290, eq. 7).

    log pi(y) is the weighted sum over a trajectory's occurrences, or, where credit says in which turns the members of a
    pair are compared, over those in its turn alone. The loss is the mean over pairs both of whose members have a
    decision that counts.

    Attributes:
        beta: strength of the leash to the reference.
        label_smoothing: probability that a preference is the wrong way round, in [0, 0.5).
        length_normalised: divide each d by its trajectory's counted decisions (as in Tulu 3, arXiv 2411.15124).
        top: factor of the margin where the preferred trajectory has a positive advantage, that is, where credit found
            it of the highest level (`hocket.credit.PreferenceLevels`; TRPA, arXiv 2504.04524).
        lone: trajectories with an advantage that are in no pair add -log sigmoid(+-d), the sign the advantage's; the
            mean is then over pairs and these.
        turn_discount: gamma of DMPO (arXiv 2406.14868), in (0, 1]: d is the sum over turns j of phi(j, T) times the
            turn's log-ratio, see `turn_weights`. None adds turns up.
    """

    beta: float = 0.1
    label_smoothing: float = 0.0
    length_normalised: bool = False
    top: float = 1.0
    lone: bool = False
    turn_discount: float | None = None

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.REFERENCE})
    couples: ClassVar[Level] = Level.PAIR
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.top <= 0:
            raise ValueError(f"top must be positive, not {self.top}")
        if self.turn_discount is not None and not 0 < self.turn_discount <= 1:
            raise ValueError(f"turn_discount must lie in (0, 1], not {self.turn_discount}")
        if self.beta <= 0 or not 0 <= self.label_smoothing < 0.5:
            raise ValueError(
                f"beta must be positive and label_smoothing in [0, 0.5), not {self.beta} and {self.label_smoothing}"
            )

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        seen, dtype = batch.occurrences, now.logp.dtype
        if seen.pairs is None:
            raise HocketError("DPO compares pairs, but credit gave none; use a credit that pairs trajectories")
        reference = recorded(batch, "reference")[seen.decision].to(dtype)
        gap = now.logp[seen.decision] - reference
        if self.turn_discount is not None:
            gap = gap * turn_weights(batch, self.turn_discount).to(dtype)
        if seen.compared is None:
            pairs, lengths, drift = seen.pairs, counted_lengths(batch), trajectory_sums(gap, batch)
        else:
            if self.top != 1 or self.lone or self.turn_discount is not None:
                raise HocketError(
                    "credit pairs turns, and top, lone and turn_discount of DPO are of trajectories; set 1, false, null"
                )
            pairs, lengths, drift = _turns_compared(gap, batch, seen.pairs, seen.compared)
        if self.length_normalised:
            drift = drift / lengths.clamp(min=1)
        better, worse = pairs[:, 0], pairs[:, 1]
        margin = self.beta * (drift[better] - drift[worse])
        if self.top != 1:
            highest = trajectory_means(seen.advantage.detach(), batch)[better] > 0
            margin = torch.where(highest, self.top * margin, margin)
        counted = (lengths[better] > 0) & (lengths[worse] > 0)
        metrics = {
            "pairs/total": counted.sum().double(),
            "pairs/accuracy": mean((margin > 0).double(), counted),
            "pairs/margin": mean(margin, counted),
        }
        value = preference_loss(margin, self.label_smoothing)
        if self.lone:
            sign, alone = self._lone(batch, seen.pairs[counted], lengths)
            value = torch.cat([value, -logsigmoid(sign.to(dtype) * drift)])
            counted = torch.cat([counted, alone])
        weight = counted.to(dtype) / counted.sum().clamp(min=1)
        return Terms(value, weight, Level.PAIR, metrics)

    def _lone(self, batch: Batch, pairs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The sign of each trajectory's advantage, and whether it counts and is in no pair, `[N]` each."""
        sign = trajectory_means(batch.occurrences.advantage.detach(), batch).sign()
        free = torch.ones(batch.trajectories, dtype=torch.bool)
        free[pairs.flatten()] = False
        return sign, free & (lengths > 0) & (sign != 0)


def _turns_compared(gap: Tensor, batch: Batch, pairs: Tensor, compared: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The members of each pair as visits `[P, 2]`; counted decisions and weighted sum of `gap` `[E]` per visit `[M]`.

    A turn that its trajectory does not visit (another policy's) is the last visit, which holds nothing.
    """
    seen = batch.occurrences
    visit, starts = turn_visits(batch)
    size = int(starts.sum()) + 1
    known = seen.trajectory[starts] * batch.turns + batch.turn[seen.decision[starts]]
    wanted = pairs * batch.turns + compared
    found = (wanted[..., None] == known).long()
    members = torch.where(found.sum(-1) > 0, found.argmax(-1), size - 1) if len(known) else torch.zeros_like(pairs)
    counted = seen.weight != 0
    used = torch.where(counted, gap, torch.zeros_like(gap)) * seen.weight.to(gap.dtype)
    return members, segment_count(visit[counted], size), segment_sum(used, visit, size)

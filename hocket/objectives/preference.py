"""Pairwise preference learning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from hocket.core.batch import Batch, Level, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import HocketError
from hocket.core.segments import segment_count, segment_sum
from hocket.core.signals import turn_visits
from hocket.objectives.aggregate import counted_lengths, mean, trajectory_means, trajectory_sums
from hocket.objectives.collision import COLLISION
from hocket.objectives.links import Comparison, Link, Logistic
from hocket.objectives.measures import LogRatio, Measure, anchored
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


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
    occurrences = batch.occurrences
    visit, starts = turn_visits(batch)
    counted = segment_count(visit[occurrences.weight != 0], int(starts.sum())) > 0
    owner = occurrences.trajectory[starts]
    turns = segment_sum(counted.long(), owner, batch.trajectories)
    before = torch.cumsum(counted.long(), 0) - counted.long()
    # Uncounted visits contain no counted occurrence, so their weight has no effect.
    place = before - (torch.cumsum(turns, 0) - turns)[owner]
    return turn_weight(place, turns[owner].clamp(min=1), gamma)[visit]


@dataclass(frozen=True)
class Pairwise(Objective):
    """Minimises the mean over pairs of a link's loss of h = beta (m(y_w) - m(y_l)) - margin; by default DPO's.

    m is the policy's measure of an answer: `measure` of its log-probs, a weighted sum over the trajectory's
    occurrences, or over those of the compared turn, if credit compares turns. A pair counts if both members have a
    counted decision and its weight is not 0. The data of pairs have these effects: `Occurrences.pair_weight` multiplies
    the loss, `pair_margin` is subtracted from h, and `pair_target` is the probability that the preferred member is the
    better one, which `label_smoothing` modifies. A probability t below 1 mixes the losses of both orders,
    t l(w, l) + (1 - t) l(l, w).

    Attributes:
        beta: strength of the KL constraint to the reference, or scale of a measure without reference.
        label_smoothing: probability that a preference is reversed, in [0, 0.5) (conservative DPO, Mitchell 2023;
            `Robust` is the unbiased correction instead).
        link: the loss of a comparison. measure: the compared quantity.
        margin: the required margin, in addition to that of the data (SimPO's gamma).
        tail: the weight of log-probs beyond the shorter answer's length, in [0, 1]: alpha of LD-DPO (arXiv 2409.06411).
        on_policy_weight: multiply a pair's loss by exp(mean_t log pi(y_t) - log sum_a pi(a)^2) of both members, held
            constant: WPO (arXiv 2406.11827, eq. 2 with its alignment). The sums are those of the policy at the
            beginning of the step.
        top: factor of the margin where the preferred trajectory has a positive advantage, that is, where credit puts
            it in the highest level (TRPA, arXiv 2504.04524).
        lone: trajectories with an advantage but without a pair add -log sigmoid(+-m), with the sign of the advantage;
            the mean is then over pairs and these trajectories.
        coefficient: the factor of the loss beside other terms (ORPO's lambda).
        turn_discount: gamma of DMPO (arXiv 2406.14868), in (0, 1]: log-probs are weighted by their turn, see
            `turn_weights`. None adds turns up.

    Raises:
        ValueError: for a setting out of range, or for a link of single answers (`each`) with a measure other than the
            plain log-ratio, or with a margin.
        HocketError: on a call, for a batch without pairs, or with margins or turns that the settings do not support.
    """

    beta: float = 0.1
    label_smoothing: float = 0.0
    link: Link = Logistic()
    measure: Measure = LogRatio()
    margin: float = 0.0
    tail: float = 1.0
    on_policy_weight: bool = False
    top: float = 1.0
    lone: bool = False
    turn_discount: float | None = None
    coefficient: float = 1.0

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    idle_without_advantage: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.top <= 0:
            raise ValueError(f"top must be positive, not {self.top}")
        if self.turn_discount is not None and not 0 < self.turn_discount <= 1:
            raise ValueError(f"turn_discount must lie in (0, 1], not {self.turn_discount}")
        if self.beta <= 0 or not 0 <= self.label_smoothing < 0.5 or not 0 <= self.tail <= 1:
            raise ValueError(
                f"beta must be positive, label_smoothing in [0, 0.5) and tail in [0, 1], not {self.beta}, "
                f"{self.label_smoothing} and {self.tail}"
            )
        if self.link.each and not (self.measure.log_ratio and self.margin == 0 and self.top == 1):
            raise ValueError(
                f"{type(self.link).__name__} judges each answer by its log-ratio to the reference: leave measure at "
                "LogRatio with its defaults, margin at 0 and top at 1"
            )

    @property
    def reads(self) -> frozenset[Column]:
        """The columns of the measure's anchors, and of WPO's weights."""
        return self.measure.reads | ({COLLISION} if self.on_policy_weight else frozenset())

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        if occurrences.pairs is None:
            raise HocketError("the loss compares pairs, but credit gave none; use a credit that pairs trajectories")
        logp = now.logp[occurrences.decision]
        gap = logp - anchored(self.measure, batch).to(dtype)
        if self.turn_discount is not None:
            phi = turn_weights(batch, self.turn_discount).to(dtype)
            logp, gap = logp * phi, gap * phi
        units = self._units(batch, occurrences.pairs)
        lengths = units.lengths[units.members]
        logp_sum, gap_sum = (units.sums(values, batch, self.tail) for values in (logp, gap))
        better, worse = self.measure(logp_sum, gap_sum, lengths).unbind(1)
        weight = (
            torch.ones(len(lengths), dtype=dtype)
            if occurrences.pair_weight is None
            else occurrences.pair_weight.to(dtype)
        )
        counted = (lengths > 0).all(1) & (weight != 0)
        reference = (logp_sum - gap_sum).detach()
        pair = Comparison(
            self.beta, better, worse, self._margin(better - worse, batch), reference[:, 0] - reference[:, 1], counted
        )
        value, metrics = self._mixed(pair, occurrences), _metrics(pair)
        if self.on_policy_weight:
            value = value * _on_policy(now, batch)[occurrences.pairs].prod(1).to(dtype)
        if self.lone:
            sign, alone = _lone(batch, occurrences.pairs[counted])
            drift = self.measure(trajectory_sums(logp, batch), trajectory_sums(gap, batch), counted_lengths(batch))
            value = torch.cat([value, -logsigmoid(sign.to(dtype) * drift)])
            counted, weight = torch.cat([counted, alone]), torch.cat([weight, torch.ones(len(alone), dtype=dtype)])
        weight = self.coefficient * counted.to(dtype) * weight / counted.sum().clamp(min=1)
        return Terms(value, weight, Level.PAIR, metrics)

    def _units(self, batch: Batch, pairs: Tensor) -> _Units:
        """The compared units: trajectories, or the turns in `Occurrences.compared`."""
        compared = batch.occurrences.compared
        if compared is None:
            return _Units(batch.occurrences.trajectory, pairs, counted_lengths(batch))
        if self.top != 1 or self.lone or self.turn_discount is not None or self.tail != 1:
            raise HocketError(
                "credit pairs turns, and top, lone, tail and turn_discount of Pairwise are of trajectories; set 1, "
                "false, 1, null"
            )
        return _turns_compared(batch, pairs, compared)

    def _margin(self, gap: Tensor, batch: Batch) -> Tensor:
        """h of each pair, `[P]`."""
        occurrences = batch.occurrences
        margin = self.beta * gap - self.margin
        if occurrences.pair_margin is not None:
            if self.link.each and bool((occurrences.pair_margin != 0).any()):
                raise HocketError(
                    f"pairs carry margins, and {type(self.link).__name__} judges each answer by itself; leave them out "
                    "or take a link of the margin, such as Logistic"
                )
            margin = margin - occurrences.pair_margin.to(gap.dtype)
        if self.top != 1:
            assert occurrences.pairs is not None
            highest = trajectory_means(occurrences.advantage.detach(), batch)[occurrences.pairs[:, 0]] > 0
            margin = torch.where(highest, self.top * margin, margin)
        return margin

    def _mixed(self, pair: Comparison, seen: Occurrences) -> Tensor:
        """The link's loss, `[P]`: a mixture of both orders if the target is uncertain."""
        if seen.pair_target is None and self.label_smoothing == 0:
            return self.link(pair)
        target = torch.ones_like(pair.margin) if seen.pair_target is None else seen.pair_target.to(pair.margin.dtype)
        target = (1 - self.label_smoothing) * target + self.label_smoothing * (1 - target)
        return target * self.link(pair) + (1 - target) * self.link(pair.reversed())


@dataclass(frozen=True)
class _Units:
    """The compared units: the unit of each occurrence `[E]`, members of pairs `[P, 2]`, counted decisions `[M]`."""

    index: Tensor
    members: Tensor
    lengths: Tensor

    def sums(self, values: Tensor, batch: Batch, tail: float) -> Tensor:
        """Weighted sums of `values` `[E]` over the members' counted decisions, `[P, 2]`.

        Decisions beyond the length of the pair's shorter member have weight `tail`.
        """
        occurrences = batch.occurrences
        counted = occurrences.weight != 0
        used = torch.where(counted, values, torch.zeros_like(values)) * occurrences.weight.to(values.dtype)
        total = segment_sum(used, self.index, len(self.lengths))[self.members]
        if tail == 1:
            return total
        # Units are trajectories in this case; their counted decisions are contiguous without the uncounted ones.
        before = torch.cat([torch.zeros(1, dtype=torch.long), torch.cumsum(self.lengths, 0)])[self.members]
        summed = torch.cat([torch.zeros(1, dtype=torch.float64), torch.cumsum(used[counted].double(), 0)])
        shared = self.lengths[self.members].amin(1, keepdim=True)
        head = (summed[before + shared] - summed[before]).to(values.dtype)
        return head + tail * (total - head)


def _turns_compared(batch: Batch, pairs: Tensor, compared: Tensor) -> _Units:
    """The compared turns as units: occurrences of turns in trajectories.

    A turn without occurrences in its trajectory (another policy's) is the last unit, which is empty.
    """
    occurrences = batch.occurrences
    visit, starts = turn_visits(batch)
    size = int(starts.sum()) + 1
    known = occurrences.trajectory[starts] * batch.turns + batch.turn[occurrences.decision[starts]]
    wanted = pairs * batch.turns + compared
    matches = (wanted[..., None] == known).long()
    members = torch.where(matches.sum(-1) > 0, matches.argmax(-1), size - 1) if len(known) else torch.zeros_like(pairs)
    return _Units(visit, members, segment_count(visit[occurrences.weight != 0], size))


def _lone(batch: Batch, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """The sign of each trajectory's advantage, and whether the trajectory counts and has no pair, `[N]` each."""
    sign = trajectory_means(batch.occurrences.advantage.detach(), batch).sign()
    free = torch.ones(batch.trajectories, dtype=torch.bool)
    free[pairs.flatten()] = False
    return sign, free & (counted_lengths(batch) > 0) & (sign != 0)


def _on_policy(now: Evaluation, batch: Batch) -> Tensor:
    """WPO's weight of each trajectory, `[N]`."""
    decision = batch.occurrences.decision
    collision = COLLISION.read(batch, "Pairwise(on_policy_weight=true)")[decision]
    return trajectory_means(now.logp.detach()[decision].double() - collision, batch).exp()


def _metrics(pair: Comparison) -> dict[str, Tensor]:
    return {
        "pairs/total": pair.counted.sum().double(),
        # Ties count 1/2, as for every pair before training if the measure is relative to the reference.
        "pairs/accuracy": mean(((pair.chosen - pair.rejected).sign().double() + 1) / 2, pair.counted),
        "pairs/margin": pair.beta * mean(pair.chosen - pair.rejected, pair.counted),
        "pairs/chosen": pair.beta * mean(pair.chosen, pair.counted),
        "pairs/rejected": pair.beta * mean(pair.rejected, pair.counted),
    }

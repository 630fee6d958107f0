"""DPPO: PPO on the denoising steps of a controller's actions (Ren et al., arXiv:2409.00588).

An action of a diffusion policy has no log-prob, but each of the K denoising steps that make it is a draw from a normal
distribution. Steps of the world, each with K denoising steps, make a process of two layers, and PPO runs on the inner
one. `InnerGAE` estimates advantages over the moves of the world with a critic of the state, and discounts them towards
the noisy steps; `InnerSurrogate` averages log-ratios over action dimensions, and clips noisy steps more narrowly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import Column
from hocket.core.segments import segment_count, segment_sum
from hocket.core.signals import rewards_by_occurrence
from hocket.credit.formulas import generalised_advantages, whitened
from hocket.credit.gae import final_values
from hocket.methods.base.ppo import PPO
from hocket.objectives.aggregate import share, weights
from hocket.objectives.ratios import log_ratios, saturated
from hocket.rollout.independent import Independent
from hocket.stages import Credit, Objective
from hocket.types import Evaluation, Quantity, Terms


def moves(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Moves of the world, which are segments: each occurrence's move and its place in it `[E]`, and their sizes."""
    occurrences = batch.occurrences
    decision = occurrences.decision
    name = torch.stack([occurrences.trajectory, batch.turn[decision], batch.segment[decision]])
    fresh = torch.ones(len(decision), dtype=torch.bool)
    fresh[1:] = (name[:, 1:] != name[:, :-1]).any(0)
    move = torch.cumsum(fresh, 0) - 1
    sizes = segment_count(move, int(fresh.sum()))
    return move, torch.arange(len(decision)) - (torch.cumsum(sizes, 0) - sizes)[move], sizes


@dataclass(frozen=True)
class InnerGAE(Credit):
    """`A_k = inner^(K-1-k) A`, A the advantage of a move by GAE over the moves, k = K-1 its last denoising step.

    The value of a move is that of its state, and its reward what is earned in its steps. The target of the critic is
    A + V at all steps, before whitening.

    Attributes:
        gamma, lam: over moves, see `GAE`. inner: gamma of the denoising, in (0, 1].
        whiten: over the moves of the batch. lowest, highest: quantiles at which the moves' advantages are cut off.
    """

    gamma: float = 0.99
    lam: float = 0.95
    inner: float = 0.95
    whiten: bool = True
    lowest: float = 0.0
    highest: float = 1.0

    gives_targets: ClassVar[bool] = True
    reads: ClassVar[frozenset[Column]] = frozenset({Column.VALUE})

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or not 0 <= self.lam <= 1 or not 0 < self.inner <= 1:
            raise ValueError("gamma and lam must lie in [0, 1], and inner in (0, 1]")
        if not 0 <= self.lowest < self.highest <= 1:
            raise ValueError(f"lowest must be below highest, both in [0, 1], not {self.lowest} and {self.highest}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages and value targets, both `[E]` float64."""
        occurrences, (move, place, sizes) = batch.occurrences, moves(batch)
        assert batch.value is not None
        first = place == 0
        value = batch.value.detach().double()[occurrences.decision][first]
        earned = segment_sum(rewards_by_occurrence(batch), move, len(sizes))
        raw = generalised_advantages(
            earned, value, final_values(batch), occurrences.trajectory[first], gamma=self.gamma, lam=self.lam
        )
        credit = whitened(raw) if self.whiten else raw
        if len(credit):
            ends = torch.quantile(credit, torch.tensor([self.lowest, self.highest], dtype=torch.float64))
            credit = credit.clamp(float(ends[0]), float(ends[1]))
        discount = self.inner ** (sizes[move] - 1 - place).double()
        return replace(occurrences, advantage=discount * credit[move], target=(raw + value)[move])


@dataclass(frozen=True)
class InnerSurrogate(Objective):
    """Minimises -min(r A, clip(r) A), r = (pi / pi_old)^(1 / D) of D action dimensions, in a range that grows.

    At step k of K it is c_0 + (c - c_0) (e^(rate k / (K-1)) - 1) / (e^rate - 1), c_0 `noisiest` and c `clip`; with one
    step it is c.

    Attributes:
        clip, noisiest, rate: see above. dimensions: D.
    """

    clip: float = 0.1
    noisiest: float = 0.01
    rate: float = 3.0
    dimensions: int = 2

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.LOGP})
    reads: ClassVar[frozenset[Column]] = frozenset({Column.BEHAVIOUR})
    idle_without_advantage: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.noisiest <= self.clip <= 1 or self.rate <= 0 or self.dimensions < 1:
            raise ValueError("clip and noisiest must lie in (0, 1], noisiest not above; rate and dimensions above 0")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        occurrences, dtype = batch.occurrences, now.logp.dtype
        advantage = occurrences.advantage.detach().to(dtype)
        ratio = saturated(log_ratios(now, batch) / self.dimensions).exp()
        move, place, sizes = moves(batch)
        clip = self.ranges(place, sizes[move]).to(dtype)
        bounded = torch.maximum(torch.minimum(ratio, 1 + clip), 1 - clip)
        value = -torch.minimum(ratio * advantage, bounded * advantage)
        active = (occurrences.weight != 0) & (occurrences.advantage != 0)
        beyond = ((advantage > 0) & (ratio > 1 + clip)) | ((advantage < 0) & (ratio < 1 - clip))
        return Terms(value, weights(batch, "token-mean", dtype=dtype), metrics={"ratio/clipped": share(beyond, active)})

    def ranges(self, place: Tensor, steps: Tensor) -> Tensor:
        """The clip's half width at `place` of so many `steps`, float64."""
        along = torch.where(steps > 1, place / (steps - 1).clamp(min=1).double(), 1.0)
        grown = torch.expm1(self.rate * along) / math.expm1(self.rate)
        return self.noisiest + (self.clip - self.noisiest) * grown


DPPO = PPO.but(
    name="dppo",
    title="Diffusion Policy Policy Optimisation",
    source="Ren et al., arXiv:2409.00588; code of irom-princeton/dppo",
    family="actor-critic",
    catalogue_ids=("dppo",),
    axes=("policy", "credit", "objective"),
    formula="L = -mean min(r_k A_k, clip_k(r_k) A_k) + 1/2 mean (V - y)^2,  r_k = (pi/pi_old)^(1/D),  "
    "A_k = g^(K-1-k) GAE,  clip_k from 0.01 to 0.1",
    conventions={
        **PPO.conventions,
        "whitening": "advantages of moves over the batch, before the inner discount",
        "clipping side": "both, 0.01 at the noisiest step to 0.1 at the last",
        "trained steps": "all; the paper's are the last ten of twenty",
        "clipped predictions": "none; the release cuts off the predicted action",
        "action chunks": "one move each",
        "quantiles": "0 and 1: nothing is cut off",
    },
    note="that samples stay nearer to the demonstrations than those of a Gaussian policy was not seen",
    task="round-the-disc",
    rollout=Independent(samples=4),
    credit=InnerGAE(),
    objective=InnerSurrogate(),
)

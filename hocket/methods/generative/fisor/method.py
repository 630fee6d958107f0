"""FISOR: hard safety from records, by feasibility and a weighted denoiser (Zheng et al., arXiv:2401.10700).

A state is feasible if some recorded way on from it never meets danger. Its value is that of Hamilton-Jacobi
reachability with a discount, whose sign says so: with h = -1 of a safe decision and `danger` of another,

    Q_h <- (1 - gamma) h + gamma max(h, V_h(s')),   h where the episode ends,

and V_h is fitted to a lower expectile of Q_h over recorded actions, as IQL's V is to an upper one of Q. The policy
denoises: a network predicts the noise in a recorded action, and the weight of its squared error says what is wanted,

    exp(k_r (Q - V)) if V_h <= 0 and Q_h <= 0,   0 if V_h <= 0 < Q_h,   exp(k_h (V_h - Q_h)), at least 1, if V_h > 0:

reward within the feasible region, the least danger outside. In play the safest of N samples acts, by the larger of two
slow Q_h. Formulas and constants are those of the authors' code; noises follow its variance-preserving schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.stored_rows import GOES_ON, KIND, NOISE
from hocket.methods.base.iql import IQL
from hocket.objectives.action_values import CriticLoss, ExpectileLoss
from hocket.policies.action_values import Critics, ImplicitValues, critics_of, following, joined, slow_copy
from hocket.policies.control_parts import EvaluatedRows, Links, PartHost
from hocket.policies.value_heads import ChosenCandidate
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms
from hocket.update.following import FollowingStep

DANGEROUS = 2
"""The kind of recorded decisions that led into danger; others are safe."""


def feasibility(danger: Tensor, goes_on: Tensor, later: Tensor) -> Tensor:
    """What Q_h backs up, `[K]`: danger h, the discount (0 where the episode ends), and V_h of what follows."""
    return (1 - goes_on) * danger + goes_on * torch.maximum(danger, later)


def schedule(steps: int) -> Tensor:
    """The share of variance that each step leaves, alpha, `[steps]`: variance-preserving, from 0.1 to 10."""
    times = torch.arange(1, steps + 1, dtype=torch.float64)
    return torch.exp(-0.1 / steps - 0.5 * (10 - 0.1) * (2 * times - 1) / steps**2)


class NoisePredictor(nn.Module):
    """A network that predicts the noise in actions; what these are chosen by is the slow copy of Q_h.

    Its own output is what it reads: a distribution is made of that.
    """

    def __init__(self, network: nn.Module, slow: Critics, steps: int) -> None:
        super().__init__()
        self.network, self.alpha, self.left = network, schedule(steps), schedule(steps).cumprod(0)
        self._slow = (slow,)  # The policy's module; a copy of the policy's modules copies both together.

    def forward(self, seen: Tensor) -> Tensor:
        return seen

    def noised(self, action: Tensor, noise: Tensor, step: Tensor) -> Tensor:
        """Actions `[B, A]` with noise at steps `[B]`."""
        left = self.left[step][:, None]
        return (left.sqrt() * action + (1 - left).sqrt() * noise).to(action.dtype)

    def predicted(self, seen: Tensor, noisy: Tensor, step: Tensor) -> Tensor:
        """The noise in noisy actions at steps `[B]`, `[B, A]`."""
        time = step[:, None].to(seen.dtype) / len(self.alpha)
        noise: Tensor = self.network(torch.cat([seen, noisy, time], 1))
        return noise

    def denoised(self, seen: Tensor, normals: Tensor) -> Tensor:
        """Actions `[B, A]` by normals `[B, steps, A]`: the first is noise, the others are added after all steps but the
        last."""
        action, steps = normals[:, 0], len(self.alpha)
        for step in reversed(range(steps)):
            alpha, left = float(self.alpha[step]), float(self.left[step])
            noise = self.predicted(seen, action, torch.full((len(seen),), step))
            action = (action - (1 - alpha) / (1 - left) ** 0.5 * noise) / alpha**0.5
            if step:
                action = action + (1 - alpha) ** 0.5 * normals[:, steps - step]
            action = action.clamp(-1.0, 1.0)
        return action

    @torch.no_grad()
    def chosen(self, seen: Tensor, normals: Tensor) -> Tensor:
        """The safest of N actions, `[B, A]`, by normals `[B, N, steps, A]`."""
        count = normals.shape[1]
        repeated = seen.repeat_interleave(count, 0)
        actions = self.denoised(repeated, normals.flatten(0, 1))
        danger = self._slow[0](joined(repeated, actions)).amax(1).reshape(len(seen), count)
        return actions.reshape(len(seen), count, -1)[torch.arange(len(seen)), danger.argmin(1)]


@dataclass(frozen=True)
class DenoisedForm:
    """The form of actions that are denoised, and chosen among N.

    Attributes:
        size: A. samples: N. usual: the normals of greedy play.
    """

    size: int
    samples: int
    steps: int
    slow: Critics
    usual: Tensor

    densities: ClassVar[bool] = False

    @property
    def draws(self) -> int:
        return self.samples * self.steps * self.size

    def actor(self, link: Links) -> NoisePredictor:
        return NoisePredictor(link(self.size, "denoiser", self.size + 1), self.slow, self.steps)

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> ChosenCandidate:
        network, shape = cast(NoisePredictor, actor), (len(outputs), self.samples, self.steps, self.size)
        return ChosenCandidate(self.usual, lambda normals: network.chosen(outputs, normals.reshape(shape)), shape[0])

    def config(self) -> Mapping[str, Any]:
        return {"head": "denoised", "samples": self.samples, "denoising_steps": self.steps}


@dataclass(frozen=True)
class FeasibleValues(ImplicitValues):
    """IQL's values, values of feasibility beside them, and an actor that denoises.

    Rows join one decision, and their data state kinds: 2 of decisions that led into danger, 1 of others. Greedy play
    takes the same noise everywhere.

    Attributes:
        samples: N, the actions of which the safest acts. steps: of denoising. danger: h of a decision that led there.
    """

    samples: int = 16
    steps: int = 5
    danger: float = 1.0

    groups: ClassVar[Mapping[str, str]] = {
        **ImplicitValues.groups,
        **{name: name for name in ("danger", "slow_danger", "danger_value")},
    }
    slow: ClassVar[Mapping[str, str]] = {**ImplicitValues.slow, "slow_danger": "danger"}
    quantities: ClassVar[frozenset[Quantity]] = ImplicitValues.quantities | {Quantity.DENOISING, Quantity.FEASIBILITY}

    def __post_init__(self) -> None:
        if min(self.samples, self.steps) < 1 or not self.danger > 0:
            raise ValueError(
                f"samples and steps must be at least 1 and danger positive, not {self.samples}, {self.steps} and "
                f"{self.danger}"
            )

    def begin(self, host: PartHost) -> None:
        module, sizes = host.module, (host.observations, *host.hidden, 1)
        acted, key, activation = (host.observations + host.actions, *sizes[1:]), host.key, host.network.activation
        module.danger = Critics(self.ensemble, acted, activation=activation, key=key.derive("danger"))
        module.slow_danger = slow_copy(module.danger)
        module.danger_value = Critics(1, sizes, activation=activation, key=key.derive("danger value"))
        super().begin(host)

    def _form(self, host: PartHost) -> DenoisedForm:  # type: ignore[override]
        shape = (self.samples * self.steps * host.actions,)
        usual = torch.randn(shape, generator=Key.of(0).derive("candidates").torch())
        return DenoisedForm(host.actions, self.samples, self.steps, critics_of(host, "slow_danger"), usual)

    def _of_actor(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        quantities = dict(super()._of_actor(host, wanted, rows))
        if Quantity.FEASIBILITY in wanted:
            quantities[Quantity.FEASIBILITY] = self._feasibility(host, rows)
        if Quantity.DENOISING in wanted:
            network, noise = cast(NoisePredictor, host.module.actor), rows.column(NOISE)
            step = (torch.special.ndtr(noise[:, 1, 0]) * self.steps).long().clamp(max=self.steps - 1)
            noisy = network.noised(rows.action.clamp(-1.0, 1.0), noise[:, 0], step)
            error = network.predicted(rows.seen, noisy, step) - noise[:, 0]
            quantities[Quantity.DENOISING] = error.square().sum(1)
        return quantities

    def _feasibility(self, host: PartHost, rows: EvaluatedRows) -> Tensor:
        """V_h, the largest slow Q_h, the backup, and Q_h by each critic, `[K, 3 + ensemble]`."""
        if KIND.name not in rows.batch.annotations:
            raise ConfigurationError(
                "this recipe reads which recorded decisions led into danger; write an array kinds into the file of "
                "store.data, 2 for these and 1 for all others"
            )
        pair, name = joined(rows.seen, rows.action), "danger_value"
        with torch.no_grad():
            led = torch.where(rows.column(KIND) == DANGEROUS, self.danger, -1.0)
            later = critics_of(host, name)(following(host, rows))[:, 0]
            backup = feasibility(led, rows.column(GOES_ON), later)
            largest = critics_of(host, "slow_danger")(pair).amax(1)
        value = critics_of(host, name)(rows.seen)
        return torch.cat([value, largest[:, None], backup[:, None], critics_of(host, "danger")(pair)], 1)


@dataclass(frozen=True)
class _OfRecords(Objective):
    """A loss of recorded rows: the mean over them."""

    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False
    learns_from_rows: ClassVar[bool] = True

    def _mean(self, value: Tensor, batch: Batch, metrics: Mapping[str, Tensor]) -> Terms:
        occurrences = batch.occurrences
        weight = occurrences.weight.to(value.dtype)
        return Terms(value[occurrences.decision], weight / weight.count_nonzero().clamp(min=1), metrics=metrics)


@dataclass(frozen=True)
class FeasibilityLoss(_OfRecords):
    """Minimises sum_k (Q_h - y_h)^2 + |tau - 1(Q_h > V_h)| (Q_h - V_h)^2: V_h is a lower expectile, near the least.

    Attributes:
        tau: in (0, 1); near 1 the least danger of the recorded actions.
    """

    tau: float = 0.9

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.FEASIBILITY})

    def __post_init__(self) -> None:
        if not 0 < self.tau < 1:
            raise ValueError(f"tau must lie in (0, 1), not {self.tau}")

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        value, slow, backup = now.get(Quantity.FEASIBILITY)[:, :3].unbind(1)
        slow, backup = slow.detach(), backup.detach()
        quality = (now.get(Quantity.FEASIBILITY)[:, 3:] - backup[:, None]).square().sum(1)
        gap = slow - value
        expectile = torch.where(gap < 0, self.tau, 1 - self.tau) * gap.square()
        with torch.no_grad():
            metrics = {"danger/mean": value.mean(), "danger/feasible": (value <= 0).to(value.dtype).mean()}
        return self._mean(quality + expectile, batch, metrics)


@dataclass(frozen=True)
class FeasibleImitation(_OfRecords):
    """Minimises the squared error of the predicted noise, weighted by what is feasible; see the module.

    Attributes:
        reward: k_r. safety: k_h. most, worst: the largest weights within the feasible region and outside.
    """

    reward: float = 3.0
    safety: float = 5.0
    most: float = 100.0
    worst: float = 150.0

    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.DENOISING, Quantity.FEASIBILITY, Quantity.STATE_VALUE})

    def weights(self, now: Evaluation) -> Tensor:
        """Of every decision, `[T]`."""
        value, best = now.get(Quantity.STATE_VALUE).detach().unbind(1)
        state, pair = now.get(Quantity.FEASIBILITY).detach()[:, :2].unbind(1)
        better = (self.reward * (best - value)).exp().clamp(max=self.most)
        safer = (self.safety * (state - pair)).exp().clamp(1.0, self.worst)
        return torch.where(state > 0, safer, better * (pair <= 0))

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        weight = self.weights(now)
        return self._mean(weight * now.get(Quantity.DENOISING), batch, {"actor/weight": weight.mean()})


FISOR = IQL.but(
    name="fisor",
    title="Hard safety from records: feasibility guides a denoiser",
    source="Safe Offline Reinforcement Learning with Feasibility-Guided Diffusion Model, Zheng et al., "
    "arXiv:2401.10700; the authors' code",
    catalogue_ids=("fisor",),
    axes=("objective", "policy", "reward"),
    formula="L = w |eps - eps_t(s, a_t)|^2 + sum_k (Q_k(s, a) - r - gamma V(s'))^2 + |tau - 1(Q- < V)| (Q- - V)^2 + "
    "sum_k (Q_h,k(s, a) - y_h)^2 + |tau_h - 1(Q_h- > V_h)| (Q_h- - V_h)^2,  y_h = (1 - gamma) h + gamma max(h, "
    "V_h(s')),  w = exp(k_r (Q- - V)) 1(Q_h- <= 0) if V_h <= 0, else exp(k_h (V_h - Q_h-))",
    conventions={
        **IQL.conventions,
        "slow copies": "of both pairs of critics, tau 0.005, after every gradient; the authors' denoiser has one of "
        "0.001 that acts",
        "critics": "2 of each; the smaller Q and the larger Q_h count",
        "danger": "h is -1, and 1 of a decision that led into danger, which recorded rows state as their kind. "
        "The authors' is 25 for records with costs; with 1 danger that is 69 decisions off no longer counts",
        "weights": "at most 100 within the feasible region, 1 to 150 outside, as in the authors' code",
        "actor": "denoises in 5 steps, and the safest of 16 samples acts; one network of three layers and the plain "
        "level of noise, where the authors' has residual blocks, dropout and Fourier features",
        "rate": "0.001 for thousands of gradients; the authors' is 0.0003, for a million",
        "log-probs": "none are recorded, for what is chosen has no density",
    },
    task="hazard:point",
    objective=CriticLoss(FeasibleValues(), coefficient=1.0),
    regularisers=(ExpectileLoss(tau=0.9), FeasibilityLoss(), FeasibleImitation()),
    update=FollowingStep(lr=1e-3, clip_norm=None),
)

"""EXPO: an expressive policy that is cloned, and edited and chosen from by its value (Dong et al., arXiv:2507.07986).

No gradient of a value passes through the chain that makes an action. A base policy, here a flow, is trained on all kept
decisions by imitation alone. A small Gaussian edits its actions within a box, `a + b tanh(u)`, and is trained as SAC's
actor is. The policy that acts, and that the critics back up, is made on the fly: of N samples of the base and their
edits it takes the one with the largest value by the slow critics,

    a*(s) = argmax_{a in a_1..a_N, a_1 + e_1..a_N + e_N} min_k Q-_k(s, a),   y = r + gamma min_k Q-_k(s', a*(s')).

`OnTheFlyValues` is the policy, `ImitationLoss` the base's loss. As in the authors' code the edit policy learns at
recorded actions, on the mean of the critics, and its log-prob is that of the edit within its box. Their base denoises;
the flow in its place is from noise (level 1) to an action (level 0), and actions are cut off at the ends of the range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.stored_rows import NOISE
from hocket.methods.base.sac import SAC
from hocket.objectives.action_values import CriticLoss, PathwiseLoss, TemperatureLoss
from hocket.policies.action_values import Critics, SoftValues, backed_up, critics_of, following, joined
from hocket.policies.control_parts import EvaluatedRows, Links, PartHost
from hocket.policies.value_heads import ChosenCandidate, SquashedGaussian
from hocket.rollout.transitions import Transitions
from hocket.stages import Objective
from hocket.types import Evaluation, Quantity, Terms


class EditedFlow(nn.Module):
    """A flow that makes actions, and a Gaussian that edits them; what they are chosen by is the critics' slow copy.

    Its own output is what it reads: a distribution is made of that.

    Attributes:
        base: velocities `[B, A]` of what is seen, a noisy action and its level. edit: mean and log deviation `[B, 2 A]`
            of what is seen and an action. steps: of the flow. box: how far an edit goes at most.
    """

    def __init__(self, base: nn.Module, edit: nn.Module, slow: Critics, *, steps: int, box: float) -> None:
        super().__init__()
        self.base, self.edit, self.steps, self.box = base, edit, steps, box
        self._slow = (slow,)  # The policy's module; a copy of the policy's modules copies both together.

    def forward(self, seen: Tensor) -> Tensor:
        return seen

    def velocity(self, seen: Tensor, noisy: Tensor, level: Tensor) -> Tensor:
        """Where noise leads, `[B, A]`, at levels `[B, 1]`."""
        predicted: Tensor = self.base(torch.cat([seen, noisy, level], 1))
        return predicted

    def flowed(self, seen: Tensor, noise: Tensor) -> Tensor:
        """The base's actions `[B, A]` from noise `[B, A]`, by Euler's steps."""
        action = noise
        for step in range(self.steps):
            level = torch.full_like(noise[:, :1], 1 - step / self.steps)
            action = action - self.velocity(seen, action, level) / self.steps
        return action.clamp(-1.0, 1.0)

    def edits(self, seen: Tensor, action: Tensor) -> SquashedGaussian:
        """Of actions `[B, A]`, in units of the box."""
        return SquashedGaussian.of(self.edit(torch.cat([seen, action], 1)))

    def candidates(self, seen: Tensor, normals: Tensor) -> Tensor:
        """N base actions and then their edits, `[B, 2 N, A]`, by normals of that shape."""
        count = normals.shape[1] // 2
        repeated = seen.repeat_interleave(count, 0)
        action = self.flowed(repeated, normals[:, :count].flatten(0, 1))
        edit, _ = self.edits(repeated, action).reached(normals[:, count:].flatten(0, 1))
        pair = (action, (action + self.box * edit).clamp(-1.0, 1.0))
        return torch.cat([actions.reshape(len(seen), count, -1) for actions in pair], 1)

    def values(self, seen: Tensor, candidates: Tensor) -> Tensor:
        """The smallest slow value of candidates `[B, C, A]`: `[B, C]`."""
        count = candidates.shape[1]
        flat = joined(seen.repeat_interleave(count, 0), candidates.flatten(0, 1))
        least: Tensor = self._slow[0](flat).amin(1)
        return least.reshape(len(seen), count)

    @torch.no_grad()
    def chosen(self, seen: Tensor, normals: Tensor) -> Tensor:
        """The best of all candidates, `[B, A]`, by normals `[B, 2 N, A]`."""
        candidates = self.candidates(seen, normals)
        best = self.values(seen, candidates).argmax(1)
        return candidates[torch.arange(len(seen)), best]


@dataclass(frozen=True)
class EditedForm:
    """The form of actions that are chosen on the fly.

    Attributes:
        size: A. samples: N. usual: the normals of greedy play, `[2 N A]`.
    """

    size: int
    samples: int
    steps: int
    box: float
    slow: Critics
    usual: Tensor

    densities: ClassVar[bool] = False

    @property
    def draws(self) -> int:
        return 2 * self.samples * self.size

    def actor(self, link: Links) -> EditedFlow:
        base, edit = link(self.size, "base", self.size + 1), link(2 * self.size, "edit", self.size)
        return EditedFlow(base, edit, self.slow, steps=self.steps, box=self.box)

    def head(self, outputs: Tensor, actor: nn.Module, allowed: Tensor | None, taken: Tensor | None) -> ChosenCandidate:
        flow, shape = cast(EditedFlow, actor), (len(outputs), 2 * self.samples, self.size)
        return ChosenCandidate(self.usual, lambda normals: flow.chosen(outputs, normals.reshape(shape)), len(outputs))

    def config(self) -> Mapping[str, Any]:
        return {"head": "edited flow", "samples": self.samples, "flow_steps": self.steps, "box": self.box}


@dataclass(frozen=True)
class OnTheFlyValues(SoftValues):
    """SAC's critics and temperature, with a base policy that is cloned and a Gaussian that edits its actions.

    Noises of a row are those of an edit, of a noisy action, of its level, and of 2 N candidates afterwards, so the
    store's `noises` are 3 + 2 `samples`. Greedy play takes the same N noises everywhere, and the mean edits.

    Attributes:
        samples: N, the base actions of a decision. steps: of the flow. box: the largest edit, in units of half an
            action's range. random: there are demonstrations, so no first decisions are uniform.
        target_entropy: of the edit within its box, in nats; None is `log box - 1/2` for each dimension.
    """

    samples: int = 8
    steps: int = 5
    box: float = 0.3
    random: int = 0

    quantities: ClassVar[frozenset[Quantity]] = SoftValues.quantities | {Quantity.DENOISING}

    def __post_init__(self) -> None:
        if min(self.samples, self.steps) < 1 or not 0 < self.box <= 2:
            raise ValueError(
                f"samples and steps must be at least 1 and box in (0, 2], not {self.samples}, {self.steps} and "
                f"{self.box}"
            )

    def _form(self, host: PartHost) -> EditedForm:  # type: ignore[override]
        usual = torch.zeros(2 * self.samples, host.actions)
        usual[: self.samples] = torch.randn(
            self.samples, host.actions, generator=Key.of(0).derive("candidates").torch()
        )
        slow = critics_of(host, "slow")
        return EditedForm(host.actions, self.samples, self.steps, self.box, slow, usual.flatten())

    def _noise(self, rows: EvaluatedRows) -> Tensor:
        noise = rows.column(NOISE)
        if noise.shape[1] != 3 + 2 * self.samples:
            raise ConfigurationError(
                f"{self.samples} samples of this policy read {3 + 2 * self.samples} noises a row, and the store draws "
                f"{noise.shape[1]}; set store.noises to {3 + 2 * self.samples}"
            )
        return noise

    def _backup(self, host: PartHost, rows: EvaluatedRows) -> Tensor:
        later, flow = following(host, rows), cast(EditedFlow, host.module.actor)
        candidates = flow.candidates(later, self._noise(rows)[:, 3:])
        return backed_up(rows, flow.values(later, candidates).amax(1))

    def _of_actor(self, host: PartHost, wanted: frozenset[Quantity], rows: EvaluatedRows) -> Mapping[Quantity, Tensor]:
        quantities: dict[Quantity, Tensor] = {}
        flow, noise = cast(EditedFlow, host.module.actor), self._noise(rows)
        action = rows.action.to(rows.seen.dtype).clamp(-1.0, 1.0)
        if wanted & {Quantity.PATHWISE, Quantity.TEMPERATURE}:
            edit, logp = flow.edits(rows.seen, action).reached(noise[:, 0])
            logp, alpha = logp - host.actions * math.log(self.box), self._alpha(host)
            value = critics_of(host)(joined(rows.seen, action + self.box * edit), frozen=True).mean(1)
            usual = (math.log(self.box) - 0.5) * host.actions
            target = usual if self.target_entropy is None else self.target_entropy
            quantities[Quantity.PATHWISE] = alpha.exp().detach() * logp - value
            quantities[Quantity.TEMPERATURE] = -alpha * (logp.detach() + target)
        if Quantity.DENOISING in wanted:
            normal, level = noise[:, 1], torch.special.ndtr(noise[:, 2, :1])
            velocity = flow.velocity(rows.seen, action + level * (normal - action), level)
            quantities[Quantity.DENOISING] = (velocity - (normal - action)).square().sum(1)
        return quantities


@dataclass(frozen=True)
class ImitationLoss(Objective):
    """Minimises |v(s, x_l, l) - (z - a)|^2 at recorded actions a: x_l = (1 - l) a + l z, l uniform, z normal."""

    couples: ClassVar[Level] = Level.DECISION
    idle_without_advantage: ClassVar[bool] = False
    learns_from_rows: ClassVar[bool] = True
    needs: ClassVar[frozenset[Quantity]] = frozenset({Quantity.DENOISING})

    def __call__(self, now: Evaluation, batch: Batch) -> Terms:
        error, occurrences = now.get(Quantity.DENOISING), batch.occurrences
        weight = occurrences.weight.to(error.dtype)
        share = weight / weight.count_nonzero().clamp(min=1)
        return Terms(error[occurrences.decision], share, metrics={"actor/imitation": error.detach().mean()})


EXPO_EXPRESSIVE = SAC.but(
    name="expo-expressive",
    title="Expressive policy optimisation: a cloned flow, edited and chosen from by value",
    source="EXPO: Stable Reinforcement Learning with Expressive Policies, Dong et al., arXiv:2507.07986; the authors' "
    "code",
    catalogue_ids=("expo-expressive",),
    axes=("policy", "objective", "rollout"),
    formula="L = |v(s, x_l, l) - (z - a)|^2 + 1/2 sum_k (Q_k(s, a) - y)^2 + alpha log pi_e(e|s, a) - mean_k Q_k(s, a + "
    "e) - log alpha (log pi_e + H),  y = r + gamma max_{a' of 2 N} min_k Q-_k(s', a'),  a' = a_i ~ flow(s') or a_i + "
    "e_i,  |e| <= b",
    conventions={
        **SAC.conventions,
        "base": "a flow of 5 steps; the authors' code denoises in 10. It is cloned from all rows drawn, fresh ones too",
        "acting": "by the slow critics and the learnt base; the authors' code has a slow base as well",
        "samples": "8 of the base, and the edits of all",
        "edit": "trained at recorded actions, on the mean of the critics; its box is 0.3",
        "entropy": "of the edit within its box, towards dim(a) (log b - 1/2), as the authors' code has it where it "
        "adjusts the target to the box; the backup has none",
        "critics": "2, and a gradient for each fresh decision; the authors' are 10 with up to 20 gradients",
        "log-probs": "none are recorded, for what is chosen has no density",
    },
    note="of two runs one came to 19 of 20 unseen successes and one to none; its clone alone came to 16",
    task="two-doors:point",
    store=Transitions(noises=19),
    objective=CriticLoss(OnTheFlyValues()),
    regularisers=(PathwiseLoss(), TemperatureLoss(), ImitationLoss()),
)

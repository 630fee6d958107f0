"""PDPPO: PPO with a second critic of the state between decision and chance (Post-Decision PPO, dual critics).

Where a step is a certain effect `f(s, a)` and then chance, a critic `V_post` of the post-decision state `f(s, a)` need
not average over actions. Both critics are fitted to the normalised Monte Carlo return, and the baseline is the smaller
of the two: `A = G - min(V(s), V_post(f(s, a)))`, as in the released code for lot sizing (leokan92/pdppo). `V_post`
depends on the action through f, so the baseline biases the gradient; by how much is one of the claims. The advantage is
not centred either: where the critics differ, its mean is above 0, and all that was done is made likelier.

`PostDecisionValueLoss` asks the policy for such a critic (`PostDecisionCritic`), which a world makes possible that
tells `after` and `post` (`LotSizing` of `hocket.methods.control.pdppo.world`); `NormalisedReturns` is the credit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Occurrences
from hocket.core.columns import Column
from hocket.core.errors import ConfigurationError
from hocket.core.policy_parts import PolicyPart
from hocket.core.segments import suffix_sum
from hocket.core.signals import rewards_by_occurrence
from hocket.credit.formulas import whitened
from hocket.methods.base.ppo import PPO
from hocket.objectives.entropy import EntropyBonus
from hocket.objectives.value import ValueLoss
from hocket.policies.control_networks import Perceptron
from hocket.policies.control_parts import ControlPart, PartHost
from hocket.stages import Credit


@dataclass(frozen=True)
class NormalisedReturns(Credit):
    """`A_t = G_t - V_t` and target `G_t`, G the rewards to go, less their mean and over their deviation in the batch.

    Both over decisions of non-zero weight; the others get advantage 0. Nothing is bootstrapped.

    Attributes:
        gamma: discount per decision, in [0, 1]. epsilon: added to the deviation, the released code's.

    Raises:
        ConfigurationError: on a call, when the batch has no values.
    """

    gamma: float = 0.99
    epsilon: float = 1e-7

    gives_targets: ClassVar[bool] = True
    reads: ClassVar[frozenset[Column]] = frozenset({Column.VALUE})

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma must lie in [0, 1], not {self.gamma}")

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with advantages and targets, both `[E]` float64."""
        if batch.value is None:
            raise ConfigurationError(
                "NormalisedReturns reads the value of every decision, but the batch has no column 'value'"
            )
        seen = batch.occurrences
        to_go = suffix_sum(rewards_by_occurrence(batch), seen.trajectory, batch.trajectories, discount=self.gamma)
        used, target = seen.weight != 0, torch.zeros_like(to_go)
        target[used] = whitened(to_go[used], ddof=1, epsilon=self.epsilon)
        advantage = torch.where(used, target - batch.value.detach().double()[seen.decision], torch.zeros_like(target))
        return replace(seen, advantage=advantage, target=target)


@dataclass(frozen=True)
class PostDecisionCritic(ControlPart):
    """A second critic, `module.after`, of post-decision states: a decision's value is the smaller of both critics'."""

    needed: ClassVar[str] = "a critic of post-decision states"
    advice: ClassVar[str] = "use ppo, or a world with `post` and `after` such as lots:sizing"
    critics: ClassVar[tuple[str, ...]] = ("after",)

    def begin(self, host: PartHost) -> None:
        if not _size(host):
            raise ConfigurationError(
                "a critic of post-decision states reads what a decision leads to before chance, which this environment "
                "does not tell; use ppo, or a world with `post` and `after` such as lots:sizing"
            )
        if host.module.critic is not None:
            raise ConfigurationError(f"policy {host.name!r} has a single critic already; train it anew")

    def add_critics(self, host: PartHost) -> None:
        sizes = (_size(host), *host.hidden, 1)
        host.module.add_module("after", Perceptron(sizes, last_gain=1.0, key=host.key.derive("after")))

    def config(self, host: PartHost) -> Mapping[str, Any]:
        return {"post": _size(host)}

    def values(self, host: PartHost, batch: Batch, chosen: Tensor, values: Tensor) -> Tensor:
        rows = host.spaces.world.after(host.observed(batch)[chosen].numpy(), batch.action[chosen].numpy())
        after: Tensor = host.module.get_submodule("after")(torch.from_numpy(rows)).squeeze(-1)
        return torch.minimum(values, after)


def _size(host: PartHost) -> int:
    """How many numbers a post-decision state has; 0 in worlds that know of none."""
    return int(getattr(getattr(host.spaces, "world", None), "post", 0))


@dataclass(frozen=True)
class PostDecisionValueLoss(ValueLoss):
    """`ValueLoss` of `min(V(s), V_post(f(s, a)))`, which is what the policy's value of a decision is then.

    The slope goes to the smaller of the two critics.
    """

    policy_parts: ClassVar[tuple[PolicyPart, ...]] = (PostDecisionCritic(),)


PDPPO = PPO.but(
    name="pdppo",
    title="Post-decision PPO with dual critics",
    source="A Reinforcement Learning Method for Environments with Stochastic Variables: Post-Decision Proximal Policy "
    "Optimization with Dual Critic Networks; released code leokan92/pdppo",
    catalogue_ids=("pdppo",),
    family="actor-critic",
    axes=("credit", "objective"),
    formula="L = -mean_t min(r_t A_t, clip(r_t) A_t) + 1/2 mean_t (v_t - G_t)^2 - 0.01 mean_t H_t,  A_t = G_t - v_t,  "
    "v_t = min(V(s_t), V_post(f(s_t, a_t))),  G normalised over the batch",
    conventions={
        **PPO.conventions,
        "whitening": "of returns over the batch, ddof 1, epsilon 1e-7, before the baseline; advantages as they are",
        "truncated samples": "nothing is bootstrapped: returns are Monte Carlo sums",
        "entropy": "bonus 0.01",
        "discount": "0.9, for costs that follow a decision within some ten periods",
        "target of V_post": "the return with what the decision itself cost, as in the released code; exactly that cost "
        "belongs to V alone, and a change of the machine cannot be seen in the post-decision state",
        "variants": "two critics and one actor; the code's other files, with one critic or two actors, are left out",
    },
    note="a smaller world stands in for the paper's, whose set-ups take time and whose yields are random; in it the "
    "paper's gain over PPO, and the sooner right second critic, are not found",
    task="lots:sizing",
    credit=NormalisedReturns(gamma=0.9),
    regularisers=(PostDecisionValueLoss(coefficient=0.5, aggregate="token-mean"), EntropyBonus(coefficient=0.01)),
)

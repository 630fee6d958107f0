"""Safe RLHF: as helpful as possible while the mean cost stays under a limit (Ji et al., arXiv:2503.17682).

Two scores, a reward and a cost; a multiplier is raised while the mean cost exceeds its limit and lowered while it does
not, and PPO learns from the reward less the multiplier times the cost (`Lagrangian`). The paper does so for models that
see images; the loss is that of its parent for text (Dai et al., arXiv:2310.12773), read from the authors' code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.signals import counted_trajectories, returns
from hocket.methods.base.ppo import PPO_RLHF
from hocket.rewards.members import with_return
from hocket.stages import Shaping, State


@dataclass(frozen=True)
class Lagrangian(Shaping):
    """Returns become (R - lambda C) / (1 + lambda); log lambda rises by rate lambda (mean C - limit) after each step.

    Stateful: the multiplier, and the costs that the mean is over. GAE is linear in rewards, so one critic of the
    mixture gives the advantage that the paper mixes from two.

    Attributes:
        cost: the score of trajectories that is the cost; its weight among the rewards should be 0. A trajectory without
            an opinion costs nothing and enters no mean.
        limit: d. multiplier: lambda at first. rate: of its logarithm. most: the largest lambda.
        window: how many costs the mean is over, the newest.

    Raises:
        ConfigurationError: on a call, for a batch without the score.
    """

    cost: str = "cost"
    limit: float = 0.0
    multiplier: float = 1.0
    rate: float = 0.1
    most: float = 100.0
    window: int = 128

    def __post_init__(self) -> None:
        if not 0 < self.multiplier <= self.most or self.rate < 0 or self.window < 1:
            raise ValueError(
                f"multiplier must lie in (0, {self.most}], rate be at least 0 and window at least 1, not "
                f"{self.multiplier}, {self.rate} and {self.window}"
            )

    def init(self) -> State:
        """The first multiplier, no costs."""
        return {"multiplier": self.multiplier, "costs": []}

    def __call__(self, batch: Batch, state: State) -> tuple[Batch, State]:  # type: ignore[override]
        score = batch.scores.get(self.cost)
        if score is None or score.level is not Level.TRAJECTORY:
            raise ConfigurationError(
                f"Lagrangian reads a score {self.cost!r} of trajectories, and there is none; name a reward so "
                "(--reward FILE.py:cost=0) or set shaping.0.cost to the name of one"
            )
        batch = with_return(batch, self.mixed(returns(batch), torch.nan_to_num(score.values), state["multiplier"]))
        told = score.values[counted_trajectories(batch) & ~score.values.isnan()].tolist()
        costs = [*state["costs"], *told][-self.window :]
        return batch, {"multiplier": self.raised(state["multiplier"], costs), "costs": costs}

    def mixed(self, reward: Tensor, cost: Tensor, multiplier: float) -> Tensor:
        """What is learnt from, in the shape of both."""
        return (reward - multiplier * cost) / (1 + multiplier)

    def raised(self, multiplier: float, costs: list[float]) -> float:
        """The multiplier after a step, from the costs of the window."""
        if not costs:
            return multiplier
        step = self.rate * multiplier * (sum(costs) / len(costs) - self.limit)
        return min(self.most, math.exp(math.log(multiplier) + step))


SAFE_RLHF_V = PPO_RLHF.but(
    name="safe-rlhf-v",
    title="Safe RLHF: PPO with a Lagrangian on the cost",
    source="Ji et al., arXiv:2503.17682; PKU-Alignment/safe-rlhf, ppo_lag",
    family="preference",
    catalogue_ids=("safe-rlhf-v",),
    axes=("objective", "reward", "data", "policy"),
    formula="A = (A_r - lambda A_c)/(1 + lambda),  log lambda <- log lambda + rate lambda (mean C - d)",
    task="guarded?cost=true",
    conventions={
        **PPO_RLHF.conventions,
        "cost": "the score `cost`, of weight 0 in the reward: a scorer's (--reward model:RUN=0), a function's, or the "
        "task's",
        "critic": "one, of the mixture; the authors' has one for each",
        "KL": "taken from the mixture; the authors split it between reward and cost",
        "limit": "shaping.0.limit = 0.1 of the mean over the newest 128 answers",
    },
    note="text alone: there are no images here, nor the paper's data and its guard that filters over rounds",
    shaping=(Lagrangian(limit=0.1), *PPO_RLHF.shaping),
)

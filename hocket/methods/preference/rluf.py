"""RLUF: what users love, learnt from their reactions, as one head of the reward (arXiv:2505.14946; the sum is chosen).

A classifier of logged reactions (`reward-binary`) says how likely an answer is loved. `UserLove` pays that probability
beside help and safety, and only where the answer helps enough if a floor is set, since a policy that is paid for love
alone learns to flatter. The mean of the probability over a policy's answers to logged prompts predicts its live rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from hocket.core.batch import Batch, Level, LevelScores
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.core.requirements import Requirement
from hocket.core.signals import REWARD
from hocket.methods.base.rloo import RLOO
from hocket.rewards.combine import Weights, sources, summed
from hocket.rewards.opinions import Opinions
from hocket.rewards.shaping import KLInReward
from hocket.rewards.verifiers import ExactMatch
from hocket.stages import Combine, Reward
from hocket.types import Trajectory


@dataclass(frozen=True)
class UserLove(Combine):
    """reward = sum_k w_k r_k + w_love sigmoid(f), f a classifier's log-odds; 0 for love where help is below `floor`.

    An answer without an opinion on love gets none; one without an opinion on help passes.

    Attributes:
        love: the score with the log-odds. help: the score that the floor is of.
        floor: the least help at which love is paid; None always pays.
        weights: replaces those of the rewards it names.

    Raises:
        ConfigurationError: on a call, for a batch without the score `love`, or, with a floor, without `help`.
    """

    love: str = "love"
    help: str = "helpful"
    floor: float | None = None
    weights: Weights | None = None

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        given = dict(sources(batch))
        if batch.combined and REWARD[Level.TRAJECTORY] in given:
            return summed(batch, given, weights)  # The rewards of a recorded batch are the sum already.
        for name in (self.love, *(() if self.floor is None else (self.help,))):
            if name not in given or given[name].level is not Level.TRAJECTORY:
                raise ConfigurationError(
                    f"UserLove reads a score {name!r} of trajectories, and there are {', '.join(given) or 'none'}; set "
                    f"combine.{'love' if name == self.love else 'help'} to the name of one: that of --reward model:RUN "
                    "is RUN"
                )
        loved = torch.sigmoid(given[self.love].values)
        if self.floor is not None:
            loved = torch.where(given[self.help].values < self.floor, 0.0, loved)  # NaN is not below anything.
        given[self.love] = LevelScores(Level.TRAJECTORY, loved)
        return summed(batch, given, {**weights, **(self.weights or {})})


def live_rate(log_odds: Tensor) -> float:
    """What share of answers to logged prompts will be loved: the mean of sigmoid(f), NaN (no opinion) left out."""
    return float(torch.sigmoid(log_odds).nanmean())


@dataclass(frozen=True)
class SimulatedUser(Reward):
    """The log-odds that a simulated user loves an answer: base + quality [right] + charm [at most `brief` characters].

    It stands for the classifier where none is trained: a user who likes right answers, and short ones anyway.
    """

    name: str = "love"
    weight: float = 0.5
    base: float = -1.0
    quality: float = 2.0
    charm: float = 2.0
    brief: int = 40
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> Opinions:
        verdicts = await ExactMatch()(trajectories, key=key)
        rows = zip(trajectories, verdicts, strict=True)
        return Opinions(
            self.base + self.quality * (verdict or 0.0) + self.charm * (len(one.answer) <= self.brief)
            for one, verdict in rows
        )


RLUF = RLOO.but(
    name="rluf",
    title="Reinforcement Learning from User Feedback: the chance of being loved in the reward",
    source="Reinforcement Learning from User Feedback, arXiv:2505.14946 (abstract; the weighted sum is chosen here)",
    family="preference",
    catalogue_ids=("rluf",),
    axes=("reward", "objective", "data", "analysis"),
    formula="R = w_h help + w_s safe + w_l sigmoid(f) - beta log pi/ref,  sigmoid(f) = P(love | x, y) of logged "
    "reactions",
    conventions={
        **RLOO.conventions,
        "classifier": "--reward model:RUN=W of a reward-binary run on labelled answers, its name set as combine.love; "
        "as shipped a simulated user stands for it",
        "scale": "the probability, so that love is bounded; help and safety as they are",
        "floor": "none; combine.floor = 0.5 pays love only for answers of at least so much help",
        "optimiser": "RLOO, chosen here; any method on rewards takes the combiner",
        "KL": "beta = 0.05, in the reward (k1)",
    },
    note="as shipped a simulated user stands for the classifier of logged reactions",
    task="sums",
    requires=(Requirement.SCORES,),
    rewards=(ExactMatch(name="helpful"), SimulatedUser()),
    combine=UserLove(),
    shaping=(KLInReward(coefficient=0.05, estimator="k1"),),
)

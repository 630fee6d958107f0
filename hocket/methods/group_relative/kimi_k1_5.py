"""Kimi k1.5: policy optimisation as regression on rewards (Kimi Team, arXiv:2501.12599).

The log-ratio to the old policy is fitted to the centred return (`AdvantageRegression` of
`hocket.objectives.regression`) instead of being clipped; length is scored within the group after a warm-up
(`SpreadLength`), and scenarios that fail often are asked more (`ByFailure`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hocket.core.batch import Batch, GroupBy, Level
from hocket.core.keys import Key
from hocket.core.posterior import Outcomes
from hocket.core.signals import RIGHT, counted_trajectories, right
from hocket.credit.pairs import ShortestAgainstLonger
from hocket.curriculum.weighted import Value, Weighted
from hocket.methods.base.conventions import CENTRED
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.methods.base.grpo import GRPO
from hocket.objectives.regression import AdvantageRegression
from hocket.rewards.lengths import spread_length
from hocket.rewards.shaping import added
from hocket.stages import Curriculum, LedgerView, Shaping, Task
from hocket.types import Scenario


@dataclass(frozen=True)
class FailureRate(Value):
    """`floor + 1 - s`, s the mean of the last `window` groups' rewards, cut to [0, 1]; 0 before the first."""

    floor: float = 0.05
    window: int = 4

    def __call__(self, outcomes: Outcomes, rewards: Sequence[float]) -> float:
        known = rewards[-self.window :]
        return self.floor + 1 - (float(np.clip(np.mean(known), 0.0, 1.0)) if known else 0.0)


@dataclass(frozen=True)
class ByFailure(Curriculum):
    """Prioritised sampling: with probability proportional to `1 - s`, s a scenario's success rate so far (Kimi k1.5).

    Drawn as `hocket.curriculum.Weighted` says, by `FailureRate`.

    Attributes:
        prompts: scenarios per step. pool: how many scenarios take part; all of a smaller task.
        floor: added to `1 - s`, so that solved scenarios come back now and then. window: past groups that count.
    """

    prompts: int = 16
    pool: int = 256
    floor: float = 0.05
    window: int = 4

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.pool < 1 or self.window < 1:
            raise ValueError("prompts, pool and window must be at least 1")
        if self.floor <= 0:
            raise ValueError(f"floor must be positive, not {self.floor}")

    def __call__(self, task: Task, asked: int, count: int, ledger: LedgerView, key: Key) -> list[Scenario]:
        drawn = Weighted(FailureRate(self.floor, self.window), self.prompts, self.pool)
        return drawn(task, asked, count, ledger, key)


@dataclass(frozen=True)
class SpreadLength(Shaping):
    """Adds `weight` times a score of the length's place within its group: Kimi k1.5 (arXiv 2501.12599, section 2.3.3).

    The shortest right answer gets 1/2 and the longest -1/2; wrong answers are never rewarded for being short. Answers
    are compared with all of their group, right or wrong.

    Attributes:
        weight: of the score; the report gives none, 0.5 keeps every right answer above every wrong one.
        warmup: share of the run before which nothing is added, since it slows training at first.
        least: an answer is right when its return before is at least this.
    """

    weight: float = 0.5
    warmup: float = 0.25
    least: float = RIGHT

    def __post_init__(self) -> None:
        if self.weight < 0 or not 0 <= self.warmup <= 1:
            raise ValueError(f"weight must be at least 0 and warmup in [0, 1], not {self.weight} and {self.warmup}")

    def __call__(self, batch: Batch) -> Batch:
        if batch.progress < self.warmup:
            return batch
        used, groups = counted_trajectories(batch), GroupBy("scenario")(batch)
        score = torch.zeros(batch.trajectories, dtype=torch.float64)
        solved, length = right(batch, self.least), batch.lengths()
        score[used] = spread_length(length[used], solved[used], groups.index[used], groups.size)
        return added(batch, Level.TRAJECTORY, self.weight * score)


KIMI_K1_5 = GRPO.but(
    name="kimi-k1-5",
    title="Kimi k1.5: mirror descent by regression, length reward, sampling by failure",
    source="Kimi Team, arXiv:2501.12599",
    catalogue_ids=("kimi-k1-5",),
    axes=("objective", "reward", "rollout", "data", "system"),
    formula="L = 1/N sum_i 1/(2 tau) (R_i - mean_g R - tau log pi(y_i)/pi_old(y_i))^2,  "
    "R += 1/2 (1/2 - (l - min l)/(max l - min l)), at most 0 if wrong",
    conventions={
        **GRPO.conventions,
        **CENTRED,
        "aggregation": "log-ratios summed over a trajectory, mean over trajectories",
        "clipping side": "nothing is clipped",
        "KL": "tau = 0.1 is our choice; the report gives none",
        "log Z": "replaced by the group's mean reward",
        "length reward": "weight 0.5, after the first quarter of the run (the report gives neither)",
        "prompts": "a pool of 256, asked in proportion to 1 - success",
        "updates per batch": "2: in the first the policies are equal and tau plays no part",
    },
    note="Difficulty labels for an easy-to-hard order are not read; answers cut short are not resumed in a later step "
    "(rollouts carry no memory); of long2short there are its DPO (long2short-dpo) and length-rewarded training, not "
    "model merging.",
    curriculum=ByFailure(),
    shaping=(SpreadLength(),),
    objective=AdvantageRegression(temperature=0.1),
    **{"credit.scale": None, "update.epochs": 2},
)


LONG2SHORT_DPO = ONLINE_DPO.but(
    name="long2short-dpo",
    title="Kimi k1.5, long2short: DPO for the shortest right answer",
    source="Kimi Team, arXiv:2501.12599, section 2.4",
    conventions={
        **ONLINE_DPO.conventions,
        "pairs": "the shortest right sample against all wrong ones and right ones 1.5 times as long (credit.factor)",
        "group of one": "no pair",
        "constant group": "no pair where nobody is right; where all are, pairs by length",
        "data": "the policy's own samples; the report pairs those of a long-thinking model",
    },
    credit=ShortestAgainstLonger(),
)

"""Dr Genre: several rewards, mixed by weights that each task has of its own (arXiv:2503.06781).

`WeightedByTask` adds the scores up by the scenario's task; a KL penalty in the reward and advantages without a
deviation make the KL-regularised optimum the fixed point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from hocket.core.batch import Batch, LevelScores
from hocket.core.columns import info_or_metadata
from hocket.core.requirements import Requirement
from hocket.methods.base.grpo import GRPO, UNSCALED
from hocket.rewards.combine import Weights, added_up, sources, spread_over
from hocket.rewards.shaping import KLInReward
from hocket.stages import Combine


@dataclass(frozen=True)
class WeightedByTask(Combine):
    """reward = sum_k w_{task(x), k} r_k: a mixture of scores per task (Dr Genre, arXiv 2503.06781).

    Attributes:
        weights: by task, then by score; a task or score not named keeps the weights of the rewards.
        key: the column of `batch.info`, or else the entry of the scenario's metadata, that names the task.
    """

    weights: Mapping[str, Weights] = field(default_factory=dict)
    key: str = "task"

    def __call__(self, batch: Batch, weights: Weights) -> Batch:
        tasks = info_or_metadata(batch, self.key)
        parts = {}
        for name, score in sources(batch).items():
            own = [self.weights.get(str(task), {}).get(name, weights.get(name, 1.0)) for task in tasks]
            share = spread_over(batch, score.level, torch.tensor(own, dtype=torch.float64))
            parts[name] = LevelScores(score.level, share * score.values)
        return added_up(batch, parts)


DR_GENRE = GRPO.but(
    name="dr-genre",
    title="Decoupled rewards with weights per task",
    source="Dr Genre, arXiv:2503.06781 (weighted sum as in the abstract; the usual KL-regularised RL is assumed)",
    catalogue_ids=("dr-genre",),
    axes=("reward", "objective", "data"),
    formula="R(x, y) = sum_k w_{task(x),k} r_k(x, y) - beta log(pi/ref),  A_i = R_i - mean_g R",
    conventions={
        **UNSCALED,
        "scale": "none, so that pi_ref exp(r/beta)/Z is the fixed point",
        "KL": "k1 in the reward at every decision, coefficient 0.05 (shaping.0.coefficient)",
        "weights": "combine.weights by the scenario's metadata 'task', then by reward; else those of the rewards",
    },
    task="worked-sums?wordings=2&form=0.2",
    requires=(Requirement.SCORES,),
    combine=WeightedByTask(),
    shaping=(KLInReward(coefficient=0.05, estimator="k1"),),
    **{"credit.scale": None},
)

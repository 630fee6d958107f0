"""How large the gradient of a sample's log-prob is, for stages that ask: a column per decision, and one per sample."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hocket.core.annotators import Annotator, of_distributions
from hocket.core.batch import Batch
from hocket.core.columns import InfoColumn
from hocket.core.segments import segment_sum
from hocket.stages import Policy
from hocket.types import Trajectory

GRADIENT_NORM = InfoColumn(
    "gradient_norm",
    "The norm of the gradient of the sample's log-prob by its logits; where a stage reads `score_norm`.",
)


def score_norm(logp: Tensor, action: Tensor) -> Tensor:
    """`|e_a - pi|^2 = 1 - 2 pi(a) + sum_b pi(b)^2` of log-probs `[K, V]` and actions `[K]`: `[K]`.

    The squared norm of the gradient of log pi(a) by the logits at temperature 1.
    """
    chance = logp.exp()
    return 1 - 2 * chance.gather(1, action[:, None])[:, 0] + chance.square().sum(1)


def _compute(batch: Batch, policy: Policy, decisions: Tensor) -> Tensor:
    found = of_distributions(batch, policy, decisions, score_norm)
    # Where there are no distributions over discrete actions, all decisions count the same.
    return torch.ones(batch.decisions, dtype=torch.float64) if found is None else found


SCORE_NORM = Annotator(
    "score_norm", "The squared norm of the gradient of each decision's log-prob by its logits, [T].", compute=_compute
)


def note_norms(batch: Batch, trajectories: Sequence[Trajectory]) -> None:
    """Writes each trajectory's norm where the batch packed from them has the column: over its decisions that count."""
    if SCORE_NORM.name not in batch.annotations:
        return
    seen = batch.occurrences
    square = torch.where(seen.weight != 0, batch.annotations[SCORE_NORM.name][seen.decision], 0.0)
    for one, total in zip(trajectories, segment_sum(square, seen.trajectory, batch.trajectories).tolist(), strict=True):
        GRADIENT_NORM.write(one, total**0.5)

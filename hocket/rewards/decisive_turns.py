"""The whole reward to the turns that decided."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hocket.core.method_columns import DECISIVE
from hocket.signals import REWARD, returns, turn_visits
from hocket.stages import Shaping
from hocket.types import Batch, Level, LevelScores


@dataclass(frozen=True)
class DecisiveTurns(Shaping):
    """`r_t = R` at each turn that was named decisive, R the trajectory's return, and 0 at all others.

    The process reward of EPO (arXiv 2502.12486, and the authors' code). Reads the column `decisive`, places of turns
    per trajectory (`hocket.rollout.JudgedTurns`); where no turn is named nothing is earned. A reward stands at the last
    decision of its turn, so that a turn which trajectories share may have another one in each. Without the column
    nobody was asked, and rewards stay as they are.
    """

    def __call__(self, batch: Batch) -> Batch:
        if not DECISIVE.present(batch):
            return batch
        seen, value = batch.occurrences, returns(batch)
        visit, starts = turn_visits(batch)
        owner, place = seen.trajectory[starts].tolist(), batch.index[batch.turn[seen.decision[starts]]].tolist()
        named = [set(turns or ()) for turns in DECISIVE.rows(batch)]
        decided = [at in named[trajectory] for trajectory, at in zip(owner, place, strict=True)]
        ends = torch.ones(len(seen), dtype=torch.bool)
        ends[:-1] = visit[1:] != visit[:-1]
        here = ends & torch.tensor(decided, dtype=torch.bool)[visit]
        earned = torch.where(here, value[seen.trajectory], torch.zeros((), dtype=torch.float64))
        kept = {name: score for name, score in batch.scores.items() if name not in REWARD.values()}
        return batch.but(scores={**kept, REWARD[Level.DECISION]: LevelScores(Level.DECISION, earned)})

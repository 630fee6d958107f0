"""Rewards without labels: how far the other judges agree with a judgment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from hocket.rewards.members import groups_of
from hocket.rewards.shaping import added
from hocket.stages import Shaping
from hocket.types import Batch, GroupBy, Level, trajectory_of_turn

Answer = str | None


def polled(answers: Mapping[str, Sequence[Answer]], missing: float = 0.0) -> dict[str, list[float]]:
    """`c = mean_{s != client} p_s(y)` of every judgment y of every judge, `p_s` the shares of judge s's answers.

    A judge alone is polled by its own other answers. What is no answer scores `missing`, and agrees with nothing.
    """
    return {
        judge: [_score(answers, judge, place, missing) for place in range(len(said))] for judge, said in answers.items()
    }


def _score(answers: Mapping[str, Sequence[Answer]], judge: str, place: int, missing: float) -> float:
    judgment = answers[judge][place]
    if judgment is None:
        return missing
    servers = [said for other, said in answers.items() if other != judge and said]
    if not servers:
        own = answers[judge]
        servers = [[*own[:place], *own[place + 1 :]]] if len(own) > 1 else []
    votes = [sum(answer == judgment for answer in said) / len(said) for said in servers]
    return sum(votes) / len(votes) if votes else 0.0


@dataclass(frozen=True)
class GroupConsistency(Shaping):
    """The share of the other judges who agree, for every judgment of every judge: Genii (arXiv 2510.08145).

    Each judge is the client of its own judgments and a server of the others'; a server has one vote, split among its
    answers to the question by how often it gave them. No label is used; other rewards of the run are added. Judgments
    are the column `answers` of `batch.info`, by role, and a score belongs to the role's turns. Experience without that
    column stays as it is.

    Attributes:
        by: whose answers are counted together. column: of `batch.info`.
        models: what makes one judge, its `policy` or its `role` (roles that share a policy are one judge or several).
        missing: the score of a turn without an answer.
    """

    by: GroupBy = GroupBy("scenario")
    column: str = "answers"
    models: Literal["policy", "role"] = "policy"
    missing: float = 0.0

    def __post_init__(self) -> None:
        if self.models not in ("policy", "role"):
            raise ValueError(f"models must be 'policy' or 'role', not {self.models!r}")

    def __call__(self, batch: Batch) -> Batch:
        if self.column not in batch.info:
            return batch
        said = self._said(batch)
        values = torch.zeros(batch.turns, dtype=torch.float64)
        for members in groups_of(batch, self.by):
            answers: dict[str, list[Answer]] = {}
            turns: dict[str, list[int]] = {}
            for row in members:
                for judge, turn, answer in said[row]:
                    answers.setdefault(judge, []).append(answer)
                    turns.setdefault(judge, []).append(turn)
            for judge, scores in polled(answers, self.missing).items():
                values[turns[judge]] = torch.tensor(scores, dtype=torch.float64)
        return added(batch, Level.TURN, values)

    def _said(self, batch: Batch) -> list[list[tuple[str, int, Answer]]]:
        """Per trajectory, in order of its turns: the judge, the turn, and the answer."""
        owner, roles = trajectory_of_turn(batch).tolist(), batch.names["role"]
        judges, names = getattr(batch, self.models).tolist(), batch.names[self.models]
        found: list[list[tuple[str, int, Answer]]] = [[] for _ in range(batch.trajectories)]
        for turn, role in enumerate(batch.role.tolist()):
            given: Mapping[str, Answer] = batch.info[self.column][owner[turn]] or {}
            if roles[role] in given:
                found[owner[turn]].append((names[judges[turn]], turn, given[roles[role]]))
        return found

"""Genii: DPO for judges on what the other judges agree with, without labels (Liu et al., arXiv:2510.08145).

A judgment is worth the share of the other judges' verdicts that equal it, or with `--embedder` how near their
judgments are to it (`GroupConsistency`). Each judge's best and
worst judgment of a question are its pair (`BestTurnAgainstWorst`), and judges take turns at learning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from hocket.core.batch import Batch, GroupBy, Level, Occurrences, trajectory_of_turn
from hocket.core.casting import Alternating
from hocket.core.columns import TURN_EMBEDDINGS
from hocket.core.errors import ConfigurationError
from hocket.core.requirements import Requirement
from hocket.core.segments import segment_sum
from hocket.core.signals import REWARD, turn_visits
from hocket.credit.pairs import paired_turns
from hocket.methods.base.dpo import ONLINE_DPO
from hocket.rewards.members import groups_of
from hocket.rewards.shaping import added
from hocket.stages import Credit, Shaping

Answer = str | None


def polled(answers: Mapping[str, Sequence[Answer]], missing: float = 0.0) -> dict[str, list[float]]:
    """`c = mean_{s != client} p_s(y)` of every judgment y of every judge, `p_s` the shares of judge s's answers.

    A judge alone is polled by its own other answers. What is no answer scores `missing`, and agrees with nothing.
    """
    return {
        judge: [_score(answers, judge, place, missing) for place in range(len(said))] for judge, said in answers.items()
    }


Vector = Sequence[float] | None


def polled_by_cosine(judgments: Mapping[str, Sequence[Vector]], missing: float = 0.0) -> dict[str, list[float]]:
    """`c = mean_{s != client} mean_{y' of s} cos(e(y), e(y'))` of every judgment's vector, otherwise as `polled`.

    Raises:
        ConfigurationError: when two vectors differ in length.
    """
    units = {judge: [_unit(vector) for vector in said] for judge, said in judgments.items()}
    if len({len(one) for said in units.values() for one in said if one is not None}) > 1:
        raise ConfigurationError("GroupConsistency compares embeddings, which must all have one length; set --embedder")
    return {judge: [_near(units, judge, place, missing) for place in range(len(said))] for judge, said in units.items()}


def _unit(vector: Vector) -> torch.Tensor | None:
    if vector is None:
        return None
    return torch.nn.functional.normalize(torch.tensor(list(vector), dtype=torch.float64), dim=0)


def _near(units: Mapping[str, Sequence[torch.Tensor | None]], judge: str, place: int, missing: float) -> float:
    own = units[judge][place]
    if own is None:
        return missing
    servers = [said for other, said in units.items() if other != judge and said]
    servers = servers or [[*units[judge][:place], *units[judge][place + 1 :]]]
    votes = [sum(0.0 if one is None else float(own @ one) for one in said) / len(said) for said in servers if said]
    return sum(votes) / len(votes) if votes else 0.0


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
    column stays as it is. Where a run's embedder gave every turn a vector (the column `turn_embeddings`), judgments
    agree by the cosine of theirs, whatever their verdict.

    Attributes:
        by: whose answers are counted together. column: of `batch.info`.
        models: what makes one judge, its `policy` or its `role` (roles that share a policy are one judge or several).
        missing: the score of a turn without an answer.
    """

    by: GroupBy = GroupBy("scenario")
    column: str = "answers"
    models: Literal["policy", "role"] = "policy"
    missing: float = 0.0

    takes_embeddings: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.models not in ("policy", "role"):
            raise ValueError(f"models must be 'policy' or 'role', not {self.models!r}")

    def __call__(self, batch: Batch) -> Batch:
        if self.column not in batch.info:
            return batch
        said, embedded = self._said(batch), self._vectors(batch)
        values = torch.zeros(batch.turns, dtype=torch.float64)
        for members in groups_of(batch, self.by):
            answers: dict[str, list[Answer]] = {}
            turns: dict[str, list[int]] = {}
            for row in members:
                for judge, turn, answer in said[row]:
                    answers.setdefault(judge, []).append(answer)
                    turns.setdefault(judge, []).append(turn)
            found = (
                polled(answers, self.missing)
                if embedded is None
                else polled_by_cosine({one: [embedded[turn] for turn in of] for one, of in turns.items()}, self.missing)
            )
            for judge, scores in found.items():
                values[turns[judge]] = torch.tensor(scores, dtype=torch.float64)
        return added(batch, Level.TURN, values)

    @staticmethod
    def _vectors(batch: Batch) -> list[Vector] | None:
        """The embedding of each turn; None where the run has no embedder."""
        if not TURN_EMBEDDINGS.present(batch):
            return None
        seen, (_, starts) = batch.occurrences, turn_visits(batch)
        rows = [iter(row or ()) for row in TURN_EMBEDDINGS.rows(batch)]
        found: list[Vector] = [None] * batch.turns
        turns = batch.turn[seen.decision[starts]].tolist()
        for trajectory, turn in zip(seen.trajectory[starts].tolist(), turns, strict=True):
            found[turn] = next(rows[trajectory], None)
        return found

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


@dataclass(frozen=True)
class Candidate:
    """One turn of a group of turns that may be compared, and what it earned."""

    trajectory: int
    turn: int
    value: float


@dataclass(frozen=True)
class BestTurnAgainstWorst(Credit):
    """One pair per group of turns: the best against the worst, so that every agent of a team has pairs of its own.

    A turn is worth its own reward, those of its decisions, and that of its trajectory, which is every agent's. A group
    whose best and worst differ by `margin` or less gives no pair; among equals the first in assignment order is taken.
    `pairs` name the trajectories of the two turns and `compared` the turns; other turns get weight 0. `Pairwise`
    compares the log-probs of these turns alone, and a learner meets only pairs of its own policy's turns.

    Attributes:
        by: which turns are comparable; they must answer the same question, as an agent's first turns do.
        margin: how far apart two turns must be.
    """

    by: GroupBy = GroupBy("scenario", "role")
    margin: float = 0.0

    pairs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.by.level is not Level.TURN:
            raise ValueError("pairs are of turns: by must name a column of turns, such as role")
        if self.margin < 0:
            raise ValueError(f"margin must be at least 0, not {self.margin}")

    @property
    def least_samples(self) -> int:
        """Two when groups are within a scenario."""
        return 2 if "scenario" in self.by.columns else 1

    def __call__(self, batch: Batch) -> Occurrences:
        """The batch's occurrences with `pairs` and `compared`, `[P, 2]` each; advantages are left as they are."""
        found = []
        for members in self._groups(batch):
            best = max(members, key=lambda one: one.value)
            worst = min(members, key=lambda one: one.value)
            if best.value - worst.value > self.margin:
                found.append((best, worst))
        return paired_turns(
            batch, [((best.trajectory, best.turn), (worst.trajectory, worst.turn)) for best, worst in found]
        )

    def _groups(self, batch: Batch) -> list[list[Candidate]]:
        """The turns of each group that count, in assignment order; a shared turn is its first trajectory's."""
        seen, groups, order = batch.occurrences, self.by(batch), batch.order.tolist()
        visit, starts = turn_visits(batch)
        size = int(starts.sum())
        counted = segment_sum((seen.weight != 0).double(), visit, size) > 0
        trajectory, turn = seen.trajectory[starts].tolist(), batch.turn[seen.decision[starts]].tolist()
        value = turn_values(batch).tolist()
        members: list[list[Candidate]] = [[] for _ in range(groups.size)]
        met: set[int] = set()
        for place in sorted(range(size), key=lambda place: order[trajectory[place]]):
            if counted[place] and turn[place] not in met:
                met.add(turn[place])
                one = Candidate(trajectory[place], turn[place], value[place])
                members[int(groups.index[turn[place]])].append(one)
        return [group for group in members if group]


def turn_values(batch: Batch) -> torch.Tensor:
    """What each visit of a trajectory to a turn earned, `[M]` float64: see `BestTurnAgainstWorst`."""
    seen = batch.occurrences
    visit, starts = turn_visits(batch)
    value = torch.zeros(int(starts.sum()), dtype=torch.float64)
    if REWARD[Level.DECISION] in batch.scores:
        value = value + segment_sum(batch.scores[REWARD[Level.DECISION]].values.double(), visit, len(value))
    if REWARD[Level.TURN] in batch.scores:
        value = value + batch.scores[REWARD[Level.TURN]].values[batch.turn[seen.decision[starts]]]
    if REWARD[Level.TRAJECTORY] in batch.scores:
        value = value + batch.scores[REWARD[Level.TRAJECTORY]].values[seen.trajectory[starts]]
    return value


GENII = ONLINE_DPO.but(
    name="genii",
    title="Genii: judges learn what the other judges agree with",
    source="Liu et al., Mitigating Judgment Preference Bias through Group-Based Polling, arXiv:2510.08145",
    family="teams",
    catalogue_ids=("genii",),
    axes=("reward", "team", "analysis"),
    formula="c(y) = mean over servers s of p_s(y), the share of s's judgments that are y;  client: DPO on its judgment "
    "of highest c against that of lowest c",
    conventions={
        **ONLINE_DPO.conventions,
        "labels": "none are used",
        "what is judged": "pairs of answers whose authors are known, of whom each judge is one (task answer-pairs)",
        "poll": "one server one vote; with --embedder the cosine of whole judgments' embeddings, as in the paper; "
        "without one, chosen here, judgments agree where their final verdicts are equal",
        "server's vote": "split among its samples for the question by how often each verdict was given",
        "pairs": "one per question and client, highest against lowest c; none where all its judgments score alike",
        "one judge": "polled by its own other samples",
        "aggregation": "log-probs summed over the decisions of each of the two judgments, mean over pairs",
        "no verdict": "score 0, agrees with nothing, counted among the server's samples",
        "rotation": "each judge is the client for 10 steps (cast.every), the others only answer",
        "role weights": "one policy each; roles.NAME.model gives a judge other weights",
    },
    task="answer-pairs",
    requires=(Requirement.AGENTS,),
    workflow="crowd-vote",
    cast=Alternating(every=10),
    shaping=(GroupConsistency(),),
    credit=BestTurnAgainstWorst(by=GroupBy("scenario", "role")),
)

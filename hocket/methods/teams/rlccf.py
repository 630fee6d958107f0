"""RLCCF: GRPO on the vote of several models, without labels (Yuan et al., arXiv:2508.12338).

The answer with most votes, each model's counted by how much it agrees with itself, stands for the right one, and every
answer equal to it earns 1: `CrowdReward`. Each model compares its own samples alone (`EachAgent` of
`hocket.credit.each_agent`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from hocket.agents.workflows.crowd_vote import ANSWERS
from hocket.core.batch import Batch, GroupBy, Level, trajectory_of_turn
from hocket.core.casting import Separate
from hocket.core.columns import LABEL, TEXT, info_column
from hocket.core.requirements import Requirement
from hocket.credit.each_agent import EachAgent
from hocket.methods.base.grpo import GRPO
from hocket.rewards.members import groups_of
from hocket.rewards.shaping import added
from hocket.stages import Shaping

Ties = Literal["first", "all"]
Answer = str | None


def self_consistency(answers: Sequence[Answer]) -> float:
    """`max_a count(a) / K` of one model's K answers; samples without one count in K."""
    counts = Counter(answer for answer in answers if answer is not None)
    return max(counts.values(), default=0) / len(answers) if answers else 0.0


def weighted_plurality(
    answers: Mapping[str, Sequence[Answer]], *, weigh: bool = True, ties: Ties = "first"
) -> tuple[str, ...]:
    """`argmax_a sum_m sc_m count_m(a)` over the answers of each model; nothing where nobody answered.

    Answers are given in order of sampling; of equals the `first` to be given wins (the earliest sample, among those the
    earliest model), or `all` do. Without `weigh` every sc is 1.
    """
    votes: dict[str, float] = {}
    places: dict[str, tuple[int, int]] = {}
    for number, given in enumerate(answers.values()):
        weight = self_consistency(given) if weigh else 1.0
        for answer, count in Counter(given).items():
            if answer is not None:
                votes[answer] = votes.get(answer, 0.0) + weight * count
                first = (list(given).index(answer), number)
                places[answer] = min(places.get(answer, first), first)
    # Equal sums of the same shares may differ in the last bits.
    winners = [answer for answer, vote in votes.items() if vote >= max(votes.values()) - 1e-9]
    winners.sort(key=lambda answer: places[answer])
    return tuple(winners if ties == "all" else winners[:1])


@dataclass(frozen=True)
class CrowdReward(Shaping):
    """`r = 1[answer = a*]` for every answer of every model, `a* = argmax_a sum_m sc_m count_m(a)`: RLCCF.

    From the abstract of arXiv 2508.12338, where sc_m is called the self-consistency of model m; that it is
    `max_a count_m(a) / K` over its K samples of the question is chosen here. No label is used; other rewards of the
    run are added. With one model and ties `all` it is `VoteReward(vote="majority", entropy=0)`. Answers are the column
    `answers` of `batch.info`, by role, and a reward belongs to the role's turns; without it a trajectory's `label` is
    the answer of its last turn. Experience without words stays as it is.

    Attributes:
        by: whose answers are counted together. column: of `batch.info`.
        models: what makes one model, its `policy` or its `role` (roles that share a policy are one model or several).
        weigh: by self-consistency. ties: see `weighted_plurality`. missing: the reward of a turn without an answer.
    """

    by: GroupBy = GroupBy("scenario")
    column: str = ANSWERS.name
    models: Literal["policy", "role"] = "policy"
    weigh: bool = True
    ties: Ties = "first"
    missing: float = 0.0

    def __post_init__(self) -> None:
        if self.models not in ("policy", "role"):
            raise ValueError(f"models must be 'policy' or 'role', not {self.models!r}")
        if self.ties not in get_args(Ties):
            raise ValueError(f"ties must be 'first' or 'all', not {self.ties!r}")

    def __call__(self, batch: Batch) -> Batch:
        if self.column not in batch.info and not any(TEXT.rows(batch)):
            return batch
        said = self._said(batch, self._answers(batch))
        values = torch.zeros(batch.turns, dtype=torch.float64)
        for members in groups_of(batch, self.by):
            answers: dict[str, list[Answer]] = {}
            for row in members:
                for model, _, answer in said[row]:
                    answers.setdefault(model, []).append(answer)
            winners = weighted_plurality(answers, weigh=self.weigh, ties=self.ties)
            for row in members:
                for _, turn, answer in said[row]:
                    values[turn] = self.missing if answer is None else float(answer in winners)
        return added(batch, Level.TURN, values)

    def _answers(self, batch: Batch) -> Sequence[Mapping[str, Answer]]:
        """The final answers of each trajectory, by role."""
        if self.column in batch.info:
            return info_column(batch, self.column, "CrowdReward")
        labels, last = LABEL.read(batch, "CrowdReward"), batch.last()
        role = batch.role[batch.turn[batch.occurrences.decision[last]]].tolist()
        return [{batch.names["role"][code]: label} for code, label in zip(role, labels, strict=True)]

    def _said(self, batch: Batch, given: Sequence[Mapping[str, Answer]]) -> list[list[tuple[str, int, Answer]]]:
        """Per trajectory, in order of its turns: the model, the turn, and the answer."""
        owner, roles = trajectory_of_turn(batch).tolist(), batch.names["role"]
        codes, names = getattr(batch, self.models).tolist(), batch.names[self.models]
        found: list[list[tuple[str, int, Answer]]] = [[] for _ in range(batch.trajectories)]
        for turn, role in enumerate(batch.role.tolist()):
            answers = given[owner[turn]]
            if roles[role] in answers:
                found[owner[turn]].append((names[codes[turn]], turn, answers[roles[role]]))
        return found


RLCCF = GRPO.but(
    name="rlccf",
    title="Reinforcement Learning from Coevolutionary Collective Feedback",
    source="Yuan et al., Wisdom of the Crowd, arXiv:2508.12338",
    family="teams",
    catalogue_ids=("rlccf",),
    axes=("reward", "team", "rollout"),
    formula="a* = argmax_a sum_m sc_m count_m(a),  r = 1[answer = a*];  each model: GRPO on its own samples",
    conventions={
        **GRPO.conventions,
        "labels": "none are used",
        "self-consistency": "sc_m = max_a count_m(a)/K, chosen here: the abstract names it without a formula",
        "ties": "the answer given first: earliest sample, then earliest model; shaping.0.ties=all takes all",
        "no answer": "reward 0, no vote, counted in K",
        "models": "one policy per voter, roles.NAME.model gives it other weights; with --cast shared all are one model",
        "role weights": "one policy each",
    },
    task="sums",
    requires=(Requirement.AGENTS,),
    workflow="crowd-vote",
    cast=Separate(),
    shaping=(CrowdReward(),),
    credit=EachAgent(GRPO.credit, by="role"),
)

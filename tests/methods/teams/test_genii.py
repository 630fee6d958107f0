"""Polls of judges, and pairs of single turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import Batch, GroupBy, Level, Recorded
from hocket.core.errors import ConfigurationError
from hocket.core.packing import pack
from hocket.core.signals import REWARD
from hocket.methods.teams.genii.method import GENII, BestTurnAgainstWorst, GroupConsistency, polled, polled_by_cosine
from hocket.objectives.preference import Pairwise
from hocket.rewards.combine import WeightedSum
from hocket.types import Evaluation, Scenario, Score, Trajectory, Turn

LAW = settings(max_examples=60, deadline=None, derandomize=True)
ANSWER = st.sampled_from(["a", "b", None])
POLLS = st.integers(1, 4).flatmap(
    lambda samples: st.lists(st.lists(ANSWER, min_size=samples, max_size=samples), min_size=1, max_size=4)
)


def batch(
    rows: list[dict[str, str | None]], group: str = "q", policies: dict[str, str] | None = None, reward: float = 0.0
) -> Batch:
    """A trajectory per row, a turn of two decisions per role."""
    played = []
    for number, answers in enumerate(rows):
        turns = [
            Turn(
                role,
                (policies or {}).get(role, role),
                np.zeros(1, np.int64),
                np.array([number, 7]),
                role=role,
                logp=np.full(2, -1.0, np.float32),
            )
            for role in answers
        ]
        scores = {"bonus": Score(reward * number)}
        played.append(Trajectory(Scenario(group), turns, number, scores=scores, info={"answers": answers}))
    return WeightedSum()(pack(played), {})


def turn_rewards(found: Batch) -> list[float]:
    values: list[float] = found.scores[REWARD[Level.TURN]].values.tolist()
    return values


@LAW
@given(POLLS)
def test_scores_lie_in_the_unit_interval_and_agreement_of_all_is_one(crowd: list[list[str | None]]) -> None:
    found = polled({f"judge {number}": said for number, said in enumerate(crowd)})
    scores = [score for row in found.values() for score in row]
    assert all(0 <= score <= 1 for score in scores)
    judgments = [one for said in crowd for one in said]
    if len(set(judgments)) == 1 and judgments[0] is not None and len(judgments) > 1:
        assert scores == [1.0] * len(scores)


@LAW
@given(POLLS)
def test_the_shaping_gives_each_turn_its_score(crowd: list[list[str | None]]) -> None:
    named = {f"judge {number}": said for number, said in enumerate(crowd)}
    rows = [{judge: said[sample] for judge, said in named.items()} for sample in range(len(crowd[0]))]
    wanted = polled(named)
    found = turn_rewards(GroupConsistency()(batch(rows)))
    assert found == [wanted[judge][sample] for sample in range(len(rows)) for judge in named]


def test_roles_of_one_policy_are_one_judge_or_several() -> None:
    rows: list[dict[str, str | None]] = [{"v1": "x", "v2": "x"}, {"v1": "x", "v2": "y"}]
    one = {"v1": "one", "v2": "one"}
    assert turn_rewards(GroupConsistency()(batch(rows, policies=one))) == pytest.approx([2 / 3, 2 / 3, 2 / 3, 0])
    assert turn_rewards(GroupConsistency(models="role")(batch(rows, policies=one))) == [0.5, 1.0, 0.5, 0.0]
    with pytest.raises(ValueError, match="models must be 'policy' or 'role'"):
        GroupConsistency(models="agent")  # type: ignore[arg-type]


def test_experience_without_answers_keeps_its_reward() -> None:
    plain = batch([{"v1": "x"}])
    plain = plain.but(info={})
    assert GroupConsistency()(plain) is plain


ROWS: list[dict[str, str | None]] = [{"v1": "x", "v2": "y"}, {"v1": "y", "v2": "y"}, {"v1": "y", "v2": "x"}]


def test_every_role_has_a_pair_of_its_own_turns() -> None:
    shaped = GroupConsistency()(batch(ROWS))
    # v1: x agrees with a third of v2's answers, y with two thirds; v2: y with two thirds, x with one.
    seen = BestTurnAgainstWorst()(shaped)
    assert seen.pairs is not None
    assert seen.compared is not None
    assert seen.pairs.tolist() == [[1, 0], [0, 2]]
    assert seen.compared.tolist() == [[2, 0], [1, 5]]
    used = seen.weight.reshape(6, 2)
    assert used.tolist() == [[1, 1], [1, 1], [1, 1], [0, 0], [0, 0], [1, 1]]


def test_a_reward_of_the_whole_trajectory_is_every_roles() -> None:
    seen = BestTurnAgainstWorst()(batch(ROWS, reward=1.0))
    assert seen.pairs is not None
    assert seen.pairs.tolist() == [[2, 0], [2, 0]]


def test_no_pair_in_a_constant_group_a_group_of_one_or_within_the_margin() -> None:
    for found in (batch(ROWS), batch(ROWS[:1], reward=1.0)):
        seen = BestTurnAgainstWorst()(found)
        assert seen.pairs is not None
        assert len(seen.pairs) == 0
        assert float(seen.weight.abs().sum()) == 0
    seen = BestTurnAgainstWorst(margin=0.5)(GroupConsistency()(batch(ROWS)))
    assert seen.pairs is not None
    assert len(seen.pairs) == 0
    with pytest.raises(ValueError, match="by must name a column of turns"):
        BestTurnAgainstWorst(by=GroupBy("scenario"))
    with pytest.raises(ValueError, match="margin must be at least 0"):
        BestTurnAgainstWorst(margin=-1.0)


def test_turns_without_weight_are_not_paired() -> None:
    shaped = GroupConsistency()(batch(ROWS))
    weight = shaped.occurrences.weight.clone()
    weight[:2] = 0  # v1's x
    seen = BestTurnAgainstWorst()(shaped.but(occurrences=replace(shaped.occurrences, weight=weight)))
    assert seen.pairs is not None
    assert seen.pairs.tolist() == [[0, 2]]


def test_a_learner_compares_its_own_turns_alone() -> None:
    shaped = GroupConsistency()(batch(ROWS))
    known = torch.ones(shaped.decisions, dtype=torch.bool)
    shaped = shaped.but(logp={"reference": Recorded(-torch.ones(shaped.decisions, dtype=torch.float64), known)})
    credited = shaped.but(occurrences=BestTurnAgainstWorst()(shaped))
    for policy, turns in (("v1", (2, 0)), ("v2", (1, 5))):
        logp = torch.full((shaped.decisions,), -1.5, dtype=torch.float64, requires_grad=True)
        terms = Pairwise()(Evaluation(logp), credited.of_policy(policy))
        (terms.value * terms.weight).sum().backward()
        assert logp.grad is not None
        slope = logp.grad.reshape(6, 2)
        assert slope[turns[0]].tolist() == [-0.05, -0.05]
        assert slope[turns[1]].tolist() == [0.05, 0.05]
        assert float(slope.abs().sum()) == pytest.approx(0.2)


def test_judges_take_turns_as_the_client() -> None:
    names = ["voter_1", "voter_2", "voter_3"]
    learning = [GENII.cast.learning(names, step) for step in (1, 10, 11, 21, 31)]
    assert [sorted(one) for one in learning] == [["voter_1"], ["voter_1"], ["voter_2"], ["voter_3"], ["voter_1"]]


def test_with_vectors_judgments_agree_by_their_cosine() -> None:
    rows: list[dict[str, str | None]] = [{"v1": "x", "v2": "y"}, {"v1": "y", "v2": "x"}]
    plain = batch(rows)
    vectors = [[[2.0, 0.0], [0.0, 1.0]], [[3.0, 4.0], [-5.0, 0.0]]]
    embedded = plain.but(info={**plain.info, "turn_embeddings": vectors})
    # v1 first: mean of cos with (0, 1) and (-1, 0); v2 first: with (1, 0) and (.6, .8).
    assert turn_rewards(GroupConsistency()(embedded)) == pytest.approx([-0.5, 0.4, (0.8 - 0.6) / 2, (-1 - 0.6) / 2])
    lost = plain.but(info={**plain.info, "turn_embeddings": [vectors[0], [None, [1.0, 0.0]]]})
    assert turn_rewards(GroupConsistency(missing=-9.0)(lost)) == pytest.approx([0.5, 0.0, -9.0, 0.5])
    odd = plain.but(info={**plain.info, "turn_embeddings": [vectors[0], [[1.0], [1.0]]]})
    with pytest.raises(ConfigurationError, match="one length"):
        GroupConsistency()(odd)


def test_a_judge_alone_is_near_its_own_other_judgments() -> None:
    assert polled_by_cosine({"one": [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]}) == {"one": [0.5, 0.5, 0.0]}
    assert polled_by_cosine({"one": [[1.0]]}) == {"one": [0.0]}

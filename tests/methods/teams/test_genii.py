"""Polls of judges, and pairs of single turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket import tasks
from hocket.core.batch import Batch, GroupBy, Level, RecordedNumbers
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


def test_a_learner_compares_its_own_turns_alone() -> None:
    shaped = GroupConsistency()(batch(ROWS))
    known = torch.ones(shaped.decisions, dtype=torch.bool)
    shaped = shaped.but(logp={"reference": RecordedNumbers(-torch.ones(shaped.decisions, dtype=torch.float64), known)})
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


def test_vectors_of_unlike_lengths_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="one length"):
        polled_by_cosine({"one": [[1.0]], "other": [[1.0, 2.0]]})


def test_the_task_has_pairs_by_known_authors_and_tells_who_prefers_its_own() -> None:
    task: Any = tasks.find(str(GENII.task))
    asked = [task.scenario("train", number) for number in range(60)]
    assert len({tuple(one.metadata["authors"]) for one in asked}) == 6
    for one in asked:
        right = one.metadata["right"]
        assert [task.verify(f"<answer>{said}</answer>", one) for said in (right, 3 - right)] == [1.0, 0.0]
    verdicts = {f"voter_{author}": "1" for author in asked[0].metadata["authors"]}
    told = Trajectory(asked[0], [], info={"answers": verdicts, "answer": "<answer>1</answer>"})
    assert task.describe(told)["own"] == 0.5

"""The vote of a crowd as a reward."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.packing import pack
from hocket.core.signals import REWARD
from hocket.methods.group_relative.ttrv import majority_votes
from hocket.methods.teams.rlccf import CrowdReward, self_consistency, weighted_plurality
from hocket.rewards.combine import WeightedSum
from hocket.types import Scenario, Trajectory, Turn

ANSWERS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=6)


LAW = settings(max_examples=100, deadline=None, derandomize=True)


@LAW
@given(st.lists(ANSWERS, min_size=1, max_size=4), st.booleans())
def test_plurality_by_hand(crowd: list[list[str | None]], weigh: bool) -> None:
    models = {f"m{number}": answers for number, answers in enumerate(crowd)}
    votes: Counter[str] = Counter()
    for answers in crowd:
        own = Counter(answer for answer in answers if answer is not None)
        weight = max(own.values(), default=0) / len(answers) if weigh else 1.0
        for answer, count in own.items():
            votes[answer] += weight * count  # type: ignore[assignment]
    best = {answer for answer, vote in votes.items() if vote >= max(votes.values()) - 1e-9}
    assert set(weighted_plurality(models, weigh=weigh, ties="all")) == best
    first = weighted_plurality(models, weigh=weigh)
    order = [answers[k] for k in range(6) for answers in crowd if k < len(answers)]
    assert first == tuple(answer for answer in order if answer in best)[:1]


@LAW
@given(ANSWERS)
def test_one_model_votes_as_a_majority_does(answers: list[str | None]) -> None:
    winners = weighted_plurality({"m": answers}, ties="all")
    assert [float(answer in winners) for answer in answers] == majority_votes(answers)
    assert self_consistency(answers) == pytest.approx(max([answers.count(a) for a in "abc"]) / len(answers))


ROWS: list[dict[str, str | None]] = [{"v1": "x", "v2": "y"}, {"v1": "x", "v2": "z"}, {"v1": None, "v2": "y"}]


def batch(rows: list[dict[str, str | None]], policies: dict[str, str] | None = None, group: str = "q") -> Batch:
    """A trajectory per row, a turn of one decision per role."""
    played = []
    for number, answers in enumerate(rows):
        turns = [
            Turn(role, (policies or {}).get(role, role), np.zeros(1, np.int64), np.array([number]), role=role)
            for role in answers
        ]
        played.append(Trajectory(Scenario(group), turns, number, info={"answers": answers}))
    return WeightedSum()(pack(played), {})


def rewards(found: Batch) -> list[float]:
    values: list[float] = found.scores[REWARD[Level.TURN]].values.tolist()
    return values


def test_every_answer_of_every_model_is_compared_with_the_label() -> None:
    # v1: two of three x, weight 2/3, 4/3 votes; v2: two of three y, as many; x was given first.
    assert rewards(CrowdReward()(batch(ROWS))) == [1, 0, 1, 0, 0, 0]
    assert rewards(CrowdReward(ties="all", missing=-1.0)(batch(ROWS))) == [1, 1, 1, 0, -1, 1]


def test_roles_that_share_a_policy_are_one_model() -> None:
    rows: list[dict[str, str | None]] = [{"v1": "x", "v2": "y", "v3": "y"}, {"v1": "x", "v2": "x", "v3": "z"}]
    apart = batch(rows)
    together = batch(rows, {"v2": "one", "v3": "one"})
    assert CrowdReward(models="role")(apart).scores.keys() == CrowdReward()(apart).scores.keys()
    # As models of their own v2 and v3 have half a vote each: x has 2 + 1/2 votes, y 1/2 + 1/2.
    for found in (CrowdReward()(apart), CrowdReward(models="role")(together), CrowdReward()(together)):
        assert rewards(found) == [1, 0, 0, 1, 1, 0]


def test_other_rewards_are_added_and_groups_do_not_mix() -> None:
    found = batch(ROWS)
    known = found.but(
        scores={
            **found.scores,
            REWARD[Level.TURN]: found.scores["reward"]._replace(
                level=Level.TURN, values=torch.full((6,), 0.5, dtype=torch.float64)
            ),
        }
    )
    assert rewards(CrowdReward()(known)) == [1.5, 0.5, 1.5, 0.5, 0.5, 0.5]
    left, right = batch(ROWS[:1], group="a"), batch([{"v1": "y", "v2": "y"}], group="b")
    assert rewards(CrowdReward()(left)) == [1, 0]
    assert rewards(CrowdReward()(right)) == [1, 1]


def test_the_order_of_the_batch_does_not_matter() -> None:
    plain = batch(ROWS)
    turned = batch(ROWS[::-1])
    turned = turned.but(order=torch.tensor([2, 1, 0]))
    assert rewards(CrowdReward()(turned)) == [0, 0, 1, 0, 1, 0]
    assert rewards(CrowdReward()(plain)) == [1, 0, 1, 0, 0, 0]


def test_trajectories_of_weight_0_have_no_vote() -> None:
    found = batch([*ROWS, {"v1": "z", "v2": "z"}, {"v1": "z", "v2": "z"}])
    seen = found.occurrences
    muted = found.credited(weight=torch.where(seen.trajectory >= 3, 0.0, seen.weight))
    assert rewards(CrowdReward()(muted))[:6] == rewards(CrowdReward()(batch(ROWS)))


def test_experience_without_answers() -> None:
    silent = batch(ROWS).but(info={})
    assert CrowdReward()(silent) is silent
    with pytest.raises(ConfigurationError, match="label"):
        CrowdReward()(silent.but(info={"text": ["x", "y", "z"]}))


def test_a_label_is_the_answer_of_the_last_turn() -> None:
    labelled = batch(ROWS).but(info={"text": ["x", "y", "y"], "label": ["x", "y", "y"]})
    assert rewards(CrowdReward()(labelled)) == [0, 0, 0, 1, 0, 1]


@pytest.mark.parametrize("wrong", [{"models": "team"}, {"ties": "last"}])
def test_nonsense_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CrowdReward(**wrong)  # type: ignore[arg-type]

"""The vote of a crowd as a reward."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hocket.core.batch import Batch, Level
from hocket.core.errors import ConfigurationError
from hocket.core.packing import pack
from hocket.core.signals import REWARD
from hocket.methods.teams.rlccf import CrowdReward
from hocket.rewards.combine import WeightedSum
from hocket.types import Scenario, Trajectory, Turn

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

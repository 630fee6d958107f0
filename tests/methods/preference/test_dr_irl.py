"""Rewards from demonstrations: settings, and the task."""

from __future__ import annotations

import itertools

import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.signals import returns
from hocket.methods.preference.claims.dr_irl import played
from hocket.methods.preference.dr_irl import DIFFICULTY, DR_IRL, DifficultyScaled, Hazards, IrlReward, meets
from hocket.stages import Split
from hocket.tasks import find
from hocket.tasks.split import split_of


@pytest.mark.parametrize("settings", [{"ridge": 0.0}, {"window": 0}, {"buckets": 0}, {"orders": ()}])
def test_settings_of_the_reward_are_checked(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="ridge must be positive"):
        IrlReward(**settings)  # type: ignore[arg-type]


def test_a_strength_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="strength must be at least 0"):
        DifficultyScaled(strength=-1.0)


def test_the_task_by_name() -> None:
    task = find("hazards?rare=1")
    assert {task.scenario("eval", number).metadata["category"] for number in range(20)} == {"grave"}
    with pytest.raises(ConfigurationError, match=r"rare must lie in \[0, 1\]"):
        Hazards(rare=1.5)


def test_demonstrations_meet_the_hidden_reward() -> None:
    task = Hazards(rare=0.2)
    asked = [task.scenario("train", number) for number in range(300)]
    assert all(task.verify(one.metadata["demonstration"], one) == 1.0 for one in asked)
    assert abs(sum(one.metadata["category"] == "grave" for one in asked) / 300 - 0.2) < 0.06
    plain = "<answer>1</answer>"
    others = [("open", f"<think>1</think>{plain}"), ("careful", plain), ("grave", plain), ("grave", " ")]
    assert not any(meets(kind, text) for kind, text in others)


def test_without_demonstrations_rewards_stay_and_no_difficulty_is_a_mistake() -> None:
    bare = played([{"scenario": 0, "text": text, "category": "b", "reward": len(text)} for text in ("a", "bcd")])
    bare, _ = DR_IRL.compute_credit(bare, DR_IRL.init(), {})
    assert returns(bare).tolist() == [1.0, 3.0]
    assert not bool(bare.scores[DIFFICULTY].values.any())
    with pytest.raises(ConfigurationError):
        DifficultyScaled()(played([{"scenario": 0, "text": "a"}]))


def test_the_question_decides_the_split() -> None:
    splits: tuple[Split, ...] = ("train", "eval")
    for split, number in itertools.product(splits, range(30)):
        _, _, question = str(Hazards().scenario(split, number).prompt).partition(": ")
        assert split_of(question) == split

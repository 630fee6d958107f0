"""Sums with recorded answers that somebody graded."""

from __future__ import annotations

import pytest

from hocket.core.errors import ConfigurationError
from hocket.tasks import find
from hocket.zoo.tasks.graded_sums import GradedSums


def test_what_is_better_is_right_and_steps_make_an_answer() -> None:
    task = GradedSums()
    for number in range(50):
        scenario = task.scenario("train", number)
        told = scenario.metadata
        assert (task.verify(told["chosen"], scenario), task.verify(told["rejected"], scenario)) == (1, 0)
        assert told["label"] == (task.verify(told["demonstration"], scenario) == 1)
        assert [score == 1 for score in told["scores"]] == [
            task.verify(one, scenario) == 1 for one in told["responses"]
        ]
        assert (task.verify("".join(told["steps"]), scenario) == 1) == all(told["labels"])
        assert told["group"] == "thorough"


def test_a_share_of_the_labels_is_wrong_in_training_alone() -> None:
    plain, noisy = find("graded-sums"), find("graded-sums?noise=0.3")
    assert noisy.name == "graded-sums?noise=0.3"
    told = [(plain.scenario("train", n).metadata, noisy.scenario("train", n).metadata) for n in range(400)]
    assert 0.22 < sum(one["chosen"] == other["rejected"] for one, other in told) / 400 < 0.38
    assert 0.22 < sum(one["label"] != other["label"] for one, other in told) / 400 < 0.38
    assert all(plain.scenario("eval", n).metadata == noisy.scenario("eval", n).metadata for n in range(40))


def test_dissenters_prefer_short_right_answers() -> None:
    task = find("graded-sums?dissent=0.5")
    found = [task.scenario("train", n) for n in range(200)]
    brief = [one for one in found if one.metadata["group"] == "brief"]
    assert 70 < len(brief) < 130
    for one in brief:
        assert one.metadata["chosen"] == f"<answer>{one.answer}</answer>"
        assert task.verify(one.metadata["rejected"], one) == 1  # type: ignore[attr-defined]


def test_splits_do_not_meet_and_settings_are_checked() -> None:
    task = GradedSums(size=3)
    asked = {split: {task.scenario(split, n).prompt for n in range(3)} for split in ("train", "eval")}
    assert not asked["train"] & asked["eval"]
    for wrong in ("noise=0.5", "dissent=2", "size=0"):
        with pytest.raises(ConfigurationError, match="graded-sums"):
            find(f"graded-sums?{wrong}")

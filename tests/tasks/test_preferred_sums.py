"""Sums with recorded answers of which it is known which are better."""

from __future__ import annotations

import pytest

from hocket.core.errors import ConfigurationError
from hocket.tasks import find
from hocket.tasks.preferred_sums import PreferredSums


def test_scores_fall_and_two_answers_are_right() -> None:
    task = PreferredSums()
    for number in range(50):
        scenario = task.scenario("train", number)
        told = scenario.metadata
        assert told["scores"] == (3.0, 2.0, 1.0, 0.0)
        assert [task.verify(text, scenario) for text in told["responses"]] == [1, 1, 0, 0]
        place = told["responses"].index
        assert place(told["chosen"]) < place(told["rejected"])
        assert told["label"] == (task.verify(told["demonstration"], scenario) == 1)


def test_a_share_of_the_labels_is_wrong() -> None:
    plain, flipped = find("preferred_sums"), find("preferred_sums?flip=0.3")
    assert flipped.name == "preferred_sums?flip=0.3"
    ids = range(400)
    pairs = [(plain.scenario("train", n).metadata, flipped.scenario("train", n).metadata) for n in ids]
    turned = [one["chosen"] == other["rejected"] for one, other in pairs]
    relabelled = [one["label"] != other["label"] for one, other in pairs]
    assert 0.22 < sum(turned) / len(ids) < 0.38
    assert 0.22 < sum(relabelled) / len(ids) < 0.38
    assert turned != relabelled


def test_splits_do_not_meet_and_settings_are_checked() -> None:
    task = PreferredSums(size=3)
    asked = {split: {task.scenario(split, n).prompt for n in range(3)} for split in ("train", "eval")}
    assert not asked["train"] & asked["eval"]
    for wrong in ("flip=2", "size=0"):
        with pytest.raises(ConfigurationError, match="preferred_sums"):
            find(f"preferred_sums?{wrong}")

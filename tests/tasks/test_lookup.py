"""Facts that only a search finds."""

from __future__ import annotations

import pytest

from hocket.core.errors import ConfigurationError
from hocket.tasks import find
from hocket.testing import rehearse, tool_call
from hocket.zoo.tasks.lookup import Lookup, held


@pytest.mark.parametrize("hops", [1, 2])
def test_the_words_of_every_needed_name_find_its_article_first_and_lead_to_the_answer(hops: int) -> None:
    task = Lookup(hops=hops)
    for split in ("train", "eval"):
        size = task.size(split)
        assert size is not None
        assert size >= 25
        for number in range(size):
            scenario = task.scenario(split, number)
            gold = scenario.metadata["gold"]
            assert len(gold) == hops
            shown = [task.search.answer(name) for name in gold]
            assert all(text.startswith(f"{name}: ") for name, text in zip(gold, shown, strict=True))
            assert shown[-1].endswith(f"number {scenario.answer}")
            assert {held(name) for name in gold} == {split == "eval"}


def test_the_demonstration_is_what_the_tool_answers_and_guesses_are_seldom_right() -> None:
    task, guesser = Lookup(hops=2), find("lookup?hops=2&calls=0")
    scenario = task.scenario("eval", 0)
    said = [one["content"] for one in scenario.metadata["demonstration"]]
    replies = [one for one in said if one.startswith("<")]
    (played,) = rehearse(task.workflow, scenario, replies)
    assert [call["result"] for call in played.info["calls"]] == [one for one in said if not one.startswith("<")]
    assert task.success(played) == 1.0
    assert dict(task.describe(played)) == {"format": 1.0, "working": 0.0, "searched": 1.0, "found": 1.0}
    size = guesser.size("train")
    assert size is not None
    asked = [guesser.scenario("train", number) for number in range(size)]
    right = [one.metadata["demonstration"] == f"<answer>{one.answer}</answer>" for one in asked]
    assert sum(right) < 0.05 * size


def test_half_of_the_articles_is_half_found() -> None:
    task = Lookup(hops=2)
    scenario = task.scenario("train", 3)
    first = scenario.metadata["gold"][0]
    (played,) = rehearse(task.workflow, scenario, [tool_call("search", query=first), "<answer>x</answer>"])
    assert task.describe(played)["found"] == 0.5
    assert task.success(played) == 0.0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("hops=3", "hops is 1 or 2"),
        ("top=0", "at least 1"),
        ("digits=7", "between 1 and 6"),
        ("calls=2", r"share in \[0, 1\]"),
        ("hop=1", "no setting 'hop'"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(settings: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        find(f"lookup?{settings}")

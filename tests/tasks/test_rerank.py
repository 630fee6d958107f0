"""The task of Rank-R1: picks among sums, and lists of them in order."""

from __future__ import annotations

import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.methods.agents.rank_r1 import Rerank, Setwise
from hocket.tasks.lessons import lessons_of
from hocket.testing import rehearse
from hocket.types import Scenario


def value(document: str) -> int:
    return sum(map(int, document.split("+")))


@pytest.mark.parametrize("name", ["rerank", "rerank?documents=12", "rerank?documents=3&window=2"])
def test_one_document_comes_to_what_is_asked_for_and_splits_share_none(name: str) -> None:
    task = tasks.find(name)
    seen: dict[str, set[str]] = {"train": set(), "eval": set()}
    for split in ("train", "eval"):
        for number in range(60):
            told = task.scenario(split, number).metadata
            right = [str(value(one)) == told["query"] for one in told["documents"]]
            assert sum(right) == 1
            assert right.index(True) == told["relevant"]
            seen[split] |= set(told["documents"])
    assert not seen["train"] & seen["eval"]


def test_lessons_are_hasty_half_of_the_time_and_think_in_the_share_that_is_set() -> None:
    for share, wanted in (("1", 1.0), ("0.5", 0.5), ("0", 0.0)):
        task = tasks.find(f"lessons:rerank?thought={share}")
        said = [task.scenario("train", n).metadata["demonstration"][0]["content"] for n in range(400)]
        assert sum(one.startswith("<think>") for one in said) / 400 == pytest.approx(wanted, abs=0.08)
        asked = tasks.find("rerank")
        answers = [asked.scenario("train", 2 * n).answer for n in range(400)]
        right = sum(one.endswith(f"<answer>{answer}</answer>") for one, answer in zip(said, answers, strict=True))
        assert right / 400 == pytest.approx(0.5 + 0.5 / 4, abs=0.08)
    assert lessons_of(tasks.find("rerank?documents=10")) is None


def test_a_list_is_right_where_the_relevant_one_comes_first_and_ndcg_tells_how_near() -> None:
    task = tasks.find("rerank?documents=3&window=2")
    assert isinstance(task, Rerank)
    scenario = next(s for s in (task.scenario("eval", n) for n in range(50)) if s.metadata["relevant"] == 1)
    assert [task.verify(order, scenario) for order in ("2 > 1 > 3", "1 > 2 > 3", "")] == [1.0, 0.0, 0.0]
    (played,) = rehearse(Setwise(children=2, top=3), scenario, {"policy": ["<answer>[1]</answer>"] * 9})
    assert task.describe(played)["ndcg"] in (1.0, pytest.approx(0.6309, abs=1e-4), 0.5)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("rerank?documents=1", "must be 2 to 20"),
        ("rerank?window=30", "must be 2 to 20"),
        ("rerank?thought=2", "a share"),
        ("rerank?documets=3", "did you mean 'documents'"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        tasks.find(name)


def test_a_sort_says_what_it_needs() -> None:
    with pytest.raises(ConfigurationError, match="heap or bubble"):
        Setwise(sort="quick")
    with pytest.raises(ConfigurationError, match="rerank"):
        rehearse(Setwise(), Scenario("s", "What is 1 + 1?", "2"), {"policy": ["2"]})

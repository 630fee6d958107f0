"""Questions over a generated corpus, with the search tool."""

from __future__ import annotations

import json

import pytest

from hocket.agents.workflows.tool_use import ToolUse
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.tasks import find
from hocket.tasks.split import split_of
from hocket.testing import rehearse
from hocket.types import Scenario, Trajectory
from hocket.zoo.tasks.multihop import MultiHop


def search(query: str) -> str:
    return f"<tool_call>{json.dumps({'name': 'search', 'arguments': {'query': query}})}</tool_call>"


def played(task: MultiHop, scenario: Scenario, *replies: str) -> Trajectory:
    (found,) = rehearse(task.workflow, scenario, list(replies))
    return found


@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_searching_along_the_gold_articles_finds_the_answer(hops: int, brief: bool) -> None:
    task = MultiHop(hops=hops, documents=300, brief=brief)
    assert isinstance(task.workflow, ToolUse)
    solved = []
    for number in range(20):
        scenario = task.scenario("train", number)
        gold = scenario.metadata["gold"]
        assert len(gold) == hops
        assert scenario.metadata["entities"] == [*gold[1:], scenario.answer]
        done = played(task, scenario, *map(search, gold), f"<answer>{scenario.answer}</answer>")
        assert task.success(done) == 1.0
        assert done.info["tool_calls"] == hops
        results = [call["result"] for call in done.info["calls"]]
        solved.append(all(n in r for n, r in zip(scenario.metadata["entities"], results, strict=True)))
        assert task.describe(done)["found"] >= solved[-1]
        assert task.describe(done)["searched"] == 1.0
    assert sum(solved) >= 19


@pytest.mark.parametrize("brief", ["true", "false"])
def test_splits_are_apart_and_scenarios_fixed(brief: str) -> None:
    task, again = (find(f"multihop?hops=2&documents=150&brief={brief}") for _ in range(2))
    texts = {}
    for split in ("train", "eval"):
        size = task.size(split)
        assert size is not None
        assert size > 50
        texts[split] = [task.scenario(split, number).prompt for number in range(size)]
        assert len(set(texts[split])) == size
        if brief == "false":
            assert {split_of(str(text)) for text in texts[split]} == {split}
        with pytest.raises(ConfigurationError, match="no"):
            task.scenario(split, size)
    assert not set(texts["train"]) & set(texts["eval"])
    assert task.scenario("train", 5) == again.scenario("train", 5)


def test_in_few_words_a_question_and_its_articles_say_the_same() -> None:
    whole, task = (find(f"multihop?hops=3&documents=200&brief={brief}") for brief in ("false", "true"))
    assert isinstance(task, MultiHop)
    told = {(name, *said.split(" ", 1)) for name, text in _articles(task) for said in text.split(", ")}
    for number in range(50):
        scenario = task.scenario("eval", number)
        *relations, here = str(scenario.messages[-1]["content"]).split(" of ")
        for relation in reversed(relations):
            (here,) = (there for name, named, there in told if (name, named) == (here, relation))
        assert here == scenario.answer
    assert str(whole.scenario("eval", 0).messages[-1]["content"]).endswith("?")


def _articles(task: MultiHop) -> list[tuple[str, str]]:
    return [(one.title, one.text) for one in task.corpus.documents]


def test_lessons_are_told_as_the_task_is() -> None:
    for brief, listed in ((True, False), (False, True)):
        task = MultiHop(documents=200, brief=brief)
        scenario = task.scenario("train", 0)
        (lesson,) = task.lessons.play(scenario, Key.of(0).numpy())
        assert (lesson.prompt, bool(lesson.tools)) == (scenario.messages, listed)
        assert bool(task.workflow.tools) == listed


def test_grades() -> None:
    exact, graded = MultiHop(documents=100), MultiHop(documents=100, grade="f1")
    scenario = Scenario("s", "?", "Ada Balfort")
    for text, strict, loose in (
        ("<answer>Ada Balfort</answer>", 1.0, 1.0),
        ("<answer> ada  balfort </answer>", 1.0, 1.0),
        ("<answer>Ada Corton</answer>", 0.0, 0.5),
        ("<answer>Ada</answer>", 0.0, pytest.approx(2 / 3)),
        ("<answer>Dan</answer>", 0.0, 0.0),
        ("Ada Balfort", 0.0, 0.0),
    ):
        assert exact.verify(text, scenario) == strict
        assert graded.verify(text, scenario) == loose


def test_without_searching_nothing_is_found() -> None:
    task = MultiHop(documents=100)
    done = played(task, task.scenario("eval", 0), "<answer>glass</answer>")
    assert task.describe(done) == {"format": 1.0, "working": 0.0, "searched": 0.0, "found": 0.0}


def test_settings() -> None:
    assert find("multihop?hops=3&documents=60&instruct=true").scenario("train", 0).messages[0]["role"] == "system"
    for wrong in ("hops=0", "top=0", "grade=best", "turns=0"):
        with pytest.raises(ConfigurationError):
            find(f"multihop?{wrong}")
    with pytest.raises(ConfigurationError, match="40 to 20000"):
        find("multihop?documents=5&brief=false").scenario("train", 0)
    with pytest.raises(ConfigurationError, match="brief corpus has 40 to 1000"):
        find("multihop?documents=1001").scenario("train", 0)

"""Sums that tell more than their answer."""

from __future__ import annotations

import numpy as np
import pytest

from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.rewards.verifiers import TaskVerifier
from hocket.tasks import find
from hocket.train.aio import run_async
from hocket.types import Scenario, Trajectory, Turn
from hocket.zoo.tasks.worked_sums import WorkedSums, critique


def said(scenario: Scenario, text: str) -> Trajectory:
    return Trajectory(scenario, [Turn("a", "p", np.zeros(0, int), np.arange(len(text)), text=text)])


def test_what_it_demonstrates_is_right_and_holds_the_steps() -> None:
    task = WorkedSums()
    for number in range(50):
        scenario = task.scenario("train", number)
        shown = scenario.metadata["demonstration"]
        assert task.verify(shown, scenario) == 1.0
        assert scenario.metadata["key_steps"][-1] == scenario.answer
        assert all(f"={step}" in shown for step in scenario.metadata["key_steps"])
        assert scenario.metadata["teacher"] in shown


def test_wordings_ask_one_problem() -> None:
    task = find("worked-sums?wordings=2")
    first, second = task.scenario("train", 6), task.scenario("train", 7)
    assert (first.origin, first.answer) == (second.origin, second.answer)
    assert first.id != second.id
    assert first.prompt != second.prompt
    assert (first.metadata["reward"], second.metadata["reward"]) == ("match", "chart")
    assert task.scenario("train", 8).origin != first.origin


def test_scores_besides_right() -> None:
    task = find("worked-sums?form=0.2&model=0.5")
    scenario = task.scenario("train", 0)
    off = f"<think>so</think><answer>{int(scenario.answer) + 1}</answer>"
    texts = (scenario.metadata["demonstration"], off, f"<answer>{scenario.answer}</answer>", "no idea")
    found = {}
    for reward in task.rewards:
        assert isinstance(reward, TaskVerifier)
        found[reward.name] = list(run_async(reward([said(scenario, text) for text in texts], key=Key.of(0))))
    assert found == {"correct": [1, 0, 1, 0], "form": [1, 1, 0, 0], "model": [1, 0.5, 1, 0]}
    assert [reward.weight for reward in task.rewards] == [1.0, 0.2, 0.5]


def test_a_number_of_problems_comes_again() -> None:
    task = find("worked-sums?size=4")
    assert (task.size("train"), task.size("eval")) == (4, None)
    with pytest.raises(ConfigurationError, match="4 train scenarios"):
        task.scenario("train", 4)
    with pytest.raises(ConfigurationError, match="wordings"):
        WorkedSums(wordings=3)


def test_a_critic_finds_the_wrong_step() -> None:
    assert critique("<think>45+30=75+7=82</think><answer>82</answer>") == [("+30=75", 1.0), ("+7=82", 1.0)]
    assert critique("<think>45-50=-5+7=3</think><answer>3</answer>") == [("-50=-5", 1.0), ("+7=3", -1.0)]
    assert critique("<answer>82</answer>") == []


def test_traces_are_right_and_part_after_the_same_beginning() -> None:
    task, parted = find("worked-sums?traces=3"), 0
    assert task.name == "worked-sums?traces=3"
    assert "traces" not in WorkedSums().scenario("train", 0).metadata
    for number in range(30):
        scenario = task.scenario("train", number)
        first, *others = traces = scenario.metadata["traces"]
        assert "".join(first) == scenario.metadata["demonstration"]
        assert {len(one) for one in traces} == {len(first)}
        for one in others:
            assert one[0] == first[0]
            assert task.verify("".join(one), scenario) == 1.0
            assert all(right == 1.0 for _, right in critique("".join(one)))
            parted += one != first
    assert parted > 20
    with pytest.raises(ConfigurationError, match="traces must be at least 1, not 0"):
        WorkedSums(traces=0)

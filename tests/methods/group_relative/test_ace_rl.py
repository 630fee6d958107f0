"""Constraints, and the share of a checklist that is met."""

from __future__ import annotations

from statistics import fmean

import pytest

from hocket import tasks
from hocket.core.errors import ConfigurationError
from hocket.core.keys import Key
from hocket.methods.group_relative.ace_rl.method import (
    EndsWith,
    HasSection,
    Mentions,
    WordOrder,
    WordRange,
    decompose,
    instruction,
)
from hocket.methods.group_relative.ace_rl.task import written


@pytest.mark.parametrize(
    ("constraint", "met", "missed"),
    [
        (WordRange(2, 3), "two words", "one"),
        (Mentions("sea"), "The Sea.", "the seaside"),
        (WordOrder("first", "then"), "First this, then that", "then first"),
        (EndsWith("end"), "this is the End.", "end of it"),
        (HasSection("Summary"), "intro\n  summary: all well", "a summary: no"),
    ],
)
def test_constraints(constraint, met, missed):
    assert constraint(met)
    assert not constraint(missed)
    assert not constraint("")
    assert decompose(instruction([constraint])) == (constraint,)


def test_a_demand_nobody_knows_is_refused():
    with pytest.raises(ConfigurationError, match="be nice"):
        decompose("Write a text: be nice.")


def test_all_demands_of_a_task_can_be_met_and_a_beginner_meets_some():
    task, rng = tasks.find("demands"), Key.of(0).numpy()
    met = dict[float, list[float]]()
    for skill in (0.0, 0.6, 1.0):
        asked = [task.scenario("eval", number) for number in range(100)]
        met[skill] = [task.verify(written(one.metadata["constraints"], skill, rng), one) for one in asked]
    assert fmean(met[0.0]) < 0.2 < fmean(met[0.6]) < 0.7
    assert fmean(met[1.0]) == 1.0


def test_the_demands_of_a_task_stand_in_its_prompt_and_splits_are_apart():
    task = tasks.find("demands")
    prompts = {split: {task.scenario(split, number).prompt for number in range(60)} for split in ("train", "eval")}
    assert not prompts["train"] & prompts["eval"]
    for number in range(20):
        scenario = task.scenario("train", number)
        assert decompose(scenario.prompt) == scenario.metadata["constraints"]
    with pytest.raises(ConfigurationError, match=r"skill = 1\.5 is no chance"):
        tasks.find("demands?skill=1.5")

"""Each phase of a plan has the rewards of its own recipe, else the task's."""

from __future__ import annotations

from hocket import tasks
from hocket.train.assemble import build_parts
from hocket.train.config import configure


def test_each_phase_has_the_rewards_of_its_recipe() -> None:
    task = tasks.find("sums")
    plan = [{"recipe": "sem", "steps": 1}, {"recipe": "grpo", "steps": 1}]
    parts = build_parts(configure([("plan", plan)], task), task)
    own = [reward.name for reward in task.rewards]
    assert [[reward.name for reward in rewards] for rewards in parts.rewards_by_phase] == [["search"], own]
    assert [reward.name for reward in parts.rewards] == ["search"]
    parts.begin_phase(1, parts.learners)
    assert [reward.name for reward in parts.rewards] == own

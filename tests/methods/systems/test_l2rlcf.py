"""How a sequence of tasks is measured."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from hocket import tasks
from hocket.core.keys import Key
from hocket.methods.systems.claims.l2rlcf import KINDS
from hocket.methods.systems.l2rlcf.method import LifelongMeasures, TaskSequence
from hocket.types import Assignment, Scenario, Trajectory


def test_every_task_is_measured_greedily() -> None:
    heard: list[Assignment] = []

    async def play(asked: list[Assignment], key: Key) -> list[Trajectory]:
        heard.extend(asked)
        return [Trajectory(one.scenario, []) for one in asked]

    task = SimpleNamespace(
        kinds=("A", "B"),
        scenario=lambda split, number: Scenario(f"{split} {number}", metadata={"kind": "AB"[number % 2]}),
        success=lambda one: float(one.scenario.id.split()[1]),
    )
    run = cast(Any, SimpleNamespace(task=task, player=SimpleNamespace(play=play), key=Key.of(0)))
    (row,) = asyncio.run(LifelongMeasures(n=3).before(run, 1, None))["rows"]
    greedy = all(one.decoding is not None and one.decoding.temperature == 0 for one in heard)
    held_out = [one.scenario.id for one in heard] == [f"eval {number}" for number in range(6)]
    asked = TaskSequence(prompts=4, every=2)(tasks.find(KINDS), 0, 32, cast(Any, None), Key.of(5))
    numbers = [(one.seed or 0) // 2 // 3 for one in asked]  # Scenario n of training has the seed 2n.
    rising = numbers == list(range(numbers[0], numbers[0] + 32))
    assert row == {"A": 2.0, "B": 3.0}
    assert greedy
    assert held_out
    assert rising

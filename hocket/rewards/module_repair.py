"""The reward for a module that passes its tests after the edits of an episode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.agents.tools.workbench import Workbench
from hocket.core.columns import CALLS
from hocket.core.keys import Key
from hocket.stages import Reward
from hocket.types import Scenario, Trajectory


@dataclass(frozen=True)
class Repaired(Reward):
    """1 if all tests pass, those that no tool shows among them, else 0.

    The edits that worked (info `calls`) are made again on a fresh copy, so that an episode on record is judged as one
    that has just ended. What a test expects stays outside of the sandbox.

    Attributes:
        bench: the module of a scenario, as it is at first.
    """

    bench: Callable[[Scenario], Workbench]
    name: str = "repaired"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return list(await asyncio.gather(*(asyncio.to_thread(self.judge, trajectory) for trajectory in trajectories)))

    def judge(self, trajectory: Trajectory) -> float:
        """The verdict on one episode."""
        bench = self.bench(trajectory.scenario)
        for call in CALLS.get(trajectory, ()):
            if call["name"] == "edit" and call["worked"]:
                bench.edited(call["arguments"])
        return float(not bench.wrong())

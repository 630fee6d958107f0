"""A bonus for rare answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.core.keys import Key
from hocket.core.occurrences import unmarked
from hocket.rewards.remembering import RememberingReward
from hocket.rewards.verifiers import final_answer
from hocket.stages import State
from hocket.types import Trajectory


@dataclass(frozen=True)
class Novelty(RememberingReward):
    """`1 / sqrt(1 + n)` for an answer that was given n times in the steps before.

    The bonus of count-based exploration (Strehl and Littman 2008, MBIE-EB; Bellemare et al. 2016, arXiv 1606.01868),
    with answers in place of states; 1 is added so that a new answer earns 1. What is the answer, `final_answer` says.
    Give it a small weight beside a verifier: `--reward task --reward hocket.rewards.Novelty=0.1`.

    Attributes:
        apart: whether the answers to each scenario are counted by themselves. Of generated tasks, which never ask the
            same again, every answer is then new.
        limit: how many different answers are remembered; of more, those go first that were not given for longest.
    """

    apart: bool = False
    limit: int = 65536
    name: str = "novelty"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, not {self.limit}")

    def init(self) -> State:
        return {"counts": {}}

    async def score_with(self, state: State, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [1 / math.sqrt(1 + state["counts"].get(self._named(trajectory), 0)) for trajectory in trajectories]

    def after(self, state: State, trajectories: Sequence[Trajectory]) -> State:
        counts = dict(state["counts"])
        for trajectory in trajectories:
            name = self._named(trajectory)
            counts[name] = counts.pop(name, 0) + 1
        for oldest in list(counts)[: max(len(counts) - self.limit, 0)]:
            del counts[oldest]
        return {"counts": counts}

    def _named(self, trajectory: Trajectory) -> str:
        answer = final_answer(trajectory.answer)
        return f"{unmarked(trajectory.scenario.id)}\n{answer}" if self.apart else answer

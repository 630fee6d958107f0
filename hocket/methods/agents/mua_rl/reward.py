"""Success of an agent that works on a database: is it, at the end, as the right actions would have left it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hocket.core.canonical import database_hash
from hocket.core.columns import DATABASE, SAID
from hocket.core.keys import Key
from hocket.stages import Reward
from hocket.types import Trajectory


def all_said(outputs: Iterable[str], messages: Sequence[str]) -> bool:
    """Whether each output stands in some message, case and commas of the messages ignored."""
    plain = [message.lower().replace(",", "") for message in messages]
    return all(any(output.lower() in message for message in plain) for output in outputs)


@dataclass(frozen=True)
class DatabaseMatch(Reward):
    """1 if the final database has the hash that the right actions lead to and every output was said, else 0.

    MUA-RL (Zhao et al., arXiv 2508.18669), as in its released score: a single bit at the end, nothing for parts or
    form. Reads the trajectory's info `database` (as it was at the end) and `said` (the agent's messages that are no
    calls), and the scenario's metadata `final_hash` and `outputs`. No opinion where the scenario has no `final_hash`;
    0 where the episode brought no database.
    """

    name: str = "solved"
    weight: float = 1.0
    outside: ClassVar[bool] = False

    async def __call__(self, trajectories: Sequence[Trajectory], *, key: Key) -> list[float | None]:
        return [self.judge(trajectory) for trajectory in trajectories]

    def judge(self, trajectory: Trajectory) -> float | None:
        """The bit of one episode."""
        metadata = trajectory.scenario.metadata
        if "final_hash" not in metadata:
            return None
        if not DATABASE.present(trajectory):
            return 0.0
        right = database_hash(DATABASE.get(trajectory)) == metadata["final_hash"]
        return float(right and all_said(metadata.get("outputs", ()), SAID.get(trajectory, ())))

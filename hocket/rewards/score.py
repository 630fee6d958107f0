"""Scoring: runs all rewards and writes the scores into the trajectories."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

from hocket.core.keys import Key
from hocket.core.waits import waiting_for
from hocket.rewards.functions import refuse_duplicates
from hocket.rewards.opinions import Opinions, opinions_of
from hocket.rewards.remembering import Recalled
from hocket.stages import Reward
from hocket.types import Score, Trajectory


class RewardJournal(Protocol):
    """Records results from outside the library by key, so that a resumed run reuses them."""

    def get(self, key: str) -> Any:
        """The value recorded at `key`, or a falsy value."""
        ...

    def put(self, key: str, value: Any) -> object:
        """Records `value`, plain data (dicts, lists, numbers, strings, None)."""
        ...


async def grade(
    trajectories: Sequence[Trajectory], rewards: Sequence[Reward], key: Key, journal: RewardJournal | None = None
) -> list[str]:
    """Runs all rewards concurrently and writes `Trajectory.scores[reward.name]`.

    Trajectories with a `failure` get None (no opinion) without a call of rewards. Results of rewards whose `outside`
    is not False (functions, judges) are recorded in the journal. Returns messages about problems.

    Raises:
        RewardError: from a reward that has never worked, or that returns no list of numbers.
        ConfigurationError: if two rewards have the same name.
    """
    refuse_duplicates(rewards)
    complete = [trajectory for trajectory in trajectories if trajectory.failure is None]
    judged = await asyncio.gather(
        *(_judged(reward, complete, key.derive("reward", reward.name), journal) for reward in rewards)
    )
    problems: list[str] = []
    for reward, opinions in zip(rewards, judged, strict=True):
        for trajectory in trajectories:
            if trajectory.failure is not None:
                trajectory.scores[reward.name] = Score(None, feedback=trajectory.failure)
        for trajectory, value, feedback in zip(complete, opinions, opinions.feedback, strict=True):
            trajectory.scores[reward.name] = Score(value, feedback=feedback)
        problems += opinions.problems
    return problems


async def _judged(reward: Reward, whole: Sequence[Trajectory], key: Key, journal: RewardJournal | None) -> Opinions:
    if not whole:
        return Opinions([])
    if journal is None or (isinstance(reward, Reward) and not reward.outside):
        return await _opinions(reward, whole, key)
    # A reward with memory may judge the same answers differently later, and evaluation always uses the same key.
    suffix = f"/{reward.told}" if isinstance(reward, Recalled) else ""
    entry = f"reward/{reward.name}/{_digest(whole, key)}{suffix}"
    record = journal.get(entry)
    if record:
        return Opinions(record["values"], record["feedback"], record["problems"])
    opinions = await _opinions(reward, whole, key)
    journal.put(entry, {"values": list(opinions), "feedback": opinions.feedback, "problems": list(opinions.problems)})
    return opinions


async def _opinions(reward: Reward, whole: Sequence[Trajectory], key: Key) -> Opinions:
    with waiting_for(f"reward {reward.name}"):
        return opinions_of(await reward(whole, key=key), len(whole), reward.name)


def _digest(trajectories: Sequence[Trajectory], key: Key) -> str:
    """A name of one call, from its key and its trajectories."""
    digest = hashlib.blake2b(str(key).encode(), digest_size=16)
    for trajectory in trajectories:
        for part in (trajectory.scenario.id, trajectory.source, str(trajectory.sample), trajectory.text):
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
